//! The real injector of Dapr, and the sentry from which it gets its certificate.
//!
//! As with istiod, its Service is an ExternalName for this machine and tests write its slice.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::supervisor::built;
use super::{Guest, Lab, PATIENCE, UNGUARDED, User, pod, within};

const NAMESPACE: &str = "dapr-system";
const SERVICE: &str = "dapr-sidecar-injector";
const INJECTOR: &str = "dapr-injector";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// Where the injector reads its token, whatever it is told: a fixed path.
const TOKEN_FOLDER: &str = "/run/secrets/dapr.io/sentrytoken";

/// A cluster's part of its chart. `PORT` is the injector's.
const OBJECTS: &str = "
apiVersion: v1
kind: Secret
metadata: {name: dapr-trust-bundle, namespace: dapr-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: dapr-trust-bundle, namespace: dapr-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: dapr-injector, namespace: dapr-system}
---
apiVersion: v1
kind: Pod
metadata:
  name: dapr-injector-0
  namespace: dapr-system
  annotations: {dapr.io/control-plane: injector}
spec: {serviceAccountName: dapr-injector, containers: [{name: injector, image: example.com/injector}]}
---
apiVersion: dapr.io/v1alpha1
kind: Configuration
metadata: {name: daprsystem, namespace: dapr-system}
spec: {mtls: {enabled: true}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: dapr-scheduler-server, namespace: dapr-system}
spec:
  serviceName: dapr-scheduler-server
  replicas: 0
  selector: {matchLabels: {app: scheduler}}
  template:
    metadata: {labels: {app: scheduler}}
    spec: {containers: [{name: scheduler, image: example.com/scheduler}]}
