//! Walks. A step costs one look at memory that is not near: the record of the child. Several walks side by side wait for theirs together.

use super::Hi;
use super::pages::Slabs;
use super::record::{self, Key};
use super::table::Slot;
use crate::path::{Component, Components};
use crate::types::{DirId, Part};
use crate::walk::{Ask, Check, End, LANES, Walk, may_pass};
use core::hint::black_box;

/// A walk under way.
#[derive(Clone)]
struct Lane<'p> {
    /// Which of the asks it is; none: the lane is free.
    ask: Option<usize>,
    rest: Components<'p>,
    /// The directory to which it came.
    part: Part,
    /// The next component, and where it is looked for.
    next: Component<'p>,
    key: Key,
}

impl<S: Slabs> Hi<S> {
    /// The first directory of a walk.
    #[inline]
    fn start(&self, from: DirId) -> Option<(Slot, Part)> {
        let (record, _) = self.find_id(from)?;
        Some((record, self.part(self.records.get(&self.pages, record))))
    }

    /// Notes that a directory was used, for [`candidates`](crate::Index::candidates).
    #[inline]
    fn mark_used(&mut self, at: Slot) {
        if !record::is_used(self.records.get(&self.pages, at)) {
            record::set_used(self.records.get_mut(&mut self.pages, at), true);
        }
    }

    pub(super) fn walk_one<C: Check>(&mut self, from: DirId, path: &[u8], check: &mut C) -> Walk {
        let Some((mut at, mut part)) = self.start(from) else { return Walk::NO_START };
        let mut walk = Walk::from(part);
        walk.at = path.len();
        for next in Components::new(path) {
            if !may_pass(&mut walk, &part, next.at, check) {
                break;
            }
            let Some(found) = self.find(&self.key(part.id, next.name), next.name) else {
                walk.end = End::Missing;
                break;
            };
            at = found;
            part = self.part(self.records.get(&self.pages, found));
            walk.depth += 1;
            walk.at = path.len();
        }
        walk.last = Some(part);
        self.mark_used(at);
        walk
    }

    /// Walks [`LANES`] at a time: first it is known of each where to look, then all look, then each compares.
    pub(super) fn walk_lanes<C: Check>(&mut self, asks: &mut [Ask<'_, C>]) {
        let free = Lane {
            ask: None,
            rest: Components::new(b""),
            part: Part::default(),
            next: Component { name: b"", at: 0 },
            key: Key::new(DirId::NONE, b"", 0),
        };
        let mut lanes: [Lane<'_>; LANES] = core::array::from_fn(|_| free.clone());
        let (mut begun, mut under_way) = (0, 0);
        loop {
            for lane in &mut lanes {
                while lane.ask.is_none() && begun < asks.len() {
                    under_way += usize::from(self.begin(asks, begun, lane));
                    begun += 1;
                }
            }
            if under_way == 0 {
                return;
            }
            let looks = lanes.iter().filter(|lane| lane.ask.is_some());
            black_box(looks.fold(0, |near, lane| near ^ self.records.touch(&self.pages, lane.key.place)));
            for lane in &mut lanes {
                if let Some(number) = lane.ask {
                    under_way -= usize::from(!self.step(&mut asks[number], lane));
                }
            }
        }
    }

    /// Begins a walk; false if it has ended at once.
    fn begin<'p, C: Check>(&mut self, asks: &mut [Ask<'p, C>], number: usize, lane: &mut Lane<'p>) -> bool {
        let ask = &mut asks[number];
        let Some((at, part)) = self.start(ask.from) else {
            ask.walk = Walk::NO_START;
            return false;
        };
        ask.walk = Walk::from(part);
        lane.ask = Some(number);
        lane.rest = Components::new(ask.path);
        lane.part = part;
        self.aim(ask, lane, at)
    }

    /// Looks for the next component; false if the walk has ended.
    fn step<'p, C: Check>(&mut self, ask: &mut Ask<'p, C>, lane: &mut Lane<'p>) -> bool {
        if let Some(at) = self.find(&lane.key, lane.next.name) {
            ask.walk.depth += 1;
            lane.part = self.part(self.records.get(&self.pages, at));
            return self.aim(ask, lane, at);
        }
        ask.walk.end = End::Missing;
        ask.walk.last = Some(lane.part);
        if let Some((at, _)) = self.find_id(lane.part.id) {
            self.mark_used(at);
        }
        lane.ask = None;
        false
    }

    /// Says where the next component is looked for; false if the walk has ended with what is at `at`.
    #[inline]
    fn aim<'p, C: Check>(&mut self, ask: &mut Ask<'p, C>, lane: &mut Lane<'p>, at: Slot) -> bool {
        let next = lane.rest.next();
        match next {
            Some(next) if may_pass(&mut ask.walk, &lane.part, next.at, &mut ask.check) => {
                lane.key = self.key(lane.part.id, next.name);
                lane.next = next;
                return true;
            }
            Some(_) => {}
            None => {
                ask.walk.at = ask.path.len();
                ask.walk.end = End::Found;
            }
        }
        ask.walk.last = Some(lane.part);
        self.mark_used(at);
        lane.ask = None;
        false
    }
}
