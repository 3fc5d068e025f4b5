//! Constant load as the API server makes it: kept-alive connections, each used
//! again and again, each call counted, with exactly one answer expected for it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::{PATIENCE, eventually, figures, in_time};

/// The path that is called.
pub(crate) const PATH: &str = "/mutate/pods?timeout=10s";

/// Clients that run until they are told to stop.
pub(crate) struct Load {
    shared: Arc<Shared>,
    clients: JoinSet<()>,
}

struct Shared {
    /// Where new connections go: what the endpoints of a Service are to the API server.
    target: Mutex<(SocketAddr, String)>,
    stop: AtomicBool,
    sent: AtomicUsize,
    answers: AtomicUsize,
    resent: AtomicUsize,
    connections: AtomicUsize,
    lost: Mutex<Vec<String>>,
    certificates: Mutex<BTreeSet<Vec<u8>>>,
    slowest: Mutex<Duration>,
}

/// What became of the calls.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) sent: usize,
    pub(crate) answers: usize,
    /// Calls that the server had not taken, and had said so, sent again elsewhere.
    pub(crate) resent: usize,
    pub(crate) connections: usize,
    pub(crate) certificates: usize,
    pub(crate) slowest: Duration,
    pub(crate) lost: Vec<String>,
}

/// Clients that call without a pause, now and then, and so seldom that their connection is idle
/// for longer than the server waits for at its end.
pub(crate) const PAUSES: [u64; 4] = [0, 3, 30, 350];

impl Load {
    /// Two clients for each of `pauses` (milliseconds between calls, about).
    pub(crate) fn start(addr: SocketAddr, ca_pem: &str, pauses: &[u64]) -> Self {
        let shared = Arc::new(Shared {
            target: Mutex::new((addr, ca_pem.to_owned())),
            stop: AtomicBool::new(false),
            sent: AtomicUsize::new(0),
            answers: AtomicUsize::new(0),
            resent: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            lost: Mutex::default(),
            certificates: Mutex::default(),
            slowest: Mutex::default(),
        });
        let mut clients = JoinSet::new();
        for &pause in pauses {
            for _ in 0..2 {
                clients.spawn(call_on(Arc::clone(&shared), pause));
            }
        }
        Self { shared, clients }
    }

    /// New connections go there from now on.
    pub(crate) fn send_to(&self, addr: SocketAddr, ca_pem: &str) {
        *self.shared.target.lock() = (addr, ca_pem.to_owned());
    }

    /// Waits for so many more answers.
    pub(crate) async fn goes_on(&self, answers: usize) {
        let count = || self.shared.answers.load(Ordering::SeqCst);
        let goal = count() + answers;
        eventually("more answers", async || {
            let lost = self.shared.lost.lock().clone();
            assert_eq!(lost, Vec::<String>::new());
            count() >= goal
        })
        .await;
    }

    /// Waits until the server has shown this certificate.
    pub(crate) async fn sees(&self, certificate: &[u8]) {
        let seen = async || self.shared.certificates.lock().contains(certificate);
        eventually("the new certificate", seen).await;
    }

    pub(crate) async fn end(self) -> Totals {
        self.shared.stop.store(true, Ordering::SeqCst);
        in_time("the clients' end", self.clients.join_all()).await;
        let shared = &self.shared;
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        Totals {
            sent: count(&shared.sent),
            answers: count(&shared.answers),
            resent: count(&shared.resent),
            connections: count(&shared.connections),
            certificates: shared.certificates.lock().len(),
            slowest: *shared.slowest.lock(),
            lost: shared.lost.lock().clone(),
        }
    }
}

impl Totals {
    /// Each call has had one answer.
    pub(crate) fn nothing_lost(&self, what: &str) {
        figures(&format!(
            "{what}: {} calls sent, {} answers, {} sent again, {} lost, {} connections, slowest {:?}",
            self.sent,
            self.answers,
            self.resent,
            self.lost.len(),
            self.connections,
            self.slowest
        ));
        assert_eq!(self.lost, Vec::<String>::new(), "{what}");
        assert_eq!(self.answers, self.sent, "{what}");
        assert!(self.sent > 0, "{what}");
    }
}

async fn call_on(shared: Arc<Shared>, pause: u64) {
    let mut open = None;
    while !shared.stop.load(Ordering::SeqCst) {
        let number = shared.sent.fetch_add(1, Ordering::SeqCst);
        let begin = Instant::now();
        if let Err(lost) = shared.call(&mut open, number).await {
            let lost = format!("call {number}: {lost}");
            shared.lost.lock().push(lost);
        } else {
            shared.answers.fetch_add(1, Ordering::SeqCst);
        }
        shared.took(begin.elapsed());
        // Never quite the same, so that calls meet all moments of a connection's end.
        sleep(Duration::from_micros(
            pause * (900 + number as u64 * 37 % 200),
        ))
        .await;
    }
}

impl Shared {
    /// One call, and its answer.
    async fn call(&self, open: &mut Option<Client>, number: usize) -> Result<(), String> {
        let uid = format!("call-{number}");
        let review = review(&uid);
        let begin = Instant::now();
        loop {
            let mut client = match open.take().filter(|client| !client.is_closed()) {
                Some(client) => client,
                None => self.connect().await?,
            };
            match client.try_post(PATH, &review).await {
                Ok(answer) if answer.text().contains(&uid) => {
                    *open = (answer.header("connection") != "close").then_some(client);
                    return Ok(());
                }
                Ok(answer) => return Err(format!("{answer:?}")),
                // Go's client does the same: what was not taken is sent on another connection.
                Err(error) if was_not_taken(&error) && begin.elapsed() < PATIENCE => {
                    self.resent.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => return Err(format!("{error:?}")),
            }
        }
    }

    fn took(&self, time: Duration) {
        let mut slowest = self.slowest.lock();
        *slowest = time.max(*slowest);
    }

    async fn connect(&self) -> Result<Client, String> {
        let (addr, ca_pem) = self.target.lock().clone();
        self.connections.fetch_add(1, Ordering::SeqCst);
        let connect = Box::pin(Client::try_connect(addr, &ca_pem));
        let client = in_time("a connection", connect).await;
        let client = client.map_err(|error| format!("cannot connect: {error}"))?;
        let shown = client.server_certificate.clone();
        self.certificates.lock().insert(shown);
        Ok(client)
    }
}

/// Whether the client knows that the server has not taken the call: nothing of it was sent.
fn was_not_taken(error: &hyper::Error) -> bool {
    error.is_closed() || error.is_canceled()
}

/// A review of a pod that requires nothing.
pub(crate) fn review(uid: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"{uid}","kind":{{"group":"","version":"v1","kind":"Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},"operation":"CREATE","namespace":"orders","userInfo":{{}},"object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"generateName":"x-"}},"spec":{{"containers":[{{"name":"app","image":"app"}}]}}}}}}}}"#
    )
}
