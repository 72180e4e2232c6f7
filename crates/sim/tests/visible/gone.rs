//! Who writes late: a write comes to a data node after its file has lost its last name and its last open. Nothing of it is left.

use super::{BYTES, DATA, HOME, Pair, finish};
use onpath_session::fs::FsOp;
use onpath_sim::scenario::Scenario;
use onpath_sim::world::HoldId;
use onpath_wire::data::DataRequest;
use onpath_wire::ids::InodeId;
use onpath_wire::limits::SESSION_LEASE_MS;

/// Longer than a session that is silent is believed to live, ns.
const DEAD_NS: u64 = 4 * SESSION_LEASE_MS * 1_000_000;
/// Virtual time in which what comes late is done, and told, ns.
const DONE_NS: u64 = 2_000_000_000;

/// Files that nobody has written, of each form: lent, lent with a table, and answered by homes.
fn unwritten() -> [(&'static str, Pair); 3] {
    let shapes = [Scenario::lending(), Scenario::lending_in_network(1), Scenario::new(1)];
    let mut names = ["lent", "in tables", "by homes"].into_iter();
    shapes.map(|shape| (names.next().expect("one for each"), Pair::of(shape)))
}

/// The same, and they have bytes: of the first two the data node has the part.
fn written() -> [(&'static str, Pair); 3] {
    unwritten().map(|(form, mut pair)| {
        (0..BYTES).step_by(100).for_each(|at| pair.write(at));
        (form, pair)
    })
}

impl Pair {
    /// The write of the first session that is about to come to the data node.
    fn hold_write(&mut self) -> HoldId {
        let held = self.sc.hold(|m| matches!(m.data(), Some(DataRequest::Write { .. })));
        self.begin_write(BYTES);
        self.sc.go_on();
        assert_eq!(self.sc.world.held(held), 1);
        held
    }

    /// The file loses its name; the sessions that live close it.
    fn removes(&mut self, living: &[usize]) {
        let names = self.sc.world.rest().shards.into_iter().flat_map(|survey| survey.names);
        let name = names.filter(|name| name.child == self.file).map(|name| name.name).next().expect("it has a name");
        let remove = FsOp::Unlink { parent: InodeId::ROOT, name };
        let done = finish(&mut self.sc, self.by[1].0, remove);
        assert!(done.is_ok(), "{done:?}");
        for who in living {
            let (session, handle) = self.by[*who];
            let closed = finish(&mut self.sc, session, FsOp::Release { handle, flock_owner: None });
            assert!(closed.is_ok(), "{closed:?}");
        }
    }

    /// The file is gone when nobody is believed to live any more who is dead.
    fn is_gone(&mut self) {
        self.sc.go_on_for(DEAD_NS);
        assert_eq!(self.left(), (0, 0), "it is gone");
    }

    /// Blocks of the file that are left, and writes of which homes are to be told.
    fn left(&self) -> (u64, usize) {
        let rest = self.sc.world.rest();
        let its = rest.files.iter().filter(|(_, file)| file.data.inode == self.file);
        (its.map(|(_, file)| file.blocks).sum(), rest.merges)
    }

    /// The write comes now, and leaves nothing.
    fn comes_late(mut self, held: HoldId, form: &str) {
        self.sc.world.deliver_first(held);
        self.sc.go_on_for(DONE_NS);
        assert_eq!(self.left(), (0, 0), "{form}");
        self.sc.ends_well();
    }
}

/// a copy of a write that was answered while the file was there.
#[test]
fn a_late_copy_of_a_write_leaves_nothing() {
    for restarts in [None, Some(DATA), Some(HOME)] {
        for (form, mut pair) in written() {
            let held = pair.hold_write();
            pair.sc.world.deliver_copy(held);
            pair.sc.world.stop_holding(held);
            pair.sc.go_on_for(DONE_NS);
            assert!(pair.sc.world.finished().is_some_and(|finished| finished.result.is_ok()), "{form}");
            pair.removes(&[0, 1]);
            pair.is_gone();
            restarts.into_iter().for_each(|process| pair.restart(process));
            pair.comes_late(held, form);
        }
    }
}

/// The same of a write whose session has died, and that nobody has answered: perhaps the first one of the file, so that nobody had bytes of it to
/// drop.
#[test]
fn a_late_write_of_the_dead_leaves_nothing() {
    for restarts in [None, Some(DATA), Some(HOME)] {
        for (form, mut pair) in unwritten().into_iter().chain(written()) {
            let held = pair.hold_write();
            pair.sc.world.stop_holding(held);
            pair.sc.world.kill_session(pair.by[0].0);
            pair.removes(&[1]);
            pair.is_gone();
            restarts.into_iter().for_each(|process| pair.restart(process));
            pair.comes_late(held, form);
        }
    }
}
