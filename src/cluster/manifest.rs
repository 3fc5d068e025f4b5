//! Files of Kubernetes objects: YAML or JSON, many documents, `List`s.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config;
use crate::yaml::{self, Document, ParseError};

use super::object::Object;
use super::slim;

/// One thing found in a file.
#[derive(Debug)]
pub enum Item<'a> {
    /// An object that the view holds.
    Object(Object),
    /// meshgate's own configuration, not read yet.
    Configuration(Document<'a>),
    /// An object of another kind.
    Other {
        /// Its `kind`.
        kind: String,
        /// The whole of it.
        value: Value,
        /// The line in the file where its document begins, from 1.
        line: u64,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
}

/// Reads a file. `origin` is its name; JSON is told by the ending `.json`.
///
/// # Errors
/// The first problem, with file, line and column.
pub fn items<'a>(origin: &'a str, bytes: &'a [u8]) -> Result<Vec<Item<'a>>, ParseError> {
    let mut items = Vec::new();
    for document in yaml::documents(origin, bytes)? {
        read(&document, &mut items)?;
    }
    Ok(items)
}

fn read<'a>(document: &Document<'a>, items: &mut Vec<Item<'a>>) -> Result<(), ParseError> {
    let header: Header = document.parse()?;
    let (Some(version), Some(kind)) = (header.api_version, header.kind) else {
        return Err(document.error("expected a Kubernetes object with apiVersion and kind"));
    };
    if kind == config::KIND && version.starts_with("meshgate.io/") {
        items.push(Item::Configuration(*document));
        return Ok(());
    }
    if let Some(problem) = nearly_right(&version, &kind) {
        return Err(document.error(problem));
    }
    if kind.ends_with("List") {
        return read_list(document, items);
    }
    items.push(match reader(&version, &kind) {
        Some(reader) => Item::Object(named(document, (reader.typed)(document)?)?),
        None => Item::Other {
            kind,
            value: document.parse()?,
            line: document.line(),
        },
    });
    Ok(())
}

fn read_list<'a>(document: &Document<'a>, items: &mut Vec<Item<'a>>) -> Result<(), ParseError> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        items: Option<Vec<Value>>,
    }
    let list: List = document.parse()?;
    for (number, value) in list.items.into_iter().flatten().enumerate() {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        let name = value
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let place = format!("items[{number}], {kind} {name}");
        if kind == config::KIND && version.starts_with("meshgate.io/") {
            let problem = format!("{place}: expected a Configuration as a document of its own");
            return Err(document.error(problem));
        }
        if let Some(problem) = nearly_right(&version, &kind) {
            return Err(document.error(format_args!("{place}: {problem}")));
        }
        items.push(match reader(&version, &kind) {
            Some(reader) => {
                let read = (reader.untyped)(value);
                let object =
                    read.map_err(|error| document.error(format_args!("{place}: {error}")))?;
                Item::Object(named(document, object)?)
            }
            None => Item::Other {
                kind,
                value,
                line: document.line(),
            },
        });
    }
    Ok(())
}

fn named(document: &Document<'_>, object: Object) -> Result<Object, ParseError> {
    let (kind, _, name) = object.id();
    if name.is_empty() {
        let problem = format!("expected metadata.name in this {}", kind.as_str());
        return Err(document.error(problem));
    }
    Ok(object)
}

/// The kinds that the view holds, with their versions.
const KINDS: [(&str, &str); 6] = [
    ("v1", "Namespace"),
    ("v1", "Service"),
    ("v1", "Node"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    (
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
    ),
    (config::API_VERSION, config::KIND),
];

/// What is wrong with a kind that is meant to be one of ours and is not: another version of it,
/// another case. An object that is silently not looked at would be looked for long.
fn nearly_right(version: &str, kind: &str) -> Option<String> {
    let group = |version: &str| {
        version
            .rsplit_once('/')
            .map_or("", |(group, _)| group)
            .to_owned()
    };
    let same_group = |own: &str| group(own) == group(version);
    let meant = KINDS.into_iter().find(|(own, own_kind)| {
        own_kind.eq_ignore_ascii_case(kind) && (same_group(own) || *own_kind != kind)
    });
    let ours = same_group(config::API_VERSION).then_some((config::API_VERSION, config::KIND));
    let (own, own_kind) = meant.or(ours)?;
    let is_right = own == version && own_kind == kind;
    // Another version of the configuration is told by its own reader, with its place.
    let is_configuration = kind == config::KIND && group(version) == group(config::API_VERSION);
    if is_right || is_configuration {
        return None;
    }
    Some(format!(
        "found {kind} of {version}, expected {own_kind} of {own}"
    ))
}

/// How one kind is read: from a document, with places in errors, or from an item of a list.
struct Reader {
    typed: fn(&Document<'_>) -> Result<Object, ParseError>,
    untyped: fn(Value) -> Result<Object, serde_json::Error>,
}

/// The kinds that the view holds.
fn reader(version: &str, kind: &str) -> Option<Reader> {
    macro_rules! of {
        ($variant:ident: $type:ty) => {
            Some(Reader {
                typed: |document| parse::<$type>(document).map(Object::$variant),
                untyped: |value| serde_json::from_value::<$type>(value).map(Object::$variant),
            })
        };
    }
    match (version, kind) {
        ("v1", "Namespace") => of!(Namespace: slim::Namespace),
        ("v1", "Service") => of!(Service: slim::Service),
        ("v1", "Node") => of!(Node: slim::Node),
        ("discovery.k8s.io/v1", "EndpointSlice") => of!(EndpointSlice: slim::EndpointSlice),
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration") => {
            of!(Webhooks: slim::MutatingWebhookConfiguration)
        }
        _ => None,
    }
}

fn parse<T: DeserializeOwned>(document: &Document<'_>) -> Result<T, ParseError> {
    document.parse()
}
