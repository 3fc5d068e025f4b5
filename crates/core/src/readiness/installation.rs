//! Where an injector is: its webhook entries in the cluster, and the Service behind them.

use std::collections::BTreeMap;

use crate::injector::profile::{DEFAULT_INSTANCE, Instances, Profile, ServiceName};

/// One MutatingWebhookConfiguration, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhookConfiguration {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its entries.
    pub entries: Vec<WebhookEntry>,
}

/// One entry of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEntry {
    /// Its name, `linkerd-proxy-injector.linkerd.io`.
    pub name: String,
    /// How it is called.
    pub client: Client,
}

/// `clientConfig` of a webhook entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Client {
    /// A Service.
    Service {
        /// Which.
        service: ServiceName,
        /// Its port.
        port: u16,
        /// The path that is called.
        path: Option<String>,
    },
    /// A URL.
    Url(String),
}

/// All webhook configurations, by name. `None`: no source of them is known, so that nobody can
/// be called "not installed".
pub type Known<'a> = Option<&'a BTreeMap<String, WebhookConfiguration>>;

/// Where an injector, or one instance of it, is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installation {
    /// Behind this Service.
    At {
        /// The Service whose slices count.
        service: ServiceName,
        /// How a webhook entry calls it; `None` where no webhook configuration is known.
        client: Option<Client>,
        /// True if several entries name different Services and none is the profile's own.
        ambiguous: bool,
    },
    /// No webhook entry of it.
    NotInstalled,
    /// No webhook configuration carries the instance.
    NoInstance,
}

/// Finds one injector's webhook entry and so its Service.
pub fn locate(profile: &Profile, instance: Option<&str>, known: Known<'_>) -> Installation {
    let Some(configurations) = known else {
        let service = fallback(profile, instance);
        return Installation::At {
            service,
            client: None,
            ambiguous: false,
        };
    };
    match (&profile.instances, instance) {
        (Some(instances), Some(instance)) => {
            if !configurations
                .values()
                .any(|c| carried(instances, c).is_some())
            {
                return Installation::NotInstalled;
            }
            let carrier = instances.webhook_labels.iter().find_map(|label| {
                let carries = |c: &&WebhookConfiguration| {
                    carried(instances, c) == Some((label.as_str(), instance))
                };
                let clients = clients(profile, configurations.values().filter(carries));
                (!clients.is_empty()).then_some(clients)
            });
            carrier.map_or(Installation::NoInstance, |clients| {
                choose(profile, fallback(profile, Some(instance)), &clients)
            })
        }
        (Some(_) | None, _) => {
            let clients = clients(profile, configurations.values());
            if clients.is_empty() {
                return Installation::NotInstalled;
            }
            choose(profile, profile.service.clone(), &clients)
        }
    }
}

/// All instances that webhook configurations carry, for reports.
pub fn instances<'k>(instances: &Instances, known: Known<'k>) -> Vec<&'k str> {
    let configurations = known.into_iter().flat_map(BTreeMap::values);
    let carried = configurations.filter_map(|c| carried(instances, c));
    let mut names: Vec<&str> = carried.map(|(_, instance)| instance).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The label under which a configuration carries an instance, and the instance: the first of the
/// profile's labels that it has. The configuration of an Istio tag also names the revision that
/// the tag points to, but does not inject for that name.
fn carried<'c>(
    instances: &Instances,
    configuration: &'c WebhookConfiguration,
) -> Option<(&'c str, &'c str)> {
    let labels = instances.webhook_labels.iter();
    let mut found = labels.filter_map(|label| configuration.labels.get_key_value(label));
    found
        .next()
        .map(|(label, instance)| (label.as_str(), instance.as_str()))
}

fn fallback(profile: &Profile, instance: Option<&str>) -> ServiceName {
    match (&profile.instances, instance) {
        (Some(instances), Some(name)) if name != DEFAULT_INSTANCE => instances.fallback(name),
        (Some(_) | None, _) => profile.service.clone(),
    }
}

/// The profile's entries in these configurations. Configurations that carry an instance are the
/// injector's own, so that a profile with instances need not name its entries.
fn clients<'c>(
    profile: &Profile,
    configurations: impl Iterator<Item = &'c WebhookConfiguration>,
) -> Vec<&'c Client> {
    let is_named = |entry: &&WebhookEntry| {
        profile
            .webhook
            .as_ref()
            .is_none_or(|name| name.matches(&entry.name))
    };
    let has_path = |client: &&Client| match (&profile.path, client) {
        (Some(wanted), Client::Service { path, .. }) => path.as_deref().unwrap_or("/") == wanted,
        (Some(wanted), Client::Url(url)) => path_of(url) == wanted,
        (None, _) => true,
    };
    let entries = configurations.flat_map(|configuration| &configuration.entries);
    entries
        .filter(is_named)
        .map(|entry| &entry.client)
        .filter(has_path)
        .collect()
}

/// The path of a URL; `/` if it has none.
fn path_of(url: &str) -> &str {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let start = rest.find('/');
    start.and_then(|start| rest.get(start..)).unwrap_or("/")
}

/// The entry with the usual Service, else the profile's own, else the first: the caller reports several.
fn choose(profile: &Profile, usual: ServiceName, clients: &[&Client]) -> Installation {
    let service = |client: &Client| match client {
        Client::Service { service, .. } => Some(service.clone()),
        Client::Url(_) => None,
    };
    let with = |wanted: &ServiceName| {
        let is_wanted = |client: &&&Client| service(client).as_ref() == Some(wanted);
        clients.iter().find(is_wanted)
    };
    let own = with(&usual).or_else(|| with(&profile.service));
    let chosen = own.or_else(|| clients.first());
    let Some(chosen) = chosen else {
        return Installation::NotInstalled;
    };
    let differs = clients
        .iter()
        .any(|client| service(client) != service(chosen));
    Installation::At {
        ambiguous: differs && own.is_none(),
        service: service(chosen).unwrap_or(usual),
        client: Some((*chosen).clone()),
    }
}

#[cfg(test)]
#[path = "installation_tests.rs"]
mod tests;
