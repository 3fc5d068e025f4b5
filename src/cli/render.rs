//! `meshgate render`: what registers meshgate with a cluster, printed, with no cluster at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::certs::chain;
use crate::controllers::args::WebhookUrl;
use crate::injector::Injectors;
use crate::render::{self, Client, Enforcement, FailurePolicy, MirrorForm, Rendered, Settings};

use super::install_namespace::InstallNamespace;
use super::output::{self, Exit};
use super::{Done, configuration};

/// What is printed.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples, in a clone of the project:
  meshgate render registration --config examples/cluster/meshgate.yaml \\
    --service meshgate-system/meshgate
  meshgate render policy | kubectl apply --server-side --dry-run=server -f -

Notes about what was rendered go to standard error.")]
pub(super) enum Form {
    /// The webhook configurations and the mirror of annotations of namespaces
    ///
    /// In the order in which they are to be written: the empty ClusterRole that owns the rest, the
    /// mirror if an injector reads annotations of namespaces, the guard, the configurations.
    /// meshgate writes them itself in a cluster: this shows who would be asked about, and who not.
    Registration(RenderArgs),
    /// The check as policies that the API server evaluates itself: one per injector
    Policy(RenderArgs),
    /// All of it as manifests for the API server's own disk, which nothing in the API can weaken
    ///
    /// For an API server with ManifestBasedAdmissionControlConfig (alpha in Kubernetes 1.36, on by
    /// default in 1.37). Each admission plugin reads a folder of its own: documents name theirs, and
    /// --into writes them there, with the file for --admission-control-config-file.
    Static(StaticArgs),
}

/// Arguments of the static form.
#[derive(Debug, clap::Args)]
pub(super) struct StaticArgs {
    #[command(flatten)]
    render: RenderArgs,

    /// Write a folder per admission plugin and the file that names them, instead of printing. Its
    /// path on the machine of the API server must be the same
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    into: Option<PathBuf>,
}

/// Arguments of every form.
#[derive(Debug, clap::Args)]
pub(super) struct RenderArgs {
    /// The Configuration: which injectors count [default: all presets]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where the API server calls meshgate, without a path
    #[arg(long, value_name = "https://HOST:PORT", conflicts_with = "service")]
    webhook_url: Option<WebhookUrl>,

    /// The Service by which the API server calls meshgate [default: meshgate in --namespace]
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", value_parser = service)]
    service: Option<Client>,

    /// PEM of the CAs that verify meshgate's certificate; meshgate fills it in by itself otherwise
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    #[command(flatten)]
    install: InstallNamespace,

    /// Who makes the guarantee: the webhooks, or policies in the API server with a gate that never
    /// blocks
    #[arg(long, value_enum, default_value = "webhook")]
    enforcement: EnforcementArg,

    /// How annotations of namespaces become labels: by a policy (Kubernetes 1.36 and later) or by a
    /// webhook
    #[arg(long, value_enum, default_value = "policy")]
    mirror: MirrorArg,

    /// What becomes of a pod that should be asked about when meshgate cannot be called
    #[arg(long, value_enum, default_value = "fail")]
    failure_policy: FailurePolicyArg,

    /// A user that the guard lets change the registration; may be given more than once [default: the
    /// ServiceAccount meshgate-control in --namespace]
    #[arg(long = "writer", value_name = "USER")]
    writers: Vec<String>,

