//! `PodView`: the few fields of a pod that rules may read, borrowed from the request's bytes.
//!
//! Nothing else of the pod is looked at, so that fields of tomorrow's Kubernetes are nobody's
//! business (case 6). The same reader serves a raw request, a cached object and a file.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::injector::keys::{Keys, PodMarks};
use crate::injector::rule::Place;

use super::mark;

/// A text, borrowed from the JSON unless it holds escapes.
///
/// A plain `Cow` silently allocates inside `Option`, lists and maps; this newtype does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// A JSON object and nothing else: serde would read a struct out of a list as well, by the order
/// of its fields.
#[derive(Debug, Clone, Default)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer
            .deserialize_map(ObjectVisitor(PhantomData))
            .map(Self)
    }
}

/// What rules may read of a pod.
#[derive(Debug, Clone)]
pub struct PodView<'a> {
    fields: Arc<PodFields<'a>>,
    /// Our mark, as it came with the pod. Never believed (case 23).
    pub(super) mark: Option<Cow<'a, str>>,
    /// True if `kubernetes.io/config.mirror` is there.
    pub(super) mirrored: bool,
    /// The values of the keys that rules read.
    pub marks: PodMarks<'a>,
}

/// A container, in `containers` or `initContainers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container<'a> {
    /// Its name; empty if it has none.
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub name: Text<'a>,
    /// Its image; empty if it has none.
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub image: Text<'a>,
    #[serde(borrow, default)]
    restart_policy: Option<Text<'a>>,
}

impl Container<'_> {
    /// True for an init container that keeps running: a native sidecar (case 36).
    pub fn restarts_always(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// The fields of a pod that are decoded, before anything is made of them: what a reader of a
/// larger text decodes on its way.
#[derive(Debug, Clone, Deserialize)]
pub struct PodFields<'a> {
    #[serde(borrow)]
    metadata: Object<Metadata<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    spec: Object<Spec<'a>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    generate_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    labels: Option<Entries<'a>>,
    #[serde(borrow, default)]
    annotations: Option<Entries<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    owner_references: Vec<Owner<'a>>,
}

/// An owner of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Owner<'a> {
    /// `ReplicaSet`, `Job`, …
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub kind: Text<'a>,
    /// Its name.
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub name: Text<'a>,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(default)]
    host_network: Option<bool>,
    #[serde(borrow, default)]
    os: Option<Object<Os<'a>>>,
    #[serde(borrow, default)]
    node_selector: Option<Entries<'a>>,
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

/// `null` and a missing field mean the same to the API server.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

/// Most entries that a list or a map may have: far beyond what the API server stores, and few
/// enough that a body of empty entries takes no more memory than itself.
const MOST_ENTRIES: usize = 20_000;

/// A list in which `null`, for itself or an entry, is nothing, as in Go.
fn list<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<Vec<T>, D::Error> {
    struct ListVisitor<T>(PhantomData<T>);
    impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_unit<E: serde::de::Error>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(entry) = entries.next_element::<Option<Object<T>>>()? {
                not_too_many::<A::Error>(list.len())?;
                list.push(entry.unwrap_or_default().0);
            }
            Ok(list)
        }
    }
    d.deserialize_any(ListVisitor(PhantomData))
}

fn not_too_many<E: serde::de::Error>(count: usize) -> Result<(), E> {
    if count < MOST_ENTRIES {
        return Ok(());
    }
    Err(E::custom(format_args!(
        "more than {MOST_ENTRIES} entries in one list or map"
    )))
}

/// A map of texts whose values stay undecoded until somebody asks for one: an annotation may
/// hold a whole escaped manifest that no rule reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries<'a>(pub(super) Vec<(Text<'a>, RawText<'a>)>);

#[derive(Debug, Clone, Copy)]
pub(super) struct RawText<'a>(&'a RawValue);

impl<'a> RawText<'a> {
    /// The value; `null` is the empty text, as in Go.
    pub(super) fn decode(self) -> Result<Cow<'a, str>, serde_json::Error> {
        let text: Option<Text<'a>> = serde_json::from_str(self.0.get())?;
        Ok(text.map_or(Cow::Borrowed(""), |text| text.0))
    }
}