---
apiVersion: v1
kind: Service
metadata: {name: dapr-sidecar-injector, namespace: dapr-system}
spec: {type: ExternalName, externalName: localhost, ports: [{port: 443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: dapr-sidecar-injector}
webhooks:
- name: sidecar-injector.dapr.io
  reinvocationPolicy: IfNeeded
  clientConfig:
    service: {namespace: dapr-system, name: dapr-sidecar-injector, path: /mutate, port: PORT}
  rules:
  - {apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
";

/// Dapr, installed. The injector runs between `start` and `stop`, and ends with the lab.
pub(crate) struct Dapr<'l> {
    lab: &'l Lab,
    injector: Guest,
    was_started: bool,
}

impl<'l> Dapr<'l> {
    /// Installs it with a running sentry, and an injector that is stopped.
    pub(crate) async fn install(lab: &'l Lab) -> Self {
        let folder = lab.folder_of("dapr");
        let [webhook, injector_health, sentry, sentry_health] = lab.ports().await;
        lab.ensure_namespace(NAMESPACE).await;
        lab.ensure_namespace(UNGUARDED).await;
        let kinds = fs::read_to_string(built().join("dapr/crds.yaml")).unwrap();
        lab.apply_whole(&kinds).await;
        // A kind is served a moment after it was created.
        let configurations = "/apis/dapr.io/v1alpha1/configurations";
        within(PATIENCE, "Dapr's kinds are served", async || {
            lab.try_get(configurations).await.ok()
        })
        .await;
        lab.apply_whole(&OBJECTS.replace("PORT", &webhook.to_string()))
            .await;

        let credentials = folder.join("credentials");
        fs::create_dir(&credentials).unwrap();
        let flags = [
            ("trust-domain", "cluster.local".to_owned()),
            ("issuer-credentials", credentials.display().to_string()),
        ];
        let guest = Self::guest(lab, "dapr-sentry", [sentry, sentry_health], &flags);
        lab.add("dapr-sentry", &guest).await;
        let anchors = folder.join("ca.crt");
        fs::write(&anchors, trust_anchors(lab).await).unwrap();
        fs::write(folder.join("token"), token(lab).await).unwrap();

        let mut guest = Self::guest(lab, INJECTOR, [webhook, injector_health], &[]);
        let settings = [
            ("SIDECAR_IMAGE", "daprio/daprd".to_owned()),
            ("KUBE_CLUSTER_DOMAIN", "cluster.local".to_owned()),
            (
                "DAPR_CONTROL_PLANE_TRUST_DOMAIN",
                "cluster.local".to_owned(),
            ),
            ("DAPR_SENTRY_ADDRESS", format!("localhost:{sentry}")),
            ("DAPR_TRUST_ANCHORS_FILE", anchors.display().to_string()),
        ];
        for (name, value) in settings {
            guest.env.insert(name.to_owned(), value);
        }
        Self {
            injector: with_token(guest, &folder),
            lab,
            was_started: false,
        }
    }

    /// Says whether its one endpoint is ready.
    pub(crate) async fn endpoint(&self, is_ready: bool) {
        self.lab.endpoint(NAMESPACE, SERVICE, is_ready).await;
    }

    /// Starts the injector, and waits until it injects.
    pub(crate) async fn start(&mut self) {
        if self.was_started {
            self.lab.order(&format!("start {INJECTOR}")).await;
        } else {
            // It asks once, when it starts, which of its allowed accounts there are.
            let account = "/api/v1/namespaces/kube-system/serviceaccounts/replicaset-controller";
            within(
                PATIENCE,
                "the controllers have their accounts",
                async || self.lab.get(account).await,
            )
            .await;
            self.lab.add(INJECTOR, &self.injector).await;
            self.was_started = true;
        }
        self.lab.injects(UNGUARDED, &asks(), "daprd").await;
    }

    /// Starts as many more injectors, and has each called for the namespaces that carry its number
    /// as this label. One reads its Configuration for each pod, and its client lets it do so five
    /// times a second.
    pub(crate) async fn share_out(&self, label: &str, count: usize) {
        let path = format!("{WEBHOOKS}/dapr-sidecar-injector");
        let mut configuration = self.lab.get(&path).await.unwrap();
        let entries = configuration["webhooks"].as_array_mut().unwrap();
        let first = entries[0].clone();
        entries[0]["namespaceSelector"] =
            json!({"matchExpressions": [{"key": label, "operator": "DoesNotExist"}]});
        let mut started = Vec::new();
        for number in 0..count {
            let [port, health] = self.lab.ports().await;
            let mut guest = self.injector.clone();
            for (flag, port) in [("--port=", port), ("--healthz-port=", health)] {
                let own = guest.args.iter_mut().find(|arg| arg.starts_with(flag));
                *own.unwrap() = format!("{flag}{port}");
            }
            let name = format!("{INJECTOR}-{number}");
            started.push(async move { self.lab.add(&name, &guest).await });
            let mut entry = first.clone();
            entry["name"] = json!(format!("number-{number}.sidecar-injector.dapr.io"));
            entry["clientConfig"]["service"]["port"] = json!(port);
            entry["namespaceSelector"] = json!({"matchLabels": {label: number.to_string()}});
            // Who waits for a turn too long is to say so.
            entry["timeoutSeconds"] = json!(30);
            entry["failurePolicy"] = json!("Fail");
            entries.push(entry);
        }
        futures::future::join_all(started).await;
        configuration["metadata"]["managedFields"] = json!(null);
        self.lab.apply_whole(&configuration.to_string()).await;
        for number in 0..count {
            let number = number.to_string();
            let namespace = self
                .lab
                .namespace("shared-out", &[(label, &number)], &[])
                .await;
            self.lab.injects(&namespace, &asks(), "daprd").await;
        }
    }

    /// Ends the injector at once.
    pub(crate) async fn stop(&self) {
        self.lab.order(&format!("kill {INJECTOR}")).await;
    }

    fn guest(lab: &Lab, program: &str, ports: [u16; 2], more: &[(&str, String)]) -> Guest {
        let [port, health] = ports.map(|port| port.to_string());
        let usual = [
            (
                "kubeconfig",
                lab.kubeconfig(User::Admin).display().to_string(),
            ),
            ("listen-address", "127.0.0.1".to_owned()),
            ("port", port),
            ("healthz-listen-address", "127.0.0.1".to_owned()),
            ("healthz-port", health),
            ("enable-metrics", "false".to_owned()),
        ];
        let flags = usual.iter().chain(more);
        // Without the address of an API server they think that there is no cluster.
        let (host, port) = lab
            .url()
            .trim_start_matches("https://")
            .split_once(':')
            .unwrap();
        let env = [
            ("NAMESPACE", NAMESPACE),
            ("KUBERNETES_SERVICE_HOST", host),
            ("KUBERNETES_SERVICE_PORT", port),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Guest {
            program: built().join("bin").join(program),
            args: flags
                .map(|(flag, value)| format!("--{flag}={value}"))
                .collect(),
            env: env.into(),
            folder: None,
        }
    }
}

/// A pod that it injects.
fn asks() -> Value {
    let annotations = [("dapr.io/enabled", "true"), ("dapr.io/app-id", "web")];
    pod(&[], &annotations)
}

/// The same program with the token where it looks for it: in a mount namespace of its own, which
/// needs no right and goes with it.
fn with_token(guest: Guest, folder: &Path) -> Guest {
    let script = format!(
        "mount -t tmpfs none /run && mkdir -p {TOKEN_FOLDER} && \
         cp '{}' {TOKEN_FOLDER}/token && exec \"$@\"",
        folder.join("token").display()
    );
    let shell = ["--map-root-user", "--mount", "sh", "-ec", &script, "sh"];
    let mut args: Vec<String> = shell.map(str::to_owned).into();
    args.push(guest.program.display().to_string());
    args.extend(guest.args);
    Guest {
        program: "unshare".into(),
        args,
        ..guest
    }
}

/// What the sentry signs with, once it has made it.
async fn trust_anchors(lab: &Lab) -> String {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/dapr-trust-bundle");
    let made = async || {
        let bundle = lab.get(&path).await?;
        bundle["data"]["ca.crt"].as_str().map(str::to_owned)
    };
    within(PATIENCE, "the sentry has filled the trust bundle", made).await
}

/// A token by which the sentry knows the injector: bound to the Pod that it would run in.
async fn token(lab: &Lab) -> String {
    let pod = format!("/api/v1/namespaces/{NAMESPACE}/pods/dapr-injector-0");
    let uid = lab.get(&pod).await.unwrap()["metadata"]["uid"].clone();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": [format!("spiffe://cluster.local/ns/{NAMESPACE}/dapr-sentry")],
            "boundObjectRef": {
                "kind": "Pod", "apiVersion": "v1", "name": "dapr-injector-0", "uid": uid,
            },
        },
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{INJECTOR}/token");
    let answer = lab.create(&path, &request).await.unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}
