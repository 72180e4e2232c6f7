//! The requests that run, so that an interrupt finds the operation it means. Slots are reused; finding one by its
//! `unique` is a scan, because interrupts are rare and requests are not.

use onpath_wire::errno::Errno;
use onpath_wire::ids::RequestSeq;

/// Name of a running request; [`Slot::BACKGROUND`] for operations that nobody asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(u32);

impl Slot {
    /// An operation of the session itself.
    pub(crate) const BACKGROUND: Slot = Slot(u32::MAX);
}

/// What is known of a running request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    /// The mount's name for it.
    pub(crate) unique: u64,
    /// Its calls in progress: the first and how many.
    pub(crate) first_call: RequestSeq,
    pub(crate) calls: u64,
    /// When they, or the wait below, began.
    pub(crate) since_us: u64,
    /// The key that it waits for inside the session.
    pub(crate) parked: Option<u64>,
    /// Its caller got a signal.
    pub(crate) interrupted: bool,
    /// It is to end with this error at its next step.
    pub(crate) abandoned: Option<Errno>,
    live: bool,
}

/// All running requests.
#[derive(Default, Debug)]
pub(crate) struct RunningTable {
    slots: Vec<Running>,
    free: Vec<u32>,
}

impl RunningTable {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn enter(&mut self, unique: u64) -> Slot {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Running::default());
            (self.slots.len() - 1) as u32
        });
        self.slots[at as usize] = Running { unique, live: true, ..Running::default() };
        Slot(at)
    }

    pub(crate) fn leave(&mut self, slot: Slot) {
        let running = &mut self.slots[slot.0 as usize];
        assert!(running.live, "a request ends once");
        running.live = false;
        self.free.push(slot.0);
    }

    /// The request in this slot; none for a background operation.
    #[inline]
    pub(crate) fn get(&mut self, slot: Slot) -> Option<&mut Running> {
        self.slots.get_mut(slot.0 as usize)
    }

    pub(crate) fn find(&self, unique: u64) -> Option<Slot> {
        self.slots.iter().position(|r| r.live && r.unique == unique).map(|at| Slot(at as u32))
    }

    /// The slot if this request still runs in it.
    pub(crate) fn still(&mut self, slot: Slot, unique: u64) -> Option<&mut Running> {
        self.get(slot).filter(|r| r.live && r.unique == unique)
    }

    /// All live slots, in order.
    pub(crate) fn all(&self) -> Vec<Slot> {
        (0..self.slots.len()).filter(|&at| self.slots[at].live).map(|at| Slot(at as u32)).collect()
    }
}
