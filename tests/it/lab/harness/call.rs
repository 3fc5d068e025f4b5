//! Calls of the API by any user, with the answer as it was on the wire.

use http_body_util::BodyExt;
use hyper::{Method, Request};
use kube::client::Body;
use serde_json::Value;

use super::Lab;

/// By whom: the admin, or a user whom the admin plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Admin,
    Alice,
    /// The kubelet of `node-1`.
    Kubelet,
    /// A controller of the controller manager's.
    ReplicaSets,
}

impl Who {
    fn user_and_group(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Admin => None,
            Self::Alice => Some(("alice", "system:authenticated")),
            Self::Kubelet => Some(("system:node:node-1", "system:nodes")),
            Self::ReplicaSets => Some((
                "system:serviceaccount:kube-system:replicaset-controller",
                "system:serviceaccounts",
            )),
        }
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn is_ok(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Of a refusal.
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// A caller.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'l> {
    lab: &'l Lab,
    who: Who,
}

impl Lab {
    /// Calls as this user.
    pub(crate) fn call(&self, who: Who) -> Caller<'_> {
        Caller { lab: self, who }
    }
}

impl Caller<'_> {
    pub(crate) async fn post(self, path: &str, object: &Value) -> Answer {
        let body = object.to_string();
        self.send(Method::POST, path, ("application/json", &body))
            .await
    }

    pub(crate) async fn put(self, path: &str, object: &Value) -> Answer {
        let body = object.to_string();
        self.send(Method::PUT, path, ("application/json", &body))
            .await
    }

    pub(crate) async fn delete(self, path: &str) -> Answer {
        self.send(Method::DELETE, path, ("application/json", "{}"))
            .await
    }

    /// A patch of the kind `merge-patch`, `strategic-merge-patch` or `apply-patch`.
    pub(crate) async fn patch(self, path: &str, kind: &str, patch: &Value) -> Answer {
        let format = if kind == "apply-patch" {
            "yaml"
        } else {
            "json"
        };
        let content_type = format!("application/{kind}+{format}");
        self.send(Method::PATCH, path, (&content_type, &patch.to_string()))
            .await
    }

    async fn send(self, method: Method, path: &str, (content_type, body): (&str, &str)) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", content_type);
        if let Some((user, group)) = self.who.user_and_group() {
            request = request
                .header("Impersonate-User", user)
                .header("Impersonate-Group", group);
        }
        let request = request.body(Body::from(body.as_bytes().to_vec())).unwrap();
        let answer = self.lab.client().await.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let retry_after = answer.headers().get("retry-after");
        let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        Answer {
            code,
            retry_after,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        }
    }
}
