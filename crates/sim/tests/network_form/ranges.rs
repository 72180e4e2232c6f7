//! Several switches: each has a range of the fingerprints, and what is lost of them is a range that others take.

use super::{A, NEW_EPOCH_NS, S, T};
use onpath_sim::scenario::{Asker, Scenario, create};
use onpath_wire::ids::InodeId;
use onpath_wire::innet::Fingerprint;
use onpath_wire::tracking::Switches;

/// Two switches, a reader, and a directory in the range of each.
fn world() -> (Scenario, Asker, [InodeId; 2]) {
    let mut sc = Scenario::network_of(3, 2);
    let switches = Switches::of(0..2).expect("two");
    let mut dirs = [None; 2];
    for n in 0.. {
        if let [Some(first), Some(second)] = dirs {
            let reader = sc.reader_at(A);
            return (sc, reader, [first, second]);
        }
        let (dir, _) = sc.directory_of(A, &format!("d{n}"));
        dirs[switches.place(Fingerprint::of(dir))].get_or_insert(dir);
    }
    unreachable!("names do not end")
}

/// How often each switch has counted something in its present life.
fn counted(sc: &Scenario, counter: &str) -> [u64; 2] {
    [0, 1].map(|number| sc.world.counters_of(number).get(counter).copied().unwrap_or(0))
}

/// A name comes at each site, and is read, twice: what one has found of marks the other hears is gone.
fn update_and_read(sc: &mut Scenario, reader: Asker, dir: InodeId, round: &str) {
    let before = sc.names_by(reader, dir).len();
    for (at, count) in [(S, 1), (T, 2)] {
        let name = sc.name_at(dir, at, round);
        sc.must(create(dir, &name));
        assert_eq!(sc.names_by(reader, dir).len(), before + count);
        assert_eq!(sc.names_by(reader, dir).len(), before + count);
    }
}

#[test]
pub(crate) fn each_directory_is_tracked_by_the_switch_of_its_range() {
    let (mut sc, reader, dirs) = world();
    for (place, dir) in dirs.into_iter().enumerate() {
        let before = ["insert_marked", "query_normal"].map(|counter| counted(&sc, counter));
        update_and_read(&mut sc, reader, dir, "a");
        let after = ["insert_marked", "query_normal"].map(|counter| counted(&sc, counter));
        for (before, after) in before.iter().zip(after) {
            assert!(after[place] > before[place], "{before:?} {after:?}");
            assert_eq!(after[1 - place], before[1 - place]);
        }
    }
    sc.ends_well();
}

/// One switch is lost: the other takes its range, and no update is missed. It comes back, and has its range again.
#[test]
pub(crate) fn a_range_moves_when_its_switch_is_lost_and_back() {
    let (mut sc, reader, dirs) = world();
    for lost in [1, 0] {
        let round = format!("lost{lost}");
        for dir in dirs {
            update_and_read(&mut sc, reader, dir, &format!("{round}-before"));
        }
        sc.world.stop(lost);
        for dir in dirs {
            update_and_read(&mut sc, reader, dir, &format!("{round}-at-once"));
        }
        sc.go_on_for(NEW_EPOCH_NS);
        sc.knows(reader, A);
        let left = usize::from(1 - lost);
        for dir in dirs {
            let normal = counted(&sc, "query_normal")[left];
            update_and_read(&mut sc, reader, dir, &format!("{round}-without"));
            assert!(counted(&sc, "query_normal")[left] > normal, "the other one answers for both");
        }
        sc.world.boot(lost);
        for dir in dirs {
            update_and_read(&mut sc, reader, dir, &format!("{round}-back"));
        }
        sc.go_on_for(NEW_EPOCH_NS);
        sc.knows(reader, A);
        let normal = counted(&sc, "query_normal");
        for dir in dirs {
            update_and_read(&mut sc, reader, dir, &format!("{round}-again"));
        }
        let now = counted(&sc, "query_normal");
        assert!(now[0] > normal[0] && now[1] > normal[1], "{normal:?} {now:?}");
    }
    sc.ends_well();
}

/// All are lost: owners track their directories, without any mark. One comes back, and has everything.
#[test]
pub(crate) fn without_any_switch_owners_track() {
    let (mut sc, reader, dirs) = world();
    [0, 1].into_iter().for_each(|number| sc.world.stop(number));
    sc.go_on_for(NEW_EPOCH_NS);
    let marks = sc.hold(super::mark);
    for dir in dirs {
        update_and_read(&mut sc, reader, dir, "without");
    }
    assert_eq!(sc.world.held(marks), 0, "the owner form needs no marks");
    sc.let_go(marks);
    sc.world.boot(1);
    sc.go_on_for(NEW_EPOCH_NS);
    sc.knows(reader, A);
    for dir in dirs {
        let normal = counted(&sc, "query_normal")[1];
        update_and_read(&mut sc, reader, dir, "with");
        assert!(counted(&sc, "query_normal")[1] > normal);
    }
    sc.ends_well();
}

/// A switch that everybody but the coordinator reaches is taken for gone: its answers to those who have not heard of that count for
/// nothing, though it says "normal".
#[test]
pub(crate) fn what_a_switch_says_that_was_given_up_counts_for_nothing() {
    let (mut sc, reader, dirs) = world();
    update_and_read(&mut sc, reader, dirs[1], "before");
    // What the reader knows stays as it is; the coordinator hears nothing of the second switch any more.
    let status = sc.hold(|m| m.command().is_some() && m.to() == onpath_wire::ids::NodeId::switch(1));
    sc.go_on_for(NEW_EPOCH_NS);
    let before = sc.names_by(reader, dirs[1]).len();
    let name = sc.name_at(dirs[1], S, "late");
    let other = sc.reader_at(A);
    sc.must(create(dirs[1], &name));
    assert_eq!(sc.names_by(other, dirs[1]).len(), before + 1);
    assert_eq!(sc.names_by(reader, dirs[1]).len(), before + 1);
    sc.let_go(status);
    sc.ends_well();
}
