//! On the socket of a DIR everybody is who the kernel says, and nobody else.

use crate::common::liar::{Liar, Said};
use crate::common::server::{Mount, Site, binary};
use crate::common::user::{ALICE, ALICE_IN_TEAM, BOB, TEAM, User};
use onpath_client::blocking::Client;
use onpath_client::{Caller, OpenOptions, Options};
use onpath_host::stream::{ANSWER_WITHIN, examine, request_inspection, request_status};
use onpath_wire::caller::{Caller as Asks, Caps, Groups, cap};
use onpath_wire::codec::Blob;
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::identity::Refusal;
use onpath_wire::ids::{Cookie, DataId, Generation, InodeId, SessionNumber};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;
use onpath_wire::request::{FileLock, LockKind, NewNode, Request, SetAttr, open, set};
use onpath_wire::ticket::{Ticket, right};
use onpath_wire::xattr::XattrName;
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

/// A directory of nobody but root, with a file, and one of Alice's.
fn make_tree(mount: &Mount) {
    let root = mount.path();
    fs::create_dir(root.join("closed")).expect("mkdir");
    fs::write(root.join("closed/file"), "secret").expect("write");
    fs::set_permissions(root.join("closed"), Permissions::from_mode(0o700)).expect("chmod");
    fs::set_permissions(root.join("closed/file"), Permissions::from_mode(0o600)).expect("chmod");
    fs::create_dir(root.join("team")).expect("mkdir");
    chown(root.join("team"), Some(0), Some(TEAM)).expect("chown");
    fs::set_permissions(root.join("team"), Permissions::from_mode(0o750)).expect("chmod");
    fs::write(root.join("team/file"), "ours").expect("write");
    fs::write(root.join("open"), "everybody's").expect("write");
    fs::create_dir(root.join("alice")).expect("mkdir");
    chown(root.join("alice"), Some(ALICE.uid), Some(ALICE.gid)).expect("chown");
}

