//! Random histories, done to an index and to the naive tree: after each step both say the same.

use super::naive::Naive;
use onpath_index::{Access, Ask, Check, Class, DirId, Directory, End, Grant, Index, IndexError, Part, Search, Walk};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Ids of a history: few, so that they meet.
const IDS: u64 = 24;

/// Names of a history: short and long ones, of the lengths at which something changes, with beginnings in common.
fn names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> =
        [&b"a"[..], b"ab", b"abc", b"abd", b"b", b"\x01", b"\xff\xff", b"usr", b"share"].map(Vec::from).into();
    for len in [3, 8, 10, 11, 12, 13, 15, 16, 17, 24, 31, 32, 33, 254, 255] {
        names.push(vec![b'x'; len]);
        let mut other = vec![b'x'; len];
        other[len - 1] = b'y';
        names.push(other);
    }
    names
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Bind { id: u64, parent: u64, name: usize, access: Access, count: u64 },
    SetAccess { id: u64, access: Access, count: u64 },
    Remove { id: u64 },
    Walk { from: u64, names: Vec<usize>, slashes: usize, who: Who },
    WalkTo { id: u64, more: Option<usize>, who: Who },
    WalkMany { asks: Vec<(u64, Vec<usize>, Who)> },
    WalkToMany { asks: Vec<(u64, Option<usize>, Who)> },
    GiveUp { count: usize },
}

/// A caller whose groups are known but one, the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) more: u32,
    pub(crate) unknown: Option<u32>,
    pub(crate) privileged: bool,
}

impl Who {
    fn in_group(&self, gid: u32) -> Option<bool> {
        if self.gid == gid || self.more == gid {
            return Some(true);
        }
        if self.unknown == Some(gid) { None } else { Some(false) }
    }
}

impl Check for Who {
    /// As POSIX has it: the first class that fits decides.
    fn search(&mut self, _: DirId, access: &Access) -> Search {
        let class = |shift: u16| if access.mode >> shift & 1 == 1 { Search::Allowed } else { Search::Denied };
        if self.privileged {
            Search::Allowed
        } else if self.uid == access.uid {
            class(6)
        } else if access.acl {
            Search::Unknown
        } else {
            match self.in_group(access.gid) {
                Some(true) => class(3),
                Some(false) => class(0),
                None if class(3) == class(0) => class(0),
                None => Search::Unknown,
            }
        }
    }

    fn class(&self, access: &Access) -> Option<Class> {
        if self.privileged {
            None
        } else if self.uid == access.uid {
            Some(Class::Owner)
        } else if access.acl {
            None
        } else {
            self.in_group(access.gid).map(|member| if member { Class::Group } else { Class::Other })
        }
    }
}

fn access() -> impl Strategy<Value = Access> {
    let mode = prop_oneof![4 => Just(0o755), 2 => Just(0o750), 2 => Just(0o700), 1 => Just(0o701), 1 => Just(0o705), 1 => 0..=0o7777u16];
    (mode, 0..4u32, 0..4u32, prop::bool::weighted(0.05)).prop_map(|(mode, uid, gid, acl)| Access {
        mode,
        uid,
        gid,
        acl,
    })
}

/// Callers.
pub(crate) fn who() -> impl Strategy<Value = Who> {
    (0..4u32, 0..4u32, 0..5u32, prop::option::weighted(0.2, 0..4u32), prop::bool::weighted(0.3))
        .prop_map(|(uid, gid, more, unknown, privileged)| Who { uid, gid, more, unknown, privileged })
}

fn step() -> impl Strategy<Value = Step> {
    let (id, name) = (|| 1..=IDS, || 0..names().len());
    let path = move || vec(name(), 0..6);
    prop_oneof![
        8 => (id(), id(), name(), access(), 0..1_000u64)
            .prop_map(|(id, parent, name, access, count)| Step::Bind { id, parent, name, access, count }),
        2 => (id(), access(), 0..1_000u64).prop_map(|(id, access, count)| Step::SetAccess { id, access, count }),
        2 => id().prop_map(|id| Step::Remove { id }),
        4 => (id(), path(), 0..4usize, who())
            .prop_map(|(from, names, slashes, who)| Step::Walk { from, names, slashes, who }),
        8 => (id(), prop::option::weighted(0.2, name()), who())
            .prop_map(|(id, more, who)| Step::WalkTo { id, more, who }),
        1 => vec((id(), prop::option::weighted(0.2, name()), who()), 0..20).prop_map(|asks| Step::WalkToMany { asks }),
        1 => vec((id(), path(), who()), 0..20).prop_map(|asks| Step::WalkMany { asks }),
        1 => (0..4usize).prop_map(|count| Step::GiveUp { count }),
    ]
}

