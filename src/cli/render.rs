//! `meshgate render`: prints the registration, from a configuration alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use meshgate_core::names::CONTROL;
use meshgate_core::render::{
    self, Client, FailurePolicy, MirrorForm, Rendered, Settings, static_manifests,
};
use serde_json::{Value, json};

use crate::certs::chain;
use crate::controllers::args::{EnforcementArg, WebhookUrl};

use super::install_namespace::InstallNamespace;
use super::output::{self, Done, Exit};
use super::sources;

/// The object to print.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples, in a clone of the project:
  meshgate render registration --config examples/cluster/meshgate.yaml \\
    --service meshgate-system/meshgate
  meshgate render policy | kubectl apply --server-side --dry-run=server -f -

Notes about the rendered objects go to standard error.")]
pub(super) enum Form {
    /// The webhook configurations, their guard and the mirror of namespace annotations
    ///
    /// Objects are in the order in which they must be written: the empty ClusterRole that owns the
    /// rest, the guard, the mirror if an injector reads annotations of namespaces, the webhook
    /// configurations. In a cluster meshgate writes them itself. This command shows which pods the
    /// webhooks select.
    Registration(RenderArgs),
    /// The check as policies that the API server evaluates itself, one per injector
    Policy(RenderArgs),
    /// Everything as manifests on the API server's disk, which no API call can weaken
    ///
    /// For an API server with ManifestBasedAdmissionControlConfig (alpha in Kubernetes 1.36, on by
    /// default in 1.37). Each admission plugin reads a directory of its own. A comment above each
    /// document names its directory. --into writes the directories, and the file for
    /// --admission-control-config-file.
    Static(StaticArgs),
}

/// Arguments of the static form.
#[derive(Debug, clap::Args)]
pub(super) struct StaticArgs {
    #[command(flatten)]
    render: RenderArgs,

    /// Write a directory per admission plugin and the file that names them, instead of printing. On
    /// the API server's machine they must have the same path
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    into: Option<PathBuf>,
}

/// Arguments of every form.
#[derive(Debug, clap::Args)]
pub(super) struct RenderArgs {
    /// The Configuration, which names the injectors [default: all presets]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Address at which the API server calls meshgate, without a path
    #[arg(long, value_name = "https://HOST:PORT", conflicts_with = "service")]
    webhook_url: Option<WebhookUrl>,

    /// Service through which the API server calls meshgate [default: meshgate in --namespace]
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", value_parser = service)]
    service: Option<Client>,

    /// PEM file of the CAs that verify meshgate's certificate [default: no caBundle; in a cluster
    /// meshgate fills it in]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    #[command(flatten)]
    install: InstallNamespace,

    /// What refuses a pod without its sidecar
    #[arg(long, value_enum, value_name = "MECHANISM", default_value_t)]
    enforcement: EnforcementArg,

    /// What turns annotations of namespaces into labels: a MutatingAdmissionPolicy (Kubernetes 1.36
    /// and later) or a webhook
    #[arg(
        long,
        value_name = "MECHANISM",
        default_value = "policy",
        value_parser = one_of([("policy", MirrorForm::Policy), ("webhook", MirrorForm::Webhook)])
    )]
    mirror: MirrorForm,

    /// What the API server does with a selected pod when it cannot call meshgate
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "fail",
        value_parser = one_of([("fail", FailurePolicy::Fail), ("ignore", FailurePolicy::Ignore)])
    )]
    failure_policy: FailurePolicy,

    /// User whom the guard allows to change the registration (repeatable) [default: the
    /// ServiceAccount meshgate-control in --namespace]
    #[arg(long = "writer", value_name = "USER")]
    writers: Vec<String>,

    /// YAML documents, or one List as JSON
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "yaml",
        value_parser = one_of([("yaml", Output::Documents), ("json", Output::List)])
    )]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// In YAML.
    Documents,
    /// In JSON.
    List,
}

/// Parses one of two words to its value.
fn one_of<T: Copy + Send + Sync + 'static>(
    words: [(&'static str, T); 2],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.map(|(word, _)| word)).try_map(move |given| {
        let found = words.iter().find(|(word, _)| *word == given);
        found.map(|(_, value)| *value).ok_or("unknown value")
    })
}

