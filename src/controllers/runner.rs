//! Runs the controllers while this process leads. A new term begins with new state.

use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::leader::{Claim, Fenced};
use crate::lifecycle::Tasks;

use super::{ALL, Context, Run, registration};

/// One time of leading. What it knows of the cluster is void afterwards: another process may have
/// written.
#[derive(Clone)]
struct Term {
    context: Arc<Context>,
    over: CancellationToken,
}

type Terms = watch::Receiver<Option<Term>>;

/// A client, and the claim without which it writes nothing.
pub struct Writer {
    pub client: Client,
    pub claim: Claim,
}

/// Starts all controllers, to act while the claim is held. For each term `make` makes a context with a
/// client that writes by the claim alone. The controllers end with `stop`, and leave what they wrote:
/// a meshgate that stops must not open the gate. The returned token is cancelled when all have ended
/// and no longer need the claim.
pub fn start(
    Writer { client, claim }: Writer,
    make: impl Fn(Fenced) -> Context + Send + Sync + 'static,
    tasks: &Tasks,
    stop: &CancellationToken,
) -> CancellationToken {
    let ended = CancellationToken::new();
    let running = Arc::new(ended.clone().drop_guard());
    let (sender, terms) = watch::channel(None);
    for (name, run) in ALL {
        let follow = follow(run, terms.clone(), stop.clone());
        let running = Arc::clone(&running);
        tasks.spawn(name, async move {
            follow.await;
            drop(running);
        });
    }
    let stop = stop.clone();
    tasks.spawn("terms", async move {
        let mut claim = claim;
        while let Some(term) = stop.run_until_cancelled(claim.held()).await {
            let context = make(Fenced::new(client.clone(), claim.clone(), term));
            let over = stop.child_token();
            let context = Arc::new(context);
            let new = Term {
                context: Arc::clone(&context),
                over: over.clone(),
            };
            sender.send_replace(Some(new));
            if stop.run_until_cancelled(claim.lost(term)).await.is_none() {
                return;
            }
            over.cancel();
            sender.send_replace(None);
            context.is_over();
        }
        // A registration without meshgate's namespace is deleted without a claim: a second process that
        // does it too finds it gone.
        let client = Fenced::new(client, Claim::always(), 0);
        registration::withdraw(make(client)).await;
    });
    ended
}

/// Runs one controller in each term.
async fn follow(run: Run, mut terms: Terms, stop: CancellationToken) {
    loop {
        let next = async {
            match terms.changed().await {
                Ok(()) => terms.borrow_and_update().clone(),
                // The task that begins terms has ended: so does the program.
                Err(_) => std::future::pending().await,
            }
        };
        let Some(next) = stop.run_until_cancelled(next).await else {
            return;
        };
        let Some(Term { context, over }) = next else {
            continue;
        };
        run(context, over.clone()).await;
        if !over.is_cancelled() {
            // It has ended by itself: `Tasks` brings the program down.
            return;
        }
    }
}