impl<'a> Entries<'a> {
    /// The last value of a key, as a JSON object given twice has it.
    fn get(&self, key: &str) -> Option<RawText<'a>> {
        self.0
            .iter()
            .rev()
            .find(|(own, _)| &**own == key)
            .map(|(_, value)| *value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<Text<'de>, &RawValue>()? {
                    if !value.get().starts_with(['"', 'n']) {
                        return Err(A::Error::custom(format_args!(
                            "the value of {} is no text (put it in quotes)",
                            &*key
                        )));
                    }
                    not_too_many::<A::Error>(entries.len())?;
                    entries.push((key, RawText(value)));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

const OS_LABEL: &str = "kubernetes.io/os";
const MIRROR: &str = "kubernetes.io/config.mirror";

impl<'a> PodView<'a> {
    /// Reads a pod from its JSON.
    ///
    /// # Errors
    /// The object is not a pod: `metadata` is missing or null (no patch would apply to it), or a
    /// field that rules read has another type than the API gives it.
    pub fn read(json: &'a str, keys: &Keys) -> Result<Self, serde_json::Error> {
        let Object(fields) = serde_json::from_str(json)?;
        Self::new(Arc::new(fields), keys)
    }

    /// The same from fields that were decoded elsewhere.
    ///
    /// # Errors
    /// A value that rules read is no text.
    pub fn new(fields: Arc<PodFields<'a>>, keys: &Keys) -> Result<Self, serde_json::Error> {
        let Metadata {
            labels,
            annotations,
            ..
        } = &fields.metadata.0;
        let mut marks = keys.pod_marks();
        let mut take = |place, entries: &Option<Entries<'a>>| {
            for (key, value) in entries.iter().flat_map(|entries| &entries.0) {
                if let Some(slot) = keys.slot(place, key) {
                    marks.set(slot, value.decode()?);
                }
            }
            Ok::<_, serde_json::Error>(())
        };
        take(Place::PodLabel, labels)?;
        take(Place::PodAnnotation, annotations)?;
        let annotation = |key| annotations.as_ref().and_then(|entries| entries.get(key));
        Ok(Self {
            mark: annotation(mark::KEY).map(RawText::decode).transpose()?,
            mirrored: annotation(MIRROR).is_some(),
            marks,
            fields,
        })
    }

    /// The name, or what it will begin with (case 3); empty if there is neither.
    pub fn display_name(&self) -> &str {
        let Metadata {
            name,
            generate_name,
            ..
        } = &self.fields.metadata.0;
        let mut names = [name, generate_name].into_iter().flatten();
        names.find(|name| !name.is_empty()).map_or("", |name| name)
    }

    /// The controller that owns it and will try again.
    pub fn owner(&self) -> Option<&Owner<'a>> {
        let owners = &self.fields.metadata.0.owner_references;
        owners.iter().find(|owner| owner.controller == Some(true))
    }

    /// False if `metadata.annotations` is missing or null.
    pub(super) fn has_annotations(&self) -> bool {
        self.fields.metadata.0.annotations.is_some()
    }

    fn spec(&self) -> &Spec<'a> {
        &self.fields.spec.0
    }

    /// `spec.containers`.
    pub fn containers(&self) -> &[Container<'a>] {
        &self.spec().containers
    }

    /// `spec.initContainers`.
    pub fn init_containers(&self) -> &[Container<'a>] {
        &self.spec().init_containers
    }

    /// `spec.hostNetwork`.
    pub fn host_network(&self) -> bool {
        self.spec().host_network == Some(true)
    }

    /// Windows by `spec.os` or by node selector (case 34).
    pub fn is_windows(&self) -> bool {
        let Spec {
            os, node_selector, ..
        } = self.spec();
        let by_os = os.as_ref().and_then(|os| os.0.name.as_deref());
        let by_selector = || node_selector.as_ref()?.get(OS_LABEL)?.decode().ok();
        by_os == Some("windows") || by_selector().as_deref() == Some("windows")
    }

    /// Looks like a Windows pod by node affinity or runtime class, which exempt nobody.
    pub fn hints_at_windows(&self) -> bool {
        let Spec {
            runtime_class_name,
            affinity,
            ..
        } = self.spec();
        let by_class = runtime_class_name.as_deref();
        by_class.is_some_and(|name| name.to_ascii_lowercase().contains("windows"))
            || affinity.is_some_and(|raw| affinity_wants_windows(raw.get()))
    }
}

/// Whether a required node affinity asks for Windows. Read generously: it only words a message.
fn affinity_wants_windows(affinity: &str) -> bool {
    let Ok(affinity) = serde_json::from_str::<serde_json::Value>(affinity) else {
        return false;
    };
    let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array();
    terms.into_iter().flatten().any(|term| {
        let expressions = term["matchExpressions"].as_array();
        expressions.into_iter().flatten().any(|expression| {
            let values = expression["values"].as_array();
            expression["key"] == OS_LABEL
                && expression["operator"] == "In"
                && values.into_iter().flatten().any(|value| value == "windows")
        })
    })
}
