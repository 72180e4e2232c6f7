//! Throws messages that make no sense at the decoders, and at real roles: nothing may panic, or stop being able to start again.
//!
//! `cargo run --release -p onpath-sim --example nonsense -- roles [--messages N] [--seed S]`: roles that serve clients, while of a hundred
//! messages twenty, or three, are changed on their way; clients are bare messages and real sessions. Where something panics, the message and the place are told once, and it goes on.
//! `-- decoders [--messages N] [--seed S]`: everything that is decoded from a datagram, a socket or a journal.

#[path = "../tests/nonsense/mod.rs"]
mod nonsense;

use nonsense::cluster::{Cluster, Outcome};
use onpath_wire::tracking::Form;
use std::collections::BTreeSet;
use std::io::Write;
use std::panic;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

/// Messages of one file system, before another one begins.
const STEPS: u64 = 20_000;

/// Where something has panicked.
static PLACES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The number behind an option.
fn option(name: &str) -> Option<u64> {
    let value = std::env::args().skip_while(|arg| arg != name).nth(1)?;
    value.replace('_', "").parse().ok()
}

fn roles(messages: u64, seed: u64) -> u64 {
    let (begun, mut sum, mut panics) = (Instant::now(), Outcome::default(), 0);
    for seed in seed.. {
        let form = if seed % 2 == 0 { Form::Network } else { Form::Owner };
        let outcome = panic::catch_unwind(|| {
            // Where little is changed, more comes to pass.
            let mut cluster = Cluster::new(seed, form, if seed % 4 < 2 { 20 } else { 3 });
            (0..STEPS).for_each(|_| cluster.step());
            cluster.end()
        });
        match outcome {
            Ok(outcome) => sum.add(&outcome),
            Err(_) => panics += 1,
        }
        if sum.delivered >= messages || panics >= 1_000 {
            break;
        }
    }
    let rate = sum.delivered as f64 / begun.elapsed().as_secs_f64();
    let _ = writeln!(std::io::stdout(), "{sum:?}, {rate:.0} messages/s, {panics} panics");
    panics
}

fn decoders(messages: u64, seed: u64) -> u64 {
    let begun = Instant::now();
    let outcome = panic::catch_unwind(|| nonsense::decoders::run(seed, |done| done < messages));
    let Ok(outcome) = outcome else { return 1 };
    let rate = outcome.inputs as f64 / begun.elapsed().as_secs_f64() / 1e6;
    let _ = writeln!(std::io::stdout(), "{outcome:?}, {rate:.2} million inputs/s");
    0
}

fn main() -> ExitCode {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if PLACES.lock().expect("a set").insert(place) {
            let _ = writeln!(std::io::stderr(), "{info}");
        } else {
            nonsense::cluster::known_panic();
        }
    }));
    let (messages, seed) = (option("--messages").unwrap_or(1_000_000), option("--seed").unwrap_or(1));
    let found = match std::env::args().nth(1).as_deref() {
        Some("roles") => roles(messages, seed),
        Some("decoders") => decoders(messages, seed),
        _ => {
            let _ = writeln!(std::io::stderr(), "roles or decoders?");
            return ExitCode::from(2);
        }
    };
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
