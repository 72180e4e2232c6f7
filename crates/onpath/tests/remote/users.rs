//! On the socket of a DIR everybody is who the kernel says, and nobody else.

use crate::common::liar::{Liar, Said};
use crate::common::lies::{self, Tree};
use crate::common::server::{Site, binary};
use crate::common::strays;
use crate::common::user::{ALICE, ALICE_IN_TEAM, BOB, ROOT, TEAM, User};
use crate::common::wait_until;
use onpath_client::blocking::Client;
use onpath_client::{Caller, OpenOptions, Options};
use onpath_host::stream::{ANSWER_WITHIN, examine, request_inspection, request_status};
use onpath_wire::errno::Errno;
use onpath_wire::identity::Refusal;
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::reply::Reply;
use onpath_wire::request::{FileLock, LockKind, Request, SetAttr, open, set};
use onpath_wire::ticket::right;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::Duration;

/// What `onpath ARGS…` says to a user.
fn onpath(site: &Site, user: User, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(args).arg("--at").arg(site.state()).uid(user.uid).gid(user.gid);
    command.output().expect("onpath runs")
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_user_sees_what_the_user_may_see() {
    let Some(site) = Site::new("remote::users::a_user_sees_what_the_user_may_see") else { return };
    let mount = site.dev(&["--shards", "2"]);
    Tree::make(mount.path());
    let said = onpath(&site, ALICE, &["stat", "/open", "/alice"]);
    assert!(said.status.success(), "{}", error_of(&said));
    let said = onpath(&site, ALICE, &["stat", "/closed/file"]);
    assert!(!said.status.success() && error_of(&said).contains("/closed/file: Permission denied"), "{said:?}");
    // Whoever it says its callers are.
    for (user, may) in [(ALICE, false), (BOB, false), (ALICE_IN_TEAM, true)] {
        user.run(|| {
            let client = Client::connect(&site.state().display().to_string(), &Options::default()).expect("a client");
            let root = Caller { groups: vec![TEAM], ..Caller::root() };
            assert_eq!(client.stat(&root, "/team/file").is_ok(), may, "{user:?}");
            let errno = client.stat(&root, "/closed/file").expect_err("it is root's alone").raw_os_error();
            assert_eq!(errno, Some(libc::EACCES));
            client.close();
        });
    }
    // Root is believed, as on a mount.
    let client = Client::connect(&site.state().display().to_string(), &Options::default()).expect("a client");
    let alice = Caller { uid: ALICE.uid, gid: ALICE.gid, ..Caller::default() };
    assert_eq!(client.stat(&alice, "/closed/file").expect_err("as Alice").raw_os_error(), Some(libc::EACCES));
    assert!(client.stat(&Caller::root(), "/closed/file").is_ok());
    client.close();
    mount.stop();
    site.assert_clean("after users");
}

/// The whole state, and what others do, is not for everybody.
#[test]
fn a_user_is_told_nothing_of_others() {
    let Some(site) = Site::new("remote::users::a_user_is_told_nothing_of_others") else { return };
    let mount = site.dev(&[]);
    let mut asks = Command::new(binary());
    let said = asks.arg("status").arg(site.state()).uid(BOB.uid).gid(BOB.gid).output().expect("onpath runs");
    assert!(!said.status.success() && error_of(&said).contains("neither root nor the owner"), "{said:?}");
    BOB.run(|| {
        let state = site.state();
        let all = examine(&state, &mut |_, _| panic!("a piece of the state")).map(|()| String::new());
        for told in [all, request_status(&state, ANSWER_WITHIN), request_inspection(&state, InodeId::ROOT)] {
            let refused = told.expect_err("it is not for Bob").to_string();
            assert!(refused.contains("neither root nor the owner"), "{refused}");
        }
    });
    mount.stop();
}

/// Users cannot take all the room there is.
#[test]
fn streams_of_a_user_are_bounded() {
    let Some(site) = Site::new("remote::users::streams_of_a_user_are_bounded") else { return };
    let mount = site.dev(&[]);
    let source = site.state().display().to_string();
    let connect = || Client::connect(&source, &Options::default());
    let mine: Vec<_> = (0..16).map(|_| ALICE.run(connect).expect("a client")).collect();
    let refused = ALICE.run(connect).err().expect("one too many").to_string();
    assert!(refused.contains("has 16 streams open"), "{refused}");
    BOB.run(connect).expect("another user's").close();
    connect().expect("root's").close();
    mine.into_iter().for_each(Client::close);
    mount.stop();
}

/// A client that lies in every field gets nothing that its user does not.
#[test]
fn lies_are_refused() {
    let Some(site) = Site::new("remote::users::lies_are_refused") else { return };
    let mount = site.dev(&["--shards", "2"]);
    let tree = Tree::make(mount.path());
    let malformed = || ROOT.run(|| site.status().sum("", &["messages_malformed"]));
    ALICE_IN_TEAM.run(|| {
        let [liar, other] = [Liar::at(&site.state()), Liar::at(&site.state())];
        lies::are_refused(&liar, &tree);
        let map = &liar.there.map;
        let roles: Vec<NodeId> = map.roles().chain(map.path_nodes()).collect();
        let strays = strays::all(&liar, &roles, other.there.session, &tree);
        let before = malformed();
        strays.iter().for_each(|stray| stray.send(&liar));
        // What is said by a stream is heard in order.
        assert_eq!(liar.ask(Request::Renew), Said::Reply(Reply::Done));
        assert_eq!(malformed(), before, "no role has heard any of them");
        assert!(matches!(other.ask(Request::Renew), Said::Reply(Reply::Done)), "nobody has declared it dead");
    });
    Tree::assert_untouched(mount.path());
    mount.stop();
    site.assert_clean("after lies");
}

/// Whoever has not said that it is a session, or is none any more, opens and locks nothing, which nobody would give back.
#[test]
fn who_is_no_session_leaves_nothing() {
    let Some(site) = Site::new("remote::users::who_is_no_session_leaves_nothing") else { return };
    let mount = site.dev(&["--shards", "2"]);
    let tree = Tree::make(mount.path());
    let (stranger, other) = ALICE.run(|| (Liar::stranger_at(&site.state()), Liar::at(&site.state())));
    lies::strangers_leave_nothing(&stranger, &tree);
    assert!(!lies::is_left(&other, &tree));
    stranger.attach();
    wait_until("it may open files when it has joined", || lies::open_all(&stranger, &tree));
    assert!(lies::is_left(&other, &tree));
    assert_eq!(stranger.ask(Request::Detach { gone: false }), Said::Reply(Reply::Done));
    wait_until("what it had open is given back", || !lies::is_left(&other, &tree));
    let again = Request::Open { id: tree.own[0], flags: open::READ | open::REGISTER };
    assert_eq!(stranger.ask_once(again), None, "it is known to be dead");
    [stranger, other].into_iter().for_each(drop);
    Tree::assert_untouched(mount.path());
    mount.stop();
    site.assert_clean("after strangers");
}

/// Who may only read, or only execute, may not do more because he has opened it.
#[test]
fn an_open_gives_what_it_was_permitted() {
    let Some(site) = Site::new("remote::users::an_open_gives_what_it_was_permitted") else { return };
    let mut mount = site.dev(&["--commit", "sync"]);
    let make = |name: &str, mode| {
        let path = mount.path().join(name);
        fs::write(&path, "root's").expect("write");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("chmod");
        InodeId(fs::metadata(&path).expect("stat").ino())
    };
    let (readable, executable) = (make("readable", 0o644), make("executable", 0o711));
    let denied = Said::Reply(Reply::Failed { errno: Errno::EACCES });
    let liar = BOB.run(|| Liar::at(&site.state()));
    let open = |id, flags| Request::Open { id, flags: flags | open::REGISTER };
    assert_eq!(liar.ask(open(executable, open::EXEC)), denied, "who executes there reads");
    assert!(matches!(liar.ask(open(readable, open::READ)), Said::Reply(Reply::Attr { .. })));
    let lock = |kind, flock| {
        let lock = FileLock { flock, kind, start: 0, end: 1, owner: 1, pid: 1 };
        liar.ask(Request::SetLock { id: readable, lock, wait: false, again: false })
    };
    assert_eq!(lock(LockKind::Write, false).refusal(), Some(Refusal::Bytes));
    assert_eq!(lock(LockKind::Read, false), Said::Reply(Reply::Done));
    assert_eq!(lock(LockKind::Write, true), Said::Reply(Reply::Done), "flock(2) asks nothing");
    // What a former term remembers is the answer to another question.
    let read = SetAttr { valid: set::READ | set::ATIME | set::ATIME_NOW, ..SetAttr::default() };
    assert!(matches!(liar.ask(Request::SetAttr { id: readable, set: read }), Said::Reply(Reply::Attr { .. })));
    site.kill_server(&mut mount);
    mount = site.dev(&["--commit", "sync"]);
    let said = liar.ask_instead(open(readable, open::WRITE));
    let rights = liar.ticket(readable).map_or(0, |ticket| ticket.rights);
    assert_eq!((said, rights & right::WRITE), (denied.clone(), 0));
    drop(liar);
    mount.stop();
    site.assert_clean("after opens");
}

/// What is on the way to an inode is not asked of who knows its number.
#[test]
fn a_guessed_number_passes_the_permissions_of_the_inode() {
    let Some(site) = Site::new("remote::users::a_guessed_number_passes_the_permissions_of_the_inode") else { return };
    let mount = site.dev(&[]);
    Tree::make(mount.path());
    let ino = |path: &str| InodeId(fs::metadata(mount.path().join(path)).expect("it is there").ino());
    let secret = ino("closed/file");
    fs::write(mount.path().join("closed/forgotten"), "1").expect("write");
    let forgotten = ino("closed/forgotten");
    BOB.run(|| {
        let liar = Liar::at(&site.state());
        let open = |id| liar.ask(Request::Open { id, flags: open::READ | open::REGISTER });
        assert!(matches!(liar.ask(Request::GetAttr { id: secret }), Said::Reply(Reply::Attr { .. })));
        assert_eq!(open(secret), Said::Reply(Reply::Failed { errno: Errno::EACCES }));
        assert!(matches!(open(forgotten), Said::Reply(Reply::Attr { .. })), "its mode is 0644");
    });
    mount.stop();
}

/// A ticket is good for what was opened, by whom, and how.
#[test]
fn a_ticket_opens_one_file_for_one_session() {
    let Some(site) = Site::new("remote::users::a_ticket_opens_one_file_for_one_session") else { return };
    let mount = site.dev(&[]);
    let tree = Tree::make(mount.path());
    ALICE_IN_TEAM.run(|| {
        let [liar, other] = [Liar::at(&site.state()), Liar::at(&site.state())];
        lies::tickets_are_of_one_file(&liar, &other, &tree);
    });
    Tree::assert_untouched(mount.path());
    mount.stop();
}

/// Longer than a ticket counts.
const EXPIRY: Duration = Duration::from_secs(13);

/// Files work as on a mount: also when the ticket of one has run out, and when the server has forgotten who has opened what.
#[test]
fn a_user_works_with_files() {
    let Some(site) = Site::new("remote::users::a_user_works_with_files") else { return };
    let mut mount = site.dev(&["--shards", "2"]);
    Tree::make(mount.path());
    fs::write(mount.path().join("setuid"), "1").expect("write");
    chown(mount.path().join("setuid"), Some(0), Some(ALICE.gid)).expect("chown");
    fs::set_permissions(mount.path().join("setuid"), Permissions::from_mode(0o4775)).expect("chmod");
    let source = site.state().display().to_string();
    // What it does later its threads do, which are Alice's.
    let client = ALICE.run(|| Client::connect(&source, &Options::default()).expect("a client"));
    let nobody = Caller::default();
    let new = OpenOptions { read: true, ..OpenOptions::create() };
    let file = client.open(&nobody, "/alice/file", &new).expect("it is Alice's");
    file.write_at(0, &b"hello"[..]).expect("write");
    file.truncate(3).expect("truncate");
    file.write_at(3, &b"p!"[..]).expect("the cut is another one");
    assert_eq!(&file.read_at(0, 100).expect("read")[..], b"help!");
    std::thread::sleep(EXPIRY);
    file.write_at(5, &b" me"[..]).expect("there is another ticket");
    // A file that others may not open any more.
    file.chmod(0).expect("it is Alice's");
    client.unlink(&nobody, "/alice/file").expect("unlink");
    mount.kill();
    mount = site.dev(&["--shards", "2"]);
    assert_eq!(&file.read_at(0, 100).expect("it is open still")[..], b"help! me");
    file.write_at(8, &b"."[..]).expect("write");
    assert_eq!(file.stat().expect("stat").size, 9);
    file.close().expect("close");
    // Whoever writes clears set-id bits.
    let write = OpenOptions { write: true, ..OpenOptions::default() };
    let file = client.open(&nobody, "/setuid", &write).expect("its group may");
    file.write_at(0, &b"2"[..]).expect("write");
    assert_eq!(file.stat().expect("stat").permissions, 0o775);
    file.close().expect("close");
    let mut names = client.list(&nobody, "/alice", false).expect("a listing");
    let page = names.next().expect("it ends").expect("the files of the tree");
    assert!(page.iter().all(|entry| entry.name.starts_with(b"own")), "what was removed is gone");
    let denied = client.list(&nobody, "/closed", false).map(|_| ()).expect_err("it is root's").raw_os_error();
    assert_eq!(denied, Some(libc::EACCES));
    client.close();
    mount.stop();
    site.assert_clean("after files");
}
