//! The cluster of a case: each injector installed as its profile says, up, down or not at all.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use meshgate_core::injector::Injectors;
use meshgate_core::injector::profile::{DEFAULT_INSTANCE, Profile, ReadinessSource, ServiceName};
use meshgate_core::readiness::endpoints::{Endpoint, Nodes, Slice, Tally, tally};
use meshgate_core::readiness::installation::{
    Client, Installation, WebhookConfiguration, WebhookEntry, locate,
};
use meshgate_core::readiness::{Looked, Readiness};

use super::format::{Case, Condition};

/// What is known of it.
#[derive(Default)]
pub(super) struct Cluster {
    webhooks: BTreeMap<String, WebhookConfiguration>,
    tallies: BTreeMap<ServiceName, Tally>,
}

impl Cluster {
    pub(super) fn of(case: &Case, injectors: &Injectors) -> Self {
        let mut cluster = Self::default();
        for injector in injectors.iter() {
            let profile = &injector.profile;
            match case.condition(&profile.name) {
                Condition::None => {}
                Condition::Absent => {
                    let foreign = WebhookConfiguration::default();
                    cluster
                        .webhooks
                        .insert("policy-webhook-cfg".to_owned(), foreign);
                }
                Condition::Up => cluster.install(case, profile, true),
                Condition::Down => cluster.install(case, profile, false),
            }
        }
        cluster
    }

    /// Each copy of an injector that the case names, or the injector itself.
    fn install(&mut self, case: &Case, profile: &Profile, ready: bool) {
        let Some(copies) = &profile.instances else {
            return self.add(profile, BTreeMap::new(), &profile.service, ready);
        };
        let named: BTreeSet<&str> = case
            .values()
            .into_iter()
            .chain([DEFAULT_INSTANCE])
            .collect();
        for instance in named.into_iter().filter(|name| !name.is_empty()) {
            let service = match instance {
                DEFAULT_INSTANCE => profile.service.clone(),
                other => copies.fallback(other),
            };
            let label = copies.webhook_labels[0].clone();
            self.add(
                profile,
                BTreeMap::from([(label, instance.to_owned())]),
                &service,
                ready,
            );
        }
    }

    /// A webhook configuration, and one endpoint of the Service that it calls.
    fn add(
        &mut self,
        profile: &Profile,
        labels: BTreeMap<String, String>,
        service: &ServiceName,
        ready: bool,
    ) {
        let entry = profile.webhook.as_ref().map(|name| name.as_str());
        let entry = WebhookEntry {
            name: entry.unwrap_or("injector.example.test").replace('*', "ns."),
            client: Client::Service {
                service: service.clone(),
                port: 443,
                path: profile.path.clone(),
            },
        };
        let name = format!("{}-{service}", profile.name);
        let entries = vec![entry];
        self.webhooks
            .insert(name, WebhookConfiguration { labels, entries });
        let endpoint = Endpoint {
            addresses: vec!["10.42.0.17".into()],
            ready: Some(ready),
            serving: Some(ready),
            ..Endpoint::default()
        };
        let slice = Slice {
            counts: true,
            endpoints: vec![endpoint],
            ..Slice::default()
        };
        self.tallies
            .insert(service.clone(), tally([&slice], &Nodes::default()));
    }

    /// As the server's view says it.
    pub(super) fn readiness(&self, profile: &Profile, instance: Option<&str>) -> Readiness<'_> {
        let known = (!self.webhooks.is_empty()).then_some(&self.webhooks);
        let service = match locate(profile, instance, known) {
            Installation::NotInstalled => return Readiness::NotInstalled,
            Installation::NoInstance => return Readiness::NoInstance,
            Installation::At { service, .. } => service,
        };
        if profile.readiness == ReadinessSource::Assumed {
            return Readiness::Usable(Looked::Assumed);
        }
        let tally = self.tallies.get(&service);
        let usable = tally.map_or(0, Tally::usable);
        let looked = Looked::Endpoints {
            service: Cow::Owned(service),
            tally,
            client: None,
        };
        if u32::try_from(usable).unwrap() >= profile.minimum {
            Readiness::Usable(looked)
        } else {
            Readiness::NotUsable(looked)
        }
    }
}
