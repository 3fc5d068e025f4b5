//! Of the leader, which keeps the certificates.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::{Add, Label, gauge_of};

#[derive(Debug)]
pub(super) struct Certificates {
    ends: Family<Label, Gauge>,
    bundle: Gauge,
    repairs: Counter,
}

impl Certificates {
    pub(super) fn register(add: &mut Add<'_>) -> Self {
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

    /// This process does not lead, and knows nothing of them.
    pub(super) fn clear(&self) {
        self.ends.clear();
        self.bundle.set(0);
    }
}

impl super::Metrics {
    /// Sets the end of one of the certificates that are kept: `ca` or `leaf`.
    pub fn certificate_not_after(&self, certificate: &'static str, unix_seconds: i64) {
        let end = [("certificate", certificate)];
        let end = self.certificates.ends.get_or_create(&end);
        end.set(unix_seconds);
    }

    /// Sets how many CAs callers are to trust.
    pub fn ca_bundle_certs(&self, count: usize) {
        self.certificates.bundle.set(gauge_of(count));
    }

    /// Counts a Secret that was written anew because something was wrong with it.
    pub fn certificate_repaired(&self) {
        self.certificates.repairs.inc();
    }
}
