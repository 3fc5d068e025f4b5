//! `meshgate break-glass`: suspends enforcement for a time.

mod answer;
mod objects;

use std::collections::BTreeSet;

use anyhow::bail;
use jiff::{SignedDuration, Timestamp};
use kube::Client;

use crate::kube_api::event::{self, ENFORCEMENT_RESUMED, ENFORCEMENT_SUSPENDED, Event};
use crate::kube_api::kind::Id;
use crate::kube_api::own_name;
use crate::lifecycle::wall_clock;
use meshgate_core::break_glass::note::LONGEST;
use meshgate_core::break_glass::{self, Note};
use meshgate_core::list::listed;
use meshgate_core::names::POLICIES;

use self::answer::Answer;
use super::change::ChangeArgs;
use super::output::{self, Done};
use super::runtime::block_on;

pub(super) use self::objects::{Seen, look};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Pods then start without their sidecars, as if meshgate was not installed; with --injector this \
concerns that injector alone. Every entry of the webhook configurations gets a condition that never \
holds, and bindings of policies warn where they denied. The annotation meshgate.io/break-glass and an Event in \
namespace default say who did it, why, and until when.

A running `meshgate control` resumes enforcement at that time. Without one, or sooner: --close. Both put \
back exactly what was there before. No meshgate has to run for this. It takes no more rights than those of the \
ClusterRole meshgate-break-glass.

Examples:
  meshgate break-glass --for 15m --reason 'INC-4711: the CNI cannot start'
  meshgate break-glass --for 1h --reason 'it is being replaced' --injector NAME
  meshgate break-glass --close

Exit codes: 0 done, 1 nothing to do, or some entries still require the injector together with others, 2 unknown or \
not allowed."
)]
pub(super) struct BreakGlassArgs {
    /// Duration, as 15m or 1h30m; at most 24h
    #[arg(
        long = "for",
        value_name = "DURATION",
        value_parser = length,
        required_unless_present = "close",
        conflicts_with = "close"
    )]
    length: Option<SignedDuration>,

    /// Reason, for the record
    #[arg(
        long,
        value_name = "TEXT",
        value_parser = reason,
        required_unless_present = "close",
        conflicts_with = "close"
    )]
    reason: Option<String>,

    /// Only this injector (repeatable, comma-separated)
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "close"
    )]
    injector: Vec<String>,

    /// Resume enforcement: put everything back as it was
    #[arg(long)]
    close: bool,

    #[command(flatten)]
    change: ChangeArgs,
}

fn length(text: &str) -> Result<SignedDuration, &'static str> {
    let length: SignedDuration = text
        .parse()
        .map_err(|_| "expected a duration, as 15m or 1h30m")?;
    if length < SignedDuration::from_secs(1) || length > LONGEST {
        return Err("expected a duration from 1s to 24h; for longer, run it again");
    }
    Ok(length)
}

/// One line.
fn reason(text: &str) -> Result<String, &'static str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        return Err("expected a reason");
    }
    // A semicolon ends the text of the note: what follows could be read as one of its fields.
    Ok(words.join(" ").replace(';', ","))
}

pub(super) fn run(args: &BreakGlassArgs) -> Done {
    block_on(break_glass(args))
}

async fn break_glass(args: &BreakGlassArgs) -> Done {
    let change = &args.change;
    let (client, server) = change.connect().await?;
    let (seen, note) = change.in_time(planned(args, &client)).await?;
    if let Some(note) = note.as_ref().filter(|_| !seen.objects.is_empty())
        && !change.is_agreed(&question(note, &server))?
    {
        bail!("nothing was changed");
    }
    let answer = change.in_time(write(&client, &seen, note.as_ref())).await?;
    answer.print(change.output)
}

/// What there is, and the note to write to it; no note to close.
async fn planned(args: &BreakGlassArgs, client: &Client) -> anyhow::Result<(Seen, Option<Note>)> {
    let seen = look(client).await;
    let (Some(length), Some(reason)) = (args.length, &args.reason) else {
        return Ok((seen, None));
    };
    check_injectors(&args.injector, &seen)?;
    let end = wall_clock().checked_add(length)?;
    // Whole seconds are easier to read.
    let end = Timestamp::from_second(end.as_second())?;
    let note = Note::new(&who(client).await, reason, end, args.injector.clone());
    check_open(&note, &seen)?;
    tell_replaced(&seen);
    Ok((seen, Some(note)))
}

