//! Gate B: what a whole request costs. The real binary against a no-op server of the same stack
//! that answers as much, and against other servers given by `--peer`, under `h2load`.
//!
//! `make bench`. Server on core 0, load on core 1; a fresh process per round, rounds interleaved,
//! the first eighth of the requests as warm-up. The figure is CPU time per request (`schedstat` of
//! the server's threads), as a ratio of medians within this run.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod run;
mod servers;

use std::error::Error;

use self::run::Shape;
use self::servers::{Kind, TestBed};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Rounds of each server and shape.
const ROUNDS: usize = 5;

const SHAPES: [Shape; 2] = [
    Shape {
        name: "HTTP/1.1, 32 connections",
        arguments: &["-c32"],
        requests: 24_000,
    },
    Shape {
        name: "HTTP/1.1, 1 connection",
        arguments: &["-c1"],
        requests: 8_000,
    },
];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let peer = match (arguments.next().as_deref(), arguments.next()) {
        (Some("--peer"), Some(command)) => Some(command),
        (None, None) => None,
        _ => return Err("usage: bench-http [--peer PROGRAM]".into()),
    };
    let bed = TestBed::new()?;
    let mut kinds = vec![Kind::Noop, Kind::Meshgate];
    kinds.extend(peer.map(Kind::Peer));
    println!(
        "{:<26} {:<9} {:>22} {:>18} {:>8} {:>8} {:>10}",
        "shape", "server", "CPU µs/request", "x no-op (min-max)", "req/s", "RSS MiB", "ready ms"
    );
    for shape in &SHAPES {
        let mut rounds: Vec<Vec<run::Round>> = kinds.iter().map(|_| Vec::new()).collect();
        for round in 0..ROUNDS {
            // Every second round the other way round, so that drift hits all alike.
            let mut order: Vec<usize> = (0..kinds.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for index in order {
                rounds[index].push(run::round(&bed, &kinds[index], shape)?);
            }
        }
        for (kind, own) in kinds.iter().zip(&rounds) {
            println!("{}", run::row(shape, kind, own, &rounds[0]));
        }
    }
    Ok(())
}
