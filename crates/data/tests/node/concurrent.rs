//! Writes and reads of one file whose disk operations end in any order: every byte behaves like a register. A read
//! returns the byte of a write that began before it ended and that no later write had replaced before it began. Punching and
//! zeroing write zeros; reserving writes nothing.

use crate::world::{World, data};
use onpath_wire::data::{Allocation, DataReply, DataRequest, Merge};
use onpath_wire::ids::{DataId, RequestSeq};
use proptest::prelude::*;

const BYTES: usize = 14_000;

#[derive(Clone, Debug)]
enum Step {
    Write {
        from: usize,
        len: usize,
    },
    Read {
        from: usize,
        len: usize,
    },
    Allocate {
        from: usize,
        len: usize,
        how: Allocation,
    },
    /// A disk operation ends, not always the one that waits longest.
    Disk {
        which: usize,
    },
    /// A duplicate of an earlier write arrives.
    Again {
        which: usize,
    },
    /// A duplicate of an earlier allocation.
    AllocateAgain {
        which: usize,
    },
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let range = (0..BYTES, prop_oneof![1..300usize, Just(4096usize), 1..BYTES]);
    let range = range.prop_map(|(from, len)| (from, len.min(BYTES - from)));
    let aligned = (0..3usize, 1..=3usize).prop_map(|(from, n)| (from * 4096, (n * 4096).min(3 * 4096 - from * 4096)));
    let any_range = prop_oneof![range.clone(), aligned];
    let how = prop_oneof![Just(Allocation::Reserve), Just(Allocation::Punch), Just(Allocation::Zero)];
    prop_oneof![
        3 => (any_range.clone(), how).prop_map(|((from, len), how)| Step::Allocate { from, len, how }),
        1 => (0..64usize).prop_map(|which| Step::AllocateAgain { which }),
        4 => any_range.prop_map(|(from, len)| Step::Write { from, len }),
        2 => range.prop_map(|(from, len)| Step::Read { from, len }),
        6 => (0..8usize).prop_map(|which| Step::Disk { which }),
        1 => (0..64usize).prop_map(|which| Step::Again { which }),
        1 => Just(Step::Flush),
    ]
}

/// An operation from the moment it was sent to the one it was answered.
#[derive(Clone, Debug)]
struct Span {
    seq: RequestSeq,
    from: usize,
    len: usize,
    began: usize,
    ended: Option<usize>,
}

#[derive(Default)]
struct History {
    clock: usize,
    writes: Vec<Span>,
    allocations: Vec<(Span, Allocation)>,
    reads: Vec<Span>,
}

impl History {
    fn span(&mut self, seq: RequestSeq, from: usize, len: usize) -> Span {
        self.clock += 1;
        Span { seq, from, len, began: self.clock, ended: None }
    }

    /// Notes what was answered.
    fn collect(&mut self, w: &mut World) {
        self.clock += 1;
        for merge in w.heard.drain(..) {
            let Merge::Written { request, .. } = merge else { panic!("{merge:?}") };
            let all = self.writes.iter_mut().chain(self.allocations.iter_mut().map(|(span, _)| span));
            let write = all.into_iter().find(|write| write.seq == request).expect("a write of this test");
            write.ended.get_or_insert(self.clock);
        }
        while let Some(sent) = w.sent.pop_front() {
            assert_eq!(sent.reply, DataReply::Bytes);
            let place = self.reads.iter().position(|read| read.seq == sent.seq).expect("a read of this test");
            let read = self.reads.remove(place);
            let mut bytes = sent.bulk.to_vec();
            bytes.resize(read.len, 0);
            self.check(&read, &bytes);
        }
    }

