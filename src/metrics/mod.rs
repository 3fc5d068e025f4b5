//! The metrics: a leaf. Every label has few values, fixed by the code or by the configuration;
//! no label ever holds the name of a pod, owner, namespace or revision (case 71).

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// Media type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Which call was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// The mutating one.
    Gate,
    /// The validating one.
    Check,
    /// The mutating one for namespaces.
    Namespaces,
    /// The one by which meshgate finds out whether the API server reaches it.
    Reach,
}

impl Hook {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Check => "check",
            Self::Namespaces => "namespaces",
            Self::Reach => "reach",
        }
    }
}

impl EncodeLabelValue for Hook {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.as_str().encode(encoder)
    }
}

/// Labels of `meshgate_decisions_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DecisionLabels {
    pub hook: Hook,
    pub decision: &'static str,
    pub reason: &'static str,
    /// The first injector that blocks, else the first that is required, else `none`.
    pub injector: Cow<'static, str>,
    /// Whether nothing will be stored, so that alerts can leave it out (case 19).
    pub dry_run: bool,
}

/// Value of the label `injector` where none is meant.
pub const NO_INJECTOR: &str = "none";

/// One label.
type Label<V = &'static str> = [(&'static str, V); 1];

/// All metrics of `meshgate serve` and `meshgate control`: both export the same names.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    decisions: Family<DecisionLabels, Counter>,
    durations: Family<Label<Hook>, Histogram>,
    injector_ready: Family<Label<String>, Gauge>,
    live_lookups: Counter,
    /// Of the certificate that is served, whatever may lie on a disk (case 51).
    pub serving_cert_end: Gauge,
    pub certificate_refusals: Counter,
    pub certificates: Certificates,
    pub leader: Gauge,
    pub registration: Registration,
    pub wake: Wake,
    view: ViewMetrics,
}

/// Of the leader, which wakes owners whose pods were refused.
#[derive(Debug)]
pub struct Wake {
    owners: Family<Label<String>, Gauge>,
    oldest: Family<Label<String>, Gauge>,
    wakes: Family<Label, Counter>,
}

impl Wake {
    fn register(add: &mut Add<'_>) -> Self {
        Self {
            owners: add.metric(
                "blocked_owners",
                "Owners that want more pods than they have, which an injector keeps from coming",
            ),
            oldest: add.metric(
                "oldest_blocked_seconds",
                "For how long the oldest of the blocked owners has been short of pods",
            ),
            wakes: add.metric(
                "wakes",
                "Annotations by which blocked owners were made to try again, by what the API server said",
            ),
        }
    }

    /// Sets, for each injector by name, how many owners it blocks, and for how many seconds the oldest.
    pub fn blocked<'s>(&self, injectors: impl IntoIterator<Item = (&'s str, usize, i64)>) {
        for (injector, count, age) in injectors {
            let label = [("injector", injector.to_owned())];
            self.owners.get_or_create(&label).set(gauge_of(count));
            self.oldest.get_or_create(&label).set(age);
        }
    }

    /// Counts an annotation.
    pub fn sent(&self, result: &'static str) {
        self.wakes.get_or_create(&[("result", result)]).inc();
    }
}

/// Of the leader, which keeps the certificates.
#[derive(Debug)]
pub struct Certificates {
    ends: Family<Label, Gauge>,
    pub bundle: Gauge,
    pub repairs: Counter,
}

impl Certificates {
    fn register(add: &mut Add<'_>) -> Self {
        Self {
            ends: add.metric(
                "certificate_expiration_timestamp_seconds",
                "Unix time at which a certificate that meshgate keeps ends; 0 while there is none",
            ),
            bundle: add.metric(
                "ca_bundle_certs",
                "CAs in the caBundle that is to be registered; two or more while they change",
            ),
            repairs: add.metric(
                "certificate_repairs",
                "Secrets of certificates that were missing, damaged or expired and were written anew",
            ),
        }
    }

    /// Sets the end of one of the certificates that are kept: `ca` or `leaf`.
    pub fn ends_at(&self, certificate: &'static str, unix_seconds: i64) {
        let end = self.ends.get_or_create(&[("certificate", certificate)]);
        end.set(unix_seconds);
    }
}

/// Of the leader, which writes the registration.
#[derive(Debug)]
pub struct Registration {
    pub armed: Gauge,
    /// By kind and action.
    writes: Family<[(&'static str, &'static str); 2], Counter>,
    pub contended: Counter,
    pub narrowed: Gauge,
    pub refused: Gauge,
    pub namespaces_labelled: Counter,
    pub namespaces_unlabelled: Gauge,
    glass: Family<Label<String>, Gauge>,
}

impl Registration {
    fn register(registry: &mut Registry) -> Self {
        let glass = Add(registry).metric(
            "break_glass",
            "1 for each injector (or all) whose enforcement is suspended",
        );
        let mut add = Add(registry.sub_registry_with_prefix("registration"));
        Self {
            glass,
            armed: add.metric(
                "armed",
                "1 if pods that require an injector are refused also when meshgate cannot be reached",
            ),
            writes: add.metric(
                "writes",
                "Objects of the registration that were written or deleted",
            ),
            contended: add.metric(
                "contended",
                "Times that another client kept reverting meshgate's changes, so that it backed off",
            ),
            narrowed: add.metric(
                "narrowed",
                "Entries that select fewer pods than wanted, because of conditions that others added",
            ),
            refused: add.metric(
                "refused",
                "Objects of the registration that the API server did not let meshgate write or delete",
            ),
            namespaces_labelled: add.metric(
                "namespaces_labelled",
                "Namespaces whose labels did not agree with their annotations and were corrected",
            ),
            namespaces_unlabelled: add.metric(
                "namespaces_unlabelled",
                "Namespaces that lack a label, because it could not be written",
            ),
        }
    }
}

