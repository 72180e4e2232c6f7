//! Many directories: growth, exact memory, the limit, crowds, directories whose parents are not held.

#[path = "common/counted.rs"]
mod counted;

use counted::live;
use onpath_index::{
    Access, Ask, DirId, Directory, End, Grant, Heap, Hi, Index, IndexError, PAGE_BYTES, Search, Secret,
};

fn index(limit_bytes: usize) -> Hi<Heap> {
    Hi::new(Secret::new([5; 16]), Heap, limit_bytes)
}

fn access(uid: u32) -> Access {
    Access { mode: 0o755, uid, gid: 1, acl: false }
}

fn bind(index: &mut Hi<Heap>, id: u64, parent: u64, name: &str) -> Result<(), IndexError> {
    let (access, grant) = (access((id % 50) as u32), Grant { term: 1, count: id });
    let directory = Directory { id: DirId(id), parent: DirId(parent), name: name.as_bytes(), access, grant };
    index.bind(&directory).map(|_| ())
}

/// Directory `id` of a tree of which each directory has ten children; a third of the names is long.
fn nth(index: &mut Hi<Heap>, id: u64) -> Result<(), IndexError> {
    let parent = if id == 1 { 0 } else { (id - 2) / 10 + 1 };
    bind(index, id, parent, &name(id))
}

fn name(id: u64) -> String {
    match id {
        1 => String::new(),
        _ if id.is_multiple_of(3) => format!("a-name-that-is-long-{id}"),
        _ => format!("n{id}"),
    }
}

fn path(mut id: u64) -> String {
    let mut names = vec![];
    while id > 1 {
        names.push(name(id));
        id = (id - 2) / 10 + 1;
    }
    names.reverse();
    names.join("/")
}

const MANY: u64 = if cfg!(miri) { 3_000 } else { 200_000 };

#[test]
fn a_large_tree_grows_and_shrinks_and_its_memory_is_known_exactly() {
    let before = live();
    let mut index = index(1 << 30);
    for id in 1..=MANY {
        nth(&mut index, id).unwrap();
        if id % (MANY / 16) == 0 {
            assert_eq!(index.memory().reserved as isize, live() - before, "{id} directories");
        }
    }
    let memory = index.memory();
    assert!(memory.touched <= memory.reserved);
    if !cfg!(miri) {
        let each = memory.touched as f64 / MANY as f64;
        assert!(each < 76.0, "{each:.1} bytes a directory, a third of the names being long");
    }
    let all = |_: DirId, _: &Access| Search::Allowed;
    let ids: Vec<u64> = (1..=MANY).step_by(7).collect();
    let paths: Vec<String> = ids.iter().map(|&id| path(id)).collect();
    let mut asks: Vec<_> = paths.iter().map(|path| Ask::new(DirId::ROOT, path.as_bytes(), all)).collect();
    index.walk_many(&mut asks);
    for (ask, &id) in asks.iter().zip(&ids) {
        assert_eq!((ask.walk.end, ask.walk.last.map(|part| part.id)), (End::Found, Some(DirId(id))));
        assert_eq!(index.walk(DirId::ROOT, ask.path, &mut { all }), ask.walk);
    }
    drop(asks);
    drop((paths, ids));
    for id in (1..=MANY).rev() {
        assert_eq!(index.remove(DirId(id)).map(|part| part.grant.count), Some(id));
    }
    assert!(index.is_empty());
    assert_eq!(index.memory().reserved as isize, live() - before);
    nth(&mut index, 1).unwrap();
    assert_eq!(index.memory().touched, memory.touched.min(index.memory().touched), "pages are used again");
    drop(index);
    assert_eq!(live(), before);
}

#[test]
fn within_its_limit_an_index_goes_on_by_giving_up_leaves() {
    let limit = 100 * PAGE_BYTES;
    let mut index = index(limit);
    let (mut refused, mut most, mut found) = (0, 0, vec![]);
    for id in 1..=MANY / 4 {
        while nth(&mut index, id) == Err(IndexError::Full) {
            refused += 1;
            most = most.max(index.len());
            let before = index.len();
            index.candidates(50, &mut found);
            assert_eq!(found.len(), 50);
            for (leaf, grant) in found.drain(..) {
                assert_eq!(index.remove(leaf).map(|part| part.grant), Some(grant));
            }
            assert_eq!(index.len(), before - 50);
        }
    }
    if !cfg!(miri) {
        assert!(refused > 100 && most > 4_000, "{refused} times full with at most {most}");
    }
    assert!(index.get(DirId::ROOT).is_some());
}

