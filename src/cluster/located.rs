//! Where each injector is: computed once per change of webhook configurations and not once per
//! review. PURE, as the store.

use std::collections::BTreeMap;

use meshgate_core::injector::profile::{DEFAULT_INSTANCE, Profile, ServiceName};
use meshgate_core::readiness::installation::{self, Client, Installation, Known};

/// Where one injector is.
#[derive(Debug, Default)]
pub(super) struct Located {
    /// Of a profile without instances.
    pub(super) single: Option<Location>,
    /// Of a profile with instances: those that are known by name, and `default`.
    pub(super) instances: BTreeMap<String, Location>,
}

/// Where one instance is.
#[derive(Debug)]
pub(super) struct Location {
    /// What the webhook configurations say.
    pub(super) installation: Installation,
    /// `host:port` to probe; empty if it is not installed.
    pub(super) target: String,
}

impl Located {
    /// Looks an injector up. `services` has the `externalName` of each, empty for other types.
    pub(super) fn of(
        profile: &Profile,
        webhooks: Known<'_>,
        services: &BTreeMap<ServiceName, String>,
    ) -> Self {
        let at = |instance| Location::of(profile, instance, webhooks, services);
        let Some(instances) = &profile.instances else {
            return Self {
                single: Some(at(None)),
                instances: BTreeMap::new(),
            };
        };
        let mut names = installation::instances(instances, webhooks);
        names.push(DEFAULT_INSTANCE);
        let names = names.into_iter();
        let all = names.map(|name| (name.to_owned(), at(Some(name))));
        Self {
            single: None,
            instances: all.collect(),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Location> {
        self.single.iter().chain(self.instances.values())
    }

    /// The location of an instance that is known by name, or of a profile without instances.
    pub(super) fn at(&self, instance: Option<&str>) -> Option<&Location> {
        match instance {
            None => self.single.as_ref(),
            Some(name) => self.instances.get(name),
        }
    }
}

impl Location {
    fn of(
        profile: &Profile,
        instance: Option<&str>,
        webhooks: Known<'_>,
        services: &BTreeMap<ServiceName, String>,
    ) -> Self {
        let installation = installation::locate(profile, instance, webhooks);
        Self {
            target: target(&installation, services),
            installation,
        }
    }
}

/// See [`Location::target`].
fn target(installation: &Installation, services: &BTreeMap<ServiceName, String>) -> String {
    let Installation::At {
        service, client, ..
    } = installation
    else {
        return String::new();
    };
    let port = match client {
        Some(Client::Url(url)) => return authority(url),
        Some(Client::Service { port, .. }) => *port,
        None => 443,
    };
    match services.get(service).filter(|name| !name.is_empty()) {
        Some(external) => format!("{external}:{port}"),
        None => format!("{}.{}.svc:{port}", service.name, service.namespace),
    }
}

/// `host:port` of an `https:` URL.
fn authority(url: &str) -> String {
    let rest = url.strip_prefix("https://").unwrap_or(url);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let after_bracket = authority.rsplit(']').next().unwrap_or(authority);
    if after_bracket.contains(':') {
        authority.to_owned()
    } else {
        format!("{authority}:443")
    }
}
