//! A real istiod: installed as `istioctl` prints it, and run by the lab instead of by a Deployment.
//!
//! Two things differ from a cluster. Its Service is an ExternalName for this machine, since there
//! is no service network; the API server calls it by the Service's name all the same. And no test
//! keeps its EndpointSlice: a test writes it, see [`Lab::endpoint`].

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use super::supervisor::built;
use super::{Guest, Lab, PATIENCE, UNGUARDED, User, pod, within};

const NAMESPACE: &str = "istio-system";

/// What manifests have and a lab has not: nothing runs the Deployment, and the validation of
/// Istio's own objects does not matter here.
const NOT_HERE: [&str; 4] = [
    "DaemonSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "ValidatingWebhookConfiguration",
];

/// Two revisions share them.
const KINDS: &str = "CustomResourceDefinition";

/// One installed revision. It runs between `start` and `stop`, and ends with the lab.
pub(crate) struct Istiod<'l> {
    lab: &'l Lab,
    revision: &'static str,
    https: u16,
    folder: PathBuf,
    guest: String,
}

impl<'l> Istiod<'l> {
    /// Installs a revision (`default` is the one without a name) with more settings
    /// (`components.cni.enabled=true`), stopped. After the first one the
    /// CustomResourceDefinitions are there and are left alone.
    pub(crate) async fn install(lab: &'l Lab, revision: &'static str, more: &[&str]) -> Self {
        lab.ensure_namespace(NAMESPACE).await;
        lab.ensure_namespace(UNGUARDED).await;
        let [https] = lab.ports().await;
        let istiod = Self {
            lab,
            revision,
            https,
            folder: lab.folder_of(&format!("istiod-{revision}")),
            guest: String::new(),
        };
        let installed = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let installed = format!("{installed}/sidecars.networking.istio.io");
        let is_first = lab.get(&installed).await.is_none();
        let text = istiod.manifest(more).await;
        let without = if is_first { None } else { Some(KINDS) };
        let documents = istiod.adapted(&text, without);
        lab.apply_whole(&documents).await;
        istiod
    }

    /// The Service, as the webhook configuration has it.
    pub(crate) fn service(&self) -> String {
        match self.revision {
            "default" => "istiod".to_owned(),
            revision => format!("istiod-{revision}"),
        }
    }

    /// Says whether its one endpoint is ready.
    pub(crate) async fn endpoint(&self, is_ready: bool) {
        self.lab
            .endpoint(NAMESPACE, &self.service(), is_ready)
            .await;
    }

    /// Starts it with these variables, and waits until it injects.
    pub(crate) async fn start(&mut self, env: &[(&str, &str)]) {
        self.launch(env).await;
        let asks = match self.revision {
            "default" => pod(&[("sidecar.istio.io/inject", "true")], &[]),
            revision => pod(&[("istio.io/rev", revision)], &[]),
        };
        self.lab.injects(UNGUARDED, &asks, "istio-proxy").await;
    }

    /// Starts it and waits only until it listens: for one that cannot inject.
    pub(crate) async fn listen(&mut self, env: &[(&str, &str)]) {
        self.launch(env).await;
        let listens = async || TcpStream::connect(("127.0.0.1", self.https)).await.ok();
        within(PATIENCE, "istiod listens", listens).await;
    }

    /// Ends it at once.
    pub(crate) async fn stop(&self) {
        self.lab.order(&format!("kill {}", self.guest)).await;
    }

    /// Has all of its webhook entries let pods through when it fails (`Ignore`), or not (`Fail`),
    /// as an installation may have it.
    pub(crate) async fn set_failure_policy(&self, policy: &str) {
        let name = self.webhooks();
        let path =
            format!("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{name}");
        let count = self.lab.get(&path).await.unwrap()["webhooks"]
            .as_array()
            .unwrap()
            .len();
        let change = |index| {
            let path = format!("/webhooks/{index}/failurePolicy");
            json!({"op": "replace", "path": path, "value": policy})
        };
        let patch = Value::Array((0..count).map(change).collect()).to_string();
        let kind = "mutatingwebhookconfiguration";
        let arguments = ["patch", kind, &name, "--type=json", "-p", &patch];
        self.lab.kubectl(&arguments).await.ok();
    }

    /// Whether it injects where nothing but the namespace asks for it: `policy` of its own
    /// configuration, which it reads again when it changes.
    pub(crate) fn set_policy(&self, policy: &str) {
        let file = self.folder.join("var/lib/istio/inject/config");
        let before = fs::read_to_string(&file).unwrap();
        let is_policy = |line: &&str| line.starts_with("policy: ");
        let line = before.lines().find(is_policy).unwrap();
        fs::write(
            &file,
            before.replacen(line, &format!("policy: {policy}"), 1),
        )
        .unwrap();
    }

    /// Gives the revision a second name, as `istioctl tag` does.
    pub(crate) async fn tag(&self, tag: &str) {
        let kubeconfig = self.lab.kubeconfig(User::Admin).display().to_string();
        let arguments = ["tag", "generate", tag, "--revision", self.revision];
        let text = istioctl(&[&arguments[..], &["--kubeconfig", &kubeconfig]].concat()).await;
        self.lab.apply_whole(&self.adapted(&text, None)).await;
    }

