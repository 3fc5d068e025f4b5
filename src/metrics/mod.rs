//! The metrics: a leaf. Every label has few values, fixed by the code or by the configuration;
//! no label ever holds the name of a pod, owner, namespace or revision (case 71).

mod certificates;

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::certificates::Certificates;

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
    /// The word for it.
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
    /// Which call.
    pub hook: Hook,
    /// What the answer was.
    pub decision: &'static str,
    /// Why.
    pub reason: &'static str,
    /// The first injector that blocks, else the first that is required, else `none`.
    pub injector: Cow<'static, str>,
    /// `true` for server-side dry runs, so that alerts can leave them out (case 19).
    pub dry_run: &'static str,
}

/// What `injector` says where none is meant.
pub const NO_INJECTOR: &str = "none";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HookLabels {
    hook: Hook,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InjectorLabels {
    injector: String,
}

/// Labels of `meshgate_registration_writes_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: &'static str,
    action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

/// What a watch of one kind of object says of itself.
#[derive(Debug, Clone, Copy)]
pub struct WatchState {
    /// The kind, in plural.
    pub kind: &'static str,
    /// Time since it was last heard of; `None` if it never was.
    pub age: Option<Duration>,
    /// Whether nothing is missing.
    pub is_current: bool,
    /// Complete lists since the start.
    pub lists: u64,
    /// Objects since the start that could not be read.
    pub unreadable: u64,
}

/// All metrics of `meshgate serve`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    decisions: Family<DecisionLabels, Counter>,
    durations: Family<HookLabels, Histogram>,
    injector_ready: Family<InjectorLabels, Gauge>,
    live_lookups: Counter,
    serving_cert_not_after: Gauge,
    certificate_refusals: Counter,
    certificates: Certificates,
    leader: Gauge,
    registration: Registration,
    view: ViewMetrics,
}

/// Those of whoever writes the registration.
#[derive(Debug, Default)]
struct Registration {
    armed: Gauge,
    writes: Family<WriteLabels, Counter>,
    contended: Counter,
    narrowed: Gauge,
    namespaces_labelled: Counter,
    namespaces_unlabelled: Gauge,
    glass: Family<InjectorLabels, Gauge>,
}

impl Registration {
    fn register(registry: &mut Registry) -> Self {
        let own = Self::default();
        registry.register(
            "break_glass",
            "1 for each injector (or all) whose enforcement somebody has switched off for now",
            own.glass.clone(),
        );
        let registry = registry.sub_registry_with_prefix("registration");
        registry.register(
            "armed",
            "1 if pods are refused that require an injector, also when we cannot be asked; 0 until then",
            own.armed.clone(),
        );
        registry.register(
            "writes",
            "Objects of the registration that were written or deleted",
            own.writes.clone(),
        );
        registry.register(
            "contended",
            "Times that somebody else kept changing what we write, so that we slowed down",
            own.contended.clone(),
        );
        registry.register(
            "narrowed",
            "Entries that are asked about fewer pods than wanted, by what somebody has added",
            own.narrowed.clone(),
        );
        registry.register(
            "namespaces_labelled",
            "Namespaces whose labels did not say what their annotations say",
            own.namespaces_labelled.clone(),
        );
        registry.register(
            "namespaces_unlabelled",
            "Namespaces without a label that they should have, and that could not be written",
            own.namespaces_unlabelled.clone(),
        );
        own
    }
}

/// Those of a view that follows an API server.
#[derive(Debug, Default)]
struct ViewMetrics {
    age: Family<KindLabels, Gauge<f64, AtomicU64>>,
    current: Family<KindLabels, Gauge>,
    lists: Family<KindLabels, Counter>,
    unreadable: Family<KindLabels, Counter>,
}

impl ViewMetrics {
    fn register(registry: &mut Registry) -> Self {
        let own = Self::default();
        registry.register(
            "watch_staleness_seconds",
            "Time since the API server was last heard of a kind of object",
            own.age.clone(),
        );
        registry.register(
            "view_current",
            "1 if no change of a kind of object can have been missed",
            own.current.clone(),
        );
        registry.register(
            "view_lists",
            "Complete lists of a kind of object, the first one included",
            own.lists.clone(),
        );
        registry.register(
            "view_unreadable_objects",
            "Objects that could not be read and count as if they were not there",
            own.unreadable.clone(),
        );
        own
    }
}

