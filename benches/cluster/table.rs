//! The tables, as `docs/measurements.md` has them.

use std::time::Duration;

use super::latency::{self, Form};
use super::{cpu, load, ready};

/// From the slice to the pod.
pub(super) fn ready(seen: &ready::Seen) {
    println!("| N = {} | median ms | p90 ms | max ms |", seen.first.len());
    println!("| --- | --- | --- | --- |");
    for (what, times) in [
        ("slice ready → first admitted pod", &seen.first),
        ("a create by itself, right after", &seen.next),
    ] {
        let [median, p90, max] = [0.5, 0.9, 1.0].map(|share| percentile(times, share));
        println!("| {what} | {median:.1} | {p90:.1} | {max:.1} |");
    }
    println!("\n{} creates were refused meanwhile\n", seen.refused);
}

/// CPU of the API server by what is registered.
pub(super) fn cpu(all: &[Vec<f64>]) {
    println!("| registered | CPU ms a create, median | least | most | more than nothing |");
    println!("|{}", " --- |".repeat(5));
    let of = |times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        [
            at(sorted.len() / 2),
            at(0),
            at(sorted.len().saturating_sub(1)),
        ]
    };
    let nothing = all.first().map_or(f64::NAN, |times| of(times)[0]);
    for (form, times) in cpu::FORMS.iter().zip(all) {
        let [median, least, most] = of(times);
        let more = median - nothing;
        println!(
            "| {} | {median:.2} | {least:.2} | {most:.2} | {more:.2} |",
            form.name
        );
    }
    println!();
}

/// Creates by who is registered.
pub(super) fn latency(all: &[latency::Seen; 3]) {
    println!(
        "| pod | registered | median ms | p99 ms | gate ms | check ms | mutating webhooks ms | \
         validating webhooks ms | policies ms |"
    );
    println!("|{}", " --- |".repeat(9));
    for is_meshed in [true, false] {
        for (form, seen) in Form::ALL.iter().zip(all) {
            let (kind, times, spent) = match is_meshed {
                true => ("meshed", &seen.meshed, &seen.in_meshed),
                false => ("plain", &seen.plain, &seen.in_plain),
            };
            let within = |is_so: fn(&str) -> bool| match spent.per(times.len(), is_so) {
                Some(milliseconds) => format!("{milliseconds:.2}"),
                None => "–".to_owned(),
            };
            println!(
                "| {kind} | {} | {:.2} | {:.2} | {} | {} | {} | {} | {} |",
                form.name(),
                percentile(times, 0.5),
                percentile(times, 0.99),
                within(latency::gate),
                within(latency::check),
                within(|name| name == "MutatingAdmissionWebhook"),
                within(|name| name == "ValidatingAdmissionWebhook"),
                within(|name| name.ends_with("AdmissionPolicy")),
            );
        }
    }
    println!("\n{} creates in each row\n", all[0].meshed.len());
}

/// Many creates.
pub(super) fn load(rows: &[(Form, load::Seen)]) {
    println!(
        "| registered | creates a second | refused | median ms | p99 ms | CPU of a core | CPU µs a \
         create | RSS MiB | at most |"
    );
    println!("|{}", " --- |".repeat(9));
    for (form, seen) in rows {
        let answered = u32::try_from(seen.times.len() + seen.refused).unwrap_or(u32::MAX);
        let answered = f64::from(answered);
        let cpu = (seen.after.cpu - seen.before.cpu).as_secs_f64();
        let length = seen.length.as_secs_f64();
        println!(
            "| {} | {:.0} | {} | {:.1} | {:.1} | {:.1} % | {:.0} | {:.1} | {:.1} |",
            form.name(),
            answered / length,
            seen.refused,
            percentile(&seen.times, 0.5),
            percentile(&seen.times, 0.99),
            cpu / length * 100.0,
            cpu * 1e6 / answered,
            seen.after.resident,
            seen.after.peak,
        );
    }
}

/// In milliseconds.
fn percentile(times: &[Duration], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort();
    let last = sorted.len().saturating_sub(1);
    let share = f64::from(u32::try_from(last).unwrap_or(u32::MAX)) * share;
    // The nearest rank; a share is at most 1.
    let at = (0..=last).take_while(|at| f64::from(u32::try_from(*at).unwrap_or(u32::MAX)) <= share);
    let time = at.last().and_then(|at| sorted.get(at));
    time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
