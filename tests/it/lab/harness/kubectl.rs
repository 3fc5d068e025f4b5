//! `kubectl`, as people use it.

use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::supervisor::built;
use super::{Account, Lab, PATIENCE};

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Admin,
    /// The admin under the name of [`Account::Development`], whom the guard lets pass.
    Writer,
    /// May do nothing until a role is bound to user `alice`.
    Alice,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    /// What it printed; a failure fails the test.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }
}

impl Lab {
    pub(crate) fn kubeconfig(&self, user: User) -> &Path {
        Path::new(self.supervisor.fact(match user {
            User::Admin | User::Writer => "/kubeconfigs/admin",
            User::Alice => "/kubeconfigs/alice",
        }))
    }

    /// Runs `kubectl` as the admin.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Outcome {
        self.kubectl_as(User::Admin, arguments, "").await
    }

    /// Runs `kubectl` with that on its standard input.
    pub(crate) async fn kubectl_as(&self, user: User, arguments: &[&str], input: &str) -> Outcome {
        let played = match user {
            User::Writer => vec![
                format!("--as={}", Account::Development.user()),
                "--as-group=system:masters".to_owned(),
            ],
            User::Admin | User::Alice => Vec::new(),
        };
        let played: Vec<&str> = played.iter().map(String::as_str).collect();
        let arguments = [&played, arguments].concat();
        self.kubectl_by(self.kubeconfig(user), &arguments, input)
            .await
    }

    /// The same as the user of this kubeconfig.
    pub(crate) async fn kubectl_by(
        &self,
        kubeconfig: &Path,
        arguments: &[&str],
        input: &str,
    ) -> Outcome {
        let mut child = Command::new(built().join("bin/kubectl"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(arguments)
            // Discovery is cached there; the home folder is not ours.
            .env("KUBECACHEDIR", self.supervisor.folder().join("kubectl"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // Fails if it does not read, which its exit code tells.
        pipe.write_all(input.as_bytes()).await.ok();
        drop(pipe);
        let output = timeout(PATIENCE, child.wait_with_output()).await;
        let output = output.unwrap_or_else(|_| panic!("kubectl {arguments:?} did not end"));
        let output = output.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Outcome {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// `kubectl apply` of these manifests, which must succeed.
    pub(crate) async fn apply(&self, namespace: &str, manifests: &str) -> String {
        let arguments = ["apply", "-n", namespace, "-f", "-"];
        self.kubectl_as(User::Admin, &arguments, manifests)
            .await
            .ok()
    }

    /// `kubectl apply --server-side` of manifests that name their namespaces, some of them too
    /// large for the annotation of a client-side one.
    pub(crate) async fn apply_whole(&self, manifests: &str) {
        let arguments = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        self.kubectl_as(User::Admin, &arguments, manifests)
            .await
            .ok();
    }
}
