//! One request of either hook: read, look up, decide, answer.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request as HttpRequest;
use axum::http::{Method, Uri, header};
use axum::response::{IntoResponse, Response};
use jiff::SignedDuration;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use crate::cluster::namespace_lookup::{Asker, LookupError};
use crate::cluster::object::Kind;
use crate::cluster::slim;
use crate::cluster::store::Store;
use crate::lifecycle::wall_clock;
use crate::metrics::{DecisionLabels, Hook};
use meshgate_core::break_glass::Note;
use meshgate_core::decision::reason::Reason;
use meshgate_core::decision::requirement::{Requirement, RuleMatch};
use meshgate_core::decision::{Decision, check, exemption, gate, replaced};
use meshgate_core::render::path;
use meshgate_core::view::namespace::NamespaceView;
use meshgate_core::view::pod::PodView;

use super::Admission;
use super::answer::{self, Patched};
use super::bad_call::BadCall;
use super::body::body;
use super::metadata;
use super::record::{self, Refusal};
use super::request::Request;

/// The webhook's timeout where the query does not say it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// What the API server allows.
const TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(30);

/// The endpoint that was called, by which path, and by which client.
#[derive(Debug, Clone, Copy)]
struct Called<'u> {
    hook: Hook,
    path: &'u str,
    peer: IpAddr,
}

/// For requests that come over no connection.
const NO_PEER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// An answer, and what is to be noted of it once the view is free again.
struct Answer {
    body: Vec<u8>,
    labels: DecisionLabels,
    refusal: Option<Refusal>,
}

impl Admission {
    pub(super) async fn respond(&self, hook: Hook, request: HttpRequest) -> Response {
        self.review(hook, request).await.unwrap_or_else(|bad_call| {
            tracing::debug!(hook = hook.as_str(), "bad call: {}", bad_call.text());
            let labels = record::bad_call_labels(hook);
            self.metrics.decided(&labels, Duration::ZERO);
            bad_call.into_response()
        })
    }

    async fn review(&self, hook: Hook, request: HttpRequest) -> Result<Response, BadCall> {
        if request.method() != Method::POST {
            return Err(BadCall::Method(request.method().to_string()));
        }
        let uri = request.uri().clone();
        let peer = request.extensions().get().copied().unwrap_or(NO_PEER);
        let half = timeout(&uri) / 2;
        let deadline = Instant::now() + half;
        let body = timeout_at(deadline, body(request)).await;
        let body = body.map_err(|_| BadCall::TooSlow(half))??;
        let start = Instant::now();
        let called = Called {
            hook,
            path: uri.path(),
            peer,
        };
        let from_view = self.read(&body, |request| {
            let answer = self.answer_from_view(called, request);
            answer.ok_or_else(|| request.namespace().to_owned())
        })?;
        let answer = match from_view {
            Ok(answer) => answer,
            Err(namespace) => {
                let asker = Asker {
                    peer,
                    is_held: self.cluster.read().namespace(&namespace).is_some(),
                };
                let lookup = self.lookup.namespace(asker, &namespace);
                let looked_up = timeout_at(deadline, lookup).await;
                // Read anew: what is read of a body takes memory besides, and many may wait.
                self.read(&body, |request| {
                    self.answer_after_lookup(called, request, looked_up)
                })?
            }
        };
        self.metrics.decided(&answer.labels, start.elapsed());
        if let Some(refusal) = &answer.refusal {
            let now = start.into_std();
            let view_age = self.cluster.freshness.oldest(now);
            self.refusals.refused(refusal, now, view_age);
        }
        Ok(([(header::CONTENT_TYPE, "application/json")], answer.body).into_response())
    }

    /// The answer to a review of which the view knows the namespace, without HTTP, counting and
    /// logging: what one decision costs is measured by this. `None` if the view does not know it.
    ///
    /// # Errors
    /// The body is no review that can be answered.
    pub fn decide(&self, hook: Hook, path: &str, body: &[u8]) -> Result<Option<Vec<u8>>, BadCall> {
        let peer = NO_PEER;
        let called = Called { hook, path, peer };
        let answer = self.read(body, |request| self.answer_from_view(called, request))?;
        Ok(answer.map(|answer| answer.body))
    }

