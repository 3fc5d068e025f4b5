//! CPU time of the API server for the create of a pod that requires nothing, by what is registered.
//!
//! The rendered objects alone: no meshgate runs, since the API server sends it no such pod.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hyper::Request;
use kube::Client;
use meshgate_core::injector::PRESETS;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::plane::Plane;
use super::pods::{self, PLAIN, Storing};
use super::{Result, say};

/// Creates before those that are measured.
const WARM_UP: usize = 100;
/// A policy is in force some seconds after it was written, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is rendered, and for how many presets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) name: &'static str,
    /// Of `meshgate render`.
    what: Option<&'static str>,
    presets: usize,
}

const fn form(name: &'static str, what: &'static str, presets: usize) -> Form {
    Form {
        name,
        what: Some(what),
        presets,
    }
}

pub(super) const FORMS: [Form; 5] = [
    Form {
        name: "nothing",
        what: None,
        presets: 0,
    },
    form("webhooks, linkerd alone", "registration", 1),
    form("webhooks, all seven presets", "registration", PRESETS.len()),
    form("policies, linkerd alone", "policy", 1),
    form("policies, all seven presets", "policy", PRESETS.len()),
];

/// Milliseconds a create, for each form one value a round.
pub(super) async fn measure(
    plane: &mut Plane,
    rounds: usize,
    creates: usize,
) -> Result<Vec<Vec<f64>>> {
    let mut all = vec![Vec::new(); FORMS.len()];
    for round in 0..rounds {
        say(&format!("CPU of a create: round {} of {rounds}", round + 1));
        // From another one each time, so that no form always follows the same.
        for step in 0..FORMS.len() {
            let index = (step + round) % FORMS.len();
            let form = FORMS[index];
            let objects = rendered(plane, form)?;
            kubectl(plane, "apply", &objects)?;
            in_force(&plane.client, form).await?;
            create(plane, WARM_UP).await?;
            let before = cpu(plane)?;
            create(plane, creates).await?;
            let spent = cpu(plane)?.saturating_sub(before).as_secs_f64();
            all[index].push(spent * 1e3 / f64::from(u32::try_from(creates)?));
            kubectl(plane, "delete", &objects)?;
        }
        in_force(&plane.client, FORMS[0]).await?;
    }
    Ok(all)
}

async fn create(plane: &Plane, times: usize) -> Result<()> {
    for _ in 0..times {
        pods::create(&plane.client, PLAIN, Storing::DryRun)
            .await?
            .pod?;
    }
    Ok(())
}

/// The objects of a form.
fn rendered(plane: &Plane, form: Form) -> Result<Vec<u8>> {
    let Some(what) = form.what else {
        return Ok(Vec::new());
    };
    let presets = PRESETS.iter().take(form.presets);
    let presets: String = presets
        .map(|(name, _)| format!("- preset: {name}\n"))
        .collect();
    let config = plane.folder().join("rendered.yaml");
    let head = "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n";
    fs::write(&config, format!("{head}{presets}"))?;
    let output = Command::new(&plane.meshgate)
        // Nothing listens there: a pod that is sent is refused.
        .args([
            "render",
            what,
            "--webhook-url=https://127.0.0.1:1",
            "--output=json",
        ])
        .arg("--config")
        .arg(&config)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let mut list: Value = serde_json::from_slice(&output.stdout)?;
    // Not the guard, which would keep the rest, nor what looks at namespaces.
    let is_about_pods = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        what == "policy" || kind.ends_with("WebhookConfiguration")
    };
    if let Some(items) = list["items"].as_array_mut() {
        items.retain(is_about_pods);
    }
    Ok(list.to_string().into_bytes())
}

/// `kubectl apply`, or `kubectl delete`, of objects.
fn kubectl(plane: &Plane, verb: &str, objects: &[u8]) -> Result<()> {
    if objects.is_empty() {
        return Ok(());
    }
    let mut kubectl = Command::new(plane.kubectl())
        .args([verb, "--filename=-", "--kubeconfig"])
        .arg(plane.kubeconfig())
        .args(["--server-side"].iter().filter(|_| verb == "apply"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    if let Some(mut input) = kubectl.stdin.take() {
        input.write_all(objects)?;
    }
    match kubectl.wait()? {
        status if status.success() => Ok(()),
        status => Err(format!("kubectl {verb} ended with {status}").into()),
    }
}

/// Waits until pods that ask for the first and for the last preset are refused as the form has it.
async fn in_force(client: &Client, form: Form) -> Result<()> {
    // A webhook refuses what it cannot ask about, a policy what is not injected: the stand-in injects pods that
    // carry the mark.
    let asking = [
        ("linkerd.io/inject", "enabled", form.presets > 0),
        (
            "consul.hashicorp.com/connect-inject",
            "true",
            form.presets > 1,
        ),
    ];
    let begin = Instant::now();
    let mut agreed = 0;
    while agreed < 10 {
        let mut agrees = true;
        for (key, value, wanted) in asking {
            agrees &= is_refused(client, key, value).await? == wanted;
        }
        agreed = if agrees { agreed + 1 } else { 0 };
        if begin.elapsed() > PATIENCE {
            return Err(format!("not in force: {form:?}").into());
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn is_refused(client: &Client, key: &str, value: &str) -> Result<bool> {
    let pod = json!({
        "metadata": {"name": "asking", "annotations": {key: value}},
        "spec": {"containers": [{"name": "web", "image": "example.com/web:1.2.3"}]},
    });
    let request = Request::post(format!("/api/v1/namespaces/{PLAIN}/pods?dryRun=All"))
        .header("Content-Type", "application/json")
        .body(pod.to_string().into_bytes())?;
    Ok(client.request::<Value>(request).await.is_err())
}

/// CPU time of all threads of the API server so far.
fn cpu(plane: &Plane) -> Result<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir(format!("/proc/{}/task", plane.api_server()))? {
        let schedstat = fs::read_to_string(task?.path().join("schedstat"))?;
        let time = schedstat.split_whitespace().next();
        nanoseconds += time.ok_or("an empty schedstat")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}
