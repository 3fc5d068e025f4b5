//! Bare pods, and the first cause that fits.

use serde_json::{Value, json};

use crate::audit::Armed;

use super::{AFTER, BEFORE, CREATED, Scene, managed, marked, time};

const SOON: &str = "jane: INC-1; until=2026-03-02T18:00:00Z";
/// It may have begun after the pods were created.
const LATER: &str = "jane: INC-1; until=2026-03-04T10:10:00Z";

/// Rows: number of a case, scene, cause.
fn all_are_bare<const N: usize>(table: [(u32, Scene, &str); N]) {
    for (case, scene, expected) in table {
        let words = scene.words();
        let found: Vec<_> = words
            .iter()
            .filter_map(|word| word.split_once(' '))
            .collect();
        let expected = format!("bare {expected}");
        assert!(
            matches!(found.as_slice(), [(_, found)] if *found == expected),
            "case {case}: {words:?}, expected {expected}: {}",
            scene.pod
        );
    }
}

fn plain() -> Scene {
    Scene::default()
}

fn of(injectors: &'static str) -> Scene {
    Scene {
        injectors,
        ..plain()
    }
}

fn mark() -> Value {
    marked(&json!({"meshgate.io/admitted": "consul,linkerd"}))
}

fn suspended(note: &'static str, at: Option<&'static str>) -> Scene {
    Scene {
        suspended: Some((note, at)),
        ..plain()
    }
}

fn armed(armed: Armed) -> Scene {
    Scene { armed, ..plain() }
}

#[test]
fn what_is_wrong_with_the_containers_comes_first() {
    let native = json!([{"name": "linkerd-proxy", "image": "p:1"}, {"name": "linkerd-init"}]);
    let app = json!([{"name": "app"}]);
    let placeholder = json!([{"name": "istio-proxy", "image": "auto"}]);
    let no_init = json!([{"name": "linkerd-proxy", "image": "p:1"}]);
    let limited =
        "- preset: linkerd\n  injected: [{sidecar: linkerd-proxy, images: [cr.l5d.io/linkerd/]}]\n";
    all_are_bare([
        (
            37,
            plain().of_tag().containers(&placeholder, &json!([])),
            "placeholderImage",
        ),
        (2, plain().containers(&no_init, &json!([])), "initMissing"),
        (
            36,
            plain().containers(&app, &native),
            "sidecarNotRestartable",
        ),
        (38, of(limited).injected(), "sidecarImage"),
        (
            2,
            plain().pod(&mark()).containers(&no_init, &json!([])),
            "initMissing",
        ),
        // A Pending pod counts as well, and one without a phase.
        (
            37,
            plain().pod(&json!({"status": {"phase": "Pending"}})),
            "unknown",
        ),
        (37, plain().pod(&json!({"status": null})), "unknown"),
    ]);
}

#[test]
fn marks_and_suspensions() {
    let maybe = marked(&json!({"linkerd.io/inject": "maybe"}));
    let other = "jane: INC-1; until=2026-03-02T18:00:00Z; injector=vault";
    all_are_bare([
        (23, plain().pod(&mark()), "markedButBare"),
        (
            23,
            plain().pod(&marked(&json!({"meshgate.io/admitted": "linkerd-2"}))),
            "unknown",
        ),
        (96, suspended(SOON, None), "enforcementSuspended"),
        (96, suspended(LATER, None), "unknown"),
        (96, suspended(LATER, Some(BEFORE)), "enforcementSuspended"),
        (96, suspended(SOON, Some(AFTER)), "unknown"),
        (96, suspended(other, None), "unknown"),
        (96, suspended(SOON, None).pod(&mark()), "markedButBare"),
        (
            96,
            suspended(SOON, None).pod(&maybe),
            "enforcementSuspended",
        ),
    ]);
}

#[test]
fn values_opt_outs_and_modes() {
    let maybe = marked(&json!({"linkerd.io/inject": "maybe"}));
    let no = marked(&json!({"linkerd.io/inject": "disabled"}));
    let warning = "- preset: linkerd\n  mode: warn\n";
    let never = Scene {
        armed: Armed::Never,
        ..of(warning)
    };
    all_are_bare([
        (25, plain().pod(&maybe), "invalidValue"),
        (
            26,
            of("- preset: linkerd\n  optOut: forbid\n").pod(&no),
            "optOutForbidden",
        ),
        (93, of(warning), "modeWarn"),
        (93, never, "notArmed"),
        (93, plain(), "unknown"),
    ]);
}

#[test]
fn times_of_the_namespace_and_of_the_registration() {
    let since = |times: &[&str]| {
        let fields: Vec<Value> = times.iter().map(|at| managed(at)).collect();
        plain().namespace(&json!({"metadata": {"managedFields": fields}}))
    };
    let timeless = json!({"metadata": {"creationTimestamp": null}});
    let both = Scene {
        armed: Armed::Never,
        ..since(&[AFTER])
    };
    all_are_bare([
        (88, since(&[AFTER]), "olderThanRequirement"),
        (88, since(&[AFTER, BEFORE]), "unknown"),
        (88, since(&[CREATED]), "unknown"),
        (88, since(&[AFTER]).pod(&timeless), "unknown"),
        (88, both, "olderThanRequirement"),
        (76, armed(Armed::Never), "notArmed"),
        (76, armed(Armed::Never).pod(&timeless), "notArmed"),
        (76, armed(Armed::NotBefore(time(AFTER))), "notArmed"),
        (
            76,
            armed(Armed::NotBefore(time(AFTER))).pod(&timeless),
            "unknown",
        ),
        (76, armed(Armed::Unknown), "unknown"),
    ]);
}
