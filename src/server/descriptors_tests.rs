use super::*;

#[test]
fn there_is_room_for_a_few_and_never_more_than_asked() {
    assert_eq!(make_room(10), 10);
    let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let most = make_room(u32::MAX);
    assert!(u64::from(most) <= allowed);
}
