//! Listings with attributes (V-2): a data node is asked about all lent files by one message.

use super::{DATA, Pair, finish, made, write};
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle};
use onpath_sim::model::Caller;
use onpath_sim::scenario::Scenario;
use onpath_sim::world::HoldId;
use onpath_wire::attr::AttrWire;
use onpath_wire::data::{DataRequest, Merge};
use onpath_wire::ids::{Cookie, InodeId, NodeId};
use std::collections::BTreeMap;

const FILES: usize = 5;

/// Files that the first session has made and written, which their home has not heard, and their directory, which the second one has open.
struct Listing {
    pair: Pair,
    files: Vec<(InodeId, Handle)>,
    dir: Handle,
}

fn lent(mut sc: Scenario) -> Listing {
    let sessions = [(); 2].map(|()| sc.world.add_session(&[Caller::default()]));
    let mut numbers = 0..1_000;
    // A data node that has just started has yet to ask the home which part it gave last.
    let (file, handle) = made(&mut sc, sessions[0], &mut numbers);
    assert!(matches!(finish(&mut sc, sessions[0], write(handle, 0)), Ok(FsReply::Written(100))));
    sc.go_on_for(3_000_000_000);
    let files: Vec<_> = (0..FILES).map(|_| made(&mut sc, sessions[0], &mut numbers)).collect();
    let open = FsOp::OpenDir { id: InodeId::ROOT, noatime: true };
    let Ok(FsReply::Opened(dir)) = finish(&mut sc, sessions[1], open) else { panic!("opened") };
    let mut pair = Pair { sc, file, by: [(sessions[0], handle), (sessions[1], handle)] };
    pair.hold_answered();
    let mut listing = Listing { pair, files, dir: dir.handle };
    listing.write_all(0);
    listing
}

impl Listing {
    /// Each file is written, and nobody waits for its home.
    fn write_all(&mut self, offset: u64) {
        let told = self.pair.sc.hold(|m| matches!(m.merge(), Some(Merge::Written { .. })));
        for (_, handle) in self.files.clone() {
            self.pair.by[0].1 = handle;
            self.pair.write(offset);
        }
        assert_eq!(self.pair.sc.world.held(told), 0, "the data node answers");
        self.pair.sc.world.stop_holding(told);
    }

    fn hold_questions(&mut self) -> HoldId {
        use DataRequest as Q;
        let is_question = |request| matches!(request, Q::HandOver { .. } | Q::Collect { .. } | Q::CollectMany { .. });
        let node = NodeId::data(DATA as u16);
        self.pair.sc.hold(move |m| m.to() == node && m.data().is_some_and(is_question))
    }

    fn list(&self) -> (usize, FsOp) {
        let list = FsOp::ReadDirPlus { handle: self.dir, after: Cookie(0), bytes: 1 << 20 };
        (self.pair.by[1].0, list)
    }

    /// Sizes of the files, as far as the listing tells them.
    fn sizes(&self, listed: FsResult) -> Vec<Option<u64>> {
        let Ok(FsReply::DirPlus(entries)) = listed else { panic!("answered {listed:?}") };
        let told = entries.into_iter().filter_map(|(_, attr)| attr);
        let told: BTreeMap<InodeId, AttrWire> = told.map(|attr| (attr.id, attr)).collect();
        self.files.iter().map(|(id, _)| told.get(id).map(|attr| attr.size)).collect()
    }
}

/// One message for all files, and their parts stay where they are.
fn asks_once(sc: Scenario) {
    let mut listing = lent(sc);
    for size in [100, 200] {
        let asked = listing.hold_questions();
        let (session, list) = listing.list();
        let unique = listing.pair.sc.world.system_call(session, 0, list);
        let early = listing.pair.answer(unique);
        assert!(early.is_none() && listing.pair.sc.world.held(asked) == 1, "{early:?}");
        listing.pair.sc.let_go(asked);
        let listed = listing.pair.answer(unique).expect("answered");
        assert_eq!(listing.sizes(listed), [Some(size); FILES]);
        listing.write_all(size);
    }
}

#[test]
pub(crate) fn a_data_node_is_asked_about_all_lent_files_at_once() {
    asks_once(Scenario::lending());
}

#[test]
fn a_data_node_is_asked_about_all_lent_files_at_once_whatever_tables_show() {
    asks_once(Scenario::lending_in_network(1));
}

/// In two phases the home knows all that has returned.
#[test]
fn nobody_is_asked_in_two_phases() {
    let mut listing = lent(Scenario::lending_in_two_phases());
    let asked = listing.hold_questions();
    let (session, list) = listing.list();
    let listed = finish(&mut listing.pair.sc, session, list);
    assert_eq!(listing.sizes(listed), [Some(100); FILES]);
    assert_eq!(listing.pair.sc.world.held(asked), 0);
}

/// Whoever lists a directory does not wait for a data node that says nothing: its files are left out, until it is there again.
#[test]
pub(crate) fn files_of_a_silent_data_node_are_left_out() {
    let mut listing = lent(Scenario::lending());
    let asked = listing.hold_questions();
    let (session, list) = listing.list();
    let listed = finish(&mut listing.pair.sc, session, list.clone());
    assert_eq!(listing.sizes(listed), [None; FILES]);
    assert!(listing.pair.sc.world.held(asked) > 0);
    listing.pair.sc.let_go(asked);
    listing.pair.restart(DATA);
    let listed = finish(&mut listing.pair.sc, session, list);
    assert_eq!(listing.sizes(listed), [Some(100); FILES]);
}
