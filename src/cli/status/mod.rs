//! `meshgate status`: how an installation is, in one screen.

mod observe;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;

use crate::cluster::watch;

use self::report::{Grade, Injector, Leader, Observed, Pod, Refusal, Row};
use super::install_namespace::InstallNamespace;
use super::output::{self, Exit, Format};
use super::{Done, cluster_config};

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Looks with the rights of whoever runs it; what may not be read is said. Nothing of meshgate has to run \
for this. Which injectors count is read from the ConfigMap of the running Deployment, or from --config.

Exit codes: 0 all is as it should be, 1 something is not, 2 some of it could not be seen."
)]
pub(super) struct StatusArgs {
    /// Whose cluster [default: as kubectl finds it, else the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    #[command(flatten)]
    install: InstallNamespace,

    /// The Configuration, if it is not that of the Deployment
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,

    /// Form of the answer
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

/// The answer for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'o> {
    server: &'o str,
    findings: usize,
    rows: &'o [Row],
    pods: Option<&'o Vec<Pod>>,
    leader: Option<&'o Leader>,
    injectors: Option<&'o Vec<Injector>>,
    refusals: Option<&'o Vec<Refusal>>,
}

pub(super) fn run(args: &StatusArgs) -> Done {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let limit = Duration::from_secs(args.timeout);
        match tokio::time::timeout(limit, Box::pin(status(args))).await {
            Ok(done) => done,
            Err(_) => bail!(
                "the API server did not answer all within {} s",
                args.timeout
            ),
        }
    })
}

async fn status(args: &StatusArgs) -> Done {
    let config = cluster_config(args.kubeconfig.as_deref()).await?;
    let server = config.cluster_url.to_string();
    let client = watch::connect(&config).context("cannot set up a client for the API server")?;
    let given = args
        .config
        .as_deref()
        .map(super::configuration)
        .transpose()?;
    let given = given.map(|(_, injectors)| injectors);
    let seen = Box::pin(observe::observe(&client, &args.install.namespace, given)).await;
    let rows = report::report(&seen);
    match args.output {
        Format::Table => output::print(&text(&server, &rows))?,
        Format::Json | Format::Yaml => print_value(args.output, (&server, &rows), &seen)?,
    }
    Ok(exit(&rows))
}

fn exit(rows: &[Row]) -> Exit {
    let has = |grade: Grade| rows.iter().any(|row| row.grade == grade);
    match (has(Grade::Finding), has(Grade::Unknown)) {
        (true, _) => Exit::Findings,
        (false, true) => Exit::CannotTell,
        (false, false) => Exit::Fine,
    }
}

fn print_value(
    format: Format,
    (server, rows): (&str, &[Row]),
    seen: &Observed,
) -> anyhow::Result<()> {
    let findings = rows
        .iter()
        .filter(|row| row.grade == Grade::Finding)
        .count();
    let answer = Answer {
        server,
        findings,
        rows,
        pods: seen.pods.as_ref().ok(),
        leader: seen.leader.as_ref().ok().and_then(Option::as_ref),
        injectors: seen.injectors.as_ref().ok(),
        refusals: seen.refusals.as_ref().ok(),
    };
    output::print_value(format, &answer)
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