    fn read<T>(&self, body: &[u8], answer: impl FnOnce(&Request<'_>) -> T) -> Result<T, BadCall> {
        let injectors = Arc::clone(self.cluster.read().injectors());
        let request = Request::read(body, injectors.keys())?;
        Ok(answer(&request))
    }

    /// `None` if the answer depends on the namespace and the view does not hold it, may hold an old
    /// version of it (case 62), or another one than the API server knows.
    fn answer_from_view(&self, called: Called<'_>, request: &Request<'_>) -> Option<Answer> {
        let store = self.cluster.read();
        let hook = called.hook;
        let patched = match hook {
            Hook::Gate | Hook::Check => return self.pod_from_view(called, &store, request),
            Hook::Namespaces => metadata::namespace(request, store.injectors()),
            Hook::Reach => metadata::reach(request, called.path),
        };
        Some(Answer::new(called, request, None, &patched))
    }

    fn pod_from_view(
        &self,
        called: Called<'_>,
        store: &Store,
        request: &Request<'_>,
    ) -> Option<Answer> {
        let hook = called.hook;
        if hook == Hook::Check && request.updates_a_pod() && store.injectors().limit_images() {
            return Some(updated(
                called,
                store,
                request,
                self.suspension(called, store),
            ));
        }
        let pod = match self.pod_to_judge(store, request) {
            Err(decision) => return Some(Answer::new(called, request, None, &decision.into())),
            Ok(pod) => pod,
        };
        let freshness = &self.cluster.freshness;
        let known = store.namespace(request.namespace());
        let namespace = known.filter(|_| freshness.is_current(Kind::Namespace))?;
        let requirement = store.requirement(pod, namespace, self.suspension(called, store));
        let agrees = || self.agrees(called, store, pod, namespace, &requirement);
        if freshness.is_followed(Kind::Namespace) && agrees() != Some(true) {
            return None;
        }
        let patched = Patched::pod(judge(hook, store, pod, &requirement), pod);
        Some(Answer::new(called, request, Some(pod), &patched))
    }

    /// The note that suspends enforcement, if there is one. Not while changes of it may be missing here: an
    /// API server that knows of a note does not ask for what it suspends.
    fn suspension<'s>(&self, called: Called<'_>, store: &'s Store) -> Option<&'s Note> {
        let note = store.suspension(wall_clock)?;
        let is_current = self.cluster.freshness.is_current(Kind::Webhooks);
        let gate = called.entry().and_then(|entry| self.entries.gate(entry));
        let is_silenced = gate.is_some_and(|entry| store.is_silenced(entry));
        (is_current && !is_silenced).then_some(note)
    }

    /// Whether the API server can ask about the pod in such a namespace: not if nothing is required there,
    /// nor if the entry that it names asks about others. `None` if that entry is of another Configuration.
    fn agrees(
        &self,
        called: Called<'_>,
        store: &Store,
        pod: &PodView<'_>,
        namespace: &NamespaceView,
        requirement: &Requirement<'_>,
    ) -> Option<bool> {
        if requirement.matches.is_empty() {
            return Some(false);
        }
        let Some(entry) = called.entry() else {
            return Some(true);
        };
        let injectors = store.injectors();
        self.entries
            .agrees(entry, pod, namespace, requirement, injectors)
    }

    fn answer_after_lookup(
        &self,
        called: Called<'_>,
        request: &Request<'_>,
        looked_up: Result<Result<Arc<slim::Namespace>, LookupError>, Elapsed>,
    ) -> Answer {
        let (hook, name) = (called.hook, request.namespace());
        self.metrics.live_lookups(self.lookup.count());
        let store = self.cluster.read();
        let pod = match self.pod_to_judge(&store, request) {
            Err(decision) => return Answer::new(called, request, None, &decision.into()),
            Ok(pod) => pod,
        };
        let suspension = self.suspension(called, &store);
        let requirement_in = |namespace| store.requirement(pod, namespace, suspension);
        let (view, requirement);
        let decision = match looked_up {
            Ok(Ok(namespace)) => {
                view = store.view(&namespace);
                requirement = requirement_in(&view);
                judge(hook, &store, pod, &requirement)
            }
            Ok(Err(LookupError::NotFound)) => {
                Decision::namespace_unknown(name, &LookupError::NotFound.to_string())
            }
            // The API server cannot be asked: what was known is old, and the best there is (case
            // 61). But where the API server knows better, or may, it is too old.
            failed => {
                let known = store.namespace(name);
                let old = known.and_then(|namespace| {
                    let old = requirement_in(namespace);
                    let agrees = self.agrees(called, &store, pod, namespace, &old);
                    (agrees == Some(true)).then_some(old)
                });
                match (old, failed) {
                    (Some(old), _) => {
                        requirement = old;
                        judge(hook, &store, pod, &requirement)
                    }
                    (None, Ok(Err(problem))) => {
                        Decision::namespace_unknown(name, &problem.to_string())
                    }
                    (None, _) => Decision::deadline_exceeded(name),
                }
            }
        };
        Answer::new(called, request, Some(pod), &Patched::pod(decision, pod))
    }

    /// The pod that rules are to be asked about, or the decision that needs no rule: in the order
    /// of design section 5, each step before anything that it could fail on is read.
    fn pod_to_judge<'r, 'a>(
        &self,
        store: &Store,
        request: &'r Request<'a>,
    ) -> Result<&'r PodView<'a>, Decision<'static>> {
        let namespace = request.namespace();
        if !request.creates_a_pod() {
            return Err(Decision::admit(Reason::NotAPodCreate));
        }
        if store.injectors().excludes(namespace) {
            return Err(Decision::admit(Reason::ExcludedNamespace));
        }
        let pod = request
            .pod()
            .map_err(|problem| Decision::unreadable(&problem))?;
        if let Some(reason) = exemption::of(pod, |group| request.is_by_member_of(group)) {
            return Err(Decision::admit(reason));
        }
        // Or another Configuration came, since the pod was read, by which its values mean nothing.
        if !self.cluster.is_synced() || !request.is_read_for(store.injectors().keys()) {
            return Err(Decision::not_synced(namespace));
        }
        Ok(pod)
    }
}

