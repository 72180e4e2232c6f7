//! *SPMeta §IV-C*, Theorem 1: who is let through by reachability bits passes each directory on the way. And a cleared bit denies nothing.

#[path = "common/way.rs"]
mod way;

use onpath_index::{Access, Class, DirId, Directory, End, Grant, Index, Search, Secret};
use onpath_mart::{Mart, reach};
use proptest::prelude::*;
use way::{Caller, asked, callers, directories, violation};

/// All ways of three directories with two owners, two groups and all search bits, all targets, all callers: about 1.6 M.
#[test]
fn no_way_of_three_directories_breaks_the_theorem() {
    let (all, callers) = (directories(), callers());
    assert_eq!((all.len(), callers.len()), (32, 12));
    let mut granted = 0u64;
    for first in &all {
        for second in &all {
            for third in &all {
                let way = [*first, *second, *third];
                for target in all.iter().filter(|target| target.mode == 0) {
                    assert_eq!(violation(&way, target, &callers), None);
                    granted += callers.iter().filter(|caller| way::granted(&way, target, caller)).count() as u64;
                }
            }
        }
    }
    assert!(granted > 10_000, "bits grant something: {granted}");
}

fn access() -> impl Strategy<Value = Access> {
    let mode = prop_oneof![3 => Just(0o755), 2 => Just(0o750), 2 => Just(0o700), 3 => 0..=0o7777u16];
    (mode, 0..4u32, 0..4u32, prop::bool::weighted(0.1)).prop_map(|(mode, uid, gid, acl)| Access { mode, uid, gid, acl })
}

/// Long ways, with more owners and groups, and ACLs.
fn ways() -> impl Strategy<Value = (Vec<Access>, Access, Vec<Caller>)> {
    let caller = (0..5u32, prop::collection::vec(0..5u32, 1..4)).prop_map(|(uid, groups)| Caller { uid, groups });
    (prop::collection::vec(access(), 0..12), access(), prop::collection::vec(caller, 1..6))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn no_way_breaks_the_theorem((way, target, callers) in ways()) {
        prop_assert_eq!(violation(&way, &target, &callers), None);
    }
}

/// The way of an owner into a directory of another owner's, closed to others: no bit is set, and a member passes all the same.
#[test]
fn a_cleared_bit_denies_nothing() {
    let closed = Access { mode: 0o710, uid: 1, gid: 2, acl: false };
    let inner = Access { mode: 0o755, uid: 3, gid: 4, acl: false };
    assert!(
        ![Class::Owner, Class::Group, Class::Other]
            .into_iter()
            .any(|class| reach(&inner, [closed].into_iter()).has(class))
    );
    let mut tree = Mart::new(Secret::new([1; 16]), 1 << 20);
    let grant = Grant::default();
    tree.bind(&Directory::root(closed, grant)).unwrap();
    tree.bind(&Directory { id: DirId(2), parent: DirId::ROOT, name: b"in", access: inner, grant }).unwrap();
    for (caller, end) in [
        (Caller { uid: 3, groups: vec![2] }, End::Found),
        (Caller { uid: 3, groups: vec![9] }, End::Denied),
        (Caller { uid: 1, groups: vec![] }, End::Found),
    ] {
        let walk = tree.walk(DirId::ROOT, b"in", &mut caller.clone());
        assert_eq!((walk.end, walk.speculated), (end, false), "{caller:?}");
    }
}

/// What changes on the way makes bits void, whatever is below: modes, owners, and where a directory hangs.
#[test]
fn a_change_on_the_way_counts_for_all_below_at_once() {
    let mut tree = Mart::new(Secret::new([1; 16]), 1 << 20);
    let (grant, open) = (Grant::default(), Access { mode: 0o755, ..Access::default() });
    let closed = Access { mode: 0o700, ..open };
    tree.bind(&Directory::root(open, grant)).unwrap();
    let of = |id, parent, name| Directory { id: DirId(id), parent: DirId(parent), name, access: open, grant };
    for (id, parent) in [(2, 1), (3, 2), (4, 3)] {
        tree.bind(&of(id, parent, b"d")).unwrap();
    }
    tree.bind(&Directory { access: closed, ..of(5, 1, b"closed") }).unwrap();
    let stranger = Caller { uid: 9, groups: vec![9] };
    let walk = |tree: &mut Mart, path: &[u8]| {
        let walk = tree.walk(DirId::ROOT, path, &mut stranger.clone());
        (walk.end, walk.speculated)
    };
    for _ in 0..2 {
        assert_eq!(walk(&mut tree, b"d/d/d"), (End::Found, true));
        tree.set_access(DirId(2), closed, grant).unwrap();
        assert_eq!(walk(&mut tree, b"d/d/d"), (End::Denied, false));
        tree.set_access(DirId(2), open, grant).unwrap();
        assert_eq!(walk(&mut tree, b"d/d/d"), (End::Found, true));
        tree.bind(&of(3, 5, b"moved")).unwrap();
        assert_eq!(walk(&mut tree, b"closed/moved/d"), (End::Denied, false));
        tree.remove(DirId(3)).unwrap();
        assert_eq!(walk(&mut tree, b"closed/moved/d"), (End::Denied, false));
        tree.bind(&of(3, 2, b"d")).unwrap();
        assert_eq!(walk(&mut tree, b"d/d/d"), (End::Found, true));
    }
    assert_eq!(asked(&[open, closed], &stranger), Search::Denied);
}
