use std::net::Ipv4Addr;

use tokio::time::advance;

use super::*;

const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const MODEST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const NAMED: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

fn peers(most: u32) -> Arc<Peers> {
    Arc::new(Peers::new(most, &["192.0.2.0/24".parse().unwrap()]))
}

fn enter(peers: &Arc<Peers>, peer: IpAddr) -> Place {
    peers.enter(peer).unwrap()
}

fn was_asked(place: &Place) -> bool {
    place.activity.idle().is_none()
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_connection_of_the_peer_that_holds_most_makes_room() {
    let peers = peers(100);
    let named: Vec<_> = (0..5).map(|_| enter(&peers, NAMED)).collect();
    let modest = enter(&peers, MODEST);
    advance(Duration::from_secs(1)).await;
    let busy = enter(&peers, GREEDY);
    busy.activity.begin_request(false);
    let greedy: Vec<_> = [1, 2].map(|_| enter(&peers, GREEDY)).into();
    greedy[0].activity.end_request();
    advance(Duration::from_millis(10)).await;
    greedy[0].activity.end_request();
    // It has just been answered, and so has the other: the peer that holds less makes room.
    peers.make_room();
    assert!(was_asked(&modest) && !greedy.iter().any(was_asked));
    advance(UNUSED_UNDER_PRESSURE).await;
    peers.make_room();
    assert!(was_asked(&greedy[1]) && !was_asked(&greedy[0]));
    peers.make_room();
    assert!(was_asked(&greedy[0]));
    // Nothing is left but what is in use, and peers that were named.
    peers.make_room();
    assert!(!named.iter().any(was_asked));
    // One that was asked and sent a request nevertheless is as good as any other.
    greedy[1].activity.bytes_read();
    greedy[1].activity.end_request();
    assert!(!was_asked(&greedy[1]));
}

#[tokio::test(start_paused = true)]
async fn a_peer_with_all_that_it_may_have_gives_up_one_that_is_idle_or_gets_no_more() {
    let peers = peers(2);
    let first = enter(&peers, GREEDY);
    advance(Duration::from_millis(1)).await;
    let second = enter(&peers, "::ffff:10.0.0.1".parse().unwrap());
    second.activity.begin_request(false);
    let third = enter(&peers, GREEDY);
    assert!(was_asked(&first) && !was_asked(&third));
    third.activity.begin_request(false);
    assert!(peers.enter(GREEDY).is_none());
    drop((first, second));
    let _fourth = enter(&peers, GREEDY);
    let _other = enter(&peers, MODEST);
    let _named: Vec<_> = (0..5).map(|_| enter(&peers, NAMED)).collect();
}

#[test]
fn nothing_is_kept_of_peers_that_are_gone() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let peers = peers(2);
        drop([enter(&peers, GREEDY), enter(&peers, MODEST)]);
        assert!(peers.by_address.lock().is_empty());
    });
}