/// The answer to an update: only the images of sidecars count.
fn updated(
    called: Called<'_>,
    store: &Store,
    request: &Request<'_>,
    suspension: Option<&Note>,
) -> Answer {
    let (injectors, namespace) = (store.injectors(), request.namespace());
    let answer = |pod: Option<&PodView<'_>>, decision: Decision<'_>| {
        Answer::new(called, request, pod, &decision.into())
    };
    if injectors.excludes(namespace) {
        return answer(None, Decision::admit(Reason::ExcludedNamespace));
    }
    let [old, new] = match request.updated_pods(injectors.keys()) {
        Ok(both) => both,
        Err(decision) => return answer(None, decision),
    };
    if let Some(reason) = exemption::of(&new, |group| request.is_by_member_of(group)) {
        return answer(Some(&new), Decision::admit(reason));
    }
    let is_waived = |injector: &str| suspension.is_some_and(|note| note.is_about(injector));
    let decision = replaced::decide((&old, &new), namespace, injectors, is_waived);
    answer(Some(&new), decision)
}

/// Asks gate or check.
fn judge<'a>(
    hook: Hook,
    store: &'a Store,
    pod: &PodView<'_>,
    requirement: &Requirement<'a>,
) -> Decision<'a> {
    let readiness = |one: &RuleMatch<'a>| store.readiness(one.number, one.instance());
    if hook == Hook::Check {
        return check::decide(pod, requirement, readiness);
    }
    gate::decide(pod, requirement, readiness)
}

impl<'u> Called<'u> {
    /// The name of the entry by which the API server asks about a pod, if the path says it.
    fn entry(self) -> Option<&'u str> {
        let base = match self.hook {
            Hook::Check => path::CHECK,
            Hook::Gate | Hook::Namespaces | Hook::Reach => path::GATE,
        };
        self.path.strip_prefix(base)?.strip_prefix('/')
    }
}

impl Answer {
    /// `pod` is `None` for objects that are no pods or were not read.
    fn new(
        called: Called<'_>,
        request: &Request<'_>,
        pod: Option<&PodView<'_>>,
        patched: &Patched<'_>,
    ) -> Self {
        let labels = record::labels(called.hook, &patched.decision, request.is_dry_run());
        Self {
            body: answer::write(request.uid(), patched),
            refusal: Refusal::of(&labels, called.peer, request, pod, &patched.decision),
            labels,
        }
    }
}

/// The webhook's timeout: `?timeout=5s`, as the API server says it.
fn timeout(uri: &Uri) -> Duration {
    let query = uri.query().unwrap_or_default();
    let mut pairs = query.split('&');
    let value = pairs.find_map(|pair| pair.strip_prefix("timeout="));
    let parsed = value.and_then(|text| text.parse::<SignedDuration>().ok());
    let timeout = parsed.and_then(|timeout| Duration::try_from(timeout).ok());
    let allowed = timeout.filter(|timeout| TIMEOUTS.contains(timeout));
    allowed.unwrap_or(DEFAULT_TIMEOUT)
}

#[cfg(test)]
#[path = "handler_tests.rs"]
mod tests;