/// Histories of `steps` steps.
pub(crate) fn histories(steps: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 0..steps)
}

/// A path of these names, written in one of several ways.
fn path(names: &[Vec<u8>], of: &[usize], slashes: usize) -> Vec<u8> {
    let between = [&b"/"[..], b"//", b"/./", b"/"][slashes];
    let mut path = of.iter().map(|&name| names[name].clone()).collect::<Vec<_>>().join(between);
    if slashes == 3 {
        path.push(b'/');
    }
    path
}

/// The path to a directory from the topmost one above it that is held, and perhaps one name more.
fn path_to(naive: &Naive, names: &[Vec<u8>], id: u64, more: Option<usize>) -> (DirId, Vec<u8>) {
    let (mut at, mut way) = (DirId(id), vec![]);
    while let Some(part) = naive.get(at).filter(|part| naive.get(part.parent).is_some()) {
        way.push(naive.name(at).expect("it is held").as_bytes().to_vec());
        at = part.parent;
    }
    way.reverse();
    way.extend(more.map(|name| names[name].clone()));
    (at, way.join(&b"/"[..]))
}

/// What a walk must be: as step by step, but for who was asked.
fn same_walk(found: Walk, expected: Walk) {
    assert!(!found.speculated || found.end == End::Found, "{found:?}");
    assert_eq!(Walk { speculated: false, ..found }, expected);
}

/// Does a history, comparing all the way.
pub(crate) fn run<I: Index>(mut index: I, steps: &[Step]) {
    let (mut naive, names) = (Naive::default(), names());
    let root = Directory::root(Access { mode: 0o755, ..Access::default() }, Grant::default());
    assert_eq!(index.bind(&root), naive.bind(&root));
    for step in steps {
        one(&mut index, &mut naive, &names, step);
        assert_eq!(index.len(), naive.len(), "after {step:?}");
    }
    same_all(&index, &naive, &names);
}

fn one<I: Index>(index: &mut I, naive: &mut Naive, names: &[Vec<u8>], step: &Step) {
    match step {
        Step::Bind { id, parent, name, access, count } => {
            let grant = Grant { term: 3, count: *count };
            let (parent, name) = if *id == 1 { (0, &[][..]) } else { (*parent, &names[*name][..]) };
            let directory = Directory { id: DirId(*id), parent: DirId(parent), name, access: *access, grant };
            assert_eq!(index.bind(&directory), naive.bind(&directory), "{step:?}");
        }
        Step::SetAccess { id, access, count } => {
            let grant = Grant { term: 4, count: *count };
            let answers = [index.set_access(DirId(*id), *access, grant), naive.set_access(DirId(*id), *access, grant)];
            assert_eq!(answers[0], answers[1], "{step:?}");
        }
        Step::Remove { id } => assert_eq!(index.remove(DirId(*id)), naive.remove(DirId(*id)), "{step:?}"),
        Step::Walk { from, names: of, slashes, who } => {
            let path = path(names, of, *slashes);
            let walks =
                [index.walk(DirId(*from), &path, &mut who.clone()), naive.walk(DirId(*from), &path, &mut who.clone())];
            same_walk(walks[0], walks[1]);
        }
        Step::WalkTo { id, more, who } => {
            let (from, path) = path_to(naive, names, *id, *more);
            same_walk(index.walk(from, &path, &mut who.clone()), naive.walk(from, &path, &mut who.clone()));
        }
        Step::WalkMany { asks } => {
            let asks = asks.iter().map(|(from, of, who)| (DirId(*from), path(names, of, 0), *who)).collect();
            walk_many(index, naive, asks);
        }
        Step::WalkToMany { asks } => {
            let to = |(id, more, who): &(u64, Option<usize>, Who)| {
                let (from, path) = path_to(naive, names, *id, *more);
                (from, path, *who)
            };
            walk_many(index, naive, asks.iter().map(to).collect());
        }
        Step::GiveUp { count } => give_up(index, naive, *count),
    }
}

