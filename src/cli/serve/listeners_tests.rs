use std::io::{Read, Write};
use std::net::TcpStream;

use meshgate_core::injector::Injectors;

use crate::cluster::store::Store;
use crate::lifecycle::{HealthChecks, Shutdown};
use crate::server::admin::{self, Exposition, Health};

use super::*;

/// The status line of an answer. It fails if none comes.
fn status(admin: &Admin, path: &str) -> String {
    let mut stream = TcpStream::connect(admin.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: meshgate\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

#[test]
fn probes_and_metrics_do_not_wait_for_the_view() {
    let injectors = Injectors::all_presets().unwrap();
    let cluster = Arc::new(Cluster::new(Store::new(Arc::new(injectors))));
    let (viewed, metrics) = (Arc::clone(&cluster), Arc::new(Metrics::default()));
    let health = Health::new(HealthChecks::default(), Shutdown::default());
    let scraped = Arc::clone(&metrics);
    let scrape = Arc::new(move || {
        measure(&scraped, &viewed, &LivePair::default());
        Exposition {
            content_type: "text/plain",
            body: scraped.encode(),
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = admin::start(listener, health, scrape).unwrap();
    status(&admin, "/metrics");
    let known = |name: &str| metrics.encode().contains(name);
    assert!(known("meshgate_injector_ready{injector=\"linkerd\"}"));
    cluster.update(|_| {
        // Nothing else reads the view now.
        for path in ["/metrics", "/livez", "/readyz", "/healthz"] {
            assert_eq!(status(&admin, path), "HTTP/1.1 200 OK", "{path}");
        }
    });
    assert!(known("meshgate_injector_ready{injector=\"linkerd\"}"));
}