/// Somebody makes directories with the longest names, and removes them: others find as much room as before.
#[test]
fn long_names_that_are_gone_leave_their_memory_to_others() {
    let mut index = index(100 * PAGE_BYTES);
    bind(&mut index, 1, 0, "").unwrap();
    let fill = |index: &mut Hi<Heap>, len: usize| {
        let mut held = 0;
        while bind(index, held + 2, 1, &format!("{held:0len$}")).is_ok() {
            held += 1;
        }
        held
    };
    let mut most = vec![];
    for len in [8, 255, 8, 16, 24, 32, 40, 48, 8] {
        most.push(fill(&mut index, len));
        (2..2 + most[most.len() - 1]).for_each(|id| assert!(index.remove(DirId(id)).is_some()));
    }
    assert!(most[0] > 4_000 && most[1] > 900, "{most:?}");
    assert!(most[2] * 10 > most[0] * 9 && most[8] * 10 > most[0] * 9, "{most:?}");
}

/// The lists, the directories of segments and access parts are beside the pages that the limit is about.
#[test]
fn no_page_is_touched_beyond_the_limit_though_parents_go_first() {
    let mut index = index(64 * PAGE_BYTES);
    let mut held = 0;
    // Each second one is the only child of the one before it.
    while bind(&mut index, 2 * held + 2, 1, &format!("p{held}")).is_ok()
        && bind(&mut index, 2 * held + 3, 2 * held + 2, "c").is_ok()
    {
        held += 1;
    }
    for parent in 0..held {
        assert!(index.remove(DirId(2 * parent + 2)).is_some());
    }
    assert!(index.memory().touched < 64 * PAGE_BYTES + (1 << 20));
    for parent in 0..held {
        assert!(index.child(DirId(2 * parent + 2), b"c").is_some());
        assert!(index.remove(DirId(2 * parent + 3)).is_some());
    }
    index.remove(DirId(2 * held + 2)); // perhaps the last one was refused a child
    assert!(index.is_empty());
}

/// Each directory has another owner: those have their bound, and leaves that go take theirs along.
#[test]
fn access_parts_are_bounded_too() {
    let limit = 1 << 20;
    let mut index = index(limit);
    bind(&mut index, 1, 0, "").unwrap();
    let (mut refused, mut found) = (0, vec![]);
    for id in 2..10_000 {
        let name = name(id);
        let access = Access { mode: 0o700, uid: id as u32, gid: 7, acl: false };
        let directory = Directory { access, ..Directory::root(access, Grant::default()) };
        let directory = Directory { id: DirId(id), parent: DirId::ROOT, name: name.as_bytes(), ..directory };
        while index.bind(&directory) == Err(IndexError::Full) {
            refused += 1;
            index.candidates(10, &mut found);
            found.drain(..).for_each(|(leaf, _)| assert!(index.remove(leaf).is_some()));
        }
        let other = Access { mode: 0o701, ..access };
        assert_eq!(index.set_access(DirId(id), other, Grant::default()), Ok(true), "its own is free");
        assert_eq!(index.get(DirId(id)).map(|part| part.access), Some(other));
        assert!(index.memory().touched <= limit + limit / 8 + (1 << 19), "{:?}", index.memory());
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn who_was_used_lately_is_given_up_last() {
    let mut index = index(1 << 26);
    (1..=111).for_each(|id| nth(&mut index, id).unwrap());
    let mut all = |_: DirId, _: &Access| Search::Allowed;
    for id in 20..=100 {
        assert_eq!(index.walk(DirId::ROOT, path(id).as_bytes(), &mut all).end, End::Found);
    }
    let mut found = vec![];
    index.candidates(1_000, &mut found);
    let first: Vec<u64> = found.iter().map(|(id, _)| id.0).take(19).collect();
    assert!(first.iter().all(|id| *id < 20 || *id > 100), "{first:?}");
    let mut ids: Vec<u64> = found.iter().map(|(id, _)| id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, (12..=111).collect::<Vec<_>>(), "each leaf once");
}

/// Counts change their place at 2047 children, and back at 1023.
#[test]
fn a_crowd_and_the_children_of_who_is_not_held_are_counted() {
    let mut index = index(1 << 26);
    let candidates = |index: &mut Hi<Heap>| {
        let mut found = vec![];
        index.candidates(usize::MAX, &mut found);
        index.candidates(usize::MAX, &mut found); // those that were used
        found.iter().any(|(id, _)| *id == DirId(2))
    };
    let children = 2_000..5_000;
    bind(&mut index, 1, 0, "").unwrap();
    for id in children.clone() {
        bind(&mut index, id, 2, &name(id)).unwrap(); // before its parent
    }
    for round in 0..3 {
        bind(&mut index, 2, 1, &format!("crowd{round}")).unwrap();
        assert!(!candidates(&mut index));
        assert_eq!(bind(&mut index, 2, 2_500, "below-itself"), Err(IndexError::Circle));
        if round == 1 {
            index.remove(DirId(2)).unwrap();
        }
    }
    for id in children {
        index.remove(DirId(id)).unwrap();
        if id == 4_000 || id == 4_999 {
            bind(&mut index, id, 2, "again").unwrap();
            assert!(!candidates(&mut index));
            index.remove(DirId(id)).unwrap();
        }
    }
    assert!(candidates(&mut index));
}
