# A container's root, and its program on it, in a mount namespace and with a host name of its own.
#
#   sh container.sh ROOT ro|rw PROGRAM [FOLDER PATH]... -- COMMAND...
#
# ROOT becomes an empty disk with the libraries of this machine and PROGRAM in /usr/local/bin; no shell.
# Each FOLDER appears at its PATH. With `ro` nothing but those can be written.
set -eu
root=$1 mode=$2 program=$3
shift 3

echo "$HOSTNAME" >/proc/sys/kernel/hostname
mount -t tmpfs -o mode=755 none "$root"
mkdir -p "$root/usr/local/bin" "$root/proc" "$root/dev" "$root/tmp" "$root/etc" "$root/var"
for folder in lib lib32 lib64; do
  if [ -d "/usr/$folder" ]; then
    mkdir "$root/usr/$folder"
    mount --bind "/usr/$folder" "$root/usr/$folder"
  fi
  if [ -L "/$folder" ]; then
    cp -P "/$folder" "$root/$folder"
  elif [ -d "/$folder" ]; then
    mkdir "$root/$folder"
    mount --bind "/$folder" "$root/$folder"
  fi
done
mount --rbind /proc "$root/proc"
for device in null zero full urandom random; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
in=/usr/local/bin/$(basename "$program")
: >"$root$in"
mount --bind "$program" "$root$in"
while [ "$1" != -- ]; do
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  shift 2
done
shift
[ "$mode" = rw ] || mount -o remount,ro "$root"
exec chroot "$root" "$@"
