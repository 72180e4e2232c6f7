//! What a hostile client says, and what becomes of it: one table for every way on which hosts know who a client is, the socket of a DIR and
//! keys with owners. The client is Alice's, who is in [`TEAM`] too.

use super::liar::{Liar, Said};
use super::user::{ALICE, BOB, TEAM};
use onpath_wire::caller::{Caller, Caps, Groups, IdMaps, IdRange, cap};
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::data::{Allocation, DataReply, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::identity::Refusal;
use onpath_wire::ids::{AloneId, Cookie, DataId, Generation, InodeId, SessionNumber, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;
use onpath_wire::request::{FileLock, LockKind, NewNode, Request, SetAttr, open, rename, set};
use onpath_wire::secrets::Secrets;
use onpath_wire::ticket::{Ticket, right};
use onpath_wire::way::{Searchable, Way, WayDir};
use onpath_wire::xattr::XattrName;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;

/// Files of Alice's, so many that every shard has one.
const OWN_FILES: usize = 12;

/// What the tree has, by its numbers.
pub struct Tree {
    /// A directory of nobody but root, and a file there.
    pub closed: InodeId,
    pub secret: InodeId,
    /// Everybody may read it.
    pub shared: InodeId,
    /// A directory of Alice's, and files there.
    pub mine: InodeId,
    pub own: Vec<InodeId>,
}

impl Tree {
    /// Makes it, as root.
    pub fn make(root: &Path) -> Tree {
        let mode = |path: &str, mode| {
            fs::set_permissions(root.join(path), Permissions::from_mode(mode)).expect("chmod");
        };
        fs::create_dir(root.join("closed")).expect("mkdir");
        fs::write(root.join("closed/file"), "secret").expect("write");
        mode("closed", 0o700);
        mode("closed/file", 0o600);
        fs::create_dir(root.join("team")).expect("mkdir");
        chown(root.join("team"), Some(0), Some(TEAM)).expect("chown");
        mode("team", 0o750);
        fs::write(root.join("team/file"), "ours").expect("write");
        fs::write(root.join("open"), "everybody's").expect("write");
        fs::create_dir(root.join("alice")).expect("mkdir");
        let own: Vec<String> = (0..OWN_FILES).map(|number| format!("alice/own{number}")).collect();
        own.iter().for_each(|path| fs::write(root.join(path), "hers").expect("write"));
        for path in own.iter().map(String::as_str).chain(["alice"]) {
            chown(root.join(path), Some(ALICE.uid), Some(ALICE.gid)).expect("chown");
        }
        let ino = |path: &str| InodeId(fs::metadata(root.join(path)).expect("it is there").ino());
        Tree {
            closed: ino("closed"),
            secret: ino("closed/file"),
            shared: ino("open"),
            mine: ino("alice"),
            own: own.iter().map(|path| ino(path)).collect(),
        }
    }

    /// Fails unless it is as it was made.
    pub fn assert_untouched(root: &Path) {
        assert_eq!(fs::read(root.join("closed/file")).expect("root reads"), b"secret");
        assert_eq!(fs::read(root.join("open")).expect("root reads"), b"everybody's");
        assert_eq!(fs::read_dir(root.join("closed")).expect("a listing").count(), 1);
        let is = fs::metadata(root.join("closed/file")).expect("stat");
        assert_eq!((is.uid(), is.mode() & 0o7777), (0, 0o600));
        for number in 0..OWN_FILES {
            assert_eq!(fs::read(root.join(format!("alice/own{number}"))).expect("root reads"), b"hers");
        }
    }
}

/// What is said.
#[derive(Clone, Debug)]
pub enum Lie {
    /// A request of that caller.
    As(Caller, Request),
    /// A request in the name of that session.
    Of(SessionNumber, Request),
    /// A request of who it really is.
    Asks(Request),
    /// A request to a data node, without a ticket.
    Bare(DataRequest),
    /// One with a ticket.
    Shows(Ticket, DataRequest),
}

impl Lie {
    fn said_to(&self, liar: &Liar) -> Said {
        let bulk = |request: &DataRequest| match request {
            DataRequest::Write { .. } => &b"gotcha"[..],
            _ => &[],
        };
        match self.clone() {
            Lie::As(caller, request) => liar.ask_as(caller, request),
            Lie::Of(session, request) => liar.say_as(session, liar.me(), request),
            Lie::Asks(request) => liar.ask(request),
            Lie::Bare(request) => liar.ask_data(request.clone(), bulk(&request)),
            Lie::Shows(ticket, request) => liar.show(ticket, &request, bulk(&request)),
        }
    }
}

/// A lie, and what becomes of it.
type Row = (Lie, Said);

fn refused(why: Refusal) -> Said {
    Said::Reply(Reply::Refused { why })
}

fn fails(errno: Errno) -> Said {
    Said::Reply(Reply::Failed { errno })
}

/// As after a cut that it has not heard of.
fn stale() -> Said {
    Said::Data(DataReply::Stale, Vec::new())
}

fn no_bytes() -> Said {
    Said::Data(DataReply::Refused { why: Refusal::Bytes }, Vec::new())
}

/// Everything that is refused from who has opened nothing, row by row.
pub fn are_refused(liar: &Liar, tree: &Tree) {
    let (is, me) = (liar.me(), ALICE);
    assert_eq!((is.uid, is.gid), (me.uid, me.gid));
    let look = Request::Lookup { parent: tree.closed, name: name(b"file") };
    assert_eq!(liar.ask(look), fails(Errno::EACCES), "as oneself it is asked");
    let all = [of_callers(liar, tree), of_sessions(liar, tree), of_flags(tree), of_unopened(tree), of_bytes(tree)];
    assert_rows(liar, &all.concat());
    // What only homes ask is no message of a session, whatever it shows.
    let data = DataId { inode: tree.secret, generation: Generation(1) };
    let ticket = Ticket { data, cut: 0, rights: right::READ | right::WRITE, until_s: u32::MAX, hash: 7 };
    for request in home_requests(data) {
        assert_eq!(liar.show_once(ticket, &request), None, "{request:?}");
    }
}

fn assert_rows(liar: &Liar, rows: &[Row]) {
    for (lie, ends) in rows {
        assert_eq!(&lie.said_to(liar), ends, "{lie:?}");
    }
}

pub(super) fn name(name: &[u8]) -> Name {
    Name::new(name).expect("a name")
}

fn node(kind: Kind, rdev: u32) -> NewNode {
    NewNode { kind, mode: 0o666, umask: 0, rdev, target: Blob::default(), open: 0 }
}

fn flock(kind: LockKind, flock: bool) -> FileLock {
    FileLock { flock, kind, start: 0, end: 1, owner: 1, pid: 1 }
}

fn change(id: InodeId, valid: u32) -> Request {
    Request::SetAttr { id, set: SetAttr { valid, mode: 0o777, uid: 0, ..SetAttr::default() } }
}

/// Each lie about who asks, with requests that read, change and open.
fn of_callers(liar: &Liar, tree: &Tree) -> Vec<Row> {
    let me = liar.me();
    let groups = |member: &[u32], stranger: &[u32]| Groups { member: member.into(), stranger: stranger.into() };
    let everything = || IdRange { first: 0, count: u32::MAX };
    let maps = IdMaps { uids: [everything()].into_iter().collect(), gids: [everything()].into_iter().collect() };
    let bits = [
        cap::CHOWN,
        cap::DAC_OVERRIDE,
        cap::DAC_READ_SEARCH,
        cap::FOWNER,
        cap::FSETID,
        cap::SYS_ADMIN,
        cap::SETFCAP,
        cap::ALL,
    ];
    let mut callers = vec![
        (Caller { caps: Caps::exactly(cap::ALL), ..Caller::default() }, Refusal::Uid),
        (Caller::default(), Refusal::Uid),
        (Caller { uid: 0, ..me.clone() }, Refusal::Uid),
        (Caller { uid: BOB.uid, ..me.clone() }, Refusal::Uid),
        (Caller { uid: u32::MAX, ..me.clone() }, Refusal::Uid),
        (Caller { gid: 0, ..me.clone() }, Refusal::Gid),
        (Caller { gid: BOB.gid, ..me.clone() }, Refusal::Gid),
        (Caller { groups: groups(&[0], &[]), ..me.clone() }, Refusal::Groups),
        (Caller { groups: groups(&[TEAM, BOB.gid], &[]), ..me.clone() }, Refusal::Groups),
        (Caller { groups: groups(&[], &[TEAM]), ..me.clone() }, Refusal::Groups),
        (Caller { groups: groups(&[], &[ALICE.gid]), ..me.clone() }, Refusal::Groups),
        (Caller { free_links: true, ..me.clone() }, Refusal::Capabilities),
    ];
    let within = Caps { within: Some(Arc::new(maps)), ..Caps::exactly(cap::ALL) };
    let caps = bits.map(Caps::exactly).into_iter().chain([within]);
    callers.extend(caps.map(|caps| (Caller { caps, ..me.clone() }, Refusal::Capabilities)));
    let rows = callers.iter().flat_map(|(caller, why)| {
        requests(tree).into_iter().map(|request| (Lie::As(caller.clone(), request), refused(*why)))
    });
    rows.collect()
}

/// Requests that read, change and open.
fn requests(tree: &Tree) -> Vec<Request> {
    let Tree { closed, secret, mine, .. } = *tree;
    let xattr = || XattrName::new(b"user.lie").expect("a name");
    vec![
        Request::Lookup { parent: closed, name: name(b"file") },
        Request::Resolve { from: InodeId::ROOT, names: vec![name(b"closed"), name(b"file")], look: true, tell: true },
        Request::GetAttr { id: mine },
        Request::GetAttrs { ids: vec![mine] },
        Request::ReadDir { id: closed, after: Cookie(0), bytes: 4_096 },
        Request::Access { id: secret, mask: 4 },
        Request::StatFs,
        Request::Renew,
        change(secret, set::MODE),
        change(secret, set::UID),
        change(secret, set::SIZE | set::KILL_SUIDGID),
        Request::Create { parent: closed, name: name(b"new"), node: node(Kind::File, 0) },
        Request::Create { parent: closed, name: name(b"newdir"), node: node(Kind::Directory, 0) },
        Request::TmpFile { parent: closed, slot: Slot(1), node: node(Kind::File, 0) },
        Request::Link { id: secret, parent: mine, name: name(b"stolen") },
        Request::Unlink { parent: closed, name: name(b"file") },
        Request::Rmdir { parent: InodeId::ROOT, name: name(b"closed") },
        Request::Rename {
            from_parent: closed,
            from: name(b"file"),
            parent: mine,
            name: name(b"stolen"),
            flags: rename::NOREPLACE,
        },
        Request::SetXattr { id: secret, name: xattr(), value: Blob(b"1".to_vec()), flags: 0 },
        Request::GetXattr { id: secret, name: xattr() },
        Request::Open { id: secret, flags: open::READ | open::REGISTER },
        Request::Open { id: secret, flags: open::WRITE | open::REGISTER | open::TRUNCATE | open::KILL_SUIDGID },
        Request::SetLock { id: secret, lock: flock(LockKind::Write, true), wait: true, again: false },
    ]
}

/// One that will have its id one day, by what it may ask itself.
fn of_sessions(liar: &Liar, tree: &Tree) -> Vec<Row> {
    let later = SessionNumber(liar.there.session.0 + (1 << 24) - 1);
    let more = [Request::Detach { gone: false }, Request::Attach { again: true }];
    let all = requests(tree).into_iter().chain(more);
    all.map(|request| (Lie::Of(later, request), refused(Refusal::Session))).collect()
}

/// Flags that skip a check, devices, and what a session that is believed alone may say of itself.
fn of_flags(tree: &Tree) -> Vec<Row> {
    let Tree { closed, secret, mine, shared, .. } = *tree;
    let capability = XattrName::capability;
    let flags = |flags| Request::Open { id: secret, flags };
    let made = |node: NewNode| Request::Create { parent: mine, name: name(b"device"), node };
    let unnamed = |node: NewNode| Request::TmpFile { parent: mine, slot: mine.slot(), node };
    let data = DataId { inode: secret, generation: Generation(1) };
    let ticket = Ticket { data, cut: 0, rights: right::READ | right::WRITE, until_s: u32::MAX, hash: 7 };
    let refusals = [
        (flags(open::READ | open::AGAIN | open::REGISTER), Refusal::Flag),
        (flags(open::WRITE | open::AGAIN), Refusal::Flag),
        (flags(open::AGAIN), Refusal::Flag),
        (flags(open::READ | open::MADE | open::REGISTER), Refusal::Flag),
        (flags(open::WRITE | open::MADE), Refusal::Flag),
        (flags(open::REGISTER), Refusal::Flag),
        (flags(open::MAP | open::REGISTER), Refusal::Flag),
        (flags(open::READ | open::MAP | open::REGISTER), Refusal::Flag),
        (flags(open::WRITE | open::TRUNCATE | open::REGISTER), Refusal::Flag),
        (Request::OpenAgain { id: secret, flags: open::REGISTER, ticket }, Refusal::Flag),
        (Request::OpenAgain { id: shared, flags: open::REGISTER, ticket }, Refusal::Flag),
        (change(secret, set::READ | set::ATIME | set::ATIME_NOW), Refusal::Flag),
        (change(secret, set::SIZE), Refusal::Flag),
        (change(secret, set::SIZE | set::OPEN_FOR_WRITE), Refusal::Flag),
        (Request::RenewAlone, Refusal::Flag),
        (Request::HandBack { alone: AloneId(u64::MAX) }, Refusal::Flag),
        (Request::Detach { gone: true }, Refusal::Flag),
        (made(node(Kind::BlockDevice, 0x800)), Refusal::Device),
        (made(node(Kind::BlockDevice, 0)), Refusal::Device),
        (made(node(Kind::CharDevice, 0x101)), Refusal::Device),
        (unnamed(node(Kind::BlockDevice, 0x800)), Refusal::Device),
        (unnamed(node(Kind::CharDevice, 0x101)), Refusal::Device),
    ];
    let dirs =
        [InodeId::ROOT, closed].map(|id| WayDir { id, access: Searchable { mode: 0o777, ..Searchable::default() } });
    let way = Way { parent: InodeId::NONE, name: None, dirs: dirs.into() };
    // These are not refused, and not believed.
    let unbelieved = [
        (flags(open::READ | open::REGISTER), Errno::EACCES),
        (flags(open::EXEC | open::REGISTER), Errno::EACCES),
        (change(secret, set::SIZE | set::OPEN_FOR_WRITE | set::KILL_SUIDGID), Errno::EACCES),
        (Request::RemoveXattr { id: secret, name: capability(), open_for_write: true }, Errno::EACCES),
        (change(secret, set::UID), Errno::EPERM),
        (change(secret, set::MODE), Errno::EPERM),
        (Request::Unlink { parent: closed, name: name(b"file") }, Errno::EACCES),
        (Request::LookupLed { parent: closed, name: name(b"file"), way }, Errno::EACCES),
    ];
    let refusals = refusals.map(|(request, why)| (Lie::Asks(request), refused(why)));
    refusals.into_iter().chain(unbelieved.map(|(request, errno)| (Lie::Asks(request), fails(errno)))).collect()
}

/// What comes after an open, without one: of a file that it may not read, and of one that it may.
fn of_unopened(tree: &Tree) -> Vec<Row> {
    let of = |id| {
        let locks =
            [(LockKind::Read, false), (LockKind::Write, false), (LockKind::Read, true), (LockKind::Write, true)];
        let locks = locks.into_iter().flat_map(move |(kind, whole)| {
            let lock = flock(kind, whole);
            let set = |wait, again| Request::SetLock { id, lock, wait, again };
            [set(false, false), set(true, false), set(false, true), Request::TestLock { id, lock }]
        });
        locks.chain([
            Request::Reserve { id },
            Request::Map { id },
            Request::WriteBack { id, changed_at: None },
            Request::WriteBack { id, changed_at: Some(1) },
            Request::WrittenBack { id, wrote: true },
            Request::Sync { id },
        ])
    };
    let listing = |id| Request::ReadDir { id, after: Cookie(0), bytes: 4_096 };
    let all = of(tree.secret).chain(of(tree.shared)).chain([tree.closed, tree.mine].map(listing));
    all.map(|request| (Lie::Asks(request), refused(Refusal::Bytes))).collect()
}

/// Everything that a data node is asked about a file.
fn data_requests(data: DataId, cut: u32, kill_suidgid: bool) -> Vec<DataRequest> {
    let allocate = |how| DataRequest::Allocate { data, cut, offset: 0, bytes: 4_096, how, end: 0, kill_suidgid };
    let seek = |hole| DataRequest::Seek { data, cut, offset: 0, hole };
    vec![
        DataRequest::Read { data, cut, offset: 0, bytes: 6 },
        DataRequest::Write { data, cut, offset: 0, kill_suidgid, append: false, part: None },
        DataRequest::Write { data, cut, offset: 6, kill_suidgid, append: true, part: None },
        allocate(Allocation::Reserve),
        allocate(Allocation::Punch),
        allocate(Allocation::Zero),
        seek(false),
        seek(true),
        DataRequest::Sync { data },
        DataRequest::Copy { data, cut, offset: 0, from: data, from_cut: cut, from_offset: 0, bytes: 6, kill_suidgid },
    ]
}

/// What only homes ask of data nodes.
pub(super) fn home_requests(data: DataId) -> [DataRequest; 3] {
    [
        DataRequest::Trim { data, cut: 9, size: 0, keep_reserved: false },
        DataRequest::Drop { all: vec![data] },
        DataRequest::CollectMany { inodes: vec![data.inode] },
    ]
}

/// Bytes of a file that it has not opened: each request bare, and with a ticket that it has made up.
fn of_bytes(tree: &Tree) -> Vec<Row> {
    let mut rows = Vec::new();
    for generation in 0..4 {
        let data = DataId { inode: tree.secret, generation: Generation(generation) };
        let ticket = Ticket { data, cut: 0, rights: right::READ | right::WRITE, until_s: u32::MAX, hash: 7 };
        let nested = Lie::Shows(ticket, DataRequest::Read { data, cut: 0, offset: 0, bytes: 6 });
        for request in data_requests(data, 0, true) {
            rows.push((Lie::Bare(request.clone()), no_bytes()));
            rows.push((Lie::Shows(ticket, request), stale()));
        }
        rows.extend(home_requests(data).map(|request| (Lie::Bare(request), no_bytes())));
        let flag = Said::Data(DataReply::Refused { why: Refusal::Flag }, Vec::new());
        let keeps = |request: &DataRequest| request.keeps_suid();
        let keeping = data_requests(data, 0, false).into_iter().filter(keeps);
        rows.extend(keeping.map(|request| (Lie::Shows(ticket, request), flag.clone())));
        let Lie::Shows(_, request) = nested else { unreachable!("it is one") };
        let inside = DataRequest::Shown { ticket, source: None, request: Blob(request.to_bytes()) };
        rows.push((Lie::Shows(ticket, inside), no_bytes()));
    }
    rows
}

/// A ticket is good for what was opened, by whom, and how. Gives one for a file that everybody may read.
pub fn tickets_are_of_one_file(liar: &Liar, other: &Liar, tree: &Tree) -> Ticket {
    let ticket = opened(liar, tree);
    assert!(ticket.gives(right::READ) && !ticket.gives(right::WRITE));
    let (data, cut) = (ticket.data, ticket.cut);
    reads(liar, ticket);
    // It is for reading, and from the whole of the file.
    let writes = |request: &DataRequest| request.describe().writes;
    let writing = data_requests(data, cut, true).into_iter().filter(writes);
    assert_rows(liar, &writing.map(|request| (Lie::Shows(ticket, request), stale())).collect::<Vec<_>>());
    let elsewhere = DataId { inode: tree.secret, ..data };
    let later = DataId { generation: Generation(data.generation.0 + 1), ..data };
    let earlier = DataId { generation: Generation(data.generation.0.wrapping_sub(1)), ..data };
    let read = |data, cut| DataRequest::Read { data, cut, offset: 0, bytes: 11 };
    let mut lies: Vec<(Ticket, DataRequest)> = vec![
        (ticket, read(elsewhere, cut)),
        (ticket, read(later, cut)),
        (ticket, read(earlier, cut)),
        (ticket, read(data, cut + 1)),
        (ticket, read(data, cut.wrapping_sub(1))),
        (Ticket { data: elsewhere, ..ticket }, read(elsewhere, cut)),
        (Ticket { data: later, ..ticket }, read(later, cut)),
        (Ticket { data: earlier, ..ticket }, read(earlier, cut)),
        (Ticket { cut: cut + 1, ..ticket }, read(data, cut + 1)),
        (Ticket { rights: right::READ | right::WRITE, ..ticket }, read(data, cut)),
        (Ticket { rights: 0, ..ticket }, read(data, cut)),
        (Ticket { rights: u8::MAX, ..ticket }, read(data, cut)),
        (Ticket { until_s: ticket.until_s + 1, ..ticket }, read(data, cut)),
        (Ticket { until_s: u32::MAX, ..ticket }, read(data, cut)),
    ];
    let all = right::READ | right::WRITE;
    lies.extend(data_requests(data, cut, true).into_iter().map(|request| (Ticket { rights: all, ..ticket }, request)));
    lies.extend((0..64).map(|bit| (Ticket { hash: ticket.hash ^ 1 << bit, ..ticket }, read(data, cut))));
    // As hosts of another file system would make it.
    let foreign = Secrets::of_seed(1).inner.tickets();
    lies.push((Ticket::new(&foreign, liar.there.session, (data, cut), ticket.rights, ticket.until_s), read(data, cut)));
    assert_rows(
        liar,
        &lies.into_iter().map(|(ticket, request)| (Lie::Shows(ticket, request), stale())).collect::<Vec<_>>(),
    );
    // Another session of the same user.
    assert_eq!(other.show(ticket, &read(data, cut), &[]), stale());
    let again = |flags| Request::OpenAgain { id: tree.shared, flags, ticket };
    assert_eq!(other.ask(again(open::REGISTER)), refused(Refusal::Flag));
    let maps = again(open::REGISTER | open::MAP);
    assert_eq!(liar.ask(maps), refused(Refusal::Flag), "to change it in memory takes the right to write");
    assert!(matches!(liar.ask(again(open::REGISTER)), Said::Reply(Reply::Attr { .. })));
    assert_eq!(liar.ask(Request::Reserve { id: tree.shared }), refused(Refusal::Bytes));
    copies_show_both(liar, tree, ticket);
    ticket
}

/// Opens the file that everybody may read.
pub fn opened(liar: &Liar, tree: &Tree) -> Ticket {
    let opened = liar.ask(Request::Open { id: tree.shared, flags: open::READ | open::REGISTER });
    assert!(matches!(opened, Said::Reply(Reply::Attr { .. })), "{opened:?}");
    liar.ticket(tree.shared).expect("it has opened it")
}

/// Whoever copies shows a ticket for either file.
fn copies_show_both(liar: &Liar, tree: &Tree, source: Ticket) {
    let beside = |id: &&InodeId| liar.there.map.data(**id) == liar.there.map.data(source.data.inode);
    let Some(&own) = tree.own.iter().find(beside) else { return };
    assert!(matches!(
        liar.ask(Request::Open { id: own, flags: open::WRITE | open::REGISTER }),
        Said::Reply(Reply::Attr { .. })
    ));
    let ticket = liar.ticket(own).expect("it has opened it");
    let copy = DataRequest::Copy {
        data: ticket.data,
        cut: ticket.cut,
        offset: 0,
        from: source.data,
        from_cut: source.cut,
        from_offset: 0,
        bytes: 4,
        kill_suidgid: true,
    };
    let unread = Said::Data(DataReply::SourceStale, Vec::new());
    let lies = [None, Some(ticket), Some(Ticket { hash: source.hash ^ 1, ..source })];
    lies.into_iter().for_each(|lie| assert_eq!(liar.show_both(ticket, lie, &copy, &[]), unread, "{lie:?}"));
    let reads = DataRequest::Read { data: ticket.data, cut: ticket.cut, offset: 0, bytes: 4 };
    assert_eq!(liar.show(ticket, &reads, &[]), stale(), "it is open for writing");
    assert_eq!(liar.ask(Request::Release { id: own }), Said::Reply(Reply::Done));
}

/// Fails unless the file that everybody may read is read with that ticket.
pub fn reads(liar: &Liar, ticket: Ticket) {
    let read = DataRequest::Read { data: ticket.data, cut: ticket.cut, offset: 0, bytes: 11 };
    assert_eq!(liar.show(ticket, &read, &[]), Said::Data(DataReply::Bytes, b"everybody's".to_vec()));
}

/// Whether that ticket opens nothing.
pub fn is_stale(liar: &Liar, ticket: Ticket) -> bool {
    let read = DataRequest::Read { data: ticket.data, cut: ticket.cut, offset: 0, bytes: 11 };
    liar.show(ticket, &read, &[]) == stale()
}

/// What leaves something at a shard that goes with the death of the session, of files that are the client's own.
pub fn what_is_left(tree: &Tree) -> Vec<Request> {
    let of = |&id: &InodeId| {
        [
            Request::Open { id, flags: open::READ | open::WRITE | open::REGISTER },
            Request::Open { id, flags: open::WRITE | open::REGISTER | open::TRUNCATE | open::KILL_SUIDGID },
            Request::SetLock { id, lock: flock(LockKind::Write, true), wait: true, again: false },
            Request::Reserve { id },
            Request::Release { id },
            change(id, set::MODE),
        ]
    };
    let opened = NewNode { open: open::REGISTER | open::READ, ..node(Kind::File, 0) };
    let created = Request::Create { parent: tree.mine, name: name(b"left"), node: opened.clone() };
    let unnamed = Request::TmpFile { parent: tree.mine, slot: tree.mine.slot(), node: opened };
    let removed = Request::Unlink { parent: tree.mine, name: name(b"own0") };
    tree.own.iter().flat_map(of).chain([created, unnamed, removed]).collect()
}

/// A session that has not joined, or is over, leaves nothing anywhere.
pub fn strangers_leave_nothing(stranger: &Liar, tree: &Tree) {
    let rows = what_is_left(tree).into_iter().map(|request| (Lie::Asks(request), refused(Refusal::Session)));
    assert_rows(stranger, &rows.collect::<Vec<_>>());
    // What leaves nothing is asked of who it is.
    let look = |id| stranger.ask(Request::GetAttr { id });
    assert!(matches!(look(tree.mine), Said::Reply(Reply::Attr { .. })));
}

/// Whether another session than this one has a file of hers open or locked.
pub fn is_left(liar: &Liar, tree: &Tree) -> bool {
    let is_left = |&id: &InodeId| {
        let opened = liar.ask(Request::Open { id, flags: open::READ | open::REGISTER });
        let Said::Reply(Reply::Attr { shared, .. }) = opened else { panic!("{opened:?}") };
        let lock = flock(LockKind::Write, true);
        let tested = liar.ask(Request::TestLock { id, lock });
        let Said::Reply(Reply::LockIs { conflict }) = tested else { panic!("{tested:?}") };
        assert_eq!(liar.ask(Request::Release { id }), Said::Reply(Reply::Done));
        shared || conflict.is_some()
    };
    tree.own.iter().any(is_left)
}

/// Opens every file of hers.
pub fn open_all(liar: &Liar, tree: &Tree) -> bool {
    let open = |&id: &InodeId| liar.ask(Request::Open { id, flags: open::READ | open::REGISTER });
    tree.own.iter().all(|id| matches!(open(id), Said::Reply(Reply::Attr { .. })))
}
