//! Sleeping operations in order of their deadlines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Deadlines, earliest first; equal ones in order of arrival.
#[derive(Default, Debug)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    count: u64,
}

impl Timers {
    pub(crate) fn add(&mut self, at_us: u64, op: u32) {
        self.count += 1;
        self.heap.push(Reverse((at_us, self.count, op)));
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// The next operation whose deadline is not after `now_us`.
    pub(crate) fn pop(&mut self, now_us: u64) -> Option<u32> {
        if self.next()? > now_us {
            return None;
        }
        self.heap.pop().map(|Reverse((_, _, op))| op)
    }
}