#[test]
fn a_user_sees_what_the_user_may_see() {
    let Some(site) = Site::new("remote::users::a_user_sees_what_the_user_may_see") else { return };
    let mount = site.dev(&["--shards", "2"]);
    make_tree(&mount);
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

fn name(name: &[u8]) -> Name {
    Name::new(name).expect("a name")
}

/// A client that lies in every field gets nothing that its user does not.
#[test]
fn lies_are_refused() {
    let Some(site) = Site::new("remote::users::lies_are_refused") else { return };
    let mount = site.dev(&["--shards", "2"]);
    make_tree(&mount);
    let ino = |path: &str| InodeId(fs::metadata(mount.path().join(path)).expect("it is there").ino());
    let (closed, secret, mine) = (ino("closed"), ino("closed/file"), ino("alice"));
    ALICE_IN_TEAM.run(|| {
        let liar = Liar::at(&site.state());
        let me = liar.me();
        assert_eq!((me.uid, me.gid), (ALICE.uid, ALICE.gid));
        let look = || Request::Lookup { parent: closed, name: name(b"file") };
        let groups = |member: &[u32], stranger: &[u32]| Groups { member: member.into(), stranger: stranger.into() };
        let root = Asks { caps: Caps::exactly(cap::ALL), ..Asks::default() };
        for (caller, why) in [
            (root, Refusal::Uid),
            (Asks::default(), Refusal::Uid),
            (Asks { uid: BOB.uid, ..me.clone() }, Refusal::Uid),
            (Asks { gid: 0, ..me.clone() }, Refusal::Gid),
            (Asks { groups: groups(&[0], &[]), ..me.clone() }, Refusal::Groups),
            (Asks { groups: groups(&[], &[TEAM]), ..me.clone() }, Refusal::Groups),
            (Asks { caps: Caps::exactly(cap::DAC_OVERRIDE), ..me.clone() }, Refusal::Capabilities),
            (Asks { free_links: true, ..me.clone() }, Refusal::Capabilities),
        ] {
            for request in [look(), Request::Renew, Request::GetAttr { id: mine }] {
                assert_eq!(liar.ask_as(caller.clone(), request).refusal(), Some(why), "{caller:?}");
            }
        }
        assert_eq!(liar.ask(look()), Said::Reply(Reply::Failed { errno: Errno::EACCES }), "as oneself it is asked");
        let (uid, lock) = (0, FileLock { flock: false, kind: LockKind::Write, start: 0, end: 1, owner: 1, pid: 1 });
        let change = |valid| Request::SetAttr { id: secret, set: SetAttr { valid, uid, ..SetAttr::default() } };
        let device = |kind, rdev| {
            let node = NewNode { kind, mode: 0o666, umask: 0, rdev, target: Blob::default(), open: 0 };
            Request::Create { parent: mine, name: name(b"device"), node }
        };
        let flags = |flags| Request::Open { id: secret, flags };
        let capability = XattrName::capability();
        let data = DataId { inode: secret, generation: Generation(1) };
        let rights = right::READ | right::WRITE;
        let forged = Ticket { data, cut: 0, rights, until_s: u32::MAX, hash: 7 };
        for (request, why) in [
            (flags(open::READ | open::AGAIN | open::REGISTER), Refusal::Flag),
            (flags(open::READ | open::MADE | open::REGISTER), Refusal::Flag),
            (flags(open::REGISTER), Refusal::Flag),
            (flags(open::MAP | open::REGISTER), Refusal::Flag),
            (flags(open::READ | open::MAP | open::REGISTER), Refusal::Flag),
            (change(set::READ | set::ATIME | set::ATIME_NOW), Refusal::Flag),
            (change(set::SIZE), Refusal::Flag),
            (Request::RenewAlone, Refusal::Flag),
            (Request::Detach { gone: true }, Refusal::Flag),
            (device(Kind::BlockDevice, 0x800), Refusal::Device),
            (device(Kind::CharDevice, 0x101), Refusal::Device),
            (Request::ReadDir { id: closed, after: Cookie(0), bytes: 4_096 }, Refusal::Bytes),
            (Request::SetLock { id: secret, lock, wait: false, again: true }, Refusal::Bytes),
            (Request::Reserve { id: secret }, Refusal::Bytes),
            (Request::Map { id: secret }, Refusal::Bytes),
            (Request::WrittenBack { id: secret, wrote: true }, Refusal::Bytes),
            (Request::Sync { id: secret }, Refusal::Bytes),
            (Request::TestLock { id: secret, lock }, Refusal::Bytes),
            (Request::OpenAgain { id: secret, flags: open::REGISTER, ticket: forged }, Refusal::Flag),
        ] {
            assert_eq!(liar.ask(request.clone()).refusal(), Some(why), "{request:?}");
        }
        let refused = Said::Reply(Reply::Failed { errno: Errno::EACCES });
        assert_eq!(liar.ask(flags(open::READ | open::REGISTER)), refused);
        // These flags are not refused, and not believed.
        assert_eq!(liar.ask(change(set::SIZE | set::OPEN_FOR_WRITE | set::KILL_SUIDGID)), refused);
        assert_eq!(liar.ask(Request::RemoveXattr { id: secret, name: capability, open_for_write: true }), refused);
        assert_eq!(liar.ask(change(set::UID)), Said::Reply(Reply::Failed { errno: Errno::EPERM }));
        // The bytes of a file that it has not opened.
        for generation in 0..4 {
            let data = DataId { inode: secret, generation: Generation(generation) };
            let read = DataRequest::Read { data, cut: 0, offset: 0, bytes: 6 };
            let write = DataRequest::Write { data, cut: 0, offset: 0, kill_suidgid: true, append: false };
            let stale = Said::Data(DataReply::Stale, Vec::new());
            assert_eq!(liar.show(Ticket { data, ..forged }, &read, &[]), stale);
            assert_eq!(liar.show(Ticket { data, ..forged }, &write, b"gotcha"), stale);
            assert_eq!(liar.ask_data(read, &[]).refusal(), Some(Refusal::Bytes));
            assert_eq!(liar.ask_data(write, b"gotcha").refusal(), Some(Refusal::Bytes));
        }
        // A session that will have its id one day.
        let later = SessionNumber(liar.there.session.0 + (1 << 24) - 1);
        let gone = liar.say_as(later, me, Request::Detach { gone: false });
        assert_eq!(gone.refusal(), Some(Refusal::Session));
    });
    assert_eq!(fs::read(mount.path().join("closed/file")).expect("root reads"), b"secret");
    mount.stop();
    site.assert_clean("after lies");
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
    make_tree(&mount);
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
    make_tree(&mount);
    let ino = |path: &str| InodeId(fs::metadata(mount.path().join(path)).expect("it is there").ino());
    let (shared, secret) = (ino("open"), ino("closed/file"));
    BOB.run(|| {
        let [liar, other] = [Liar::at(&site.state()), Liar::at(&site.state())];
        let opened = liar.ask(Request::Open { id: shared, flags: open::READ | open::REGISTER });
        assert!(matches!(opened, Said::Reply(Reply::Attr { .. })), "{opened:?}");
        let ticket = liar.ticket(shared).expect("it has opened it");
        assert!(ticket.gives(right::READ) && !ticket.gives(right::WRITE));
        let (data, cut) = (ticket.data, ticket.cut);
        let read = |data| DataRequest::Read { data, cut, offset: 0, bytes: 11 };
        let write = DataRequest::Write { data, cut, offset: 0, kill_suidgid: true, append: false };
        let stale = Said::Data(DataReply::Stale, Vec::new());
        assert_eq!(liar.show(ticket, &read(data), &[]), Said::Data(DataReply::Bytes, b"everybody's".to_vec()));
        assert_eq!(liar.show(ticket, &write, b"gotcha"), stale, "it is for reading");
        let rights = right::READ | right::WRITE;
        assert_eq!(liar.show(Ticket { rights, ..ticket }, &write, b"gotcha"), stale);
        let elsewhere = DataId { inode: secret, ..data };
        assert_eq!(liar.show(ticket, &read(elsewhere), &[]), stale, "it is of another file");
        assert_eq!(liar.show(Ticket { data: elsewhere, ..ticket }, &read(elsewhere), &[]), stale);
        assert_eq!(liar.show(Ticket { until_s: ticket.until_s + 1, ..ticket }, &read(data), &[]), stale);
        assert_eq!(other.show(ticket, &read(data), &[]), stale, "it is of another session");
        let again = Request::OpenAgain { id: shared, flags: open::REGISTER, ticket };
        assert_eq!(other.ask(again.clone()).refusal(), Some(Refusal::Flag));
        let maps = Request::OpenAgain { id: shared, flags: open::REGISTER | open::MAP, ticket };
        assert_eq!(liar.ask(maps).refusal(), Some(Refusal::Flag), "to change it in memory takes the right to write");
        assert!(matches!(liar.ask(again), Said::Reply(Reply::Attr { .. })));
        assert_eq!(liar.ask(Request::Reserve { id: shared }).refusal(), Some(Refusal::Bytes));
    });
    assert_eq!(fs::read(mount.path().join("open")).expect("root reads"), b"everybody's");
    mount.stop();
}

/// Longer than a ticket counts.
const EXPIRY: Duration = Duration::from_secs(13);

/// Files work as on a mount: also when the ticket of one has run out, and when the server has forgotten who has opened what.
#[test]
fn a_user_works_with_files() {
    let Some(site) = Site::new("remote::users::a_user_works_with_files") else { return };
    let mut mount = site.dev(&["--shards", "2"]);
    make_tree(&mount);
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
    assert!(names.next().expect("it ends").is_none());
    let denied = client.list(&nobody, "/closed", false).map(|_| ()).expect_err("it is root's").raw_os_error();
    assert_eq!(denied, Some(libc::EACCES));
    client.close();
    mount.stop();
    site.assert_clean("after files");
}
