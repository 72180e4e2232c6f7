//! `onpath status`: whether a file system is healthy, on one screen, within five seconds, whatever hangs.

mod cluster;
mod here;
mod late;

use crate::common::wait_until;
use serde_json::Value;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Within this time something is said; looked at with some patience for a machine that does much else.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// What a `status` has said.
struct Said {
    code: Option<i32>,
    text: String,
}

/// Runs a command that tells the status.
#[track_caller]
fn status(mut command: Command, args: &[&str]) -> Said {
    let begun = Instant::now();
    let output: Output = command.args(args).output().expect("onpath runs");
    let took = begun.elapsed();
    assert!(took < ANSWERED_WITHIN, "{args:?} took {took:?}");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Said { code: output.status.code(), text }
}

/// Waits until the status ends with that code and tells these words; the screen.
#[track_caller]
fn wait_for(code: i32, words: &[&str], mut look: impl FnMut() -> Said) -> String {
    let mut last = String::new();
    wait_until(&format!("the status is {code} with {words:?}"), || {
        let said = look();
        let fits = said.code == Some(code) && words.iter().all(|word| said.text.contains(word));
        // With --nocapture, and of a test that fails: the screens of docs/monitoring.md.
        if said.text != last {
            println!("{}\n", said.text);
        }
        last = said.text;
        fits
    });
    last
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.text).unwrap_or_else(|error| panic!("{error}: {}", said.text))
}
