//! What a crash leaves of a journal's end: the bytes of the batches that were not safe, torn or with wrong bits, read back by
//! the scanner that recovery uses.

use crate::world::World;
use onpath_store::batch::{BatchBuilder, Scanner, Step};
use onpath_wire::ids::Lsn;
use rand::Rng;

/// Most bits that are wrong.
const BITS_MAX: u32 = 4;
/// Zeros behind the end of a journal.
const ZEROS: usize = 256;

/// Batches of one record each.
struct Batches {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    salt: u32,
}

impl Batches {
    /// Where the first `n` end.
    fn end(&self, n: u64) -> usize {
        n.checked_sub(1).map_or(0, |last| self.ends[last as usize])
    }

    /// How many of the first ones are as they were.
    fn sound(&self, damaged: &[u8]) -> u64 {
        let differs = self.bytes.iter().zip(damaged).position(|(a, b)| a != b).unwrap_or(self.bytes.len());
        self.ends.partition_point(|end| *end <= differs) as u64
    }
}

impl World {
    /// The crash of a process, which makes sure of the records up to `safe`, would leave those up to `kept`. Damage to them and
    /// to the next one may leave fewer: the last record that a recovery finds.
    pub(in crate::world) fn damaged_tail(&mut self, index: usize, safe: u64, kept: u64, power: bool) -> u64 {
        let (torn, flipped) = (self.config.faults.torn_percent, self.config.faults.flipped_percent);
        let disk = &self.processes[index].disk;
        let appended = disk.appended().0;
        let written = appended > safe && !disk.is_recovering();
        let flips = self.faults.rng.random_ratio(flipped, 100) && power && written;
        // Wrong bits in something that else would be whole.
        let kept = if flips { self.faults.rng.random_range(safe + 1..=appended) } else { kept };
        let tears = self.faults.rng.random_ratio(torn, 100) && kept < appended;
        if !tears && !flips {
            return kept;
        }
        let batches = self.tail_batches(index, safe, kept + u64::from(tears));
        let whole = batches.end(kept - safe);
        let mut bytes = batches.bytes.clone();
        if tears {
            self.counters.faults.torn += 1;
            bytes[self.faults.rng.random_range(whole..batches.bytes.len())..].fill(0);
        }
        if flips {
            self.counters.faults.flipped += 1;
            for _ in 0..self.faults.rng.random_range(1..=BITS_MAX) {
                bytes[self.faults.rng.random_range(0..whole)] ^= 1 << self.faults.rng.random_range(0..8);
            }
        }
        let sound = batches.sound(&bytes);
        bytes.resize(bytes.len() + ZEROS, 0);
        let found = scan(&bytes, batches.salt, Lsn(safe + 1));
        if found != Ok(sound) {
            self.checker.violation(format!("of {sound} whole records behind {safe} recovery reads {found:?}"));
        }
        safe + sound
    }

    fn tail_batches(&mut self, index: usize, safe: u64, upto: u64) -> Batches {
        let mut batches = Batches { bytes: vec![], ends: vec![], salt: self.faults.rng.random() };
        let process = &self.processes[index];
        let mut builder = BatchBuilder::default();
        for (lsn, entry) in process.disk.tail(Lsn(safe)).take_while(|(lsn, _)| lsn.0 <= upto) {
            builder.push(entry.seq, &entry.bytes);
            let role = process.configs[entry.server as usize].node();
            builder.seal(role, lsn, entry.durable.min(Lsn(safe)), batches.salt);
            batches.bytes.extend_from_slice(builder.bytes());
            batches.ends.push(batches.bytes.len());
        }
        batches
    }
}

/// How many batches are read before the end.
fn scan(bytes: &[u8], salt: u32, next: Lsn) -> Result<u64, String> {
    let mut scanner = Scanner::new(bytes, salt, Some(next));
    let mut batches = 0;
    loop {
        match scanner.step() {
            Step::Batch(_) => batches += 1,
            Step::Tail { .. } => return Ok(batches),
            other => return Err(format!("{other:?}")),
        }
    }
}
