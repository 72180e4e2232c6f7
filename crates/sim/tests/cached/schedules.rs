//! Schedules that broke earlier wordings of the rules (docs/internals/counterexamples.md, "Hot names"), and what is like them.

use super::Hot;
use crate::visible::finish;
use onpath_session::fs::{FsOp, FsReply};
use onpath_sim::model::Caller;
use onpath_sim::scenario::{Scenario, shard};
use onpath_sim::world::{HoldId, Message};
use onpath_wire::ids::{InodeId, ShardId};
use onpath_wire::inode::Kind;
use onpath_wire::peer::Peer;
use onpath_wire::request::{SetAttr, set};

/// Virtual time in which what need not wait is done, ns.
const SHORT_NS: u64 = 20_000_000;
/// The site of the names, and the home of what they lead to.
const HOME: u16 = 1;

fn lends(m: &Message<'_>) -> bool {
    matches!(m.peer(), Some(Peer::Lend { .. }))
}

fn chmod(id: InodeId, mode: u16) -> FsOp {
    let set = SetAttr { valid: set::MODE, mode, ..SetAttr::default() };
    FsOp::SetAttr { id, set, handle: None }
}

/// A hot file whose name and home are at [`HOME`]; the session knows how the switch is asked. A question of the controller for its entry is
/// held, and its home has heard one like it.
fn asked_twice() -> (Hot, HoldId) {
    let sc = Scenario::with_cache(2);
    let name = sc.name_at(InodeId::ROOT, HOME, "hot");
    let mut hot = Hot::of(sc, name);
    let again = hot.sc.hold(lends);
    hot.sc.world.admit(InodeId::ROOT, Some(hot.name.clone()));
    while hot.sc.world.held(again) == 0 {
        hot.sc.go_on();
    }
    hot.sc.world.deliver_copy(again);
    hot.sc.world.stop_holding(again);
    hot.wait("names_admitted");
    hot.looks();
    assert_eq!((hot.stat(), hot.answered()), (hot.file, 1));
    (hot, again)
}

impl Hot {
    /// Another session calls, and is not answered yet.
    fn begins(&mut self, op: FsOp) -> u64 {
        let other = self.sc.world.add_session(&[Caller::default()]);
        let unique = self.sc.world.system_call(other, 0, op);
        self.sc.go_on_for(SHORT_NS);
        assert!(self.sc.world.finished().is_none(), "it waits");
        unique
    }

    /// What it called succeeds.
    fn ends(&mut self, unique: u64) {
        self.sc.go_on();
        let finished = self.sc.world.finished().expect("it is answered");
        assert!(finished.unique == unique && finished.result.is_ok(), "{finished:?}");
    }
}

/// C-5: a file is given a name of another shard, of which its home has yet to hear that it is decided. Asked once more, the home does not fill the
/// entry of the old name, which leads elsewhere for everybody.
#[test]
fn what_is_promised_is_not_lent() {
    let (mut hot, again) = asked_twice();
    let to = hot.sc.name_at(InodeId::ROOT, 0, "other");
    let undecided =
        hot.sc.hold(|m| m.to() == shard(HOME) && matches!(m.peer(), Some(Peer::Commit { .. } | Peer::Decided { .. })));
    let (from_parent, from, parent) = (InodeId::ROOT, hot.name.clone(), InodeId::ROOT);
    let rename = FsOp::Rename { from_parent, from, parent, name: to, flags: 0 };
    let other = hot.sc.world.add_session(&[Caller::default()]);
    assert!(matches!(finish(&mut hot.sc, other, rename), Ok(FsReply::Done)));
    while hot.sc.world.held(undecided) == 0 {
        hot.sc.go_on();
    }
    let filled = hot.filled();
    hot.sc.world.deliver_first(again);
    hot.sc.go_on_for(SHORT_NS);
    assert_eq!(hot.filled(), filled, "nobody is shown the old name again");
    hot.sc.let_go(undecided);
    hot.sc.go_on_for(SHORT_NS);
    let lookup = FsOp::Lookup { parent: InodeId::ROOT, name: hot.name.clone() };
    let found = finish(&mut hot.sc, hot.session, lookup);
    assert!(matches!(found, Ok(FsReply::Missing)), "{found:?}");
}

