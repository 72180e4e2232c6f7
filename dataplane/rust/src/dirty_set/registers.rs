//! The registers, and the only way to reach them: a [`Pass`] of one packet through the stages.
//!
//! On a switch a register array is touched at most once a packet, and in the order of the stages. Here the types see to it: a
//! pass consumes its packet, [`Pass`] and [`Stages`] are consumed by going on, and a [`Register`] by the one action on it.
//!
//! ```
//! # use onpath_dataplane::dirty_set::registers::Stages;
//! fn in_order(stages: Stages<'_>) -> Option<bool> {
//!     let (first, later) = stages.next()?;
//!     let (second, _) = later.next()?;
//!     Some(first.query(1) || second.query(1))
//! }
//! ```
//!
//! Two actions on one register, a stage that was left, stage 0 twice, a second pass of a packet: none compiles.
//!
//! ```compile_fail,E0382
//! # use onpath_dataplane::dirty_set::registers::Register;
//! fn twice(register: Register<'_>) {
//!     register.query(1);
//!     register.conditional_remove(1);
//! }
//! ```
//! ```compile_fail,E0382
//! # use onpath_dataplane::dirty_set::registers::Stages;
//! fn back(stages: Stages<'_>) {
//!     let (first, later) = stages.next().unwrap();
//!     let (first_again, _) = stages.next().unwrap();
//! }
//! ```
//! ```compile_fail,E0382
//! # use onpath_dataplane::dirty_set::registers::Pass;
//! fn stage_0_twice(pass: Pass<'_>) {
//!     pass.track();
//!     pass.track();
//! }
//! ```
//! ```compile_fail,E0382
//! # use onpath_dataplane::dirty_set::{parser::Packet, registers::Registers};
//! fn again(registers: &mut Registers, packet: Packet) {
//!     registers.pass(packet, 0);
//!     registers.pass(packet, 0);
//! }
//! ```

use super::parser::Packet;
use crate::common::planted::{Planted, planted};
use crate::common::state::{Pair, State};
use crate::common::tracking::Tracking;
use crate::{Config, ConfigError, Counter};
use onpath_wire::innet::{DirtySet, DirtySetOp, INDEX_BITS};
use onpath_wire::limits::SHARDS_MAX;

/// Arrays of tags: as many stages as are left of 12.
pub const STAGES_MAX: usize = 10;
/// Pairs of `min_term` and `counter`.
pub const SHARDS: usize = SHARDS_MAX as usize;

/// All registers of the dirty set. A set lies in one or two cache lines, array after array: what order the arrays are touched in does
/// not depend on where they lie.
#[derive(Clone, Debug)]
pub struct Registers {
    tracking: Tracking,
    pairs: Vec<Pair>,
    stages: usize,
    /// A power of two.
    sets: usize,
    tags: Vec<u32>,
}

impl Registers {
    pub(crate) fn load(config: &Config, state: &State) -> Result<Registers, ConfigError> {
        let stages = config.stages;
        let (pairs, tags) = (vec![Pair::default(); SHARDS], vec![0; stages * config.sets()]);
        let mut registers = Registers { tracking: state.tracking, pairs, stages, sets: config.sets(), tags };
        for &(shard, pair) in &state.pairs {
            let known = registers.pairs.get_mut(usize::from(shard));
            *known.ok_or(ConfigError::Register { what: "pair", at: u32::from(shard) })? = pair;
        }
        for &(stage, index, tag) in &state.tags {
            if usize::from(stage) >= stages {
                return Err(ConfigError::Register { what: "array", at: u32::from(stage) });
            }
            let register = registers.tags.get_mut(index as usize * stages + usize::from(stage));
            *register.ok_or(ConfigError::Register { what: "index", at: index })? = tag;
        }
        Ok(registers)
    }

    /// Adds those that are not 0.
    pub(crate) fn tell(&self, state: &mut State) {
        let pairs = self.pairs.iter().enumerate().filter(|(_, pair)| **pair != Pair::default());
        let tags = self.tags.iter().enumerate().filter(|(_, tag)| **tag != 0);
        state.tags = tags.map(|(at, &tag)| ((at % self.stages) as u16, (at / self.stages) as u32, tag)).collect();
        state.tags.sort_unstable();
        state.pairs = pairs.map(|(shard, &pair)| (shard as u16, pair)).collect();
        state.tracking = self.tracking;
    }

