use std::task::Waker;

use super::*;

/// The body of a request that goes on until its permit is dropped.
fn request(pool: &Pool) -> (Share, Permit) {
    let permit = Permit::default();
    (Share::new(pool.clone(), Arc::clone(&permit)), permit)
}

fn poll(share: &mut Share) -> Poll<io::Result<()>> {
    share.poll_room(&mut Context::from_waker(Waker::noop()))
}

fn waits(share: &mut Share) -> bool {
    match poll(share) {
        Poll::Pending => true,
        Poll::Ready(room) => {
            room.unwrap();
            false
        }
    }
}

fn room_for_one() -> Pool {
    Pool::new(u32::try_from(LARGE_BODY).unwrap())
}

#[tokio::test]
async fn small_bodies_never_wait_and_large_ones_for_a_permit() {
    let pool = room_for_one();
    let (mut first, first_permit) = request(&pool);
    let (mut second, _second_permit) = request(&pool);
    for share in [&mut first, &mut second] {
        share.add(SMALL_BODY - PIECE - 1);
        assert!(!waits(share));
        share.add(1);
    }
    assert!(!waits(&mut first));
    assert!(waits(&mut second));
    // Read to its end, and not yet answered: the router still holds what it brought.
    drop(first);
    assert!(waits(&mut second));
    drop(first_permit);
    assert!(!waits(&mut second));
    let (mut third, _permit) = request(&pool);
    assert!(!waits(&mut third));
}

#[tokio::test]
async fn pieces_that_cost_more_than_a_place_end_the_body() {
    let (mut share, _permit) = request(&room_for_one());
    share.add(LARGE_BODY - PIECE - 1);
    assert!(!waits(&mut share));
    share.add(1);
    let Poll::Ready(Err(problem)) = poll(&mut share) else {
        panic!("more than any router takes");
    };
    assert_eq!(problem.to_string(), "it came in too many small pieces");
}

#[tokio::test(start_paused = true)]
async fn a_body_on_a_place_must_go_on() {
    let (mut share, _permit) = request(&room_for_one());
    share.add(SMALL_BODY);
    assert!(!waits(&mut share));
    tokio::time::advance(PACE_TIME - Duration::from_millis(1)).await;
    share.add(PACE);
    assert!(!waits(&mut share));
    tokio::time::advance(PACE_TIME - Duration::from_millis(1)).await;
    assert!(!waits(&mut share));
    tokio::time::advance(Duration::from_millis(1)).await;
    let Poll::Ready(Err(problem)) = poll(&mut share) else {
        panic!("it brought nothing in its time");
    };
    assert_eq!(problem.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_request_that_waits_is_woken_by_one_that_ends() {
    let pool = room_for_one();
    let (mut first, first_permit) = request(&pool);
    let (mut second, _second_permit) = request(&pool);
    first.add(SMALL_BODY);
    assert!(!waits(&mut first));
    second.add(SMALL_BODY);
    let room = std::future::poll_fn(|cx| second.poll_room(cx));
    tokio::join!(async { room.await.unwrap() }, async {
        tokio::task::yield_now().await;
        drop((first, first_permit));
    });
    assert!(!waits(&mut second));
}
