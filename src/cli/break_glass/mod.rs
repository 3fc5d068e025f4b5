//! `meshgate break-glass`: switches off, for a time, what refuses pods.

mod answer;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use kube::Client;

use crate::cluster::watch;
use crate::controllers::glass::{self as act, Seen};
use crate::break_glass::{self, Note};
use crate::kube_api::event::{self, Event};
use crate::kube_api::own_name;
use crate::kube_api::wall_clock;

use self::answer::Answer;
use super::output::{self, Format};
use super::{Done, cluster_config};

/// The longest time: who needs more, says so again.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// Arguments of `break-glass`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Pods then start without their sidecars, as though nothing of meshgate was there; with --injector \
only that injector is given up. Every entry of the webhook configurations gets a condition that never \
holds, and bindings of policies warn where they denied. Who, why and until when is written into the \
annotation meshgate.io/break-glass, and told as an Event in namespace default.

A running `meshgate control` closes it when the time has come. With none, or sooner: --close. Either \
puts back exactly what was there. Nothing of meshgate has to run for this, and it takes no more \
rights than those of the ClusterRole meshgate-break-glass.

Examples:
  meshgate break-glass --for 15m --reason 'INC-4711: the CNI cannot start'
  meshgate break-glass --for 1h --reason 'it is being replaced' --injector NAME
  meshgate break-glass --close

Exit codes: 0 it is done, 1 there was nothing to do, or some entries cannot be told apart and still ask for \
the injector, 2 could not tell or was not allowed to do all of it."
)]
pub(super) struct BreakGlassArgs {
    /// For how long, as 15m or 1h30m; 24h at most
    #[arg(
        long = "for",
        value_name = "TIME",
        required_unless_present = "close",
        conflicts_with = "close"
    )]
    length: Option<Length>,

    /// Why, for whoever reads it later
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "close",
        conflicts_with = "close"
    )]
    reason: Option<Reason>,

    /// Give up this injector alone; several by commas, or again
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "close"
    )]
    injector: Vec<String>,

    /// Put everything back as it was
    #[arg(long)]
    close: bool,

    /// Whose cluster [default: as kubectl finds it, else the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,

    /// Form of the answer
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

/// How long.
#[derive(Debug, Clone, Copy)]
struct Length(SignedDuration);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length: SignedDuration = text
            .parse()
            .map_err(|_| "expected a time, as 15m or 1h30m".to_owned())?;
        if length < SignedDuration::from_secs(1) || length > LONGEST {
            return Err(
                "expected a time from 1s to 24h; who needs longer, says so again".to_owned(),
            );
        }
        Ok(Self(length))
    }
}

/// Why, in one line.
#[derive(Debug, Clone)]
struct Reason(String);

impl FromStr for Reason {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.is_empty() {
            true => Err("expected a reason"),
            // A semicolon ends the text of the note: what follows could be read as one of its fields.
            false => Ok(Self(words.join(" ").replace(';', ","))),
        }
    }
}

pub(super) fn run(args: &BreakGlassArgs) -> Done {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(break_glass(args))
}

/// Sets a limit to what the API server takes; whoever is asked something may think about it.
async fn in_time<T>(
    args: &BreakGlassArgs,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    match tokio::time::timeout(Duration::from_secs(args.timeout), work).await {
        Ok(done) => done,
        Err(_) => bail!("not done within {} s; run it again to go on", args.timeout),
    }
}

async fn break_glass(args: &BreakGlassArgs) -> Done {
    let config = in_time(args, cluster_config(args.kubeconfig.as_deref())).await?;
    let server = config.cluster_url.to_string();
    let client = watch::connect(&config).context("cannot set up a client for the API server")?;
    let (seen, note) = in_time(args, planned(args, &client)).await?;
    let Some(note) = note else {
        return in_time(args, close(args, &client, seen)).await;
    };
    if !seen.objects.is_empty() && !args.yes && !is_agreed(&note, &server)? {
        bail!("nothing was changed");
    }
    in_time(args, open(args, &client, (seen, &note))).await
}

/// What there is, and what is to be written to it; nothing if it is to be closed.
async fn planned(args: &BreakGlassArgs, client: &Client) -> anyhow::Result<(Seen, Option<Note>)> {
    let seen = act::look(client).await;
    let (Some(length), Some(reason)) = (args.length, &args.reason) else {
        return Ok((seen, None));
    };
    check_injectors(&args.injector, &seen)?;
    let note = Note {
        text: format!("{}: {}", who(client).await, reason.0),
        until: Some(end(length)?),
        injectors: args.injector.clone(),
    };
    check_open(&note, &seen)?;
    tell_replaced(&seen);
    Ok((seen, Some(note)))
}

/// Says what this takes the place of. What a person has changed by hand nobody puts back, but whoever
/// ends this does.
fn tell_replaced(seen: &Seen) {
    let mut notes = seen
        .objects
        .iter()
        .filter_map(|(_, object)| break_glass::of(object));
    if let Some(before) = notes.find(|before| before.until.is_some()) {
        output::note(&format!(
            "it is broken already ({before}): this takes its place, with its own reason and end"
        ));
    }
    for (id, object) in &seen.objects {
        if let Some(before) = break_glass::of(object).filter(|before| before.until.is_none()) {
            output::note(&format!(
                "{id} has a note without an end ({before}): it is replaced, and what somebody changed \
                 there by hand is put back once this is closed"
            ));
        }
    }
}

