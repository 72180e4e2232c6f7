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
    /// Which of the asks it is.
    ask: usize,
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
        let mut lanes: [Option<Lane<'_>>; LANES] = [const { None }; LANES];
        let mut begun = 0;
        loop {
            for lane in lanes.iter_mut().filter(|lane| lane.is_none()) {
                while lane.is_none() && begun < asks.len() {
                    *lane = self.begin(asks, begun);
                    begun += 1;
                }
            }
            let mut near = 0;
            for lane in lanes.iter().flatten() {
                near ^= self.records.touch(&self.pages, lane.key.place);
            }
            black_box(near);
            let mut under_way = false;
            for lane in &mut lanes {
                if let Some(current) = lane.take() {
                    *lane = self.step(asks, current);
                    under_way |= lane.is_some();
                }
            }
            if !under_way && begun == asks.len() {
                return;
            }
        }
    }

    fn begin<'p, C: Check>(&mut self, asks: &mut [Ask<'p, C>], number: usize) -> Option<Lane<'p>> {
        let ask = &mut asks[number];
        let Some((at, part)) = self.start(ask.from) else {
            ask.walk = Walk::NO_START;
            return None;
        };
        ask.walk = Walk::from(part);
        self.aim(ask, number, Components::new(ask.path), part, at)
    }

    /// Looks for the next component of a lane.
    fn step<'p, C: Check>(&mut self, asks: &mut [Ask<'p, C>], lane: Lane<'p>) -> Option<Lane<'p>> {
        let ask = &mut asks[lane.ask];
        match self.find(&lane.key, lane.next.name) {
            Some(at) => {
                ask.walk.depth += 1;
                let part = self.part(self.records.get(&self.pages, at));
                self.aim(ask, lane.ask, lane.rest, part, at)
            }
            None => {
                ask.walk.end = End::Missing;
                ask.walk.last = Some(lane.part);
                if let Some((at, _)) = self.find_id(lane.part.id) {
                    self.mark_used(at);
                }
                None
            }
        }
    }

    /// Where the next component of a walk that has come to `part` is looked for; none if the walk ends there.
    #[inline]
    fn aim<'p, C: Check>(
        &mut self,
        ask: &mut Ask<'p, C>,
        number: usize,
        mut rest: Components<'p>,
        part: Part,
        at: Slot,
    ) -> Option<Lane<'p>> {
        match rest.next() {
            Some(next) if may_pass(&mut ask.walk, &part, next.at, &mut ask.check) => {
                let key = self.key(part.id, next.name);
                Some(Lane { ask: number, rest, part, next, key })
            }
            next => {
                ask.walk.last = Some(part);
                if next.is_none() {
                    ask.walk.at = ask.path.len();
                    ask.walk.end = End::Found;
                }
                self.mark_used(at);
                None
            }
        }
    }
}