fn service(text: &str) -> Result<Client, String> {
    let expected = || "expected NAMESPACE/NAME or NAMESPACE/NAME:PORT".to_owned();
    let (namespace, rest) = text.split_once('/').ok_or_else(expected)?;
    let (name, port) = rest.split_once(':').unwrap_or((rest, "443"));
    let port = port.parse().map_err(|_| expected())?;
    if namespace.is_empty() || name.is_empty() || port == 0 {
        return Err(expected());
    }
    Ok(Client::Service {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        port,
    })
}

pub(super) fn run(form: &Form) -> Done {
    let args = match form {
        Form::Registration(args) | Form::Policy(args) => args,
        Form::Static(args) => &args.render,
    };
    let given = sources::configuration_if_given(args.config.as_deref())?;
    let injectors = sources::or_presets(given)?;
    let settings = settings(args)?;
    let rendered = match form {
        Form::Registration(_) => render::registration(&injectors, &settings),
        Form::Policy(_) => Rendered {
            objects: render::policy::objects(&injectors, &settings),
            notes: Vec::new(),
        },
        Form::Static(_) => match static_manifests::objects(&injectors, &settings) {
            Ok(rendered) => rendered,
            Err(problem) => bail!("{problem}; give it by --webhook-url"),
        },
    };
    let objects = &rendered.objects;
    match form {
        Form::Static(StaticArgs { into: Some(to), .. }) => write(objects, to)?,
        Form::Static(_) => print(objects, args.output, static_manifests::folder)?,
        Form::Registration(_) | Form::Policy(_) => print(objects, args.output, |_| None)?,
    }
    for note in &rendered.notes {
        output::note(&note.to_string());
    }
    Ok(Exit::Fine)
}

/// Writes a file per directory, and the one that names the directories.
fn write(objects: &[Value], root: &Path) -> anyhow::Result<()> {
    let root = std::path::absolute(root)?;
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    for object in objects {
        if let Some(folder) = static_manifests::folder(object) {
            let file = files.entry(root.join(folder).join("meshgate.yaml"));
            file.or_default()
                .push_str(&format!("---\n{}", yaml(object)?));
        }
    }
    // Each plugin wants its directory to exist, even an empty one.
    for folder in static_manifests::folders() {
        let path = root.join(folder);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
    }
    let configuration = static_manifests::admission_configuration(&root.display().to_string());
    let file = root.join("admission-configuration.yaml");
    files.insert(file, yaml(&configuration)?);
    for (path, text) in files {
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn settings(args: &RenderArgs) -> anyhow::Result<Settings> {
    let namespace = &args.install.namespace;
    let client = match (&args.webhook_url, &args.service) {
        (Some(url), _) => Client::Url(url.to_string()),
        (None, Some(service)) => service.clone(),
        (None, None) => Client::Service {
            namespace: namespace.clone(),
            name: "meshgate".to_owned(),
            port: 443,
        },
    };
    let writers = match args.writers.as_slice() {
        [] => vec![format!("system:serviceaccount:{namespace}:{CONTROL}")],
        writers => writers.to_vec(),
    };
    Ok(Settings {
        ca_bundle: args.ca.as_deref().map(ca_bundle).transpose()?,
        failure_policy: args.failure_policy,
        enforcement: args.enforcement.into(),
        mirror: args.mirror,
        writers,
        ..Settings::new(client, namespace)
    })
}

fn ca_bundle(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    let pem = std::fs::read_to_string(path).with_context(|| format!("cannot read --ca {name}"))?;
    chain::read(pem.as_bytes()).with_context(|| format!("cannot use --ca {name}"))?;
    Ok(pem)
}

/// Prints the objects, each below a comment that names its directory if it has one.
fn print(
    objects: &[Value],
    output: Output,
    folder: fn(&Value) -> Option<&'static str>,
) -> anyhow::Result<()> {
    if output == Output::List {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        return output::print(&(serde_json::to_string_pretty(&list)? + "\n"));
    }
    for object in objects {
        let comment = folder(object).map(|folder| format!("# {folder}/\n"));
        let comment = comment.unwrap_or_default();
        output::print(&format!("---\n{comment}{}", yaml(object)?))?;
    }
    Ok(())
}

/// Folds long conditions at blanks.
fn yaml(object: &Value) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 110 };
    Ok(serde_saphyr::to_string_with_options(object, options)?)
}
