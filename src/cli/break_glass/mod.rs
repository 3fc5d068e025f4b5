//! `meshgate break-glass`: suspends enforcement for a time.

mod answer;
mod objects;

use std::str::FromStr;

use anyhow::bail;
use jiff::{SignedDuration, Timestamp};
use kube::Client;

use crate::kube_api::event::{self, ENFORCEMENT_RESUMED, ENFORCEMENT_SUSPENDED, Event};
use crate::kube_api::own_name;
use crate::lifecycle::wall_clock;
use meshgate_core::break_glass::{self, Note};

use self::answer::Answer;
use super::change::ChangeArgs;
use super::output::{self, Done};
use super::runtime::block_on;

pub(super) use self::objects::{Seen, look};

const LONGEST: SignedDuration = SignedDuration::from_hours(24);

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
        required_unless_present = "close",
        conflicts_with = "close"
    )]
    length: Option<Length>,

    /// Reason, for the record
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "close",
        conflicts_with = "close"
    )]
    reason: Option<Reason>,

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

#[derive(Debug, Clone, Copy)]
struct Length(SignedDuration);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length: SignedDuration = text
            .parse()
            .map_err(|_| "expected a duration, as 15m or 1h30m".to_owned())?;
        if length < SignedDuration::from_secs(1) || length > LONGEST {
            return Err("expected a duration from 1s to 24h; for longer, run it again".to_owned());
        }
        Ok(Self(length))
    }
}

/// One line.
#[derive(Debug, Clone)]
struct Reason(String);

impl FromStr for Reason {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return Err("expected a reason");
        }
        // A semicolon ends the text of the note: what follows could be read as one of its fields.
        Ok(Self(words.join(" ").replace(';', ",")))
    }
}

pub(super) fn run(args: &BreakGlassArgs) -> Done {
    block_on(break_glass(args))
}

async fn break_glass(args: &BreakGlassArgs) -> Done {
    let change = &args.change;
    let (client, server) = change.connect().await?;
    let (seen, note) = change.in_time(planned(args, &client)).await?;
    let Some(note) = note else {
        return change.in_time(close(args, &client, seen)).await;
    };
    if !seen.objects.is_empty() && !change.is_agreed(&question(&note, &server))? {
        bail!("nothing was changed");
    }
    change.in_time(open(args, &client, seen, &note)).await
}

/// What there is, and the note to write to it; no note to close.
async fn planned(args: &BreakGlassArgs, client: &Client) -> anyhow::Result<(Seen, Option<Note>)> {
    let seen = look(client).await;
    let (Some(length), Some(reason)) = (args.length, &args.reason) else {
        return Ok((seen, None));
    };
    check_injectors(&args.injector, &seen)?;
    let end = wall_clock().checked_add(length.0)?;
    let note = Note {
        text: format!("{}: {}", who(client).await, reason.0),
        // Whole seconds are easier to read.
        until: Some(Timestamp::from_second(end.as_second())?),
        injectors: args.injector.clone(),
    };
    check_open(&note, &seen)?;
    tell_replaced(&seen);
    Ok((seen, Some(note)))
}

/// Reports the notes that the new one replaces. A note without an end is a person's, who may have
/// changed the object by hand as well.
fn tell_replaced(seen: &Seen) {
    let notes = || {
        let notes = seen.objects.iter();
        notes.filter_map(|(id, object)| Some((id, break_glass::of(object)?)))
    };
    if let Some((_, before)) = notes().find(|(_, before)| before.until.is_some()) {
        output::note(&format!(
            "enforcement is suspended already ({before}): the new reason and end replace these"
        ));
    }
    for (id, before) in notes().filter(|(_, before)| before.until.is_none()) {
        output::note(&format!(
            "{id} has a note without an end ({before}): it is replaced, and meshgate puts back what was changed \
             there by hand once enforcement resumes"
        ));
    }
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
    let mut known: Vec<String> = seen
        .objects
        .iter()
        .flat_map(|(id, object)| {
            let of_policy = id.name.strip_suffix(meshgate_core::render::POLICIES);
            let of_policy = of_policy.map(str::to_owned);
            break_glass::suspend::injectors(object)
                .into_iter()
                .chain(of_policy)
        })
        .collect();
    known.sort_unstable();
    known.dedup();
    let unknown = wanted.iter().find(|name| !known.contains(name));
    let Some(name) = unknown.filter(|_| !seen.objects.is_empty()) else {
        return Ok(());
    };
    let known = if known.is_empty() {
        "unnamed ones (another version wrote the registration)".to_owned()
    } else {
        known.join(", ")
    };
    bail!(
        "the registration does not require an injector `{name}`, only {known}; leave --injector away to \
         suspend all"
    )
}

/// Refuses to narrow a suspension: what is off already would stay off under another name.
fn check_open(note: &Note, seen: &Seen) -> anyhow::Result<()> {
    let open = seen.objects.iter().find_map(|(_, object)| {
        let before = break_glass::of(object).filter(|before| before.until.is_some())?;
        let all_but = before.injectors.is_empty() && !note.injectors.is_empty();
        let is_wider = all_but || before.injectors.iter().any(|name| !note.is_about(name));
        is_wider.then_some(before)
    });
    match open {
        Some(before) => bail!(
            "enforcement is suspended already for more than that ({before}): name that too, or --close it first"
        ),
        None => Ok(()),
    }
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

async fn open(args: &BreakGlassArgs, client: &Client, seen: Seen, note: &Note) -> Done {
    let mut answer = Answer::of(&seen, Some(note));
    for one in &seen.objects {
        let opened = |object: &_| objects::opened(&one.0, object, note);
        let written = objects::write(client, one, |object| opened(object).patch).await;
        match written {
            Ok(true) => answer.opened(&one.0, opened(&one.1)),
            Ok(false) => {}
            Err(problem) => answer.problem(&problem),
        }
    }
    let event = Event {
        reason: ENFORCEMENT_SUSPENDED,
        message: format!("enforcement is suspended: {note}"),
        is_warning: true,
    };
    if answer.is_changed() {
        tell(client, &seen, &event).await;
    }
    answer.print(args.change.output)
}

async fn close(args: &BreakGlassArgs, client: &Client, seen: Seen) -> Done {
    let mut answer = Answer::of(&seen, None);
    for one in &seen.objects {
        match objects::write(client, one, break_glass::resume::resume).await {
            Ok(true) => answer.closed(&one.0),
            Ok(false) => {}
            Err(problem) => answer.problem(&problem),
        }
    }
    let event = Event {
        reason: ENFORCEMENT_RESUMED,
        message: format!("enforcement resumed by {}", who(client).await),
        is_warning: false,
    };
    if answer.is_changed() {
        tell(client, &seen, &event).await;
    }
    answer.print(args.change.output)
}

/// Writes the Event about the first object, which is the gate's if there is one. The command has done
/// its work also where this fails.
async fn tell(client: &Client, seen: &Seen, event: &Event) {
    let Some((id, object)) = seen.objects.first() else {
        return;
    };
    if let Err(problem) = event::record(client, id, object["metadata"]["uid"].as_str(), event).await
    {
        output::note(&format!("cannot create the Event: {problem}"));
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