fn walk_many<I: Index>(index: &mut I, naive: &mut Naive, asks: Vec<(DirId, Vec<u8>, Who)>) {
    let asks = || -> Vec<Ask<'_, Who>> { asks.iter().map(|(from, path, who)| Ask::new(*from, path, *who)).collect() };
    let (mut found, mut expected) = (asks(), asks());
    index.walk_many(&mut found);
    naive.walk_many(&mut expected);
    found.iter().zip(&expected).for_each(|(found, expected)| same_walk(found.walk, expected.walk));
}

/// Candidates are leaves with their grants, none twice, and there is one if there is a leaf.
fn give_up<I: Index>(index: &mut I, naive: &mut Naive, count: usize) {
    let mut found = vec![];
    index.candidates(count, &mut found);
    let leaves = naive.leaves();
    assert!(found.len() <= count && (found.is_empty() == (leaves.is_empty() || count == 0)), "{found:?} of {leaves:?}");
    let ids: BTreeSet<DirId> = found.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), found.len());
    for (id, grant) in found {
        assert!(leaves.contains(&id), "{id:?} of {leaves:?}");
        assert_eq!(naive.get(id).map(|part| part.grant), Some(grant));
        assert_eq!(index.remove(id), naive.remove(id));
    }
}

/// Everything that can be asked without a change.
fn same_all<I: Index>(index: &I, naive: &Naive, names: &[Vec<u8>]) {
    for id in (0..=IDS + 1).map(DirId) {
        assert_eq!(index.get(id), naive.get(id));
        assert_eq!(index.name(id), naive.name(id));
        for name in names {
            assert_eq!(index.child(id, name), naive.child(id, name), "{id:?} {name:?}");
        }
    }
    assert_eq!(all(index), all(naive));
}

fn all(index: &impl Index) -> Vec<(Part, Vec<u8>)> {
    let mut all = vec![];
    index.each(&mut |directory| all.push((directory.part(), directory.name.to_vec())));
    all.sort_by_key(|(part, _)| part.id);
    all
}

/// What no index takes, and what it does not know.
pub(crate) fn refuses<I: Index>(mut index: I) {
    let access = Access { mode: 0o700, ..Access::default() };
    let of =
        |id, parent, name| Directory { id: DirId(id), parent: DirId(parent), name, access, grant: Grant::default() };
    index.bind(&of(1, 0, b"")).unwrap();
    for (id, parent) in [(2, 1), (3, 2), (4, 3)] {
        index.bind(&of(id, parent, b"d")).unwrap();
    }
    for (bad, error) in [
        (of(0, 1, b"x"), IndexError::Id),
        (of(5, 5, b"x"), IndexError::Parent),
        (of(5, 1, b"a/b"), IndexError::Name),
        (of(2, 4, b"x"), IndexError::Circle),
        (of(3, 4, b"x"), IndexError::Circle),
    ] {
        assert_eq!(index.bind(&bad), Err(error));
    }
    assert_eq!(index.set_access(DirId(2), Access { mode: 0o10000, ..access }, Grant::default()), Err(IndexError::Mode));
    assert_eq!(index.set_access(DirId(9), access, Grant::default()), Ok(false));
    assert_eq!((index.remove(DirId(9)), index.get(DirId(9)), index.name(DirId(9))), (None, None, None));
    assert_eq!(index.child(DirId(1), b""), None);
    assert_eq!(index.child(DirId(0), b""), None, "the root has no name to be found by");
    assert_eq!(index.child(DirId(1), &[b'x'; 300]), None);
    for no_name in [&b"d/d"[..], b"d/", b"/d", b"d\0", b"\0", b"d/d/d"] {
        assert_eq!(index.child(DirId(1), no_name), None, "{no_name:?} is no name");
    }
    let mut all = |_: DirId, _: &Access| Search::Allowed;
    assert_eq!(index.walk(DirId(9), b"d", &mut all), Walk::NO_START);
    let stopped = index.walk(DirId(1), b"d/d/../d", &mut all);
    assert_eq!((stopped.end, stopped.at, stopped.depth), (End::Missing, 4, 2));
    let long = [&b"d/"[..], &[b'y'; 5_000]].concat();
    assert_eq!(index.walk(DirId(1), &long, &mut all).end, End::Missing);
    assert_eq!(index.walk(DirId(1), b"d/d/d", &mut all).last.map(|part| part.id), Some(DirId(4)));
    assert_eq!(index.len(), 4);
}
