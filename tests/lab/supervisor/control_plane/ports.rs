//! Ports that stay ours also while a component is restarted.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use anyhow::{Context as _, Result};

/// Where ports are looked for. Ports that the kernel gives to whoever asks for any would be taken
/// from us during a restart, so they are left out.
const RANGE: Range<u16> = 20_000..32_000;

/// Finds `count` free ports on the loopback address. Where the search begins depends on the
/// process, so that labs that start at the same time do not meet.
pub(crate) fn find(count: usize) -> Result<Vec<u16>> {
    let given = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut given = given.split_whitespace().map(str::parse::<u16>);
    let (from, to) = match (given.next(), given.next()) {
        (Some(Ok(from)), Some(Ok(to))) => (from, to),
        _ => (32_768, 60_999),
    };
    let width = u32::from(RANGE.end - RANGE.start);
    let offset = (std::process::id() * 16) % width;
    let begin = RANGE.start + u16::try_from(offset)?;
    let candidates = || (begin..RANGE.end).chain(RANGE.start..begin);
    let quiet = candidates().filter(|port| !(from..=to).contains(port));
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    // Where the kernel gives out all of the range, any port must do.
    let found: Vec<u16> = quiet.chain(candidates()).filter(free).take(count).collect();
    (found.len() == count)
        .then_some(found)
        .with_context(|| format!("there are no {count} free ports in {RANGE:?} on 127.0.0.1"))
}