    fn check(&self, read: &Span, bytes: &[u8]) {
        for (i, &byte) in bytes.iter().enumerate() {
            let at = read.from + i;
            let covers = |write: &&Span| (write.from..write.from + write.len).contains(&at);
            // The end of the last of those that had certainly taken effect when the read began.
            let before = |write: &Span, began: usize| write.ended.is_some_and(|ended| ended < began);
            let clears =
                || self.allocations.iter().filter(|(_, how)| *how != Allocation::Reserve).map(|(span, _)| span);
            let replaced = |old: Option<&Span>| {
                self.writes
                    .iter()
                    .chain(clears())
                    .filter(covers)
                    .any(|new| before(new, read.began) && old.is_none_or(|old| before(old, new.began)))
            };
            if byte > 0 {
                let old = &self.writes[byte as usize - 1];
                assert!(covers(&old), "byte {at} is {byte}, which was not written there");
                assert!(!replaced(Some(old)), "byte {at} is {byte}, which was replaced before the read began");
            } else {
                let kept = !replaced(None) || clears().filter(covers).any(|clear| !replaced(Some(clear)));
                assert!(kept, "byte {at} is 0, which was replaced before the read began");
            }
        }
    }
}

fn allocate(file: DataId, from: usize, len: usize, how: Allocation) -> DataRequest {
    let (offset, bytes) = (from as u64, len as u64);
    DataRequest::Allocate { data: file, cut: 0, offset, bytes, how, end: 0, kill_suidgid: false }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_a_register(steps in prop::collection::vec(step(), 1..150)) {
        let mut w = World { hold_disk: true, ..World::default() };
        let (mut h, file) = (History::default(), data(3, 1));
        for step in steps {
            match step {
                Step::Write { from, len } if h.writes.len() < 255 => {
                    let span = h.span(RequestSeq(w.next_seq), from, len);
                    h.writes.push(span);
                    let body = DataRequest::Write { data: file, cut: 0, offset: from as u64, kill_suidgid: false, append: false, part: None };
                    let seq = RequestSeq(w.next_seq);
                    w.next_seq += 1;
                    w.request_as(1, seq, RequestSeq(1), &body, &vec![h.writes.len() as u8; len]);
                }
                Step::Write { .. } => {}
                Step::Read { from, len } => {
                    let span = h.span(RequestSeq(w.next_seq), from, len);
                    h.reads.push(span);
                    w.request(&DataRequest::Read { data: file, cut: 0, offset: from as u64, bytes: len as u32 }, &[]);
                }
                Step::Disk { which } if !w.disk_queue.is_empty() => {
                    let n = which % w.disk_queue.len();
                    w.disk_queue.rotate_left(n);
                    w.disk_step();
                }
                Step::Disk { .. } => {}
                Step::Again { which } if which < h.writes.len() => {
                    let Span { seq, from, len, .. } = h.writes[which];
                    let body = DataRequest::Write { data: file, cut: 0, offset: from as u64, kill_suidgid: false, append: false, part: None };
                    w.request_as(1, seq, RequestSeq(1), &body, &vec![which as u8 + 1; len]);
                }
                Step::Again { .. } => {}
                Step::Allocate { from, len, how } => {
                    let seq = RequestSeq(w.next_seq);
                    let span = h.span(seq, from, len);
                    h.allocations.push((span, how));
                    w.next_seq += 1;
                    w.request_as(1, seq, RequestSeq(1), &allocate(file, from, len, how), &[]);
                }
                Step::AllocateAgain { which } if which < h.allocations.len() => {
                    let (Span { seq, from, len, .. }, how) = h.allocations[which].clone();
                    w.request_as(1, seq, RequestSeq(1), &allocate(file, from, len, how), &[]);
                }
                Step::AllocateAgain { .. } => {}
                Step::Flush => w.flush(),
            }
            h.collect(&mut w);
        }
        while !w.disk_queue.is_empty() {
            w.disk_step();
            h.collect(&mut w);
        }
        prop_assert!(h.reads.is_empty() && h.writes.iter().all(|write| write.ended.is_some()));
        prop_assert!(h.allocations.iter().all(|(span, _)| span.ended.is_some()));
        let span = h.span(RequestSeq(w.next_seq), 0, BYTES);
        w.hold_disk = false;
        let bytes = w.read(file, 0, 0, BYTES as u32).unwrap();
        h.check(&span, &bytes);
        prop_assert!(w.faults().is_empty());
    }
}
