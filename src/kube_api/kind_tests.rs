use super::*;

#[test]
fn ours_are_told_by_their_names() {
    let id = Id::new;
    assert!(id(Kind::ValidatingPolicy, "old.check.meshgate.io").is_ours());
    assert!(id(Kind::ClusterRole, OWNER).is_ours());
    assert!(!id(Kind::ClusterRole, "guard.meshgate.io").is_ours());
    for name in ["policy.example.test", "meshgate.io", "xmeshgate.io"] {
        assert!(!id(Kind::MutatingWebhooks, name).is_ours(), "{name}");
    }
}
