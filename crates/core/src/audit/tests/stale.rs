//! Sidecars of another revision or of an old version.

use std::collections::BTreeMap;

use serde_json::json;

use crate::audit::version::Version;
use crate::injector::profile::ServiceName;

use super::{Scene, marked};

#[test]
fn sidecars_of_another_revision() {
    let fresh = "istio injected sidecarPresent";
    let stale = "istio stale otherRevision";
    let status =
        |revision: &str| format!(r#"{{"containers":["istio-proxy"],"revision":"{revision}"}}"#);
    for (annotations, expected) in [
        (json!({"istio.io/rev": "1-30"}), fresh),
        (json!({"istio.io/rev": "1-29"}), stale),
        (json!({"sidecar.istio.io/status": status("1-29")}), stale),
        (json!({"sidecar.istio.io/status": status("1-30")}), fresh),
        (
            json!({"istio.io/rev": "1-30", "sidecar.istio.io/status": status("1-29")}),
            fresh,
        ),
        (json!({"sidecar.istio.io/status": "{}"}), fresh),
        (json!({"sidecar.istio.io/status": "{broken"}), fresh),
        (json!({}), fresh),
    ] {
        let scene = Scene::default().of_tag().pod(&marked(&annotations));
        assert_eq!(scene.words(), [expected], "case 31: {annotations}");
    }
    let old = Scene::default()
        .of_tag()
        .pod(&marked(&json!({"istio.io/rev": "1-29"})));
    let labelled = |rev: &str| {
        old.clone()
            .namespace(&json!({"metadata": {"labels": {"istio.io/rev": rev}}}))
    };
    assert_eq!(labelled("1-29").words(), [fresh]);
    // Which copy injects now is not known.
    assert_eq!(labelled("gone").words(), [fresh]);
    assert_eq!(
        Scene {
            webhooks: None,
            ..old.clone()
        }
        .words(),
        [fresh]
    );
    let message = old.message();
    assert_eq!(
        message,
        "Namespace orders requires istio (label istio.io/rev=stable) of revision 1-30, but revision 1-29 has \
         injected the pod; restart its owner"
    );
}

#[test]
fn sidecars_that_are_too_old() {
    let service = ServiceName {
        namespace: "linkerd".to_owned(),
        name: "linkerd-proxy-injector".to_owned(),
    };
    let scene = |injectors: &'static str, newer: &str| Scene {
        injectors,
        versions: [(service.clone(), Version::of_image(newer).unwrap())].into(),
        ..Scene::default()
    };
    let fresh = "linkerd injected sidecarPresent";
    let stale = "linkerd stale olderProxy";
    let two = "- {preset: linkerd, staleness: 2}\n";
    for (injectors, newer, expected) in [
        (two, "a:edge-24.5.3", fresh),
        (two, "a:edge-24.6.1", fresh),
        (two, "a:edge-24.7.1", stale),
        (two, "a:edge-25.1.1", stale),
        (two, "a:edge-24.1.1", fresh),
        ("- preset: linkerd\n", "a:edge-24.7.1", fresh),
    ] {
        assert_eq!(
            scene(injectors, newer).injected().words(),
            [expected],
            "{newer}"
        );
    }
    let unknown = Scene {
        versions: BTreeMap::new(),
        ..scene(two, "a:1.1")
    };
    assert_eq!(unknown.injected().words(), [fresh]);
    assert_eq!(
        scene(two, "a:edge-24.7.1").injected().message(),
        "the sidecar of linkerd has version 24.5, but linkerd has version 24.7; restart its owner"
    );
}
