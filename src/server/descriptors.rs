//! File descriptors: one for each connection, and the system gives few unless asked.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept back for the runtime, probes and files that are read.
const OTHERS: u32 = 100;

/// Makes room for `connections`, up to what the system allows at most, and returns for how many
/// there is room now.
///
/// Without this, a flood of connections would take the descriptors that probes and certificate
/// files need. Many systems begin with 1024 and allow far more on request.
pub fn make_room(connections: u32) -> u32 {
    let wanted = u64::from(connections) + u64::from(OTHERS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let mut open = current.unwrap_or(u64::MAX);
    if open < wanted {
        let raised = maximum.unwrap_or(u64::MAX).min(wanted);
        let limit = Rlimit {
            current: Some(raised),
            maximum,
        };
        if setrlimit(Resource::Nofile, limit).is_ok() {
            open = raised;
        }
    }
    let room = open.saturating_sub(u64::from(OTHERS)).max(1);
    u32::try_from(room).map_or(connections, |room| room.min(connections))
}

#[cfg(test)]
#[path = "descriptors_tests.rs"]
mod tests;
