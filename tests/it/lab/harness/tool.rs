//! The tools of `meshgate`, as people use them against the lab.

use std::process::Stdio;

use tokio::process::Command;
use tokio::time::timeout;

use super::{Lab, Outcome, PATIENCE, User};

impl Lab {
    /// Runs `meshgate` with these arguments and `--kubeconfig`.
    pub(crate) async fn tool(&self, user: User, arguments: &[&str]) -> Outcome {
        let output = Command::new(env!("CARGO_BIN_EXE_meshgate"))
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.kubeconfig(user))
            .env_remove("MESHGATE_NAMESPACE")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(PATIENCE, output).await;
        let output = output.unwrap_or_else(|_| panic!("meshgate {arguments:?} did not end"));
        let output = output.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Outcome {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Binds these rules to user `alice`, everywhere.
    pub(crate) async fn allow_alice(&self, name: &str, rules: &serde_json::Value) {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let metadata = serde_json::json!({"name": name});
        let role = serde_json::json!({"metadata": metadata, "rules": rules});
        let roles = format!("/apis/{GROUP}/v1/clusterroles");
        self.create(&roles, &role).await.unwrap();
        let binding = serde_json::json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "alice"}],
        });
        let bindings = format!("/apis/{GROUP}/v1/clusterrolebindings");
        self.create(&bindings, &binding).await.unwrap();
    }
}
