//! The table: file, hooks, state, and what must come out. Written from what the samples are for,
//! never from what the server says.

use meshgate::metrics::Hook;

/// One row.
pub(super) struct Row {
    pub(super) file: &'static str,
    pub(super) hooks: &'static [Hook],
    pub(super) given: &'static [Given],
    pub(super) expected: Expected,
}

/// The state of the cluster.
#[derive(Debug, Clone, Copy)]
pub(super) enum Given {
    /// The injector of the namespace has one usable endpoint.
    Up,
    /// It has none.
    Down,
    /// No object of any kind was read yet.
    NothingKnown,
}

/// What comes out.
#[derive(Debug)]
pub(super) enum Expected {
    /// Allowed, with the mark at this value and no other change.
    Marked(&'static str),
    /// Allowed, nothing changed.
    Allowed,
    /// The same, with these warnings.
    Warned(&'static [&'static str]),
    /// Refused with this code; the message contains these texts.
    Refused(u64, &'static [&'static str]),
    /// HTTP 400, no review; the text contains this.
    BadCall(&'static str),
}

use Expected::{Allowed, BadCall, Marked, Refused, Warned};
use Given::{Down, NothingKnown, Up};
use Hook::{Check, Gate};

const GATE: &[Hook] = &[Gate];
const CHECK: &[Hook] = &[Check];
const BOTH: &[Hook] = &[Gate, Check];
const UP: &[Given] = &[Up];
const DOWN: &[Given] = &[Down];
const EITHER: &[Given] = &[Up, Down];
const ANY: &[Given] = &[Up, Down, NothingKnown];

const fn row(
    file: &'static str,
    hooks: &'static [Hook],
    given: &'static [Given],
    expected: Expected,
) -> Row {
    Row {
        file,
        hooks,
        given,
        expected,
    }
}

const NOT_READY: &[&str] = &[
    "orders",
    "linkerd/linkerd-proxy-injector",
    "0 of 1 endpoints",
];

/// All rows.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("01-deployment-pod-with-annotations.json", GATE, UP, Marked("linkerd")),
    row("01-deployment-pod-with-annotations.json", GATE, DOWN, Refused(503, NOT_READY)),
    row("02-pod-without-annotations.json", GATE, UP, Marked("linkerd")),
    row("02-pod-without-annotations.json", GATE, DOWN, Refused(503, NOT_READY)),
    row("03-pod-opt-out.json", BOTH, EITHER, Allowed),
    row("04-pod-opt-in-plain-namespace.json", GATE, UP, Marked("linkerd")),
    row("04-pod-opt-in-plain-namespace.json", GATE, DOWN,
        Refused(503, &["reporting", "linkerd.io/inject=enabled", "0 of 1 endpoints"])),
    row("05-pod-unknown-inject-value.json", BOTH, EITHER,
        Refused(403, &["linkerd.io/inject", "=false", "enabled", "ingress", "disabled"])),
    row("06-namespace-label-not-annotation.yaml", BOTH, EITHER, Warned(&["Linkerd reads annotations"])),
    row("07-hostnetwork-daemonset-pod.json", BOTH, EITHER, Allowed),
    row("08-cronjob-pod-no-token.json", GATE, UP, Marked("linkerd")),
    row("08-cronjob-pod-no-token.json", GATE, DOWN, Refused(503, NOT_READY)),
    row("09-windows-pod.json", BOTH, EITHER, Allowed),
    row("10-cni-pod-kube-system.json", BOTH, ANY, Allowed),
    row("11-check-sidecar-present.json", CHECK, EITHER, Allowed),
    row("12-check-sidecar-missing.json", CHECK, EITHER, Refused(403, &["orders", "linkerd-proxy"])),
    row("13-check-native-sidecar.json", CHECK, EITHER, Allowed),
    row("14-ephemeral-container.json", BOTH, EITHER, Allowed),
    row("15-update-labels-bare-pod.json", BOTH, EITHER, Allowed),
    row("16-resize-subresource.json", BOTH, EITHER, Allowed),
    row("17-binding.json", BOTH, EITHER, Allowed),
    row("18-server-side-dry-run.json", GATE, UP, Marked("linkerd")),
    row("18-server-side-dry-run.json", GATE, DOWN, Refused(503, NOT_READY)),
    row("19-review-without-request.json", BOTH, ANY, BadCall("request")),
    row("20-review-v1beta1.json", BOTH, ANY, BadCall("admission.k8s.io/v1 AdmissionReview")),
    row("25-istio-namespace-pod.json", GATE, UP, Marked("istio")),
    row("25-istio-namespace-pod.json", GATE, DOWN,
        Refused(503, &["payments", "istio-injection=enabled", "istio-system/istiod", "0 of 1 endpoints"])),
    row("26-real-review-1.37.json", GATE, UP, Marked("linkerd")),
];