/// Reports the notes that the new one replaces. A note without an end is a person's, who may have
/// changed the object by hand as well.
fn tell_replaced(seen: &Seen) {
    if let Some((_, before)) = notes(seen).find(|(_, before)| before.until.is_some()) {
        output::note(&format!(
            "enforcement is suspended already ({before}): the new reason and end replace these"
        ));
    }
    for (id, before) in notes(seen).filter(|(_, before)| before.until.is_none()) {
        output::note(&format!(
            "{id} has a note without an end ({before}): it is replaced, and meshgate puts back what was changed \
             there by hand once enforcement resumes"
        ));
    }
}

/// The notes that suspend enforcement now, and where they stand.
fn notes(seen: &Seen) -> impl Iterator<Item = (&Id, Note)> {
    let notes = seen.objects.iter();
    notes.filter_map(|(id, object)| Some((id, break_glass::of(object)?)))
}

/// The authenticated user name. The command works without it: the audit log has it.
async fn who(client: &Client) -> String {
    let name = own_name(client).await.unwrap_or_else(|problem| {
        output::note(&problem.to_string());
        String::new()
    });
    if name.is_empty() {
        return "unknown user".to_owned();
    }
    name
}

/// Refuses unknown names: a typing error would switch nothing off.
fn check_injectors(wanted: &[String], seen: &Seen) -> anyhow::Result<()> {
    let mut known = BTreeSet::new();
    for (id, object) in &seen.objects {
        let of_policy = id.name.strip_suffix(POLICIES).map(str::to_owned);
        known.extend(of_policy);
        known.extend(break_glass::suspend::injectors(object));
    }
    let unknown = wanted.iter().find(|name| !known.contains(*name));
    let Some(name) = unknown.filter(|_| !seen.objects.is_empty()) else {
        return Ok(());
    };
    let known = if known.is_empty() {
        "unnamed ones (another version wrote the registration)".to_owned()
    } else {
        listed(known)
    };
    bail!(
        "the registration does not require an injector `{name}`, only {known}; leave --injector away to \
         suspend all"
    )
}

/// Refuses to narrow a suspension: what is off already would stay off under another name.
fn check_open(note: &Note, seen: &Seen) -> anyhow::Result<()> {
    let is_wider = |before: &Note| {
        let all_but = before.injectors.is_empty() && !note.injectors.is_empty();
        all_but || before.injectors.iter().any(|name| !note.is_about(name))
    };
    let mut timed = notes(seen).filter(|(_, before)| before.until.is_some());
    if let Some((_, before)) = timed.find(|(_, before)| is_wider(before)) {
        bail!(
            "enforcement is suspended already for more than that ({before}): name that too, or --close it first"
        );
    }
    Ok(())
}

fn question(note: &Note, server: &str) -> String {
    let whose = if note.injectors.is_empty() {
        "any sidecar".to_owned()
    } else {
        format!("the sidecar of {}", note.injectors.join(", "))
    };
    let until = note.until.map(|until| until.to_string());
    format!(
        "Let pods start without {whose} in {server} until {}? They keep running without it after that, until \
         they are restarted.",
        until.unwrap_or_default()
    )
}

/// Suspends enforcement as the note says; without a note, resumes it.
async fn write(client: &Client, seen: &Seen, note: Option<&Note>) -> anyhow::Result<Answer> {
    let mut answer = Answer::of(seen, note);
    for (id, object) in &seen.objects {
        let change = |object: &_| objects::change(id, object, note);
        match objects::write(client, id, object, |object| change(object).patch).await {
            Ok(true) => answer.changed(id, change(object)),
            Ok(false) => {}
            Err(problem) => answer.problems.push(problem.to_string()),
        }
    }
    if answer.is_changed() {
        tell(client, seen, note).await;
    }
    Ok(answer)
}

/// Writes the Event about the first object, which is the gate's if there is one. The command has done
/// its work also where this fails.
async fn tell(client: &Client, seen: &Seen, note: Option<&Note>) {
    let Some((id, object)) = seen.objects.first() else {
        return;
    };
    let event = match note {
        Some(note) => Event {
            reason: ENFORCEMENT_SUSPENDED,
            message: format!("enforcement is suspended: {note}"),
            is_warning: true,
        },
        None => Event {
            reason: ENFORCEMENT_RESUMED,
            message: format!("enforcement resumed by {}", who(client).await),
            is_warning: false,
        },
    };
    let uid = object["metadata"]["uid"].as_str();
    if let Err(problem) = event::record(client, id, uid, &event).await {
        output::note(&format!("cannot create the Event: {problem}"));
    }
}

#[cfg(test)]
#[path = "note_tests.rs"]
mod tests;
