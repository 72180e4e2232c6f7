//! Ways, callers, and the check step by step.

use onpath_index::{Access, Check, Class, DirId, Search};
use onpath_mart::reach;

/// Somebody all of whose groups are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) groups: Vec<u32>,
}

impl Check for Caller {
    fn search(&mut self, _: DirId, access: &Access) -> Search {
        if access.acl && self.uid != access.uid {
            return Search::Unknown;
        }
        let shift = match self.of(access) {
            Class::Owner => 6,
            Class::Group => 3,
            Class::Other => 0,
        };
        if access.mode >> shift & 1 == 1 { Search::Allowed } else { Search::Denied }
    }

    fn class(&self, access: &Access) -> Option<Class> {
        Some(self.of(access))
    }
}

impl Caller {
    /// The first class that fits.
    fn of(&self, access: &Access) -> Class {
        if self.uid == access.uid {
            Class::Owner
        } else if self.groups.contains(&access.gid) {
            Class::Group
        } else {
            Class::Other
        }
    }
}

/// What a check of each directory says.
pub(crate) fn asked(way: &[Access], caller: &Caller) -> Search {
    let answers = way.iter().map(|step| caller.clone().search(DirId::ROOT, step));
    answers.into_iter().find(|answer| *answer != Search::Allowed).unwrap_or(Search::Allowed)
}

/// Whether bits let the caller through.
pub(crate) fn granted(way: &[Access], target: &Access, caller: &Caller) -> bool {
    reach(target, way.iter().copied()).has(caller.of(target))
}

/// A caller whom bits let through and who is stopped on the way.
pub(crate) fn violation<'c>(way: &[Access], target: &Access, callers: &'c [Caller]) -> Option<&'c Caller> {
    callers.iter().find(|caller| granted(way, target, caller) && asked(way, caller) != Search::Allowed)
}

/// Directories of two owners and two groups with all search bits.
pub(crate) fn directories() -> Vec<Access> {
    let bits = |bits: u16| (bits >> 2 & 1) << 6 | (bits >> 1 & 1) << 3 | bits & 1;
    (0..32u16)
        .map(|n| Access { mode: bits(n & 7), uid: (n >> 3 & 1).into(), gid: (n >> 4).into(), acl: false })
        .collect()
}

/// Two owners and a stranger, in none, one or both groups.
pub(crate) fn callers() -> Vec<Caller> {
    let groups = [vec![], vec![0], vec![1], vec![0, 1]];
    (0..3).flat_map(|uid| groups.iter().map(move |groups| Caller { uid, groups: groups.clone() })).collect()
}
