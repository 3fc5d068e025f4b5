//! Runs the controllers while the claim is held, and forgets what they knew when it is lost.

use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::Tasks;

use super::{ALL, Context, Run, registration};
use crate::leader::{Claim, Fenced};

/// One time of holding the claim. What is known of the cluster is known for it alone: afterwards
/// somebody else may have written.
#[derive(Clone)]
struct Term {
    context: Arc<Context>,
    over: CancellationToken,
}

type Terms = watch::Receiver<Option<Term>>;

/// Starts all controllers, to act while `claim` is held, each time with a context that `make` makes
/// of a client which writes by that claim alone. They end when told to, and leave what they wrote
/// where it is: a meshgate that is stopped must not open the gate. The token that comes back is
/// cancelled when all have ended, and the claim is needed no longer.
pub fn start(
    (client, claim): (Client, Claim),
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
        // Deleting what nobody serves any more needs no claim: who else does it finds it gone.
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
                // Nobody is there any more to begin a term: the program ends.
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
            // It has ended by itself, which is for whoever watches over tasks to judge.
            return;
        }
    }
}
