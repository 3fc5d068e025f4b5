//! A real API server that presents a client certificate, by the files in `examples/`.

use std::fs;

use hyper::StatusCode;

use super::harness::{Lab, Meshgate, Options, pod};
use crate::support::client::Client;
use crate::support::load::review;
use crate::tls::clients::ClientCa;

const CONFIG: &str = "
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
";

/// Where the examples say that the files are.
const FOLDER: &str = "/etc/kubernetes/meshgate";

#[tokio::test]
async fn an_api_server_with_a_certificate_is_answered_and_a_client_without_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let ca = ClientCa::new();
    let [cert, key] = ca.client("api-server", &[]);
    for (name, text) in [
        ("ca.crt", &ca.pem),
        ("client.crt", &cert),
        ("client.key", &key),
    ] {
        fs::write(file(name), text).unwrap();
    }
    for name in ["admission.yaml", "kubeconfig.yaml"] {
        let text = fs::read_to_string(format!("examples/client-certificates/{name}")).unwrap();
        let text = text.replace(FOLDER, folder.path().to_str().unwrap());
        // The lab registers by URL, with a port that is not known yet.
        let text = text.replace("meshgate.meshgate-system.svc", "'*'");
        fs::write(file(name), text).unwrap();
    }
    let admission = file("admission.yaml");
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver"],
        api_server_flags: vec![format!(
            "--admission-control-config-file={}",
            admission.display()
        )],
        ..Options::default()
    })
    .await;
    let flag = format!("--client-ca={}", file("ca.crt").display());
    // It is armed, so that the API server has reached it.
    let meshgate = Meshgate::with(&lab, CONFIG, &[&flag, "--client-name=api-server"]).await;
    let namespace = lab
        .namespace("orders", &[], &[("linkerd.io/inject", "enabled")])
        .await;
    lab.refuses(&namespace, &pod(&[], &[]), &["requires linkerd"])
        .await;
    let ca_pem = fs::read_to_string(meshgate.certs().join("ca.crt")).unwrap();
    let mut without = Client::connect(meshgate.address, &ca_pem).await;
    let answer = without
        .post("/mutate/pods", "application/json", review("u"))
        .await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(!answer.text().contains("orders"), "{}", answer.text());
}
