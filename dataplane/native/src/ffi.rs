//! The calls into C, each behind a safe function.
#![allow(unsafe_code, reason = "C is called: every block says why the call is sound")]

use onpath_dataplane::Counter;
use onpath_dataplane::common::copies::COPIES_MAX;
use onpath_dataplane::dirty_set::registers::{SHARDS, STAGES_MAX};
use onpath_wire::innet::{INNET_BYTES_MAX, METADATA_BYTES};

/// `struct onpath_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawConfig {
    pub(crate) cluster: u32,
    pub(crate) udp_port: u32,
    pub(crate) index_bits: u32,
    pub(crate) stages: u32,
    pub(crate) entry_bits: u32,
}

/// `struct onpath_tracking`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawTracking {
    pub(crate) epoch: u32,
    pub(crate) complete: u32,
}

/// `struct onpath_pair`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawPair {
    pub(crate) min_term: u32,
    pub(crate) counter: u32,
}

/// `struct onpath_set`.
pub(crate) type RawSet = [u32; STAGES_MAX];

/// `struct onpath_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEntry {
    pub(crate) fingerprint: u32,
    pub(crate) ts: u32,
    pub(crate) metadata: [u8; METADATA_BYTES],
}

/// `struct copy`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawCopy {
    pub(crate) port: u32,
    pub(crate) node: u32,
    pub(crate) header: [u8; INNET_BYTES_MAX],
}

/// Counters that C has.
const COUNTERS: usize = Counter::ALL.len();

/// `struct onpath_state`, of which only C knows the layout.
#[repr(C)]
struct RawState {
    _bytes: [u8; 0],
}

unsafe extern "C" {
    fn onpath_native_bytes(config: *const RawConfig) -> u64;
    fn onpath_native_load(state: *mut RawState, config: *const RawConfig);
    fn onpath_native_tracking(state: *mut RawState) -> *mut RawTracking;
    fn onpath_native_pairs(state: *mut RawState) -> *mut RawPair;
    fn onpath_native_sets(state: *mut RawState) -> *mut RawSet;
    fn onpath_native_visibility(state: *mut RawState) -> *mut RawTracking;
    fn onpath_native_entries(state: *mut RawState) -> *mut RawEntry;
    fn onpath_native_counters(state: *const RawState) -> *const u64;
    fn onpath_native_step(
        state: *mut RawState,
        port: u32,
        udp_port: u32,
        payload: *const u8,
        length: u64,
        copies: *mut RawCopy,
        copies_max: u32,
        copies_made: *mut u32,
    ) -> u32;
    fn onpath_native_control(state: *mut RawState, command: u32, a: u32, b: u32, port: u32) -> u32;
    #[cfg(feature = "planted")]
    fn onpath_native_plant(rule: u32);
}

/// A state of C, and room for the copies of a packet. It holds no pointer to itself, so it may move.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    words: Vec<u64>,
    sets: usize,
    entries: usize,
    copies: Vec<RawCopy>,
}

impl Memory {
    /// All registers 0, all tables empty. The configuration is a valid one.
    pub(crate) fn new(config: &RawConfig, sets: usize, entries: usize) -> Memory {
        // SAFETY: a function of its argument alone, which is only read during the call.
        let bytes = unsafe { onpath_native_bytes(config) };
        let copy = RawCopy { port: 0, node: 0, header: [0; INNET_BYTES_MAX] };
        let words = vec![0; (bytes as usize).div_ceil(size_of::<u64>())];
        let mut memory = Memory { words, sets, entries, copies: vec![copy; COPIES_MAX] };
        // SAFETY: the state is as long as C asked for, aligned for its widest field (64 bits), and zeroes are a valid one; the
        // configuration is only read during the call.
        unsafe { onpath_native_load(memory.state(), config) };
        memory
    }

    fn state(&mut self) -> *mut RawState {
        self.words.as_mut_ptr().cast()
    }

    pub(crate) fn tracking(&mut self) -> &mut RawTracking {
        // SAFETY: C gives a field of the state, which is ours alone as long as `self` is borrowed.
        unsafe { &mut *onpath_native_tracking(self.state()) }
    }

    pub(crate) fn pairs(&mut self) -> &mut [RawPair] {
        // SAFETY: C gives the array of ONPATH_SHARDS pairs, which innet.h has from the same constant; borrowed as above.
        unsafe { std::slice::from_raw_parts_mut(onpath_native_pairs(self.state()), SHARDS) }
    }

    pub(crate) fn sets(&mut self) -> &mut [RawSet] {
        // SAFETY: the state was made with room for so many sets, which `Config` and C count alike; borrowed as above.
        unsafe { std::slice::from_raw_parts_mut(onpath_native_sets(self.state()), self.sets) }
    }

    pub(crate) fn visibility(&mut self) -> &mut RawTracking {
        // SAFETY: C gives a field of the state, which is ours alone as long as `self` is borrowed.
        unsafe { &mut *onpath_native_visibility(self.state()) }
    }

    pub(crate) fn entries(&mut self) -> &mut [RawEntry] {
        // SAFETY: the state was made with room for so many entries, which `Config` and C count alike; borrowed as above. Their values are
        // words to C, of which any bytes are such.
        unsafe { std::slice::from_raw_parts_mut(onpath_native_entries(self.state()), self.entries) }
    }

    pub(crate) fn counters(&self) -> &[u64] {
        // SAFETY: C gives the array of ONPATH_COUNTERS, which innet.h has from the same list; nothing writes while it is borrowed.
        unsafe { std::slice::from_raw_parts(onpath_native_counters(self.words.as_ptr().cast()), COUNTERS) }
    }

    /// One packet: what it is counted as, and its copies.
    pub(crate) fn step(&mut self, port: u32, udp_port: u16, payload: &[u8]) -> (u32, &[RawCopy]) {
        let (copies, mut made, length) = (self.copies.as_mut_ptr(), 0, payload.len() as u64);
        // SAFETY: payload and list are as long as is said, and are used during the call only.
        let counter = unsafe {
            let state = self.words.as_mut_ptr().cast();
            onpath_native_step(
                state,
                port,
                udp_port.into(),
                payload.as_ptr(),
                length,
                copies,
                COPIES_MAX as u32,
                &raw mut made,
            )
        };
        (counter, self.copies.get(..made as usize).expect("no packet makes more copies"))
    }

    /// A command by its number: why it was refused, 0 if it was not.
    pub(crate) fn control(&mut self, command: u32, [a, b, port]: [u32; 3]) -> u32 {
        // SAFETY: the state is ours alone as long as `self` is borrowed.
        unsafe { onpath_native_control(self.state(), command, a, b, port) }
    }
}

/// Removes a rule for this thread; 0 for none.
#[cfg(feature = "planted")]
pub(crate) fn plant(rule: u32) {
    // SAFETY: it writes one variable of this thread.
    unsafe { onpath_native_plant(rule) }
}
