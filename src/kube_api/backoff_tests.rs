use super::*;

#[test]
fn pauses_double_up_to_the_longest_and_never_end() {
    let pauses = doubling(Duration::from_secs(1), Duration::from_secs(5)).build();
    let mut pauses = pauses.map(|pause| pause.as_secs());
    assert!(pauses.by_ref().take(5).eq([1, 2, 4, 5, 5]));
    assert_eq!(pauses.nth(10_000), Some(5));
}
