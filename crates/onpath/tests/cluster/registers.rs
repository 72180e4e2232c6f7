//! Blocks of a file that everybody writes and reads, and what came of each call and when: judged by the same code that judges simulated
//! histories (`onpath_sim::users::history`).

use crate::common::check::done;
use crate::common::random::Random;
use crate::common::sys;
use onpath_sim::users::history::{History, Span};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

const BLOCK: usize = 4096;
/// Files, each with one block: they are at different hosts.
const FILES: usize = 6;

/// All calls so far.
pub(crate) struct Registers {
    begin: Instant,
    last: AtomicU32,
    histories: Mutex<(Vec<History>, [u64; 2])>,
}

fn file(n: usize) -> String {
    format!("register-{n}")
}

fn block(value: u32) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK / 4)
}

fn value(bytes: &[u8], what: &str) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    assert!(bytes.len() == BLOCK && rest.is_empty() && words.windows(2).all(|two| two[0] == two[1]), "{what} is torn");
    u32::from_le_bytes(words[0])
}

impl Registers {
    /// Makes the files, with nothing but zeros.
    pub(crate) fn new(top: &Path) -> Registers {
        (0..FILES).for_each(|n| std::fs::write(top.join(file(n)), block(0)).expect("a file"));
        let histories = Mutex::new((vec![History::default(); FILES], [0; 2]));
        Registers { begin: Instant::now(), last: AtomicU32::new(0), histories }
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Writes a value of its own, or reads.
    pub(crate) fn step(&self, top: &Path, random: &mut Random) {
        let (n, write) = (random.below(FILES), random.below(3) == 0);
        let flags = if random.below(2) == 0 { libc::O_RDWR } else { libc::O_RDWR | libc::O_DIRECT };
        let fd = done("open", sys::open(top.join(file(n)), flags, 0));
        let asked = self.now();
        if write {
            let value = 1 + self.last.fetch_add(1, Relaxed);
            assert_eq!(done("pwrite", sys::pwrite(&fd, block(value), 0)), BLOCK);
            let span = Span { asked, answered: self.now() };
            let mut all = self.histories.lock().expect("the histories");
            all.0[n].write(value, span);
            all.1[0] += 1;
        } else {
            let bytes = done("pread", sys::pread(&fd, BLOCK, 0));
            let span = Span { asked, answered: self.now() };
            let value = value(&bytes, &file(n));
            let mut all = self.histories.lock().expect("the histories");
            all.0[n].read((value != 0).then_some(value), span);
            all.1[1] += 1;
        }
    }

    /// Fails the test unless there is an order that explains every read; gives how many writes and reads there were.
    pub(crate) fn judge(&self) -> [u64; 2] {
        let all = self.histories.lock().expect("the histories");
        for (n, history) in all.0.iter().enumerate() {
            history.judge(false).unwrap_or_else(|why| panic!("{}: no order explains this: {why}", file(n)));
        }
        all.1
    }
}