/// C-5: a directory is closed, and waits for who has a part in it; its entry is clear. Asked once more meanwhile, its home does not fill it as it was.
#[test]
fn what_is_changed_is_not_lent() {
    let mut sc = Scenario::with_cache(2);
    let (dir, dir_name) = sc.directory_of(HOME, "dir");
    let file = sc.name_at(dir, HOME, "file");
    let mut hot = Hot::in_directory(sc, dir, file);
    let again = hot.sc.hold(lends);
    hot.sc.world.admit(InodeId::ROOT, Some(dir_name.clone()));
    while hot.sc.world.held(again) == 0 {
        hot.sc.go_on();
    }
    hot.sc.world.deliver_copy(again);
    hot.sc.world.stop_holding(again);
    hot.wait("names_admitted");
    // The other shard has a part in the directory.
    let beside = hot.sc.name_at(dir, 0, "beside");
    let make =
        FsOp::Make { parent: dir, name: beside, kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, target: vec![] };
    assert!(finish(&mut hot.sc, hot.session, make).is_ok());
    let parts = hot.sc.hold(|m| m.from() == shard(0) && matches!(m.peer(), Some(Peer::Recalled { .. })));
    let (cleared, filled) = (hot.cleared(), hot.filled());
    let closes = hot.begins(chmod(dir, 0o700));
    assert!(hot.sc.world.held(parts) > 0 && hot.cleared() > cleared, "its entry is clear");
    hot.sc.world.deliver_first(again);
    hot.sc.go_on_for(SHORT_NS);
    assert_eq!(hot.filled(), filled);
    hot.sc.let_go(parts);
    hot.ends(closes);
}

/// C-1: the home of a file is not the site of its name: nobody would clear the entry when it changes. It has none.
#[test]
fn who_is_not_the_home_does_not_lend() {
    let sc = Scenario::with_cache(2);
    let name = sc.name_at(InodeId::ROOT, HOME, "file");
    let mut hot = Hot::of(sc, name.clone());
    assert_eq!(hot.sc.world.map().home(hot.file.id), ShardId(HOME));
    let to = hot.sc.name_at(InodeId::ROOT, 0, "elsewhere");
    let (from_parent, parent) = (InodeId::ROOT, InodeId::ROOT);
    let rename = FsOp::Rename { from_parent, from: name, parent, name: to.clone(), flags: 0 };
    assert!(finish(&mut hot.sc, hot.session, rename).is_ok());
    hot.name = to;
    hot.file = hot.stat();
    hot.sc.world.admit(InodeId::ROOT, Some(hot.name.clone()));
    hot.wait("names_not_admitted");
    assert_eq!(hot.sc.world.counted_by_controller("names_cached"), Some(0));
    hot.looks();
    let other = hot.sc.world.add_session(&[Caller::default()]);
    assert!(finish(&mut hot.sc, other, chmod(hot.file.id, 0o400)).is_ok());
    assert_eq!((hot.stat().mode, hot.answered()), (0o400, 0));
}

/// C-6: a copy of what the switch said of an earlier change comes while the next one waits for its own answer: that is still awaited.
#[test]
fn what_was_said_of_an_earlier_change_does_not_count() {
    let (mut hot, _) = asked_twice();
    let said = hot.sc.hold(|m| !m.wants_switch() && m.peer() == Some(Peer::Mark));
    let first = hot.begins(chmod(hot.file.id, 0o600));
    hot.sc.world.deliver_copy(said);
    hot.sc.world.stop_holding(said);
    hot.ends(first);
    assert_eq!(hot.stat().mode, 0o600);
    hot.sc.go_on_for(SHORT_NS);
    let answered = hot.answered();
    assert_eq!((hot.stat().mode, hot.answered()), (0o600, answered + 1), "the switch has it again");
    let asked = hot.sc.hold(|m| m.wants_switch() && m.peer() == Some(Peer::Mark));
    let second = hot.begins(chmod(hot.file.id, 0o400));
    hot.sc.world.deliver_first(said);
    hot.sc.go_on_for(SHORT_NS / 4);
    assert!(hot.sc.world.finished().is_none(), "the switch goes on to show it as it was");
    assert_eq!(hot.stat().mode, 0o600);
    hot.sc.let_go(asked);
    hot.ends(second);
    assert_eq!(hot.stat().mode, 0o400);
}
