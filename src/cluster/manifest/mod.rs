//! Files of Kubernetes objects: YAML or JSON, many documents, `List`s.

pub mod dir;

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use meshgate_core::config;
use meshgate_core::yaml::{self, Document, ParseError};

use crate::cluster::object::{Kind, Object, ObjectId};
use crate::kube_api::kind::group;

/// What a document of a file, or an item of a list, is.
#[derive(Debug)]
pub enum Item<'a> {
    /// The view holds its kind.
    Object(Object),
    /// meshgate's own configuration, not read yet.
    Configuration(Document<'a>),
    /// An object of another kind.
    Other {
        kind: String,
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

/// Reads a file. `origin` is its name; a name that ends in `.json` means JSON.
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
    let found = Found::of(&version, &kind).map_err(|problem| document.error(problem))?;
    items.push(match found {
        Found::Configuration => Item::Configuration(*document),
        Found::List => return read_list(document, items),
        Found::Object(kind) => Item::Object(named(document, parse(document, kind)?)?),
        Found::Other => Item::Other {
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
        let text = |at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or("");
        let kind = text("/kind").to_owned();
        let place = format!("items[{number}], {kind} {}", text("/metadata/name"));
        let problem =
            |problem: &dyn fmt::Display| document.error(format_args!("{place}: {problem}"));
        let found = Found::of(text("/apiVersion"), &kind);
        items.push(match found.map_err(|nearly| problem(&nearly))? {
            Found::Configuration => {
                let apart = "expected a Configuration as a document of its own";
                return Err(problem(&apart));
            }
            Found::Object(kind) => {
                let object = Object::deserialize(kind, value);
                let object = object.map_err(|error| problem(&error))?;
                Item::Object(named(document, object)?)
            }
            Found::List | Found::Other => Item::Other {
                kind,
                value,
                line: document.line(),
            },
        });
    }
    Ok(())
}

fn named(document: &Document<'_>, object: Object) -> Result<Object, ParseError> {
    let ObjectId { kind, name, .. } = object.id();
    if name.is_empty() {
        let problem = format!("expected metadata.name in this {}", kind.as_str());
        return Err(document.error(problem));
    }
    Ok(object)
}

/// With the place in errors, unlike [`Object::deserialize`].
fn parse(document: &Document<'_>, kind: Kind) -> Result<Object, ParseError> {
    Ok(match kind {
        Kind::Namespace => Object::Namespace(document.parse()?),
        Kind::Service => Object::Service(document.parse()?),
        Kind::EndpointSlice => Object::EndpointSlice(document.parse()?),
        Kind::Node => Object::Node(document.parse()?),
        Kind::Webhooks => Object::Webhooks(document.parse()?),
    })
}

/// What `apiVersion` and `kind` say.
enum Found {
    Configuration,
    Object(Kind),
    List,
    Other,
}

impl Found {
    /// # Errors
    /// It is meant to be one of the kinds that meshgate reads and is not: another version of it, another
    /// case. A user would look long for an object that is silently ignored.
    fn of(version: &str, kind: &str) -> Result<Self, String> {
        if kind == config::KIND && group(version) == group(config::API_VERSION) {
            // The configuration's own reader reports another version, with its place.
            return Ok(Self::Configuration);
        }
        let known = Kind::ALL.map(|own| (own.api_version(), own.as_str()));
        if let Some(at) = known.iter().position(|own| *own == (version, kind)) {
            return Ok(Self::Object(Kind::ALL[at]));
        }
        let configuration = (config::API_VERSION, config::KIND);
        let mut known = known.into_iter().chain([configuration]);
        let meant = known.find(|(own, own_kind)| {
            own_kind.eq_ignore_ascii_case(kind)
                && (group(own) == group(version) || *own_kind != kind)
        });
        let ours = (group(version) == group(config::API_VERSION)).then_some(configuration);
        if let Some((own, own_kind)) = meant.or(ours) {
            return Err(format!(
                "found {kind} of {version}, expected {own_kind} of {own}"
            ));
        }
        let is_list = kind.ends_with("List");
        Ok(if is_list { Self::List } else { Self::Other })
    }
}
