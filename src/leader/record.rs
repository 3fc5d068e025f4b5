//! What a Lease says, apart from its metadata. Pure.

use jiff::{Timestamp, Unit};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Who holds a Lease, as client-go's `LeaderElectionRecord` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty if the Lease is free.
    pub(super) holder: String,
    /// Others wait for so long after a change of this record before they take the Lease.
    pub(super) seconds: i32,
    /// When the holder got it, by the holder's clock. For people only.
    pub(super) acquired: Option<Timestamp>,
    /// When the holder last wrote it, by the holder's clock. Contenders only see that it changes.
    pub(super) renewed: Option<Timestamp>,
    pub(super) transitions: i32,
}

impl Record {
    pub(super) fn of(spec: &LeaseSpec) -> Self {
        let time = |time: &Option<MicroTime>| time.as_ref().map(|time| time.0);
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: time(&spec.acquire_time),
            renewed: time(&spec.renew_time),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    pub(super) fn spec(&self) -> LeaseSpec {
        let time = |time: Option<Timestamp>| time.map(|time| MicroTime(whole(time)));
        LeaseSpec {
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: Some(self.seconds),
            acquire_time: time(self.acquired),
            renew_time: time(self.renewed),
            lease_transitions: Some(self.transitions),
            ..LeaseSpec::default()
        }
    }
}

/// The API keeps microseconds.
fn whole(time: Timestamp) -> Timestamp {
    time.round(Unit::Microsecond).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let time = Some("2026-01-02T03:04:05.678901Z".parse().unwrap());
        let record = Record {
            holder: "a".to_owned(),
            seconds: 15,
            acquired: time,
            renewed: time,
            transitions: 3,
        };
        let json = serde_json::to_value(record.spec()).unwrap();
        assert_eq!(json["renewTime"], "2026-01-02T03:04:05.678901Z");
        let spec: LeaseSpec = serde_json::from_value(json).unwrap();
        assert_eq!(Record::of(&spec), record);
        assert_eq!(Record::of(&LeaseSpec::default()), Record::default());
    }
}
