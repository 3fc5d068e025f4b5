# The links of a lab with a service network, laid inside `unshare -Urnm`: they go with its last process.
#
#   sh links.sh NODES
#
# This namespace is the control plane's machine, 10.0.0.1. Each node is a network namespace with the
# address 10.0.0.1N, in which pods get theirs from 10.244.N.0/24 (see tests/lab/kubelet).
set -eu

mount -t tmpfs none /run
mkdir /run/netns
ip link set lo up
ip link add br0 address 02:00:00:00:00:01 type bridge
ip address add 10.0.0.1/16 dev br0
ip link set br0 up
sysctl() { echo "$2" >"/proc/sys/net/ipv4/$1"; }
sysctl ip_forward 1
# Only so that addresses of Services have a route and a source address.
ip route add default via 10.0.0.254 dev br0

number=0
while [ "$number" -lt "$1" ]; do
  number=$((number + 1))
  node=node$number
  ip netns add "$node"
  ip link add "$node" type veth peer name uplink netns "$node" address "02:00:00:00:01:0$number"
  ip link set "$node" master br0 up
  # Known for good, so that a node that is cut off is silent: no router says that it cannot be reached.
  ip neighbour replace "10.0.0.1$number" lladdr "02:00:00:00:01:0$number" dev br0 nud permanent
  ip route add "10.244.$number.0/24" via "10.0.0.1$number"
  ip -n "$node" link set lo up
  ip -n "$node" address add "10.0.0.1$number/16" dev uplink
  ip -n "$node" link set uplink up
  ip -n "$node" neighbour replace 10.0.0.1 lladdr 02:00:00:00:00:01 dev uplink nud permanent
  ip -n "$node" route add default via 10.0.0.1
  ip -n "$node" link add pods type bridge
  ip -n "$node" address add "10.244.$number.1/24" dev pods
  ip -n "$node" link set pods up
  nsenter --net="/run/netns/$node" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
done
