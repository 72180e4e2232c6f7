//! Directories of equal fingerprints (SwitchFS §4.3): one mark for all of them, so one collect.

use super::{A, MOMENT_NS, S, T, push, remove, said_normal};
use onpath_sim::scenario::{Asker, Scenario, create, listed, read, rename, shard};
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;

/// Two directories of A's in one group, a reader, and an unapplied name in each: at S in D, at T in E.
fn world() -> (Scenario, Asker, (InodeId, Name), (InodeId, Name)) {
    let mut sc = Scenario::network_of_groups(3);
    let ((d, _), (e, _)) = (sc.directory_of(A, "d"), sc.directory_of(A, "e"));
    let reader = sc.reader_at(A);
    let (a, b) = (sc.name_at(d, S, "a"), sc.name_at(e, T, "b"));
    sc.must(create(d, &a));
    sc.must(create(e, &b));
    (sc, reader, (d, a), (e, b))
}

/// Who reads D takes the mark of both away, so E is collected too; and then both are normal.
#[test]
pub(crate) fn a_collect_asks_the_holders_of_all_directories_of_the_group() {
    let (mut sc, reader, (d, a), (e, b)) = world();
    assert_eq!(sc.names_by(reader, d), [a]);
    let normal = said_normal(&sc);
    assert_eq!(sc.names_by(reader, e), [b]);
    assert_eq!(said_normal(&sc), normal + 1);
    sc.ends_well();
}

/// T, who holds something of E only, does not answer the collect of D in time. D is read without the switch; E stays scattered.
#[test]
pub(crate) fn after_a_collect_that_was_given_up_the_group_is_scattered() {
    let (mut sc, reader, (d, a), (e, b)) = world();
    let pushes = sc.hold(push);
    let answers = sc.hold(|m| m.from() == shard(T) && matches!(m.peer(), Some(Peer::Collected { .. })));
    assert_eq!(sc.names_by(reader, d), [a]);
    sc.world.lose(answers);
    sc.world.stop_holding(answers);
    assert_eq!(sc.names_by(reader, e), [b]);
    sc.let_go(pushes);
    sc.ends_well();
}

/// Schedule C1 over two directories: S has answered the collect of D. What it makes in E returns only after the collect, which takes the mark of
/// E away as well.
#[test]
pub(crate) fn a_collect_holds_the_other_directories_of_the_group() {
    let (mut sc, reader, (d, a), (e, b)) = world();
    let (x, y) = (sc.name_at(e, S, "x"), sc.name_at(e, S, "y"));
    sc.must(create(e, &x));
    let pushes = sc.hold(push);
    let to_t = sc.hold(|m| remove(m, T));
    let reading = sc.ask_by(reader, read(d));
    sc.go_on_for(MOMENT_NS);
    let y_made = sc.ask(create(e, &y));
    sc.go_on_for(MOMENT_NS);
    sc.waits(y_made);
    sc.let_go(to_t);
    assert_eq!(listed(sc.succeeds(reading)), [a]);
    sc.succeeds(y_made);
    assert_eq!(sc.names_by(reader, e).len(), [b, x, y].len());
    sc.let_go(pushes);
    sc.ends_well();
}

/// A rename within the group, and one back: no mark is missing, and none is waited for twice.
#[test]
pub(crate) fn a_rename_within_a_group_is_seen_whole() {
    let (mut sc, reader, (d, a), (e, b)) = world();
    let (new, back) = (sc.name_at(e, T, "new"), sc.name_at(d, S, "back"));
    sc.must(rename((d, &a), (e, &new)));
    assert_eq!((sc.names_by(reader, d).len(), sc.names_by(reader, e).len()), (0, 2));
    sc.must(rename((e, &b), (d, &back)));
    assert_eq!((sc.names_by(reader, d), sc.names_by(reader, e)), (vec![back], vec![new]));
    sc.ends_well();
}
