//! Those of whoever keeps the certificates.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateLabels {
    certificate: &'static str,
}

#[derive(Debug, Default)]
pub(super) struct Certificates {
    not_after: Family<CertificateLabels, Gauge>,
    bundle: Gauge,
    repairs: Counter,
}

impl Certificates {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let own = Self::default();
        registry.register(
            "certificate_expiration_timestamp_seconds",
            "Unix time at which a certificate that meshgate keeps ends; 0 while there is none",
            own.not_after.clone(),
        );
        registry.register(
            "ca_bundle_certs",
            "CAs in the caBundle that is to be registered; two or more while they change",
            own.bundle.clone(),
        );
        registry.register(
            "certificate_repairs",
            "Secrets of certificates that were missing, damaged or expired and were written anew",
            own.repairs.clone(),
        );
        own
    }

    /// Nobody here knows anything of them.
    pub(super) fn clear(&self) {
        self.not_after.clear();
        self.bundle.set(0);
    }
}

impl super::Metrics {
    /// Sets the end of one of the certificates that are kept: `ca` or `leaf`.
    pub fn certificate_not_after(&self, certificate: &'static str, unix_seconds: i64) {
        let labels = CertificateLabels { certificate };
        let ends = &self.certificates.not_after;
        ends.get_or_create(&labels).set(unix_seconds);
    }

    /// Sets how many CAs callers are to trust.
    pub fn ca_bundle_certs(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.certificates.bundle.set(count);
    }

    /// Counts a Secret that was written anew because something was wrong with it.
    pub fn certificate_repaired(&self) {
        self.certificates.repairs.inc();
    }
}
