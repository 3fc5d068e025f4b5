//! Runs the controllers while this process leads. A new term begins with new state: what a controller knew
//! of the cluster is void, since another process may have written.

use std::sync::Arc;

use futures::future::{join_all, select_all};
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::leader::{Claim, Fenced};
use crate::lifecycle::Tasks;

use super::{ALL, Context, Run, registration};

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
    Writer { client, mut claim }: Writer,
    make: impl Fn(Fenced) -> Context + Send + Sync + 'static,
    tasks: &Tasks,
    stop: &CancellationToken,
) -> CancellationToken {
    let ended = CancellationToken::new();
    let (running, stop) = (ended.clone().drop_guard(), stop.clone());
    tasks.spawn("controllers", async move {
        while let Some(term) = stop.run_until_cancelled(claim.held()).await {
            let context = make(Fenced::new(client.clone(), claim.clone(), term));
            let (context, over) = (Arc::new(context), stop.child_token());
            let lost = async {
                claim.lost(term).await;
                over.cancel();
                // What ends now has been told to.
                std::future::pending().await
            };
            tokio::select! {
                () = run_all(&context, &over) => {}
                () = lost => {}
            }
            if stop.is_cancelled() || !over.is_cancelled() {
                return;
            }
            context.is_over();
        }
        drop(running);
        // A registration without meshgate's namespace is deleted without a claim: a second process that
        // does it too finds it gone.
        let client = Fenced::new(client, Claim::always(), 0);
        registration::withdraw(make(client)).await;
    });
    ended
}

/// Runs all controllers until the term is over; or until one ends by itself, so that the program goes down.
async fn run_all(context: &Arc<Context>, over: &CancellationToken) {
    let run = |(name, run): (&'static str, Run)| {
        let span = tracing::error_span!("controller", controller = name);
        run(Arc::clone(context), over.clone()).instrument(span)
    };
    let (_, first, others) = select_all(ALL.map(run).map(Box::pin)).await;
    if over.is_cancelled() {
        join_all(others).await;
    } else {
        let name = ALL.get(first).map(|(name, _)| *name);
        tracing::error!(controller = name, "a controller ended by itself");
    }
}
