//! Who meshgate is in the lab: ServiceAccounts that hold the rights of `manifests/install.yaml`, and no
//! others.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{HOME, Lab, PATIENCE, User, within};
use crate::manifests;

/// Where the account is that no release has; it outlives the namespace of the others.
const ELSEWHERE: &str = "meshgate-lab";

/// An account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Of the pods that answer.
    Serve,
    /// Of the pods that write.
    Control,
    /// Of one process that does both, registered by URL.
    Development,
}

impl Account {
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Serve => (HOME, "meshgate"),
            Self::Control => (HOME, "meshgate-control"),
            Self::Development => (ELSEWHERE, "development"),
        }
    }

    /// The name that the API server knows it by.
    pub(crate) fn user(self) -> String {
        let (namespace, name) = self.place();
        format!("system:serviceaccount:{namespace}:{name}")
    }
}

/// The roles and bindings that ship, the bindings with [`Account::Development`] as well.
fn rights() -> Vec<Value> {
    let mut rights = manifests::installed();
    rights.retain(|object| match object["kind"].as_str() {
        Some("ServiceAccount") => true,
        // The fence.
        Some(kind) if kind.starts_with("ValidatingAdmissionPolicy") => true,
        // The owner is for meshgate to find or to make.
        Some(kind) => kind.contains("Role") && object["metadata"]["name"] != "meshgate",
        None => false,
    });
    let (namespace, name) = Account::Development.place();
    for object in &mut rights {
        if let Some(subjects) = object.get_mut("subjects").and_then(Value::as_array_mut) {
            subjects.push(json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}));
        }
        name_injectors(object);
    }
    rights.push(json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }));
    rights
}

/// `install.yaml` names the presets. The Configurations of tests name another, as a chart with it does.
fn name_injectors(role: &mut Value) {
    let rules = role.get_mut("rules").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let names = rule.get_mut("resourceNames").and_then(Value::as_array_mut);
        let Some(names) = names.filter(|all| all.contains(&json!("linkerd.check.meshgate.io")))
        else {
            continue;
        };
        names.push(json!("mesh.check.meshgate.io"));
    }
}

impl Lab {
    /// Gives the accounts their rights, in a namespace that is there from then on.
    pub(crate) async fn grant(&self) {
        let home = format!("/api/v1/namespaces/{HOME}");
        within(PATIENCE, "the namespace before is gone", async || {
            let found = self.get(&home).await.unwrap_or_default();
            found["metadata"]["deletionTimestamp"]
                .is_null()
                .then_some(())
        })
        .await;
        for namespace in [HOME, ELSEWHERE] {
            self.ensure_namespace(namespace).await;
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": rights()});
        self.apply_whole(&list.to_string()).await;
    }

    /// A kubeconfig of an account, with its rights granted.
    pub(crate) async fn kubeconfig_of(&self, account: Account) -> PathBuf {
        self.grant().await;
        let (namespace, name) = account.place();
        self.kubeconfig_for(namespace, name).await
    }

    /// A kubeconfig of any ServiceAccount that is there.
    pub(crate) async fn kubeconfig_for(&self, namespace: &str, name: &str) -> PathBuf {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86_400},
        });
        let token = self.create(&path, &request).await.unwrap();
        let admin = fs::read_to_string(self.kubeconfig(User::Admin)).unwrap();
        let mut config: Value = serde_json::from_str(&admin).unwrap();
        config["users"][0]["user"] = json!({"token": token["status"]["token"]});
        let file = self
            .folder_of("accounts")
            .join(format!("{namespace}-{name}.kubeconfig"));
        fs::write(&file, config.to_string()).unwrap();
        file
    }
}
