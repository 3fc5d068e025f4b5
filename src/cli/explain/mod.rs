//! `meshgate explain`: what would become of the pods in a file, and why, by the server's own
//! rules.

mod report;
mod subject;
mod view;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};

use crate::cluster::folder::Folder;
use crate::cluster::manifest::{self, Item};
use crate::cluster::object::Object;
use crate::cluster::store::Store;
use crate::injector::Injectors;

use super::install_namespace;
use super::output::{self, Exit, Format};
use super::{Done, configuration};

use self::subject::Subject;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples, in a clone of the project:
  meshgate explain -f examples/pods/deployment-linkerd.yaml --state examples/cluster
  kubectl get deployment shop -o yaml | meshgate explain -f - --state examples/cluster -o json

Exit codes: 0 the gate would admit every pod; 1 it would refuse one, or a value is invalid;
2 a namespace or the state of an injector is unknown, so that nobody can tell.")]
pub(super) struct ExplainArgs {
    /// Pods, anything with a pod template, Lists, admission reviews, Namespaces; - is standard
    /// input. May be given more than once
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filenames: Vec<PathBuf>,

    /// Folder of manifests that describes the cluster, as for serve --standalone
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// The Configuration: which injectors count [default: the one in DIR, else all presets]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The namespace of pods that do not name one
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,

    /// meshgate's own namespace, whose pods are never looked at
    #[arg(
        long,
        value_name = "NAME",
        env = install_namespace::ENV,
        default_value = install_namespace::DEFAULT
    )]
    own_namespace: String,

    /// The form of the answer
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// What the files say.
#[derive(Default)]
struct Input {
    subjects: Vec<Subject>,
    namespaces: Vec<Object>,
    /// What holds no pod, to say so.
    others: Vec<String>,
}

pub(super) fn run(args: &ExplainArgs) -> Done {
    let mut input = Input::default();
    for path in &args.filenames {
        read(path, &args.namespace, &mut input)?;
    }
    if input.subjects.is_empty() {
        let found = match input.others.as_slice() {
            [] => "nothing else".to_owned(),
            others => others.join(", "),
        };
        bail!("found no pod and nothing with a pod template (found {found})");
    }
    let (mut store, knows_state) = state(args)?;
    for namespace in input.namespaces {
        store.apply(namespace);
    }
    store.settle();
    let explained = input
        .subjects
        .iter()
        .map(|subject| report::of(subject, &store, knows_state));
    let explained: Vec<_> = explained.collect();
    match args.output {
        Format::Table => output::print(&view::text(&explained))?,
        format @ (Format::Json | Format::Yaml) => {
            output::print_value(format, &report::Document::new(&explained))?;
        }
    }
    Ok(explained
        .iter()
        .map(report::Explained::exit)
        .max()
        .unwrap_or(Exit::Fine))
}

/// The cluster as the folder describes it; without one the rules alone are known.
fn state(args: &ExplainArgs) -> anyhow::Result<(Store, bool)> {
    let given = args.config.as_deref().map(configuration).transpose()?;
    let Some(folder) = &args.state else {
        let injectors = match given {
            Some((_, injectors)) => injectors,
            None => Injectors::all_presets()?,
        };
        let injectors = injectors.excluding(&args.own_namespace);
        return Ok((Store::new(Arc::new(injectors)), false));
    };
    let opened = Folder::new(folder, given, &args.own_namespace).open();
    let store = opened.map_err(|problems| super::serve::problems(&problems))?;
    Ok((store, true))
}

fn read(path: &Path, default_namespace: &str, input: &mut Input) -> anyhow::Result<()> {
    let (name, bytes) = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .context("cannot read standard input")?;
        ("standard input".to_owned(), bytes)
    } else {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
        (name, bytes)
    };
    for item in manifest::items(&name, &bytes)? {
        match item {
            Item::Object(object @ Object::Namespace(_)) => input.namespaces.push(object),
            Item::Object(object) => input.others.push(format!("a {}", object.id().0.as_str())),
            Item::Configuration(_) => {
                return Err(anyhow!(
                    "found a Configuration in {name}: give it by --config"
                ));
            }
            Item::Other { kind, value, line } => {
                let origin = format!("{name}:{line}");
                match Subject::of(&kind, &value, &origin, default_namespace)? {
                    Some(subject) => input.subjects.push(subject),
                    None => input.others.push(format!("a {kind}")),
                }
            }
        }
    }
    Ok(())
}