/// Of a view that follows an API server, by kind of object.
#[derive(Debug)]
struct ViewMetrics {
    staleness: Family<Label, Gauge<f64, AtomicU64>>,
    current: Family<Label, Gauge>,
    lists: Family<Label, Counter>,
    unreadable: Family<Label, Counter>,
}

impl ViewMetrics {
    fn register(add: &mut Add<'_>) -> Self {
        Self {
            staleness: add.metric(
                "watch_staleness_seconds",
                "Time since the API server last sent anything about a kind of object",
            ),
            current: add.metric(
                "view_current",
                "1 if no change of a kind of object can have been missed",
            ),
            lists: add.metric(
                "view_lists",
                "Complete lists of a kind of object, the first one included",
            ),
            unreadable: add.metric(
                "view_unreadable_objects",
                "Objects that could not be read and count as if they were not there",
            ),
        }
    }
}

/// Adds metrics to a registry.
struct Add<'r>(&'r mut Registry);

impl Add<'_> {
    /// Registers a metric at zero.
    fn metric<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register(name, help, metric.clone());
        metric
    }
}

/// Seconds: a decision takes microseconds, a live look-up may take a second.
const BUCKETS: [f64; 12] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5,
];

impl Default for Metrics {
    /// All metrics at zero.
    fn default() -> Self {
        let mut registry = Registry::with_prefix("meshgate");
        let durations =
            Family::<Label<Hook>, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        registry.register(
            "decision_duration_seconds",
            "Time from the complete request to the answer",
            durations.clone(),
        );
        let registration = Registration::register(&mut registry);
        let mut add = Add(&mut registry);
        Self {
            durations,
            registration,
            decisions: add.metric("decisions", "Answers by what was decided and why"),
            injector_ready: add.metric(
                "injector_ready",
                "1 if the injector, or one instance of it, can be tried",
            ),
            live_lookups: add.metric(
                "live_lookups",
                "Namespaces looked up because the view did not hold them",
            ),
            serving_cert_end: add.metric(
                "serving_cert_expiration_timestamp_seconds",
                "Unix time at which the certificate that is served now ends",
            ),
            certificate_refusals: add.metric(
                "certificate_refusals",
                "Contents of the certificate's files or Secret that could not be served with",
            ),
            leader: add.metric("leader", "1 if this process holds the Lease"),
            view: ViewMetrics::register(&mut add),
            wake: Wake::register(&mut add),
            certificates: Certificates::register(&mut add),
            registry,
        }
    }
}

impl Metrics {
    /// Counts a decision.
    pub fn decided(&self, labels: &DecisionLabels, took: Duration) {
        self.decisions.get_or_create(labels).inc();
        self.durations
            .get_or_create(&[("hook", labels.hook)])
            .observe(took.as_secs_f64());
    }

    /// Sets the gauges of all injectors; those that are not named any more go away.
    pub fn injectors<'s>(&self, states: impl IntoIterator<Item = (&'s str, bool)>) {
        self.injector_ready.clear();
        for (injector, is_ready) in states {
            let label = [("injector", injector.to_owned())];
            let gauge = self.injector_ready.get_or_create(&label);
            gauge.set(gauge.get().max(is_ready.into()));
        }
    }

    /// Sets how well a kind of object is followed: the time since the API server last sent anything about
    /// it, `None` before the first list, and whether no change can have been missed.
    pub fn followed(&self, kind: &'static str, age: Option<Duration>, is_current: bool) {
        let kind = [("kind", kind)];
        if let Some(age) = age {
            let staleness = self.view.staleness.get_or_create(&kind);
            staleness.set(age.as_secs_f64());
        }
        let current = self.view.current.get_or_create(&kind);
        current.set(is_current.into());
    }

    /// Sets how many complete lists of a kind there were since the start, and how many objects that could
    /// not be read.
    pub fn listed(&self, kind: &'static str, lists: u64, unreadable: u64) {
        let kind = [("kind", kind)];
        at_least(&self.view.lists.get_or_create(&kind), lists);
        at_least(&self.view.unreadable.get_or_create(&kind), unreadable);
    }

    /// Sets the number of live look-ups so far.
    pub fn live_lookups(&self, count: u64) {
        // Requests that end together report together: the largest count is the newest.
        at_least(&self.live_lookups, count);
    }

    /// Resets what only the leader reports, when this process no longer leads. The new leader
    /// reports it; old values here would raise alarms.
    pub fn writes_no_more(&self) {
        self.registration.armed.set(0);
        self.registration.narrowed.set(0);
        self.registration.refused.set(0);
        self.registration.namespaces_unlabelled.set(0);
        self.registration.glass.clear();
        self.wake.owners.clear();
        self.wake.oldest.clear();
        self.certificates.ends.clear();
        self.certificates.bundle.set(0);
    }

    /// Counts a write of an object of the registration.
    pub fn registration_written(&self, kind: &'static str, action: &'static str) {
        let labels = [("kind", kind), ("action", action)];
        self.registration.writes.get_or_create(&labels).inc();
    }

    /// Sets for which injectors, or `all`, enforcement is suspended.
    pub fn glass_broken<'s>(&self, injectors: impl IntoIterator<Item = &'s str>) {
        let family = &self.registration.glass;
        family.clear();
        for injector in injectors {
            let label = [("injector", injector.to_owned())];
            family.get_or_create(&label).set(1);
        }
    }

    /// The OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

/// Raises a counter to a count that others keep.
fn at_least(counter: &Counter, count: u64) {
    counter.inner().fetch_max(count, Ordering::Relaxed);
}

/// A count as gauges take it.
pub fn gauge_of(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
