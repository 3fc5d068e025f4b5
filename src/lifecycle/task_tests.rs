use super::*;

#[tokio::test]
async fn tasks_that_end_with_the_drain_are_no_failure() {
    let tasks = Tasks::new(Shutdown::default());
    let shutdown = tasks.shutdown.clone();
    tasks.spawn("watch", async move { shutdown.draining().await });
    tasks.shutdown.drain("test");
    assert_eq!(tasks.finished().await, Ok(()));
}

#[tokio::test]
async fn an_early_end_stops_the_program_and_is_named() {
    let tasks = Tasks::new(Shutdown::default());
    tasks.spawn("watch", async {});
    let failure = tasks.finished().await.unwrap_err();
    assert_eq!(failure, TaskFailure::Ended { name: "watch" });
    assert_eq!(
        tasks.shutdown.cause(),
        Some("task watch ended although the program was not asked to stop")
    );
}

#[tokio::test]
async fn a_panic_stops_the_program_and_is_named() {
    let tasks = Tasks::new(Shutdown::default());
    tasks.spawn("watch", async { panic!("lost the {}", "plot") });
    let failure = tasks.finished().await.unwrap_err();
    assert_eq!(failure.to_string(), "task watch panicked: lost the plot");
}

#[tokio::test]
async fn an_abort_drops_what_does_not_end() {
    let tasks = Tasks::new(Shutdown::default());
    tasks.spawn("stuck", std::future::pending());
    tasks.shutdown.abort("test");
    assert_eq!(tasks.finished().await, Ok(()));
}

#[tokio::test]
async fn a_panic_in_a_group_stays_there() {
    let group = Group::new("connection");
    group.spawn(async { panic!("only me") });
    group.spawn(async {});
    group.finished().await;
    assert!(group.is_empty());
}
