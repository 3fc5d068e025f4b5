//! `meshgate status`: the state of an installation, on one screen.

mod observe;
mod observed;
mod owners;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use serde::Serialize;

use self::observed::{Leader, Owners, Pod, Refusal};
use self::report::{Grade, Row};
use super::install_namespace::InstallNamespace;
use super::output::{self, Done, Exit, OutputArgs};
use super::runtime::block_on;
use super::sources;
use super::states::InjectorState;

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads with the rights of the user who runs it, and reports what those rights do not \
show. meshgate itself need not run. Without --config, the configuration is that of the ConfigMap that the \
Deployment mounts.

Exit codes: 0 all is well, 1 findings, 2 no findings, but some of it could not be seen."
)]
pub(super) struct StatusArgs {
    /// The cluster's kubeconfig [default: as kubectl finds it, else the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    #[command(flatten)]
    install: InstallNamespace,

    /// The Configuration [default: that of the Deployment]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,

    #[command(flatten)]
    output: OutputArgs,
}

/// The answer for programs.
#[derive(Debug, Serialize)]
struct Answer<'o> {
    server: &'o str,
    findings: usize,
    rows: &'o [Row],
    pods: Option<&'o Vec<Pod>>,
    leader: Option<&'o Leader>,
    injectors: Option<&'o Vec<InjectorState>>,
    refusals: Option<&'o Vec<Refusal>>,
    owners: Option<&'o Owners>,
}

pub(super) fn run(args: &StatusArgs) -> Done {
    block_on(async {
        let limit = Duration::from_secs(args.timeout);
        match tokio::time::timeout(limit, Box::pin(status(args))).await {
            Ok(done) => done,
            Err(_) => bail!(
                "the API server did not answer everything within {} s",
                args.timeout
            ),
        }
    })
}

async fn status(args: &StatusArgs) -> Done {
    let (client, server) = sources::connect(args.kubeconfig.as_deref()).await?;
    let given = sources::configuration_if_given(args.config.as_deref())?;
    let given = given.map(|(_, injectors)| injectors);
    let seen = Box::pin(observe::observe(&client, &args.install.namespace, given)).await;
    let rows = report::report(&seen);
    let count = |grade: Grade| rows.iter().filter(|row| row.grade == grade).count();
    let findings = count(Grade::Finding);
    let answer = Answer {
        server: &server,
        findings,
        rows: &rows,
        pods: seen.pods.as_ref().ok(),
        leader: seen.leader.as_ref().ok().and_then(Option::as_ref),
        injectors: seen.injectors.as_ref().ok(),
        refusals: seen.refusals.as_ref().ok(),
        owners: seen.owners.as_ref().ok(),
    };
    args.output.print(&answer, || text(&server, &rows))?;
    Ok(if findings > 0 {
        Exit::Findings
    } else if count(Grade::Unknown) > 0 {
        Exit::CannotTell
    } else {
        Exit::Fine
    })
}

fn text(server: &str, rows: &[Row]) -> String {
    let mut table = output::table(&[]);
    let mut before = "";
    for row in rows {
        let part = if row.part == before { "" } else { row.part };
        before = row.part;
        let (mark, text) = match row.grade {
            Grade::Good => (output::good("ok"), row.text.clone()),
            Grade::Finding => (output::bad("!!"), output::bad(&row.text)),
            Grade::Unknown => (output::unclear("?"), row.text.clone()),
            Grade::Fact => (String::new(), row.text.clone()),
        };
        table.add_row([part.to_owned(), mark, text]);
    }
    format!("meshgate in {server}\n\n{}", output::indented(&table))
}
