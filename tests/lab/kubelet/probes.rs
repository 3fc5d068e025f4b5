//! HTTP probes of a container, by the rules of kubelets.

use std::io;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::unverified;

/// Waits until the container has started in the sense of its start-up probe; false when that has
/// failed for good.
pub(crate) async fn started(container: &Container, address: &str) -> bool {
    let Some(probe) = &container.startup_probe else {
        return true;
    };
    let mut failures = 0;
    sleep(seconds(probe.initial_delay_seconds, 0)).await;
    while !succeeds(container, probe, address).await {
        failures += 1;
        if failures >= probe.failure_threshold.unwrap_or(3) {
            return false;
        }
        sleep(seconds(probe.period_seconds, 10)).await;
    }
    true
}

/// Returns when the liveness probe has failed for good; never without one.
pub(crate) async fn dies(container: &Container, address: &str) {
    let Some(probe) = &container.liveness_probe else {
        return std::future::pending().await;
    };
    let mut failures = 0;
    sleep(seconds(probe.initial_delay_seconds, 0)).await;
    loop {
        if succeeds(container, probe, address).await {
            failures = 0;
        } else {
            failures += 1;
        }
        if failures >= probe.failure_threshold.unwrap_or(3) {
            return;
        }
        sleep(seconds(probe.period_seconds, 10)).await;
    }
}

/// Says each time that the container becomes ready or unready; without a probe it is ready. Never ends.
pub(crate) async fn readiness(container: &Container, address: &str, says: impl Fn(bool)) {
    let Some(probe) = &container.readiness_probe else {
        says(true);
        return std::future::pending().await;
    };
    let (mut failures, mut successes, mut was_ready) = (0, 0, false);
    sleep(seconds(probe.initial_delay_seconds, 0)).await;
    loop {
        if succeeds(container, probe, address).await {
            (failures, successes) = (0, successes + 1);
        } else {
            (failures, successes) = (failures + 1, 0);
        }
        if successes >= probe.success_threshold.unwrap_or(1) {
            was_ready = true;
            says(true);
        }
        if failures >= probe.failure_threshold.unwrap_or(3) {
            says(false);
        }
        // A kubelet's first question comes as soon as the container has started. This one may ask before
        // the program listens, and does not let that cost a whole period.
        let period = seconds(probe.period_seconds, 10);
        let wait = if was_ready {
            period
        } else {
            period.min(Duration::from_secs(1))
        };
        sleep(wait).await;
    }
}

fn seconds(given: Option<i32>, default: u64) -> Duration {
    let given = given.and_then(|given| u64::try_from(given).ok());
    Duration::from_secs(given.unwrap_or(default))
}

async fn succeeds(container: &Container, probe: &Probe, address: &str) -> bool {
    let Some(get) = &probe.http_get else {
        // Of another kind; those are not asked.
        return true;
    };
    let Some(port) = port(container, &get.port) else {
        return false;
    };
    let path = get.path.as_deref().unwrap_or("/");
    let limit = seconds(probe.timeout_seconds, 1);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: kube-probe/1.37\r\nConnection: close\r\n\r\n"
    );
    let asks = async {
        let stream = TcpStream::connect((address, port)).await?;
        match get.scheme.as_deref() {
            Some("HTTPS") => ask(unverified::connect(stream).await?, &request).await,
            _ => ask(stream, &request).await,
        }
    };
    matches!(timeout(limit, asks).await, Ok(Ok(200..400)))
}

fn port(container: &Container, port: &IntOrString) -> Option<u16> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_ref() == Some(name))?;
            named.container_port
        }
    };
    u16::try_from(number).ok()
}

/// The status of an answer.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> io::Result<u16> {
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // As much of it as there is: whether the end came in order is not asked.
    while stream.read_buf(&mut answer).await.unwrap_or(0) > 0 {}
    let text = String::from_utf8_lossy(&answer);
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::other("no status"))
}
