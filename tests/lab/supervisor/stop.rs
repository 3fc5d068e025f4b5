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
    is_ending: Arc<AtomicBool>,
    is_in_background: Arc<AtomicBool>,
}

/// The other end, for those who notice.
#[derive(Clone, Debug)]
struct Ending {
    events: Sender<Event>,
    is_ending: Arc<AtomicBool>,
}

impl Ending {
    fn begin(&self) {
        self.is_ending.store(true, Ordering::Release);
        drop(self.events.send(Event::End));
    }
}

impl Stop {
    /// Ends by SIGINT, SIGTERM, SIGHUP or the end of standard input.
    pub(crate) fn on_signals_and_end_of_input() -> Result<Self> {
        let (stop, ending) = Self::on_signals()?;
        thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                drop(ending.events.send(Event::Line(line)));
            }
            ending.begin();
        });
        Ok(stop)
    }

    /// Ends by SIGINT, SIGTERM or SIGHUP.
    pub(crate) fn on_termination() -> Result<Self> {
        Ok(Self::on_signals()?.0)
    }

    fn on_signals() -> Result<(Self, Ending)> {
        let (sender, events) = channel();
        let stop = Self {
            events,
            is_ending: Arc::default(),
            is_in_background: Arc::default(),
        };
        let ending = Ending {
            events: sender,
            is_ending: Arc::clone(&stop.is_ending),
        };
        for kind in [SignalKind::terminate(), SignalKind::hangup()] {
            let ending = ending.clone();
            on_signal(kind, move || ending.begin())?;
        }
        let (own, is_in_background) = (ending.clone(), Arc::clone(&stop.is_in_background));
        on_signal(SignalKind::interrupt(), move || {
            if !is_in_background.load(Ordering::Acquire) {
                own.begin();
            }
        })?;
        Ok((stop, ending))
    }

    /// From now on SIGINT belongs to what runs in the foreground, and does nothing here.
    pub(crate) fn leave_interrupts_to_others(&self) {
        self.is_in_background.store(true, Ordering::Release);
    }

    /// The next thing that happens.
    pub(crate) fn next(&self) -> Event {
        self.events.recv().unwrap_or(Event::End)
    }

    /// Whether the lab is to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
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
