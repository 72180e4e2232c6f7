//! The calls into C, each behind a safe function.
#![allow(unsafe_code, reason = "C is called: every block says why the call is sound")]

use onpath_dataplane::Counter;
use onpath_dataplane::cache::counts::ROWS;
use onpath_dataplane::common::copies::COPIES_MAX;
use onpath_dataplane::dirty_set::registers::{SHARDS, STAGES_MAX};
use onpath_wire::innet::cache::VALUE_BYTES;
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
    pub(crate) cache_bits: u32,
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

/// `struct onpath_lease`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawLease {
    pub(crate) until: u32,
    pub(crate) epoch: u32,
}

/// `struct onpath_cached`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawCached {
    pub(crate) number: u32,
    pub(crate) state: u32,
    pub(crate) value: [u8; VALUE_BYTES],
}

/// `struct waiting`: of what is in it only C knows the meaning.
#[repr(C, align(4))]
#[derive(Debug)]
pub(crate) struct RawWaiting {
    header: [u8; INNET_BYTES_MAX],
    walk: [u32; 6],
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
    fn onpath_native_lease(state: *mut RawState) -> *mut RawLease;
    fn onpath_native_cached(state: *mut RawState) -> *mut RawCached;
    fn onpath_native_hits(state: *mut RawState) -> *mut u32;
    fn onpath_native_missed(state: *mut RawState) -> *mut u16;
    fn onpath_native_reported(state: *mut RawState) -> *mut u8;
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
    fn onpath_native_arrive(
        state: *mut RawState,
        port: u32,
        udp_port: u32,
        payload: *const u8,
        length: u64,
        copies: *mut RawCopy,
        copies_max: u32,
        copies_made: *mut u32,
        waiting: *mut RawWaiting,
    ) -> u32;
    fn onpath_native_go_on(
        state: *mut RawState,
        copies: *mut RawCopy,
        copies_max: u32,
        copies_made: *mut u32,
        waiting: *mut RawWaiting,
    ) -> u32;
    fn onpath_native_cache(state: *mut RawState, command: u32, arguments: *const u64) -> u32;
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
    cached: usize,
    copies: Vec<RawCopy>,
}

impl Memory {
    /// All registers 0, all tables empty. The configuration is a valid one.
    pub(crate) fn new(config: &RawConfig, [sets, entries, cached]: [usize; 3]) -> Memory {
        // SAFETY: a function of its argument alone, which is only read during the call.
        let bytes = unsafe { onpath_native_bytes(config) };
        let copy = RawCopy { port: 0, node: 0, header: [0; INNET_BYTES_MAX] };
        let words = vec![0; (bytes as usize).div_ceil(size_of::<u64>())];
        let mut memory = Memory { words, sets, entries, cached, copies: vec![copy; COPIES_MAX] };
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

    pub(crate) fn lease(&mut self) -> &mut RawLease {
        // SAFETY: C gives a field of the state, which is ours alone as long as `self` is borrowed.
        unsafe { &mut *onpath_native_lease(self.state()) }
    }

    pub(crate) fn cached(&mut self) -> &mut [RawCached] {
        // SAFETY: the state was made with room for so many entries, which `Config` and C count alike; borrowed as above. Their values are
        // words to C, of which any bytes are such.
        unsafe { std::slice::from_raw_parts_mut(onpath_native_cached(self.state()), self.cached) }
    }

    pub(crate) fn hits(&mut self) -> &mut [u32] {
        // SAFETY: there is one for each entry; borrowed as above.
        unsafe { std::slice::from_raw_parts_mut(onpath_native_hits(self.state()), self.cached) }
    }

    /// Row after row.
    pub(crate) fn missed(&mut self) -> &mut [u16] {
        // SAFETY: each row, of as many as innet.h has from the same constant, has a counter for each entry; borrowed as above.
        unsafe { std::slice::from_raw_parts_mut(onpath_native_missed(self.state()), ROWS * self.cached) }
    }

    pub(crate) fn reported(&mut self) -> &mut [u8] {
        // SAFETY: there is one for each entry; borrowed as above.
        unsafe { std::slice::from_raw_parts_mut(onpath_native_reported(self.state()), self.cached) }
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

    /// A packet, as far as it comes without having to wait: what it is counted as, `COUNTERS` if it waits, and its copies.
    pub(crate) fn arrive(&mut self, port: u32, udp_port: u16, payload: &[u8]) -> (Result<u32, RawWaiting>, &[RawCopy]) {
        let (copies, mut made, length) = (self.copies.as_mut_ptr(), 0, payload.len() as u64);
        let mut waiting = RawWaiting { header: [0; INNET_BYTES_MAX], walk: [0; 6] };
        let udp_port = udp_port.into();
        // SAFETY: payload, list and what waits are as long as is said, and are used during the call only.
        let counter = unsafe {
            let state = self.words.as_mut_ptr().cast();
            onpath_native_arrive(
                state,
                port,
                udp_port,
                payload.as_ptr(),
                length,
                copies,
                COPIES_MAX as u32,
                &raw mut made,
                &raw mut waiting,
            )
        };
        self.ended(counter, made, waiting)
    }

    /// A packet that has waited, to where it waits next.
    pub(crate) fn go_on(&mut self, mut waiting: RawWaiting) -> (Result<u32, RawWaiting>, &[RawCopy]) {
        let (copies, mut made) = (self.copies.as_mut_ptr(), 0);
        // SAFETY: list and what waits are as long as is said, and are used during the call only; C has written what waits.
        let counter = unsafe {
            let state = self.words.as_mut_ptr().cast();
            onpath_native_go_on(state, copies, COPIES_MAX as u32, &raw mut made, &raw mut waiting)
        };
        self.ended(counter, made, waiting)
    }

    fn ended(&self, counter: u32, made: u32, waiting: RawWaiting) -> (Result<u32, RawWaiting>, &[RawCopy]) {
        let copies = self.copies.get(..made as usize).expect("no packet makes more copies");
        (if counter as usize == COUNTERS { Err(waiting) } else { Ok(counter) }, copies)
    }

    /// A command of the cache by its number: why it was refused, 0 if it was not.
    pub(crate) fn cache(&mut self, command: u32, arguments: [u64; 5]) -> u32 {
        // SAFETY: the state is ours alone as long as `self` is borrowed, and the arguments are only read during the call.
        unsafe { onpath_native_cache(self.state(), command, arguments.as_ptr()) }
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
