//! The registers of the visibility table, and the only way to reach them: a [`Pass`] of one packet.
//!
//! As in the dirty set a register is touched at most once a packet, and in the order of the stages, to which the types see: a pass
//! consumes its packet, the [`Gate`] of an entry is consumed by the one action on it, and leads to its [`Values`].
//!
//! ```
//! # use onpath_dataplane::visibility::registers::Gate;
//! fn in_order(gate: Gate<'_>) -> Option<[u8; 96]> {
//!     let (pending, values) = gate.look(7);
//!     pending.then(|| values.read())
//! }
//! ```
//!
//! Two actions on one register, or a second pass of a packet: none compiles.
//!
//! ```compile_fail,E0382
//! # use onpath_dataplane::visibility::registers::Gate;
//! fn twice(gate: Gate<'_>) {
//!     gate.look(7);
//!     gate.clear(1);
//! }
//! ```
//! ```compile_fail,E0382
//! # use onpath_dataplane::visibility::registers::Values;
//! fn read_and_written(values: Values<'_>) {
//!     values.read();
//!     values.write(&[0; 96]);
//! }
//! ```
//! ```compile_fail,E0382
//! # use onpath_dataplane::visibility::{parser::Packet, registers::Registers};
//! fn again(registers: &mut Registers, packet: Packet) {
//!     registers.pass(packet, 0);
//!     registers.pass(packet, 0);
//! }
//! ```

use super::parser::Packet;
use crate::common::planted::{Planted, planted};
use crate::common::state::{Entry, State};
use crate::common::tracking::Tracking;
use crate::{Config, ConfigError};
use onpath_wire::innet::{METADATA_BYTES, VisibilityOp};

/// Arrays of 32 bits in which metadata lies.
pub const VALUES: usize = METADATA_BYTES / 4;
/// Words of an entry: its gate, which is a double-width register, and its values.
const WORDS: usize = 2 + VALUES;

/// All registers of the table. An entry lies in two or three cache lines, array after array.
#[derive(Clone, Debug)]
pub struct Registers {
    tracking: Tracking,
    /// A power of two.
    entries: usize,
    /// Of each entry fingerprint, ts, and metadata in network order.
    words: Vec<u32>,
}

impl Registers {
    pub(crate) fn load(config: &Config, state: &State) -> Result<Registers, ConfigError> {
        let entries = config.entries();
        let mut registers = Registers { tracking: state.visibility, entries, words: vec![0; WORDS * entries] };
        for (number, entry) in &state.entries {
            let known = registers.words.chunks_exact_mut(WORDS).nth(*number as usize);
            let words = known.ok_or(ConfigError::Register { what: "entry", at: *number })?;
            (words[0], words[1]) = (entry.fingerprint, entry.ts);
            put(&mut words[2..], &entry.metadata);
        }
        Ok(registers)
    }

    /// Adds those that are not 0.
    pub(crate) fn tell(&self, state: &mut State) {
        let used = (0..).zip(self.words.chunks_exact(WORDS)).filter(|(_, words)| words.iter().any(|word| *word != 0));
        let entry = |words: &[u32]| Entry { fingerprint: words[0], ts: words[1], metadata: taken(&words[2..]) };
        state.entries = used.map(|(number, words)| (number, entry(words))).collect();
        state.visibility = self.tracking;
    }

    /// Begins the pass of a packet over the entry of this number; beyond the last one it is taken modulo their number, as hardware does.
    #[inline]
    pub fn pass(&mut self, packet: Packet, index: u32) -> Pass<'_> {
        let number = index as usize & (self.entries - 1);
        let words = &mut self.words[WORDS * number..][..WORDS];
        Pass { op: packet.op(), tracking: self.tracking, words }
    }

    pub(crate) fn tracking(&self) -> Tracking {
        self.tracking
    }

    /// D-63.
    pub(crate) fn set_epoch(&mut self, epoch: u16) {
        self.tracking.set_epoch(epoch, Planted::D63);
    }

    /// D-64: whether it was the present epoch.
    pub(crate) fn set_complete(&mut self, epoch: u16) -> bool {
        self.tracking.set_complete(epoch, Planted::D64)
    }

    /// D-65: whether it was allowed.
    pub(crate) fn clear(&mut self) -> bool {
        let allowed = self.tracking.epoch == 0 || planted(Planted::D65);
        if allowed {
            self.words.fill(0);
        }
        allowed
    }

    /// D-66.
    pub(crate) fn reboot(&mut self) {
        self.tracking = Tracking::default();
        if !planted(Planted::D66) {
            self.words.fill(0);
        }
    }
}

