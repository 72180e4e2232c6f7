//! Throws random and changed datagrams at a peer: nothing may panic, grow, or be taken that was changed.
//!
//! `cargo run --release -p onpath-transport --example fuzz -- SECONDS` or `-- --inputs N`, and `--seed S`; half of them without a key.

#[path = "../tests/common/mod.rs"]
mod common;

use common::fuzz::{Outcome, run};
use onpath_transport::Key;
use std::io::Write;
use std::time::{Duration, Instant};

/// The number behind an option.
fn option(name: &str) -> Option<u64> {
    let value = std::env::args().skip_while(|arg| arg != name).nth(1)?;
    value.replace('_', "").parse().ok()
}

fn main() -> std::io::Result<()> {
    let seconds = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(10);
    let (inputs, seed) = (option("--inputs"), option("--seed").unwrap_or(1));
    let mut out = std::io::stdout().lock();
    for (name, key) in [("plain", None), ("sealed", Some(Key::new([5; 32])))] {
        let begun = Instant::now();
        let more = |done: u64| match inputs {
            Some(inputs) => done < inputs / 2,
            None => !done.is_multiple_of(1_024) || begun.elapsed() < Duration::from_secs(seconds) / 2,
        };
        let Outcome { inputs, taken, delivered } = run(seed, key, more);
        let rate = inputs as f64 / begun.elapsed().as_secs_f64() / 1e6;
        writeln!(out, "{name}: {inputs} inputs ({rate:.2} M/s), {taken} taken, {delivered} delivered")?;
    }
    Ok(())
}