/// By which name the API server knows the caller. It is done also where that cannot be found out: the
/// audit log has it.
async fn who(client: &Client) -> String {
    match own_name(client).await {
        Ok(name) if !name.is_empty() => name,
        Ok(_) => "somebody".to_owned(),
        Err(problem) => {
            output::note(&problem.to_string());
            "somebody".to_owned()
        }
    }
}

/// Until when, without parts of a second.
fn end(length: Length) -> anyhow::Result<Timestamp> {
    let end = wall_clock().checked_add(length.0)?;
    Ok(Timestamp::from_second(end.as_second())?)
}

/// Refuses names that nothing asks for: a typing error would switch nothing off.
fn check_injectors(wanted: &[String], seen: &Seen) -> anyhow::Result<()> {
    let mut known: Vec<String> = seen
        .objects
        .iter()
        .flat_map(|(id, object)| {
            let of_policy = id.name.strip_suffix(crate::render::POLICIES);
            let of_policy = of_policy.map(str::to_owned);
            break_glass::suspend::injectors(object).into_iter().chain(of_policy)
        })
        .collect();
    known.sort_unstable();
    known.dedup();
    match wanted.iter().find(|name| !known.contains(name)) {
        Some(name) if !seen.objects.is_empty() => bail!(
            "nothing registered asks for an injector `{name}`, only for {}; without --injector all are \
             given up",
            match known.is_empty() {
                true =>
                    "some that nobody can tell (the registration is another version's)".to_owned(),
                false => known.join(", "),
            }
        ),
        _ => Ok(()),
    }
}

/// Refuses to narrow what is open for more: what is off already would stay off under another name.
fn check_open(note: &Note, seen: &Seen) -> anyhow::Result<()> {
    let open = seen.objects.iter().find_map(|(_, object)| {
        let before = break_glass::of(object).filter(|before| before.until.is_some())?;
        let all_but = before.injectors.is_empty() && !note.injectors.is_empty();
        let is_wider = all_but || before.injectors.iter().any(|name| !note.is_about(name));
        is_wider.then_some(before)
    });
    match open {
        Some(before) => bail!(
            "it is broken already for more than that ({before}): name that too, or --close it first"
        ),
        None => Ok(()),
    }
}

fn is_agreed(note: &Note, server: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("nobody is there to ask: give --yes to do it");
    }
    let whose = match note.injectors.is_empty() {
        true => "any sidecar".to_owned(),
        false => format!("the sidecar of {}", note.injectors.join(", ")),
    };
    let until = note
        .until
        .map(|until| until.to_string())
        .unwrap_or_default();
    output::print(&format!(
        "Let pods start without {whose} in {server} until {until}? They keep running bare after that, until \
         somebody restarts them. [y/N] "
    ))?;
    io::stdout().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn open(args: &BreakGlassArgs, client: &Client, (seen, note): (Seen, &Note)) -> Done {
    let mut answer = Answer::of(&seen, Some(note));
    for (id, object) in &seen.objects {
        let change = |object: &_| act::opened(id, object, note).patch;
        match act::write(client, (id, object), change).await {
            Ok(true) => answer.opened(id, act::opened(id, object, note)),
            Ok(false) => {}
            Err(problem) => answer.problem(&problem),
        }
    }
    let told = Event {
        reason: "GlassBroken",
        message: format!("what refuses pods is switched off: {note}"),
        is_warning: true,
    };
    tell(client, &seen, answer.is_changed().then_some(&told)).await;
    answer.print(args.output)
}

async fn close(args: &BreakGlassArgs, client: &Client, seen: Seen) -> Done {
    let mut answer = Answer::of(&seen, None);
    for (id, object) in &seen.objects {
        match act::write(client, (id, object), break_glass::resume::resume).await {
            Ok(true) => answer.closed(id),
            Ok(false) => {}
            Err(problem) => answer.problem(&problem),
        }
    }
    let told = Event {
        reason: "GlassClosed",
        message: format!("closed again by {}", who(client).await),
        is_warning: false,
    };
    tell(client, &seen, answer.is_changed().then_some(&told)).await;
    answer.print(args.output)
}

/// Tells of it on the first object, which is that of the gate if there is one. It is done whether this
/// succeeds or not.
async fn tell(client: &Client, seen: &Seen, event: Option<&Event>) {
    let (Some((id, object)), Some(event)) = (seen.objects.first(), event) else {
        return;
    };
    if let Err(problem) = event::record(client, (id, Some(object)), event).await {
        output::note(&format!("no Event tells of it: {problem}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_never_a_field_of_the_note() {
        let reason: Reason = "moved; until=2099-01-01T00:00:00Z".parse().unwrap();
        let until: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let note = Note {
            text: format!("alice: {}", reason.0),
            until: Some(until),
            injectors: Vec::new(),
        };
        assert_eq!(Note::parse(&note.to_string()), Some(note));
    }
}
