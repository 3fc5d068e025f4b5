//! Clients that misbehave, against the real program, each beside a load of normal calls whose
//! answers must all come. Memory is bounded while they are there and comes back afterwards.

mod bodies;
mod connections;

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::client::TlsStream;

use crate::support::client::tls;
use crate::support::load::Load;
use crate::support::process::Process;
use crate::support::{PATIENCE, eventually, figures, in_time};

/// Calls now and then: enough to notice, not so many that they are the attack.
const CALM: [u64; 2] = [5, 30];

const MIB: u64 = 1024;

/// A running program, the load beside, and what memory was before.
struct Siege {
    process: Process,
    load: Load,
    before: u64,
}

impl Siege {
    async fn begin(flags: &[&str]) -> Self {
        let process = Process::start(flags).await;
        let load = Load::start(process.gate, &process.ca_pem, &CALM);
        load.goes_on(100).await;
        let before = process.memory();
        Self {
            process,
            load,
            before,
        }
    }

    /// Runs the attack. Memory, in KiB, may grow by `more` meanwhile, and must afterwards come
    /// back to within `rest` of what it was.
    async fn stands(self, what: &str, more: u64, rest: u64, attack: impl AsyncFnOnce(&Self)) {
        let mut peak = self.before;
        let watch = async {
            loop {
                peak = peak.max(self.process.memory());
                sleep(Duration::from_millis(20)).await;
            }
        };
        let begin = Instant::now();
        tokio::select! {
            () = watch => {}
            () = attack(&self) => {}
        }
        let took = begin.elapsed();
        self.load.goes_on(50).await;
        let is_back = async || self.process.memory() <= self.before + rest;
        let begin = Instant::now();
        while !is_back().await && begin.elapsed() < PATIENCE {
            sleep(Duration::from_millis(50)).await;
        }
        let (before, after) = (self.before, self.process.memory());
        let mib = |kib: u64| kib as f64 / MIB as f64;
        figures(&format!(
            "{what}: memory {:.1} MiB before, {:.1} at most, {:.1} after; {took:.1?}",
            mib(before),
            mib(peak),
            mib(after)
        ));
        self.load.end().await.nothing_lost(what);
        assert!(peak <= before + more, "{what}: {before} to {peak} KiB");
        assert!(after <= before + rest, "{what}: {before} to {after} KiB");
        assert!(!self.process.log().contains("panic"));
    }

    /// A TLS connection that speaks for itself from here on.
    async fn raw(&self) -> TlsStream<TcpStream> {
        raw(&self.process).await.unwrap()
    }

    async fn tcp(&self) -> TcpStream {
        in_time("a connection", TcpStream::connect(self.process.gate))
            .await
            .unwrap()
    }
}

async fn raw(process: &Process) -> io::Result<TlsStream<TcpStream>> {
    let versions = rustls::DEFAULT_VERSIONS;
    let made = Box::pin(tls(process.gate, &process.ca_pem, versions));
    in_time("a TLS connection", made).await
}

/// Reads until the server closes, in whatever way; what it said.
async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut received = Vec::new();
    drop(in_time("closed by the server", stream.read_to_end(&mut received)).await);
    received
}

/// Writes piece after piece, reading all the time, until the server has enough or `times` are
/// written; what it said.
async fn flood<S>(stream: S, times: usize, piece: &[u8]) -> Vec<u8>
where
    S: AsyncReadExt + AsyncWriteExt + Send + 'static,
{
    let (mut from, mut to) = tokio::io::split(stream);
    let mut reader = JoinSet::new();
    reader.spawn(async move {
        let mut said = Vec::new();
        drop(from.read_to_end(&mut said).await);
        said
    });
    for _ in 0..times {
        // Not to be read from for so long is as good an end as any.
        let written = timeout(PATIENCE, to.write_all(piece)).await;
        if !matches!(written, Ok(Ok(()))) {
            break;
        }
    }
    drop(timeout(Duration::from_secs(1), to.flush()).await);
    // The server may have said its last while the rest was on its way.
    let last = timeout(Duration::from_secs(2), reader.join_next()).await;
    last.ok().flatten().map_or_else(Vec::new, Result::unwrap)
}

/// Waits until all of them have ended.
async fn all<T: 'static>(what: &str, tasks: JoinSet<T>) -> Vec<T> {
    let mut tasks = tasks;
    let mut done = Vec::new();
    eventually(what, async || {
        while let Some(one) = tasks.try_join_next() {
            done.push(one.unwrap());
        }
        tasks.is_empty()
    })
    .await;
    done
}
