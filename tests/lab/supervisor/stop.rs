//! What ends the lab: a signal, or the end of its input.

use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A line of input.
    Line(String),
    /// The lab is to end.
    End,
}

/// Where events arrive. Long waits ask it whether to give up.
#[derive(Debug)]
pub(crate) struct Stop {
    events: Receiver<Event>,
    ending: Arc<AtomicBool>,
}

impl Stop {
    /// Ends by SIGINT, SIGTERM, SIGHUP or the end of standard input.
    pub(crate) fn on_signals_and_end_of_input() -> Result<Self> {
        let (sender, stop) = Self::new();
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        listen(&sender, &stop.ending, kinds)?;
        let ending = Arc::clone(&stop.ending);
        thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                drop(sender.send(Event::Line(line)));
            }
            end(&sender, &ending);
        });
        Ok(stop)
    }

    /// Ends by SIGTERM or SIGHUP. SIGINT belongs to what runs in the foreground.
    pub(crate) fn on_termination() -> Result<Self> {
        let (sender, stop) = Self::new();
        let kinds = [SignalKind::terminate(), SignalKind::hangup()];
        listen(&sender, &stop.ending, kinds)?;
        // Heard and ignored from now on; children start with the default again.
        listen_in_vain(SignalKind::interrupt())?;
        Ok(stop)
    }

    fn new() -> (Sender<Event>, Self) {
        let (sender, events) = channel();
        let ending = Arc::new(AtomicBool::new(false));
        (sender, Self { events, ending })
    }

    /// The next thing that happens.
    pub(crate) fn next(&self) -> Event {
        self.events.recv().unwrap_or(Event::End)
    }

    /// Whether the lab is to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Waits a little between two looks at something.
    ///
    /// # Errors
    ///
    /// When the lab is to end.
    pub(crate) fn pause(&self) -> Result<()> {
        if self.is_ending() {
            bail!("interrupted");
        }
        thread::sleep(Duration::from_millis(20));
        Ok(())
    }
}

fn end(sender: &Sender<Event>, ending: &AtomicBool) {
    ending.store(true, Ordering::Release);
    drop(sender.send(Event::End));
}

fn listen<const N: usize>(
    sender: &Sender<Event>,
    ending: &Arc<AtomicBool>,
    kinds: [SignalKind; N],
) -> Result<()> {
    for kind in kinds {
        let (sender, ending) = (sender.clone(), Arc::clone(ending));
        on_signal(kind, move || end(&sender, &ending))?;
    }
    Ok(())
}

fn listen_in_vain(kind: SignalKind) -> Result<()> {
    on_signal(kind, || {})
}

/// Calls `act` each time that the signal comes, on a thread of its own.
fn on_signal(kind: SignalKind, act: impl Fn() + Send + 'static) -> Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot listen for signals")?;
    let mut signals = {
        let _inside = runtime.enter();
        signal(kind).context("cannot listen for signals")?
    };
    thread::spawn(move || {
        runtime.block_on(async {
            while signals.recv().await.is_some() {
                act();
            }
        });
    });
    Ok(())
}