#[inline]
fn put(words: &mut [u32], metadata: &[u8; METADATA_BYTES]) {
    let (bytes, _) = metadata.as_chunks();
    words.iter_mut().zip(bytes).for_each(|(word, bytes)| *word = u32::from_be_bytes(*bytes));
}

#[inline]
fn taken(words: &[u32]) -> [u8; METADATA_BYTES] {
    let mut metadata = [0; METADATA_BYTES];
    let (bytes, _) = metadata.as_chunks_mut();
    bytes.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
    metadata
}

/// A packet before stage 0.
#[derive(Debug)]
pub struct Pass<'r> {
    op: VisibilityOp,
    tracking: Tracking,
    words: &'r mut [u32],
}

impl<'r> Pass<'r> {
    /// The packet's operation.
    #[inline]
    pub fn op(&self) -> VisibilityOp {
        self.op
    }

    /// Stage 0: reads epoch and complete bit.
    #[inline]
    pub fn track(self) -> (Tracking, Gate<'r>) {
        let (gate, values) = self.words.split_at_mut(2);
        let [fingerprint, ts] = gate else { unreachable!("two words") };
        (self.tracking, Gate { fingerprint, ts, values: Values { words: values } })
    }
}

/// Fingerprint and position of an entry: a double-width register, for one action.
#[derive(Debug)]
pub struct Gate<'r> {
    fingerprint: &'r mut u32,
    ts: &'r mut u32,
    values: Values<'r>,
}

impl<'r> Gate<'r> {
    /// Whether the entry is of this file (D-56).
    #[inline]
    pub fn look(self, fingerprint: u32) -> (bool, Values<'r>) {
        let equal = *self.fingerprint == fingerprint || planted(Planted::D56);
        (*self.fingerprint != 0 && equal, self.values)
    }

    /// Makes the entry this file's if that is newer (D-48 to D-52): whether it is its own now.
    #[inline]
    pub fn install(self, fingerprint: u32, ts: u32) -> (bool, Values<'r>) {
        let occupied = *self.fingerprint != 0;
        let newer = if planted(Planted::D48) { ts > *self.ts } else { ts.wrapping_sub(*self.ts) as i32 > 0 };
        let first = *self.ts == 0 && !planted(Planted::D49);
        let again = ts == *self.ts && (occupied && !planted(Planted::D50) || !occupied && planted(Planted::D51));
        let takes = newer || first || again;
        if takes && occupied && planted(Planted::D52) {
            return (true, Values { words: &mut [] });
        }
        if takes {
            (*self.fingerprint, *self.ts) = (fingerprint, ts);
        }
        (takes, self.values)
    }

    /// Frees the entry if this is its position (D-58, D-59): whether it did.
    #[inline]
    pub fn clear(self, ts: u32) -> bool {
        let frees = *self.fingerprint != 0 && (*self.ts == ts || planted(Planted::D58));
        if frees {
            *self.fingerprint = 0;
            if planted(Planted::D59) {
                *self.ts = 0;
            }
        }
        frees
    }
}

/// What the last install left with an entry: an array of 32 bits after the other, each touched once.
#[derive(Debug)]
pub struct Values<'r> {
    words: &'r mut [u32],
}

impl Values<'_> {
    /// Reads every array.
    #[inline]
    pub fn read(self) -> [u8; METADATA_BYTES] {
        taken(self.words)
    }

    /// Writes every array.
    #[inline]
    pub fn write(self, metadata: &[u8; METADATA_BYTES]) {
        put(self.words, metadata);
    }
}

const _: () = assert!(VALUES == 24 && VALUES.is_multiple_of(4), "four arrays a stage: six stages");
