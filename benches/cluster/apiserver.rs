//! What the API server says itself of the time it spends in admission.

use std::collections::BTreeMap;

use hyper::Request;
use kube::Client;

use super::Result;

/// Per webhook and per admission plugin. `apiserver_validating_admission_policy_check_duration_seconds`
/// is of no use: it is observed for refusals alone.
const HISTOGRAMS: [&str; 2] = [
    "apiserver_admission_webhook_admission_duration_seconds",
    "apiserver_admission_controller_admission_duration_seconds",
];

/// Sums and counts, by the name of the webhook or plugin.
#[derive(Clone, Debug, Default)]
pub(super) struct Spent(BTreeMap<String, (f64, f64)>);

impl Spent {
    /// In creates, since it was started.
    pub(super) async fn so_far(client: &Client) -> Result<Self> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let text = client.request_text(request).await?;
        let mut spent = Self::default();
        for line in text.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Some((name, labels)) = series.split_once('{') else {
                continue;
            };
            let mut own = HISTOGRAMS.iter().filter_map(|own| name.strip_prefix(own));
            let Some(part @ ("_sum" | "_count")) = own.next() else {
                continue;
            };
            let of = |label: &str| {
                let start = format!("{label}=\"");
                let found = labels.split(',').find_map(|pair| pair.strip_prefix(&start));
                found.map(|rest| rest.trim_end_matches(['"', '}']))
            };
            if of("operation") != Some("CREATE") {
                continue;
            }
            let value: f64 = value.parse()?;
            let key = of("name").unwrap_or_default().to_owned();
            let (sum, count) = spent.0.entry(key).or_default();
            match part {
                "_sum" => *sum += value,
                _ => *count += value,
            }
        }
        Ok(spent)
    }

    /// What was spent after `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let own = self.0.iter().map(|(name, (sum, count))| {
            let (sum_before, count_before) = before.0.get(name).copied().unwrap_or_default();
            (name.clone(), (sum - sum_before, count - count_before))
        });
        Self(own.collect())
    }

    /// Both together.
    pub(super) fn add(&mut self, more: &Self) {
        for (name, (sum, count)) in &more.0 {
            let own = self.0.entry(name.clone()).or_default();
            own.0 += sum;
            own.1 += count;
        }
    }

    /// How often names that are so were measured.
    pub(super) fn count(&self, is_so: impl Fn(&str) -> bool) -> f64 {
        self.matching(is_so).map(|(_, count)| count).sum()
    }

    /// Milliseconds in all names that are so, per one of `creates`.
    pub(super) fn per(&self, creates: usize, is_so: impl Fn(&str) -> bool) -> Option<f64> {
        let seconds: f64 = self.matching(&is_so).map(|(sum, _)| sum).sum();
        let creates = u32::try_from(creates).ok().filter(|creates| *creates > 0)?;
        (self.count(is_so) > 0.0).then(|| seconds * 1e3 / f64::from(creates))
    }

    fn matching(&self, is_so: impl Fn(&str) -> bool) -> impl Iterator<Item = (f64, f64)> {
        let own = self.0.iter().filter(move |(name, _)| is_so(name));
        own.map(|(_, spent)| *spent)
    }
}
