//! Ports that stay ours also while a component is restarted.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context as _, Result};

/// Where ports are looked for. Ports that the kernel gives to a program that asks for any would be taken
/// from us during a restart, so they are left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    range: (u16, u16),
    /// How far apart the searches of two labs begin, so that those that start at the same time do
    /// not meet.
    stride: u16,
}

/// For the components.
pub(crate) const COMPONENTS: Place = Place {
    range: (20_000, 32_000),
    stride: 16,
};

/// For what a test adds, later and while other labs start.
pub(crate) const GUESTS: Place = Place {
    range: (10_000, 20_000),
    stride: 64,
};

/// Finds `count` free ports on the loopback address, none of which is in `given` already.
pub(crate) fn find(place: Place, count: usize, given: &[u16]) -> Result<Vec<u16>> {
    let (from, to) = of_the_kernel();
    let (low, high) = place.range;
    let offset = (std::process::id() * u32::from(place.stride)) % u32::from(high - low);
    let begin = low + u16::try_from(offset)?;
    let candidates = || {
        let all = (begin..high).chain(low..begin);
        all.filter(|port| !given.contains(port))
    };
    let quiet = candidates().filter(|port| !(from..=to).contains(port));
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    // Where the kernel gives out all of the range, any port must do.
    let found: Vec<u16> = quiet.chain(candidates()).filter(free).take(count).collect();
    (found.len() == count).then_some(found).with_context(|| {
        format!("there are no {count} free ports from {low} to {high} on 127.0.0.1")
    })
}

/// The range from which the kernel gives ports to a program that asks for any.
fn of_the_kernel() -> (u16, u16) {
    let given = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut given = given.split_whitespace().map(str::parse::<u16>);
    match (given.next(), given.next()) {
        (Some(Ok(from)), Some(Ok(to))) => (from, to),
        _ => (32_768, 60_999),
    }
}
