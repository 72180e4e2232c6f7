//! Walks: the tree is followed first, and then it is asked who may.

use crate::nodes::Ref;
use crate::planted::{Planted, planted};
use crate::reach::reach;
use crate::tree::{Flavor, Tree};
use onpath_index::{Check, Components, DirId, End, Part, Search, Walk};

impl<F: Flavor> Tree<F> {
    /// Where a path ends.
    pub(crate) fn walk_path<C: Check>(&mut self, from: DirId, path: &[u8], check: &mut C) -> Walk {
        let Some(start) = self.held(from) else { return Walk::NO_START };
        let (found, end, changed) = self.follow(start, path);
        if let Some(target) = end
            && from == DirId::ROOT
            && self.speculates(target, changed, check)
        {
            self.mark_used(target);
            let depth = found;
            return Walk { end: End::Found, last: Some(self.part(target)), at: path.len(), depth, speculated: true };
        }
        self.ask(found, end, path, check)
    }

    /// Follows a path: how many components are there, the directory at its end, and when something on the way changed last. The directories in
    /// which a component was looked for are `way` then.
    fn follow(&mut self, start: Ref, path: &[u8]) -> (usize, Option<Ref>, u32) {
        let mut way = core::mem::take(&mut self.way);
        way.clear();
        let (mut at, mut found) = (start, 0);
        let mut changed = self.value(at).changed;
        let mut end = None;
        let mut components = Components::new(path);
        loop {
            let Some(next) = components.next() else {
                end = Some(at);
                break;
            };
            way.push((at, next.at));
            let Some(child) = self.find(at, next.name) else { break };
            at = child;
            found += 1;
            changed = changed.max(self.value(at).changed);
        }
        self.way = way;
        (found, end, changed)
    }

    /// Whether reachability bits grant all of `way`; they are computed if there are none, or if they are older than what is on the way.
    fn speculates<C: Check>(&mut self, target: Ref, changed: u32, check: &C) -> bool {
        let value = self.value(target);
        let access = value.access();
        let Some(class) = check.class(&access) else { return false };
        let changed = if planted(Planted::StaysValid) { 0 } else { changed };
        let bits = value.reach(changed).unwrap_or_else(|| {
            let bits = reach(&access, self.way.iter().map(|&(entry, _)| self.value(entry).access()));
            let now = self.now;
            self.value_mut(target).set_reach(bits, now);
            bits
        });
        bits.has(class)
    }

    /// Asks of each directory on the way.
    fn ask<C: Check>(&mut self, found: usize, end: Option<Ref>, path: &[u8], check: &mut C) -> Walk {
        for depth in 0..self.way.len() {
            let (entry, at) = self.way[depth];
            let part = self.part(entry);
            let end = match check.search(part.id, &part.access) {
                Search::Denied => End::Denied,
                Search::Unknown => End::Unknown,
                Search::Allowed if depth == found => End::Missing,
                Search::Allowed => continue,
            };
            self.mark_used(entry);
            return Walk { end, last: Some(part), at, depth, speculated: false };
        }
        let target = end.expect("a way of which nothing is missing has an end");
        self.mark_used(target);
        Walk { end: End::Found, last: Some(self.part(target)), at: path.len(), depth: found, speculated: false }
    }

    fn mark_used(&mut self, entry: Ref) {
        if !self.value(entry).is_used() {
            self.value_mut(entry).set_used(true);
        }
    }

    /// A directory without its name.
    pub(crate) fn part(&self, entry: Ref) -> Part {
        let value = self.value(entry);
        let parent = self.above(entry).map_or(DirId::NONE, |above| self.value(above).id());
        Part { id: value.id(), parent, access: value.access(), grant: value.grant() }
    }
}
