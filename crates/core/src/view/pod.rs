//! `PodView`: the few fields of a pod that rules may read.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::injector::keys::Keys;
use crate::injector::rule::Place;
use crate::injector::values::PodValues;
use crate::names;

use super::json::{EachText, Flag, Object, Parts, RawText, Reading, Text};
use super::json::{any_at, is_text, list, list_of, or_default, read};

/// What rules may read of a pod.
#[derive(Debug, Clone, Default)]
pub struct PodView<'a> {
    name: Option<Text<'a>>,
    generate_name: Option<Text<'a>>,
    controllers: Vec<Owner<'a>>,
    has_annotations: bool,
    spec: Spec<'a>,
    /// meshgate's mark, as it came with the pod. Never believed (case 23): any user can write it.
    pub(crate) mark: Option<Cow<'a, str>>,
    /// True if `kubernetes.io/config.mirror` is there.
    pub(crate) mirrored: bool,
    /// The values of the keys that rules read.
    pub values: PodValues<'a>,
}

/// A container, in `containers` or `initContainers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container<'a> {
    /// Empty if it has none: the API server refuses such a pod later.
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub name: Text<'a>,
    /// Empty if it has none.
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub image: Text<'a>,
    #[serde(default, rename = "restartPolicy", deserialize_with = "is_always")]
    restarts_always: bool,
}

impl Container<'_> {
    /// True for an init container that keeps running: a native sidecar (case 36).
    pub fn restarts_always(&self) -> bool {
        self.restarts_always
    }
}

fn is_always<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    let policy = Option::<Text<'de>>::deserialize(d)?;
    Ok(policy.is_some_and(|policy| &*policy == "Always"))
}

/// An owner of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Owner<'a> {
    /// `ReplicaSet`, `Job`, …
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub kind: Text<'a>,
    /// In the pod's namespace, or in none.
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub name: Text<'a>,
    #[serde(default)]
    controller: Flag,
}

/// Those owners that are controllers.
#[derive(Deserialize)]
#[serde(transparent)]
struct Controllers<'a>(#[serde(borrow, deserialize_with = "controllers")] Vec<Owner<'a>>);

fn controllers<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Owner<'de>>, D::Error> {
    list_of(d, |owner: &Owner<'de>| owner.controller.0)
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(default)]
    host_network: Flag,
    #[serde(borrow, default)]
    os: Option<Object<Os<'a>>>,
    #[serde(default, rename = "nodeSelector", deserialize_with = "selects_windows")]
    selects_windows: bool,
    #[serde(borrow, default, deserialize_with = "list")]
    containers: Vec<Container<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    init_containers: Vec<Container<'a>>,
    /// Kept raw: only a refusal looks into it.
    #[serde(borrow, default)]
    affinity: Option<&'a RawValue>,
    #[serde(borrow, default)]
    runtime_class_name: Option<Text<'a>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Os<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
}

/// The last value of a key counts; one that is no text is not Windows.
fn selects_windows<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    let mut windows = false;
    let mut each = EachText::new(|key: &str, value: RawText<'de>| {
        if key == names::OS {
            windows = value.decode().is_ok_and(|os| os == "windows");
        }
        Ok(())
    });
    Reading(&mut each).deserialize(d)?;
    Ok(windows)
}

/// Takes a pod out of a larger text on the way: its bytes are looked at once, and of labels and
/// annotations only those that rules read are kept.
#[derive(Debug)]
pub struct PodParts<'k, 'a> {
    keys: &'k Keys,
    has_metadata: bool,
    pod: PodView<'a>,
}

impl<'k, 'a> PodParts<'k, 'a> {
    /// Before the first part; `keys` are those that rules read.
    pub fn new(keys: &'k Keys) -> Self {
        let pod = PodView {
            values: keys.pod_values(),
            ..PodView::default()
        };
        let has_metadata = false;
        Self {
            keys,
            has_metadata,
            pod,
        }
    }

    /// The pod that was read.
    ///
    /// # Errors
    /// It had no metadata: no patch would apply to it.
    pub fn pod<E: Error>(self) -> Result<PodView<'a>, E> {
        if !self.has_metadata {
            return Err(E::missing_field("metadata"));
        }
        Ok(self.pod)
    }
}

impl<'de> Parts<'de> for PodParts<'_, 'de> {
    const EXPECTED: &'static str = "a pod";
    const ONCE: &'static [&'static str] = &["metadata", "spec"];
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "metadata" => {
                let mut metadata = Metadata(self.keys, &mut self.pod);
                self.has_metadata = map.next_value_seed(Reading(&mut metadata))?;
            }
            "spec" => {
                let spec: Option<Object<Spec<'de>>> = map.next_value()?;
                self.pod.spec = spec.unwrap_or_default().0;
            }
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

struct Metadata<'k, 'p, 'a>(&'k Keys, &'p mut PodView<'a>);