    /// Has it called also for pods where neither they nor their namespace say anything.
    pub(crate) async fn act_by_default(&self) {
        let more = ["values.sidecarInjectorWebhook.enableNamespacesByDefault=true"];
        let text = self.manifest(&more).await;
        let documents = self.adapted(&text, Some(KINDS));
        self.lab.apply_whole(&documents).await;
    }

    fn webhooks(&self) -> String {
        format!("istio-sidecar-injector{}", self.suffix())
    }

    fn suffix(&self) -> String {
        match self.revision {
            "default" => String::new(),
            revision => format!("-{revision}"),
        }
    }

    async fn manifest(&self, more: &[&str]) -> String {
        if self.revision == "default" && more.is_empty() {
            return fs::read_to_string(built().join("istio/minimal.yaml")).unwrap();
        }
        let mut settings = vec!["profile=minimal".to_owned()];
        if self.revision != "default" {
            settings.push(format!("revision={}", self.revision));
        }
        settings.extend(more.iter().map(|&setting| setting.to_owned()));
        let settings: Vec<String> = settings.iter().map(|s| format!("--set={s}")).collect();
        let settings = settings.iter().map(String::as_str);
        let arguments: Vec<&str> = ["manifest", "generate"]
            .into_iter()
            .chain(settings)
            .collect();
        istioctl(&arguments).await
    }

    /// Manifests for the lab, as far as it has a use for them.
    fn adapted(&self, manifests: &str, without: Option<&str>) -> String {
        let mut adapted = String::new();
        for document in manifests.split("\n---\n") {
            let mut lines = document.lines();
            let kind = lines.find_map(|line| line.strip_prefix("kind: "));
            let is_wanted = |kind: &&str| !NOT_HERE.contains(kind) && without != Some(*kind);
            if let Some(kind) = kind.filter(is_wanted) {
                adapted += &self.adapted_one(kind, document);
                adapted += "\n---\n";
            }
        }
        adapted
    }

    /// One of them. What istiod would have mounted is written to files.
    fn adapted_one(&self, kind: &str, document: &str) -> String {
        let read = || -> Value { serde_saphyr::from_str(document).unwrap() };
        match kind {
            "Service" => {
                let mut service = read();
                service["spec"]["selector"] = Value::Null;
                service["spec"]["type"] = json!("ExternalName");
                service["spec"]["externalName"] = json!("localhost");
                service.to_string()
            }
            "MutatingWebhookConfiguration" => {
                let mut configuration = read();
                for entry in configuration["webhooks"].as_array_mut().unwrap() {
                    entry["clientConfig"]["service"]["port"] = json!(self.https);
                }
                configuration.to_string()
            }
            "ConfigMap" => {
                self.mount(&read());
                document.to_owned()
            }
            _ => document.to_owned(),
        }
    }

    fn mount(&self, config_map: &Value) {
        let name = config_map["metadata"]["name"].as_str().unwrap();
        let suffix = self.suffix();
        let (folder, keys) = match name.strip_suffix(suffix.as_str()) {
            Some("istio-sidecar-injector") => ("var/lib/istio/inject", &["config", "values"][..]),
            Some("istio") => ("etc/istio/config", &["mesh"][..]),
            Some(_) | None => return,
        };
        let folder = self.folder.join(folder);
        fs::create_dir_all(&folder).unwrap();
        for key in keys {
            let content = config_map["data"][key].as_str().unwrap();
            fs::write(folder.join(key), content).unwrap();
        }
    }

    async fn launch(&mut self, env: &[(&str, &str)]) {
        static STARTED: AtomicUsize = AtomicUsize::new(1);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        self.guest = format!("istiod-{}-{number}", self.revision);
        let [http, grpc, secure_grpc, monitoring, introspection] = self.lab.ports().await;
        let local = |port: u16| format!("127.0.0.1:{port}");
        let flags = [
            (
                "kubeconfig",
                self.lab.kubeconfig(User::Admin).display().to_string(),
            ),
            ("httpsAddr", local(self.https)),
            ("httpAddr", local(http)),
            ("grpcAddr", local(grpc)),
            ("secureGRPCAddr", local(secure_grpc)),
            ("monitoringAddr", local(monitoring)),
            ("ctrlz_address", "127.0.0.1".to_owned()),
            ("ctrlz_port", introspection.to_string()),
        ];
        let flags = flags.map(|(flag, value)| format!("--{flag}={value}"));
        let webhooks = self.webhooks();
        let usual = [
            ("POD_NAMESPACE", NAMESPACE),
            ("POD_NAME", "istiod-0"),
            ("INJECTION_WEBHOOK_CONFIG_NAME", &webhooks),
            ("VALIDATION_WEBHOOK_CONFIG_NAME", ""),
            ("CLUSTER_ID", "Kubernetes"),
            ("PILOT_CERT_PROVIDER", "istiod"),
            ("REVISION", self.revision),
        ];
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let guest = Guest {
            program: built().join("bin/pilot-discovery"),
            args: [&["discovery".to_owned()][..], &flags].concat(),
            env: usual
                .iter()
                .chain(env)
                .map(owned)
                .collect::<BTreeMap<_, _>>(),
            folder: Some(self.folder.clone()),
        };
        self.lab.add(&self.guest, &guest).await;
    }
}

async fn istioctl(arguments: &[&str]) -> String {
    let output = Command::new(built().join("bin/istioctl"))
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, output).await;
    let output = output.unwrap_or_else(|_| panic!("istioctl {arguments:?} did not end"));
    let output = output.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "istioctl {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}
