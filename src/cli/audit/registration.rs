//! What webhook configurations say: which injectors there are, and since when meshgate is armed.

use jiff::Timestamp;
use meshgate_core::audit::{Armed, written};
use meshgate_core::break_glass;
use meshgate_core::injector::Injectors;
use meshgate_core::names::{CONFIGURATION, POLICIES, asks_meshgate};
use meshgate_core::readiness::installation::is_installed;
use meshgate_core::view::metadata::MetadataView;
use serde_json::Value;

use crate::cluster::object::{Kind, Object};
use crate::cluster::store::Store;

/// The webhook configurations and policy bindings that were read.
#[derive(Debug, Default)]
pub(super) struct Registration {
    pub(super) webhooks: Vec<Object>,
    /// Whether all webhook configurations were read, so that what is missing does not exist.
    pub(super) is_whole: bool,
    /// Whether meshgate has a registration.
    pub(super) is_there: bool,
    /// When the armed objects of meshgate were created.
    armed: Vec<Timestamp>,
    /// When the note of a suspension was written, if that is known.
    pub(super) suspended: Option<Timestamp>,
}

impl Registration {
    /// Takes a MutatingWebhookConfiguration.
    ///
    /// # Errors
    /// It cannot be read as one.
    pub(super) fn take_webhooks(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let object = Object::from_json(Kind::Webhooks, json)?;
        if object.id().name == CONFIGURATION {
            let view = MetadataView::read(json)?;
            self.is_there = true;
            self.suspended = written(&view, break_glass::ANNOTATION);
            let is_armed = |one: &Value| {
                one["failurePolicy"] == "Fail" && one["name"].as_str().is_some_and(asks_meshgate)
            };
            let entries: Value = serde_json::from_str(json)?;
            if any(&entries["webhooks"], is_armed) {
                self.armed.push(view.created().unwrap_or(Timestamp::MIN));
            }
        }
        self.webhooks.push(object);
        Ok(())
    }

    /// Takes a ValidatingAdmissionPolicyBinding.
    ///
    /// # Errors
    /// It cannot be read as one.
    pub(super) fn take_binding(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let view = MetadataView::read(json)?;
        let binding: Value = serde_json::from_str(json)?;
        let denies = any(&binding["spec"]["validationActions"], |action| {
            action == "Deny"
        });
        if view.name().ends_with(POLICIES) && denies {
            self.armed.push(view.created().unwrap_or(Timestamp::MIN));
        }
        Ok(())
    }

    /// Whether nothing is armed, as far as it was read.
    pub(super) fn is_unarmed(&self) -> bool {
        self.armed.is_empty()
    }

    /// Since when something is armed.
    pub(super) fn armed(&self) -> Armed {
        match self.armed.iter().min() {
            Some(time) => Armed::NotBefore(*time),
            None if self.is_whole || !self.webhooks.is_empty() => Armed::Never,
            None => Armed::Unknown,
        }
    }

    /// The presets whose webhooks are there; `None` if there are none of any.
    pub(super) fn presets(&self) -> anyhow::Result<Option<Injectors>> {
        let all = Injectors::all_presets()?;
        let store = Store::with(all.into(), self.webhooks.iter().cloned());
        if store.known_webhooks().is_none() {
            return Ok(None);
        }
        let profiles = store.injectors().iter().map(|one| &one.profile);
        let installed = profiles.filter(|one| is_installed(one, store.known_webhooks()));
        let names: Vec<&str> = installed.map(|one| one.name.as_str()).collect();
        if names.is_empty() {
            return Ok(None);
        }
        Ok(Some(Injectors::of_presets(names)?))
    }
}

fn any(list: &Value, test: impl Fn(&Value) -> bool) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(test))
}