    /// YAML documents, or one List as JSON
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum EnforcementArg {
    Webhook,
    Policy,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum MirrorArg {
    Policy,
    Webhook,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FailurePolicyArg {
    Fail,
    Ignore,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Output {
    Yaml,
    Json,
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
    let injectors = match &args.config {
        Some(path) => configuration(path)?.1,
        None => Injectors::all_presets()?,
    };
    let settings = settings(args)?;
    let rendered = match form {
        Form::Registration(_) => render::registration(&injectors, &settings),
        Form::Policy(_) => Rendered {
            objects: render::policy::objects(&injectors, &settings),
            notes: Vec::new(),
        },
        Form::Static(_) => match render::static_manifests::objects(&injectors, &settings) {
            Ok(rendered) => rendered,
            Err(problem) => bail!("{problem}; give it by --webhook-url"),
        },
    };
    match form {
        Form::Static(StaticArgs {
            into: Some(directory),
            ..
        }) => write(&rendered, directory)?,
        Form::Static(_) => print(&rendered, true, args.output)?,
        Form::Registration(_) | Form::Policy(_) => print(&rendered, false, args.output)?,
    }
    for note in &rendered.notes {
        output::note(&note.to_string());
    }
    Ok(Exit::Fine)
}

/// A file per folder, and the one that names the folders.
fn write(rendered: &Rendered, directory: &Path) -> anyhow::Result<()> {
    let root = std::path::absolute(directory)?;
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    for object in &rendered.objects {
        let Some(folder) = render::static_manifests::folder(object) else {
            continue;
        };
        let text = files
            .entry(root.join(folder).join("meshgate.yaml"))
            .or_default();
        text.push_str(&format!("---\n{}", yaml(object)?));
    }
    // The plugins want their folders to exist, even those that stay empty.
    for folder in render::static_manifests::folders() {
        let path = root.join(folder);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
    }
    let configuration = render::static_manifests::admission_configuration(&root.display().to_string());
    files.insert(
        root.join("admission-configuration.yaml"),
        yaml(&configuration)?,
    );
    for (path, text) in files {
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn settings(args: &RenderArgs) -> anyhow::Result<Settings> {
    let client = match (&args.webhook_url, &args.service) {
        (Some(url), _) => Client::Url(url.to_string()),
        (None, Some(service)) => service.clone(),
        (None, None) => Client::Service {
            namespace: args.install.namespace.clone(),
            name: "meshgate".to_owned(),
            port: 443,
        },
    };
    let read = |path: &PathBuf| {
        let name = path.display();
        let pem =
            std::fs::read_to_string(path).with_context(|| format!("cannot read --ca {name}"))?;
        chain::read(pem.as_bytes()).with_context(|| format!("cannot use --ca {name}"))?;
        anyhow::Ok(pem)
    };
    let writers = if args.writers.is_empty() {
        vec![format!(
            "system:serviceaccount:{}:meshgate-control",
            args.install.namespace
        )]
    } else {
        args.writers.clone()
    };
    Ok(Settings {
        ca_bundle: args.ca.as_ref().map(read).transpose()?,
        failure_policy: match args.failure_policy {
            FailurePolicyArg::Fail => FailurePolicy::Fail,
            FailurePolicyArg::Ignore => FailurePolicy::Ignore,
        },
        enforcement: match args.enforcement {
            EnforcementArg::Webhook => Enforcement::Webhook,
            EnforcementArg::Policy => Enforcement::Policy,
        },
        mirror: match args.mirror {
            MirrorArg::Policy => MirrorForm::Policy,
            MirrorArg::Webhook => MirrorForm::Webhook,
        },
        writers,
        ..Settings::new(client, &args.install.namespace)
    })
}

fn print(rendered: &Rendered, is_static: bool, form: Output) -> anyhow::Result<()> {
    let Output::Yaml = form else {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": rendered.objects});
        return output::print(&(serde_json::to_string_pretty(&list)? + "\n"));
    };
    for object in &rendered.objects {
        let folder = if is_static {
            render::static_manifests::folder(object)
        } else {
            None
        };
        let comment = folder
            .map(|folder| format!("# {folder}/\n"))
            .unwrap_or_default();
        output::print(&format!("---\n{comment}{}", yaml(object)?))?;
    }
    Ok(())
}

/// Long conditions are folded at blanks.
fn yaml(object: &Value) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 110 };
    Ok(serde_saphyr::to_string_with_options(object, options)?)
}