    /// Begins the pass of a packet over the set of this index; beyond the last one it is taken modulo their number, as hardware does.
    #[inline]
    pub fn pass(&mut self, packet: Packet, index: u32) -> Pass<'_> {
        let set = index as usize & (self.sets - 1);
        let set = &mut self.tags[set * self.stages..][..self.stages];
        Pass { op: packet.op(), tracking: self.tracking, pairs: &mut self.pairs, set }
    }

    pub(crate) fn tracking(&self) -> Tracking {
        self.tracking
    }

    /// D-37.
    pub(crate) fn set_epoch(&mut self, epoch: u16) {
        self.tracking.set_epoch(epoch, Planted::D37);
    }

    /// D-38: whether it was the present epoch.
    pub(crate) fn set_complete(&mut self, epoch: u16) -> bool {
        self.tracking.set_complete(epoch, Planted::D38)
    }

    /// D-39.
    pub(crate) fn raise(&mut self, shard: u16, term: u32) {
        let pair = &mut self.pairs[usize::from(shard)];
        if term > pair.min_term || planted(Planted::D39) {
            *pair = Pair { min_term: term, counter: 0 };
        }
    }

    /// D-40: whether it was allowed.
    pub(crate) fn clear(&mut self) -> bool {
        let allowed = self.tracking.epoch == 0 || planted(Planted::D40);
        if allowed {
            self.tags.fill(0);
        }
        allowed
    }

    /// D-42.
    pub(crate) fn reboot(&mut self) {
        self.tracking = Tracking::default();
        self.tags.fill(0);
        if !planted(Planted::D42) {
            self.pairs.fill(Pair::default());
        }
    }
}

/// A packet before stage 0.
#[derive(Debug)]
pub struct Pass<'r> {
    op: DirtySetOp,
    tracking: Tracking,
    pairs: &'r mut [Pair],
    set: &'r mut [u32],
}

impl<'r> Pass<'r> {
    /// The packet's operation.
    #[inline]
    pub fn op(&self) -> DirtySetOp {
        self.op
    }

    /// Stage 0 of a query or an insert: reads epoch and complete bit.
    #[inline]
    pub fn track(self) -> (Tracking, Stages<'r>) {
        (self.tracking, Stages { set: self.set })
    }

    /// Stage 0 of a remove: the same, and compares and raises its shard's pair in one action (D-27 to D-32). Which drop counts
    /// is an error.
    #[inline]
    pub fn track_and_admit(self, header: &DirtySet) -> Result<(Tracking, Stages<'r>), Counter> {
        let shard = if planted(Planted::D32) { 0 } else { usize::from(header.shard) % SHARDS };
        let pair = &mut self.pairs[shard];
        if header.term < pair.min_term && !planted(Planted::D30) {
            return Err(Counter::DropTermLower);
        }
        if header.term > pair.min_term && !planted(Planted::D31) {
            return Err(Counter::DropTermAhead);
        }
        let equal = planted(Planted::D29) && header.sequence == pair.counter;
        if header.sequence <= pair.counter && !equal {
            return Err(Counter::DropNotNewer);
        }
        if !planted(Planted::D28) {
            pair.counter = header.sequence;
        }
        Ok((self.tracking, Stages { set: self.set }))
    }
}

/// The stages that are still ahead of a packet, at the index of its set.
#[derive(Debug)]
pub struct Stages<'r> {
    set: &'r mut [u32],
}

impl<'r> Stages<'r> {
    /// The register of the next stage, and the stages after it. There is no way back.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "it consumes itself")]
    pub fn next(self) -> Option<(Register<'r>, Stages<'r>)> {
        let (register, later) = self.set.split_first_mut()?;
        Some((Register { value: register }, Stages { set: later }))
    }
}

/// One register, for one action (SwitchFS §6.3).
#[derive(Debug)]
pub struct Register<'r> {
    value: &'r mut u32,
}

impl Register<'_> {
    /// Register query: whether it holds this tag.
    #[inline]
    pub fn query(self, tag: u32) -> bool {
        *self.value == tag
    }

    /// Conditional insert: puts the tag into an empty register; whether it holds it now.
    #[inline]
    pub fn conditional_insert(self, tag: u32) -> bool {
        let free = *self.value == 0;
        let holds = free || *self.value == tag && !planted(Planted::D22);
        if free {
            *self.value = tag;
        }
        holds
    }

    /// Conditional remove: empties the register if it holds this tag.
    #[inline]
    pub fn conditional_remove(self, tag: u32) {
        if *self.value == tag {
            *self.value = 0;
        }
    }
}

const _: () = assert!(INDEX_BITS == 17 && STAGES_MAX + 2 == 12, "twelve stages: gate, ten arrays, output");