impl<'de> Parts<'de> for Metadata<'_, '_, 'de> {
    const EXPECTED: &'static str = "an object";
    const ONCE: &'static [&'static str] = &[
        "name",
        "generateName",
        "labels",
        "annotations",
        "ownerReferences",
    ];
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let Self(keys, pod) = self;
        match key {
            "name" => pod.name = map.next_value()?,
            "generateName" => pod.generate_name = map.next_value()?,
            "ownerReferences" => pod.controllers = map.next_value::<Controllers<'de>>()?.0,
            "labels" | "annotations" => {
                let is_label = key == "labels";
                let place = if is_label {
                    Place::PodLabel
                } else {
                    Place::PodAnnotation
                };
                let mut each = EachText::new(|key: &str, value: RawText<'de>| {
                    if !is_label && key == names::ADMITTED {
                        pod.mark = Some(value.decode()?);
                    }
                    pod.mirrored |= !is_label && key == names::MIRROR_POD;
                    if let Some(slot) = keys.slot(place, key) {
                        pod.values.set(slot, value.decode()?);
                    }
                    Ok(())
                });
                let is_there = map.next_value_seed(Reading(&mut each))?;
                pod.has_annotations |= is_there && !is_label;
            }
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<'a> PodView<'a> {
    /// Reads a pod from its JSON.
    ///
    /// # Errors
    /// The object is not a pod: `metadata` is missing or null (no patch would apply to it), or a
    /// field that rules read has another type than the API gives it.
    pub fn read(json: &'a str, keys: &Keys) -> Result<Self, serde_json::Error> {
        let mut parts = PodParts::new(keys);
        read(json, &mut parts)?;
        parts.pod()
    }

    /// What decisions read of it and no more, in the shape of a pod: gate and check say the same about what
    /// [`PodView::read`] makes of this. Names, owners and hints that only word a message are left out.
    pub fn compact(&self, keys: &Keys) -> Value {
        let read = |place| {
            let own = keys.iter().filter(move |key| key.place == place);
            let own = own.filter_map(|key| {
                let value = self.values.get(keys.slot(place, &key.name)?)?;
                Some((key.name.clone(), json!(value)))
            });
            own.collect::<Map<_, _>>()
        };
        let container = |one: &Container<'_>| {
            let mut own = json!({"name": &*one.name, "image": &*one.image});
            if one.restarts_always {
                own["restartPolicy"] = json!("Always");
            }
            own
        };
        let containers = |all: &[Container<'_>]| all.iter().map(container).collect::<Value>();
        let mut annotations = read(Place::PodAnnotation);
        if self.mirrored {
            annotations.insert(names::MIRROR_POD.to_owned(), json!(""));
        }
        let mut pod =
            json!({"metadata": {}, "spec": {"containers": containers(self.containers())}});
        for (field, map) in [
            ("labels", read(Place::PodLabel)),
            ("annotations", annotations),
        ] {
            if !map.is_empty() {
                pod["metadata"][field] = Value::Object(map);
            }
        }
        if !self.init_containers().is_empty() {
            pod["spec"]["initContainers"] = containers(self.init_containers());
        }
        if self.host_network() {
            pod["spec"]["hostNetwork"] = json!(true);
        }
        if self.is_windows() {
            pod["spec"]["os"] = json!({"name": "windows"});
        }
        pod
    }

    /// The name, or what it will begin with (case 3); empty if there is neither.
    pub fn display_name(&self) -> &str {
        let names = [&self.name, &self.generate_name];
        let mut names = names.into_iter().flatten();
        names.find(|name| !name.is_empty()).map_or("", |name| name)
    }

    /// The controller that owns it and will try again.
    pub fn owner(&self) -> Option<&Owner<'a>> {
        self.controllers.first()
    }

    /// False if `metadata.annotations` is missing or null.
    pub(crate) fn has_annotations(&self) -> bool {
        self.has_annotations
    }

    /// `spec.containers`.
    pub fn containers(&self) -> &[Container<'a>] {
        &self.spec.containers
    }

    /// `spec.initContainers`.
    pub fn init_containers(&self) -> &[Container<'a>] {
        &self.spec.init_containers
    }

    /// `spec.hostNetwork`.
    pub fn host_network(&self) -> bool {
        self.spec.host_network.0
    }

    /// Windows by `spec.os` or by node selector (case 34).
    pub fn is_windows(&self) -> bool {
        let by_os = self.spec.os.as_ref().and_then(|os| os.0.name.as_deref());
        by_os == Some("windows") || self.spec.selects_windows
    }

    /// Looks like a Windows pod by node affinity or runtime class, which exempt no pod: only a
    /// refusal mentions it.
    pub fn hints_at_windows(&self) -> bool {
        let spec = &self.spec;
        let by_class = spec.runtime_class_name.as_deref();
        by_class.is_some_and(|name| name.to_ascii_lowercase().contains("windows"))
            || spec
                .affinity
                .is_some_and(|raw| affinity_wants_windows(raw.get()))
    }
}

/// Where a pod's affinity says which nodes it must have.
const REQUIRED: [&str; 4] = [
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "matchExpressions",
];

/// Whether a required node affinity asks for Windows. Read generously: it only words a message.
fn affinity_wants_windows(affinity: &str) -> bool {
    #[derive(Deserialize)]
    struct Expression<'a> {
        #[serde(borrow)]
        key: Text<'a>,
        #[serde(borrow)]
        operator: Text<'a>,
        #[serde(borrow)]
        values: &'a RawValue,
    }
    let is_windows = |value: &RawValue| is_text(value, "windows");
    any_at(affinity, &REQUIRED, &|entry| {
        let expression = serde_json::from_str::<Object<Expression<'_>>>(entry.get());
        expression.is_ok_and(|Object(own)| {
            let is_about_os = &*own.key == names::OS && &*own.operator == "In";
            is_about_os && any_at(own.values.get(), &[], &is_windows)
        })
    })
}
