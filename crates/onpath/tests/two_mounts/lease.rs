//! A mount of which nobody hears for longer than its lease: its locks are given away, nothing that it does afterwards counts, and it
//! comes back by itself.
//!
//! Files of the mount that stands still are held by other processes: a close waits for it, and so does whoever makes a process here.

use crate::common::check::{content, done};
use crate::common::process::{Child, End, fork};
use crate::common::sys;
use crate::common::{number_from_env, wait_until};
use crate::two_mounts::Pair;
use libc::{LOCK_EX, O_RDWR};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Sessions that the coordinator knows.
fn sessions(pair: &Pair) -> u64 {
    pair.site.status().sum("shard", &["sessions"])
}

/// Stops the second mount until the coordinator has declared its session dead.
fn silence(pair: &Pair) {
    let before = sessions(pair);
    pair.mounts[1].signal(libc::SIGSTOP);
    wait_until("the silent session is dead", || sessions(pair) < before);
}

/// A shell on the second mount, told by lines what to do; it says how each ended.
struct Shell {
    child: std::process::Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn new(dir: &Path) -> Shell {
        let script = "while read -r line; do if eval \"$line\" 2>/dev/null; then echo done; else echo failed; fi; done";
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh runs");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        Shell { child, said }
    }

    fn say(&mut self, line: &str) {
        let mut input = self.child.stdin.as_ref().expect("piped");
        writeln!(input, "{line}").expect("the shell listens");
    }

    fn heard(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("the shell answers");
        line.trim().to_owned()
    }

    #[track_caller]
    fn does(&mut self, line: &str) {
        self.say(line);
        assert_eq!(self.heard(), "done", "{line}");
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("the shell ends");
    }
}

/// Files stay open, the working directory stays, a call made meanwhile waits. Nothing is written below the mountpoint.
#[test]
fn a_mount_that_was_declared_dead_stays() {
    let Some(pair) = Pair::new("a mount that was declared dead", &[]) else { return };
    let [here, there] = [pair.mounts[0].path().to_owned(), pair.mounts[1].path().to_owned()];
    std::fs::create_dir(here.join("dir")).expect("mkdir");
    std::fs::write(here.join("dir/f"), "before").expect("write");
    let mut shell = Shell::new(&there.join("dir"));
    shell.does("exec 3<>f && exec 4<f");
    silence(&pair);
    // It is asked while the mount stands still.
    shell.say("echo after >&3 && mkdir -p deep/er && echo new > deep/er/f");
    pair.mounts[1].signal(libc::SIGCONT);
    assert_eq!(shell.heard(), "done", "with nothing to lose nobody notices");
    assert_eq!(content(here.join("dir/f")), b"after\n");
    assert_eq!(content(here.join("dir/deep/er/f")), b"new\n");
    shell.does("read -r word <&4 && [ \"$word\" = after ]");
    // What it has open is known under the other session too: without a name it stays as long as it is open.
    std::fs::remove_file(here.join("dir/f")).expect("unlink");
    shell.does("echo nameless >&3");
    shell.end();
    pair.stop("after a dead session");
}

/// Locks are lost, and those who held them hear of it when they go on.
#[test]
fn a_lost_lock_is_told() {
    let Some(pair) = Pair::new("a lost lock", &[]) else { return };
    let [here, _] = pair.both("f");
    std::fs::write(&here, "before").expect("write");
    let mut shell = Shell::new(pair.mounts[1].path());
    shell.does("exec 3<>f && exec 4<>g && flock 3");
    silence(&pair);
    let mine = done("open", sys::open(&here, O_RDWR, 0));
    done("the lock is given away", sys::flock(&mine, LOCK_EX));
    pair.mounts[1].signal(libc::SIGCONT);
    shell.say("echo stale >&3");
    assert_eq!(shell.heard(), "failed");
    shell.does("echo kept >&4");
    assert_eq!(content(&here), b"before");
    drop(mine);
    shell.does("exec 3<&- && exec 3<>f && flock 3 && echo anew >&3");
    assert_eq!(content(&here), b"anew\ne");
    shell.end();
    pair.stop("after a lost lock");
}

/// Writes one byte everywhere in a file under a lock, again and again, until that fails.
fn scribble(path: &Path, byte: u8) -> Child {
    let path = path.to_owned();
    fork(move || {
        let Ok(fd) = sys::open(&path, O_RDWR, 0) else { return 1 };
        if sys::flock(&fd, LOCK_EX).is_err() {
            return 1;
        }
        loop {
            for block in 0..BLOCKS {
                if sys::pwrite(&fd, [byte; 4096], block * 4096).is_err() {
                    return 0;
                }
            }
        }
    })
}

const BLOCKS: i64 = 16;

/// The holder of a lock stands still in the midst of its writes, for longer than its lease. What comes of them afterwards does not lie
/// over the bytes of the next holder.
#[test]
fn nothing_is_written_under_a_lock_that_was_given_away() {
    let Some(pair) = Pair::new("writes of a dead session", &[]) else { return };
    for round in 0..number_from_env("ONPATH_LEASE_ROUNDS", 1) {
        let [here, there] = pair.both(&format!("f{round}"));
        std::fs::write(&here, vec![0; BLOCKS as usize * 4096]).expect("write");
        let scribbler = scribble(&there, b'B');
        wait_until("it writes", || content(&here)[0] == b'B');
        silence(&pair);
        let mine = done("open", sys::open(&here, O_RDWR, 0));
        done("the lock is given away", sys::flock(&mine, LOCK_EX));
        for block in 0..BLOCKS {
            done("write", sys::pwrite(&mine, [b'A'; 4096], block * 4096));
        }
        done("fsync", sys::fsync(&mine));
        pair.mounts[1].signal(libc::SIGCONT);
        assert_eq!(scribbler.wait(), End::Exit(0), "it hears of it");
        // Whatever was on its way has come by then.
        let over = Instant::now() + Duration::from_secs(2);
        while Instant::now() < over {
            assert!(content(&here).iter().all(|byte| *byte == b'A'), "bytes of a dead session");
            sleep(Duration::from_millis(20));
        }
    }
    pair.stop("after writes of a dead session");
}
