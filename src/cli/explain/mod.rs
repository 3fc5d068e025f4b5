//! `meshgate explain`: what the gate would answer for the pods in a file, and why.

mod answer;
mod explainer;
mod subject;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;

use crate::cluster::manifest::dir::ManifestDir;
use crate::cluster::manifest::{self, Item};
use crate::cluster::object::Object;
use crate::cluster::store::Store;

use super::install_namespace::OwnNamespace;
use super::output::{Done, Exit, OutputArgs};
use super::sources;

use self::answer::{Answer, Explained};
use self::explainer::Explainer;
use self::subject::Subject;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples, in a clone of the project:
  meshgate explain -f examples/pods/deployment-linkerd.yaml --state examples/cluster
  kubectl get deployment shop -o yaml | meshgate explain -f - --state examples/cluster -o json

Exit codes: 0 the gate would admit every pod, 1 the gate would refuse a pod or a value is invalid,
2 a namespace or the state of an injector is unknown.")]
pub(super) struct ExplainArgs {
    /// Pods, workloads with a pod template, Lists, admission reviews, Namespaces; - reads standard
    /// input (repeatable)
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filenames: Vec<PathBuf>,

    /// Directory of manifests that describe the cluster, as for serve --standalone
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// The Configuration, which names the injectors [default: the one in --state, else all presets]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Namespace of pods that do not name one
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    #[command(flatten)]
    own: OwnNamespace,

    #[command(flatten)]
    output: OutputArgs,
}

/// The content of the files.
#[derive(Default)]
struct Input {
    subjects: Vec<Subject>,
    namespaces: Vec<Object>,
    /// Objects without a pod, for the error when there is none.
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
    let mut explainer = Explainer {
        store: store(args)?,
        knows_state: args.state.is_some(),
    };
    for namespace in input.namespaces {
        explainer.store.apply(namespace);
    }
    explainer.store.settle();
    let subjects = input.subjects.iter();
    let answer = Answer {
        pods: subjects.map(|subject| explainer.explain(subject)).collect(),
    };
    args.output.print(&answer, || view::text(&answer.pods))?;
    let exits = answer.pods.iter().map(Explained::exit);
    Ok(exits.max().unwrap_or(Exit::Fine))
}

/// The cluster as the directory describes it; without one, an empty cluster.
fn store(args: &ExplainArgs) -> anyhow::Result<Store> {
    let given = sources::configuration_if_given(args.config.as_deref())?;
    if let Some(directory) = &args.state {
        let mut directory = ManifestDir::new(directory, given, &args.own.own_namespace);
        return sources::open(&mut directory);
    }
    let injectors = sources::or_presets(given)?;
    Ok(Store::new(Arc::new(
        injectors.excluding(&args.own.own_namespace),
    )))
}

fn read(path: &Path, default_namespace: &str, input: &mut Input) -> anyhow::Result<()> {
    let (name, bytes) = sources::file(path)?;
    for item in manifest::items(&name, &bytes)? {
        match item {
            Item::Object(object @ Object::Namespace(_)) => input.namespaces.push(object),
            Item::Object(object) => input
                .others
                .push(format!("a {}", object.id().kind.as_str())),
            Item::Configuration(_) => {
                bail!("found a Configuration in {name}: give it by --config");
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
