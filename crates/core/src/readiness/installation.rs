//! Where an injector is: its webhook entries in the cluster, and the Service behind them.

use std::collections::{BTreeMap, BTreeSet};

use crate::injector::profile::{DEFAULT_INSTANCE, Instances, Profile, ServiceName};

/// One MutatingWebhookConfiguration, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhookConfiguration {
    /// `metadata.labels`: the value of one of them names a copy of an injector.
    pub labels: BTreeMap<String, String>,
    /// `webhooks`.
    pub entries: Vec<WebhookEntry>,
}

/// One entry of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEntry {
    /// `linkerd-proxy-injector.linkerd.io`.
    pub name: String,
    /// How the API server calls it.
    pub client: Client,
}

/// `clientConfig` of a webhook entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Client {
    /// By a Service.
    Service {
        /// Whose endpoints are called.
        service: ServiceName,
        /// 443 unless the entry names another.
        port: u16,
        /// `/` unless the entry names another.
        path: Option<String>,
    },
    /// By a URL.
    Url(String),
}

/// All webhook configurations, by name. `None`: meshgate has no source of them, so that it calls no
/// injector "not installed".
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
    let usual = usual_service(profile, instance);
    let Some(configurations) = known else {
        return Installation::At {
            service: usual,
            client: None,
            ambiguous: false,
        };
    };
    let all = || configurations.values();
    let (Some(instances), Some(instance)) = (&profile.instances, instance) else {
        return choose(profile, usual, &clients(profile, all()));
    };
    if !all().any(|one| carried(instances, one).is_some()) {
        return Installation::NotInstalled;
    }
    let mut clients = instances.webhook_labels.iter().map(|label| {
        let wanted = Some((label.as_str(), instance));
        clients(
            profile,
            all().filter(|one| carried(instances, one) == wanted),
        )
    });
    match clients.find(|clients| !clients.is_empty()) {
        Some(clients) => choose(profile, usual, &clients),
        None => Installation::NoInstance,
    }
}

/// Whether the cluster has an entry of the injector, of whichever copy.
pub fn is_installed(profile: &Profile, known: Known<'_>) -> bool {
    let instance = profile.instances.as_ref().map(|_| DEFAULT_INSTANCE);
    locate(profile, instance, known) != Installation::NotInstalled
}

/// The copy that injects for an instance: what the webhook configuration that carries the instance has under
/// the last of the profile's labels. An Istio tag stands for a revision. `None` if no configuration carries it.
pub fn revision<'k>(instances: &Instances, instance: &str, known: Known<'k>) -> Option<&'k str> {
    let configurations = known?;
    let mut labels = instances.webhook_labels.iter();
    let found = labels.find_map(|label| {
        let wanted = Some((label.as_str(), instance));
        let mut all = configurations.values();
        all.find(|one| carried(instances, one) == wanted)
    })?;
    let last = instances.webhook_labels.last()?;
    found.labels.get(last).map(String::as_str)
}

/// All instances that webhook configurations carry, for reports.
pub fn instances<'k>(instances: &Instances, known: Known<'k>) -> Vec<&'k str> {
    let configurations = known.into_iter().flat_map(BTreeMap::values);
    let carried = configurations.filter_map(|c| carried(instances, c));
    let names: BTreeSet<&str> = carried.map(|(_, instance)| instance).collect();
    names.into_iter().collect()
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

/// The Service behind an injector, or one copy of it, where no entry tells.
fn usual_service(profile: &Profile, instance: Option<&str>) -> ServiceName {
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
        let name = profile.webhook.as_ref();
        name.is_none_or(|name| name.matches(&entry.name))
    };
    let has_path = |client: &&Client| {
        let path = match client {
            Client::Service { path, .. } => path.as_deref().unwrap_or("/"),
            Client::Url(url) => path_of(url),
        };
        profile.path.as_deref().is_none_or(|wanted| wanted == path)
    };
    let entries = configurations.flat_map(|one| &one.entries).filter(is_named);
    entries
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

/// The entry with the usual Service, else the profile's own, else the first. Others may use an
/// entry of the same name, so that several without a known Service are ambiguous; the caller
/// reports that.
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
    let Some(chosen) = own.or_else(|| clients.first()) else {
        return Installation::NotInstalled;
    };
    let mut services = clients.iter().map(|client| service(client));
    let differ = services.any(|one| one != service(chosen));
    Installation::At {
        ambiguous: differ && own.is_none(),
        service: service(chosen).unwrap_or(usual),
        client: Some((*chosen).clone()),
    }
}

#[cfg(test)]
#[path = "installation_tests.rs"]
mod tests;
