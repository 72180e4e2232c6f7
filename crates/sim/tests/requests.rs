//! What only a client that is no kernel asks, or asks in an order in which one mount never does; answers are compared
//! with the model, which `model_matches_kernel` compares with the kernel.

use onpath_sim::model::Caller;
use onpath_sim::scenario::{Scenario, alice, make, mode, rename, rmdir};
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request, SetAttr, open, set};

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a short name")
}

fn mode_of(reply: Reply) -> u16 {
    match reply {
        Reply::Entry { attr, .. } => attr.mode,
        other => panic!("answered {other:?}"),
    }
}

/// A setgid directory of everybody's whose group is nobody's.
fn setgid_directory(sc: &mut Scenario) -> InodeId {
    let (dir, _) = sc.directory_of(0, "d");
    sc.must(Request::SetAttr { id: dir, set: SetAttr { valid: set::GID, gid: 77, ..SetAttr::default() } });
    sc.must(Request::SetAttr { id: dir, set: mode(0o2777) });
    dir
}

#[test]
fn mkdir_makes_no_setuid_and_hands_down_only_an_inherited_setgid() {
    let mut sc = Scenario::new(2);
    let plain = sc.ask_as(alice(), make(InodeId::ROOT, &name("plain"), Kind::Directory, 0o7755));
    assert_eq!(mode_of(sc.succeeds(plain)), 0o1755);
    let dir = setgid_directory(&mut sc);
    let below = sc.ask_as(alice(), make(dir, &name("below"), Kind::Directory, 0o4750));
    assert_eq!(mode_of(sc.succeeds(below)), 0o2750);
    sc.ends_well();
}

#[test]
fn nobody_gives_away_a_group_by_a_umask() {
    let mut sc = Scenario::new(2);
    let dir = setgid_directory(&mut sc);
    for (umask, expected) in [(0, 0o755), (0o010, 0o745), (0o077, 0o700)] {
        let node = NewNode { kind: Kind::File, mode: 0o2755, umask, rdev: 0, target: Blob::default(), open: 0 };
        let made = sc.ask_as(alice(), Request::Create { parent: dir, name: name(&format!("f{umask}")), node });
        assert_eq!(mode_of(sc.succeeds(made)), expected, "umask {umask:o}");
    }
    let member = Caller { groups: [77].as_slice().into(), ..alice() };
    let made = sc.ask_as(member, make(dir, &name("own"), Kind::File, 0o2755));
    assert_eq!(mode_of(sc.succeeds(made)), 0o2755);
    sc.ends_well();
}

#[test]
fn a_symlink_is_not_opened_and_a_directory_not_executed() {
    let mut sc = Scenario::new(2);
    let target = Blob(b"over/there".to_vec());
    let node = NewNode { kind: Kind::Symlink, mode: 0o777, umask: 0, rdev: 0, target, open: 0 };
    let Reply::Entry { attr, .. } = sc.must(Request::Create { parent: InodeId::ROOT, name: name("l"), node }) else {
        panic!("a symlink is made")
    };
    for flags in [open::READ, open::WRITE, open::READ | open::TRUNCATE] {
        let opened = sc.ask(Request::Open { id: attr.id, flags });
        sc.fails(opened, Errno::ELOOP);
    }
    let (dir, _) = sc.directory_of(1, "d");
    let executed = sc.ask(Request::Open { id: dir, flags: open::EXEC });
    sc.fails(executed, Errno::EACCES);
    sc.ends_well();
}

/// Two mounts start at once, and the network brings the later one's request first.
#[test]
fn a_first_attach_may_come_late() {
    let mut sc = Scenario::new(2);
    let attach = sc.hold(|m| matches!(m.request(), Some(Request::Attach { .. })));
    let callers = [Caller::default()];
    let (_, _) = (sc.world.add_session(&callers), sc.world.add_session(&callers));
    sc.go_on_for(1_000_000);
    assert_eq!(sc.world.held(attach), 2);
    sc.world.stop_holding(attach);
    sc.world.deliver_last(attach);
    sc.go_on();
    sc.let_go(attach);
    sc.go_on();
    sc.restart(0);
    sc.ends_well();
}

/// A session that was declared dead has lost its locks and opens: a late copy of its first request must not make it
/// alive again behind its back, not even after a restart from a checkpoint.
#[test]
fn a_buried_session_stays_dead() {
    let mut sc = Scenario::new(2);
    let attach = sc.hold(|m| matches!(m.request(), Some(Request::Attach { .. })));
    let session = sc.world.add_session(&[Caller::default()]);
    sc.go_on_for(1_000_000);
    sc.world.stop_holding(attach);
    sc.world.deliver_copy(attach);
    sc.go_on();
    assert_eq!(sc.world.sessions_registered(), 1);
    sc.world.kill_session(session);
    sc.go_on_for(40_000_000_000);
    assert_eq!(sc.world.sessions_registered(), 0);
    for _ in 0..2 {
        sc.world.deliver_copy(attach);
        sc.go_on();
        assert_eq!(sc.world.sessions_registered(), 0, "a dead session is alive again");
        for _role in 0..2 {
            sc.world.checkpoint(0);
            sc.go_on_for(1_000_000_000);
        }
        sc.restart(0);
    }
    sc.world.lose(attach);
    let gone = sc.ask(rename((InodeId::ROOT, &name("a")), (InodeId::ROOT, &name("b"))));
    sc.fails(gone, Errno::ENOENT);
    sc.ends_well();
}

/// rmdir of a file whose inode lives elsewhere than its name.
#[test]
fn rmdir_of_a_file_that_moved_here_says_so() {
    let mut sc = Scenario::new(3);
    let (a, b) = (sc.name_at(InodeId::ROOT, 1, "a"), sc.name_at(InodeId::ROOT, 2, "b"));
    sc.must(make(InodeId::ROOT, &a, Kind::File, 0o644));
    sc.must(rename((InodeId::ROOT, &a), (InodeId::ROOT, &b)));
    let removed = sc.ask(rmdir(&b));
    sc.fails(removed, Errno::ENOTDIR);
    let removed = sc.ask_as(alice(), rmdir(&b));
    sc.fails(removed, Errno::ENOTDIR);
    sc.ends_well();
}

/// A lookup has its attributes from the inode's home and is answered later, by the name's site: what happened meanwhile
/// does not make it wrong, and what it shows is not what counts from then on.
#[test]
fn a_late_lookup_may_show_the_time_before_a_rename() {
    let mut sc = Scenario::new(2);
    let (name, other) = (sc.name_at(InodeId::ROOT, 1, "f"), sc.name_at(InodeId::ROOT, 0, "l"));
    let Reply::Entry { attr, .. } = sc.must(make(InodeId::ROOT, &name, Kind::File, 0o644)) else { panic!("no file") };
    let id = attr.id;
    sc.must(Request::Link { id, parent: InodeId::ROOT, name: other.clone() });
    let held = sc.hold(|m| matches!(m.peer(), Some(Peer::HomeAttr { .. })));
    let lookup = sc.ask(Request::Lookup { parent: InodeId::ROOT, name: other });
    sc.go_on();
    assert_eq!(sc.world.held(held), 1);
    sc.must(rename((InodeId::ROOT, &name), (InodeId::ROOT, &sc.name_at(InodeId::ROOT, 1, "g"))));
    sc.let_go(held);
    sc.succeeds(lookup);
    sc.must(Request::GetAttr { id });
    sc.ends_well();
}