/// Seconds: a decision takes microseconds, a live look-up may take a second.
const BUCKETS: [f64; 12] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5,
];

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("meshgate");
        let decisions = Family::<DecisionLabels, Counter>::default();
        let durations =
            Family::<HookLabels, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        let injector_ready = Family::<InjectorLabels, Gauge>::default();
        let live_lookups = Counter::default();
        let serving_cert_not_after = Gauge::default();
        let certificate_refusals = Counter::default();
        registry.register(
            "decisions",
            "Answers by what was decided and why",
            decisions.clone(),
        );
        registry.register(
            "decision_duration_seconds",
            "Time from the complete request to the answer",
            durations.clone(),
        );
        registry.register(
            "injector_ready",
            "1 if the injector, or one instance of it, can be tried",
            injector_ready.clone(),
        );
        registry.register(
            "live_lookups",
            "Namespaces looked up because the view did not hold them",
            live_lookups.clone(),
        );
        registry.register(
            "serving_cert_expiration_timestamp_seconds",
            "Unix time at which the certificate that is served now ends",
            serving_cert_not_after.clone(),
        );
        registry.register(
            "certificate_refusals",
            "Contents of the certificate's files or Secret that could not be served with",
            certificate_refusals.clone(),
        );
        let leader = Gauge::default();
        registry.register(
            "leader",
            "1 if this process holds the Lease, and so is the one that writes",
            leader.clone(),
        );
        let registration = Registration::register(&mut registry);
        let view = ViewMetrics::register(&mut registry);
        let certificates = Certificates::register(&mut registry);
        Self {
            registry,
            leader,
            registration,
            decisions,
            durations,
            injector_ready,
            live_lookups,
            serving_cert_not_after,
            certificate_refusals,
            certificates,
            view,
        }
    }

    /// Counts a decision.
    pub fn decided(&self, labels: &DecisionLabels, took: Duration) {
        self.decisions.get_or_create(labels).inc();
        self.durations
            .get_or_create(&HookLabels { hook: labels.hook })
            .observe(took.as_secs_f64());
    }

    /// Sets the gauges of all injectors; those that are not named any more go away.
    pub fn injectors<'s>(&self, states: impl IntoIterator<Item = (&'s str, bool)>) {
        self.injector_ready.clear();
        for (injector, is_ready) in states {
            let labels = InjectorLabels {
                injector: injector.to_owned(),
            };
            let gauge = self.injector_ready.get_or_create(&labels);
            gauge.set(gauge.get().max(i64::from(is_ready)));
        }
    }

    /// Sets what the watches say of themselves.
    pub fn view(&self, watches: impl IntoIterator<Item = WatchState>) {
        for watch in watches {
            let labels = KindLabels { kind: watch.kind };
            if let Some(age) = watch.age {
                let gauge = self.view.age.get_or_create(&labels);
                gauge.set(age.as_secs_f64());
            }
            let current = self.view.current.get_or_create(&labels);
            current.set(i64::from(watch.is_current));
            let counts = [
                (&self.view.lists, watch.lists),
                (&self.view.unreadable, watch.unreadable),
            ];
            for (family, count) in counts {
                let counter = family.get_or_create(&labels);
                counter.inner().fetch_max(count, Ordering::Relaxed);
            }
        }
    }

    /// Sets the number of live look-ups so far.
    pub fn live_lookups(&self, count: u64) {
        // Requests that end together report together: the largest count is the newest.
        self.live_lookups
            .inner()
            .fetch_max(count, Ordering::Relaxed);
    }

    /// Sets the end of the certificate that is served, whatever may lie on a disk (case 51).
    pub fn serving_cert_not_after(&self, unix_seconds: i64) {
        self.serving_cert_not_after.set(unix_seconds);
    }

    /// Counts a content of the certificate's files or Secret that is refused.
    pub fn certificate_refused(&self) {
        self.certificate_refusals.inc();
    }

    /// Sets whether this process is the one that writes.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Takes back what was said of the cluster by whoever wrote into it: somebody else does, and says
    /// it. What stays would grow old and raise alarms.
    pub fn writes_no_more(&self) {
        self.registration.armed.set(0);
        self.registration.narrowed.set(0);
        self.registration.namespaces_unlabelled.set(0);
        self.registration.glass.clear();
        self.certificates.clear();
    }

    /// Sets whether something enforces, and all that is to fail closed does so.
    pub fn registration_armed(&self, is_armed: bool) {
        self.registration.armed.set(i64::from(is_armed));
    }

    /// Counts a write of an object of the registration.
    pub fn registration_written(&self, kind: &'static str, action: &'static str) {
        let labels = WriteLabels { kind, action };
        self.registration.writes.get_or_create(&labels).inc();
    }

    /// Counts an object that somebody else keeps changing.
    pub fn registration_contended(&self) {
        self.registration.contended.inc();
    }

    /// Sets how many entries somebody has narrowed.
    pub fn registration_narrowed(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.registration.narrowed.set(count);
    }

    /// Sets which injectors, or `all`, somebody has switched off for now.
    pub fn glass_broken<'s>(&self, injectors: impl IntoIterator<Item = &'s str>) {
        let family = &self.registration.glass;
        family.clear();
        for injector in injectors {
            let injector = injector.to_owned();
            family.get_or_create(&InjectorLabels { injector }).set(1);
        }
    }

    /// Counts a namespace whose labels were corrected.
    pub fn namespace_labelled(&self) {
        self.registration.namespaces_labelled.inc();
    }

    /// Sets how many namespaces lack a label that could not be written.
    pub fn namespaces_unlabelled(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.registration.namespaces_unlabelled.set(count);
    }

    /// The OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_look_up_counts_twice_when_many_requests_report_at_once() {
        let (metrics, made) = (Metrics::new(), AtomicU64::new(0));
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..50_000 {
                        metrics.live_lookups(made.fetch_add(1, Ordering::SeqCst) + 1);
                        let counted = metrics.live_lookups.get();
                        assert!(counted <= made.load(Ordering::SeqCst));
                    }
                });
            }
        });
        metrics.live_lookups(7);
        assert_eq!(metrics.live_lookups.get(), 200_000);
    }
}
