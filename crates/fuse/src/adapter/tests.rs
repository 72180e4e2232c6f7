//! Requests in, session requests out, answers back: with a transport that writes down what the kernel would get.

use std::sync::{Arc, Mutex};

use onpath_session::fs::{Caller, FsReply, Handle, Opened};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::disk::inode::Inode;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::DirEntry;
use onpath_wire::request::set;
use zerocopy::FromBytes;

use super::nodes::node_id;
use super::*;
use crate::abi::{self, fopen};
use crate::request::{Header, LockRequest, SetAttributes, SetTime};
use crate::transport::{Notification, Payload, RequestBuffer, Transport, TransportError};

/// Number, error, content.
type Sent = (u64, i32, Vec<u8>);

#[derive(Default)]
struct Recorder(Mutex<Vec<Sent>>);

impl Transport for Recorder {
    fn read_request(&self, _buffer: &mut RequestBuffer) -> Result<bool, TransportError> {
        Ok(false)
    }

    fn reply(&self, unique: u64, error: i32, parts: &[&[u8]]) -> Result<(), TransportError> {
        self.0.lock().unwrap().push((unique, error, parts.concat()));
        Ok(())
    }

    fn notify(&self, _notification: Notification<'_>) -> Result<bool, TransportError> {
        Ok(false)
    }

    fn another_reader(&self) -> Result<Arc<dyn Transport>, TransportError> {
        Ok(Arc::new(Recorder::default()))
    }
}

#[derive(Default)]
struct Queue(Arc<Mutex<Vec<FsRequest>>>);

impl SessionDriver for Queue {
    fn submit(&self, request: FsRequest) {
        self.0.lock().unwrap().push(request);
    }
}

/// A mount without a kernel.
struct Bench {
    filesystem: SessionFilesystem<Queue>,
    answers: Arc<Answers>,
    submitted: Arc<Mutex<Vec<FsRequest>>>,
    transport: Arc<Recorder>,
}

impl Bench {
    fn new() -> Self {
        let (queue, answers) = (Queue::default(), Arc::new(Answers::default()));
        let submitted = Arc::clone(&queue.0);
        let filesystem = SessionFilesystem::new(queue, Arc::clone(&answers));
        Self { filesystem, answers, submitted, transport: Arc::default() }
    }

    fn ask(&self, unique: u64, nodeid: u64, operation: Operation<'_>) {
        self.ask_as(77, unique, nodeid, operation);
    }

    fn ask_as(&self, pid: u32, unique: u64, nodeid: u64, operation: Operation<'_>) {
        self.ask_of(node_id(InodeId(nodeid)), pid, unique, operation);
    }

    fn ask_of(&self, nodeid: u64, pid: u32, unique: u64, operation: Operation<'_>) {
        let header = Header { opcode: 0, unique, nodeid, uid: 1000, gid: 100, pid };
        let request = Request { header, supplementary_group: Some(5), operation };
        self.filesystem.handle(request, Replier::new(unique, Arc::clone(&self.transport) as Arc<dyn Transport>));
    }

    fn submitted(&self) -> FsRequest {
        let mut submitted = self.submitted.lock().unwrap();
        assert_eq!(submitted.len(), 1, "{submitted:?}");
        submitted.remove(0)
    }

    fn answer(&self, unique: u64, result: FsResult) {
        self.answers.complete(unique, result);
    }

    fn sent(&self) -> Sent {
        let mut sent = self.transport.0.lock().unwrap();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }
}

const FILE: u64 = 0x8000 << 37 | 1 << 17 | 1 << 1;

fn file_attr(nlink: u32) -> AttrWire {
    let inode = Inode { mode: 0o640, size: 10, mtime: -1, nlink, ..Inode::new(InodeId(FILE), Kind::File) };
    AttrWire::of(&inode)
}

fn opened(shared: bool) -> Opened {
    Opened { handle: Handle(9), shared }
}

#[test]
fn lookup_says_who_asks_and_lets_nothing_be_cached() {
    let bench = Bench::new();
    bench.ask(2, 1, Operation::Lookup { name: c"a" });
    let request = bench.submitted();
    assert_eq!(request.caller, Caller { uid: 1000, gid: 100, pid: 77, known_group: Some(5), free_links: false });
    assert!(matches!(request.op, FsOp::Lookup { parent: InodeId::ROOT, name } if name.as_bytes() == b"a"));
    bench.answer(2, Ok(FsReply::Entry(file_attr(0))));
    let (unique, error, content) = bench.sent();
    assert_eq!((unique, error), (2, 0));
    let entry = abi::EntryOut::read_from_bytes(&content).unwrap();
    assert_eq!(
        (entry.nodeid, entry.generation, entry.entry_valid, entry.attr_valid),
        (node_id(InodeId(FILE)), 0, 0, 0)
    );
    assert_eq!((entry.attr.mode, entry.attr.nlink), (0o100_640, 1));
    assert_eq!((entry.attr.mtime.cast_signed(), entry.attr.mtimensec), (-1, 999_999_999));
}

#[test]
fn errors_pass_through_and_long_names_are_refused_at_once() {
    let bench = Bench::new();
    bench.ask(2, 1, Operation::Unlink { name: c"a" });
    bench.answer(2, Err(Errno::EACCES));
    assert_eq!(bench.sent(), (2, Errno::EACCES.raw(), vec![]));
    let name = std::ffi::CString::new(vec![b'x'; 256]).unwrap();
    bench.submitted.lock().unwrap().clear();
    bench.ask(4, 1, Operation::Lookup { name: &name });
    assert_eq!(bench.sent(), (4, Errno::ENAMETOOLONG.raw(), vec![]));
    assert!(bench.submitted.lock().unwrap().is_empty());
}

#[test]
fn attributes_are_asked_for_and_fit_the_buffer_or_not() {
    let bench = Bench::new();
    for (unique, size, error, content) in [
        (2, 0, 0, [5_u32.to_le_bytes(), [0; 4]].concat()),
        (4, 5, 0, b"value".to_vec()),
        (6, 4, Errno::ERANGE.raw(), vec![]),
    ] {
        bench.ask(unique, FILE, Operation::Getxattr { name: c"user.a", size });
        let op = bench.submitted().op;
        let FsOp::GetXattr { id, name, probe } = op else { panic!("{op:?}") };
        assert_eq!((id, name.as_bytes(), probe), (InodeId(FILE), &b"user.a"[..], size == 0));
        bench.answer(unique, Ok(FsReply::Value(b"value".to_vec())));
        assert_eq!(bench.sent(), (unique, error, content));
    }
    bench.ask(8, FILE, Operation::Listxattr { size: 7 });
    assert!(matches!(bench.submitted().op, FsOp::ListXattr { id: InodeId(FILE) }));
    bench.answer(8, Ok(FsReply::Value(b"user.a\0".to_vec())));
    assert_eq!(bench.sent(), (8, 0, b"user.a\0".to_vec()));
    bench.ask(10, FILE, Operation::Setxattr { name: c"user.a", value: b"1", flags: 2 });
    let op = bench.submitted().op;
    assert!(matches!(op, FsOp::SetXattr { id: InodeId(FILE), ref value, flags: 2, .. } if value == b"1"), "{op:?}");
    bench.answer(10, Err(Errno::ENODATA));
    assert_eq!(bench.sent(), (10, Errno::ENODATA.raw(), vec![]));
    bench.ask(12, FILE, Operation::Removexattr { name: c"user.a" });
    assert!(matches!(bench.submitted().op, FsOp::RemoveXattr { id: InodeId(FILE), .. }));
    bench.answer(12, Ok(FsReply::Done));
    assert_eq!(bench.sent(), (12, 0, vec![]));
    bench.ask(14, FILE, Operation::Removexattr { name: c"" });
    assert_eq!(bench.sent(), (14, Errno::ERANGE.raw(), vec![]));
}

#[test]
fn every_close_is_told_and_shared_files_bypass_the_cache() {
    let bench = Bench::new();
    for (unique, fresh, shared, flags) in
        [(2, true, false, 0), (4, false, false, 0), (6, false, true, fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES)]
    {
        bench.ask(
            unique,
            1,
            Operation::Create { name: c"a", flags: 0o301, mode: 0o100_666, umask: 0o22, kill_suidgid: false },
        );
        let request = bench.submitted();
        let FsOp::Create { mode: 0o666, umask: 0o22, open, .. } = request.op else { panic!("{request:?}") };
        assert!(open.write && open.exclusive && !open.read && !open.truncate);
        bench.answer(unique, Ok(FsReply::Created { attr: file_attr(1), opened: opened(shared), fresh }));
        let (_, error, content) = bench.sent();
        let (_, open) = abi::OpenOut::read_from_suffix(&content).unwrap();
        assert_eq!((error, open.fh, open.open_flags), (0, 9, flags));
    }
}

#[test]
fn execution_asks_for_x_only() {
    let bench = Bench::new();
    bench.ask(2, FILE, Operation::Open { flags: 0x20, kill_suidgid: false });
    let FsOp::Open { mode, .. } = bench.submitted().op else { panic!("not an open") };
    assert!(mode.exec && !mode.read && !mode.write);
}

#[test]
fn attributes_are_set_as_asked() {
    let bench = Bench::new();
    let set = SetAttributes {
        handle: Some(9),
        size: Some(3),
        mtime: Some(SetTime::At { seconds: -1, nanoseconds: 5 }),
        atime: Some(SetTime::Now),
        kill_suidgid: true,
        ..SetAttributes::default()
    };
    bench.ask(2, FILE, Operation::Setattr(set));
    let FsOp::SetAttr { set, handle, .. } = bench.submitted().op else { panic!("not a setattr") };
    let expected = set::SIZE | set::OPEN_FOR_WRITE | set::MTIME | set::ATIME | set::ATIME_NOW | set::KILL_SUIDGID;
    assert_eq!((set.valid, set.size, set.mtime, handle), (expected, 3, -999_999_995, Some(Handle(9))));
}

#[test]
fn a_chown_that_keeps_both_ids_clears_the_bits() {
    let bench = Bench::new();
    bench.ask(2, FILE, Operation::Setattr(SetAttributes::default()));
    let FsOp::SetAttr { set, .. } = bench.submitted().op else { panic!("not a setattr") };
    assert_eq!(set.valid, set::KILL_SUIDGID);
}

#[test]
fn listings_carry_no_inodes_while_shared_and_stop_where_the_room_ends() {
    let bench = Bench::new();
    bench.ask(2, FILE, Operation::Readdirplus { handle: 9, offset: 0, size: 480 });
    let FsOp::ReadDir { after: Cookie(0), bytes: 120, .. } = bench.submitted().op else { panic!("not a page") };
    let entry = |name, kind, child, cookie| DirEntry { child: InodeId(child), kind, cookie, name };
    let name = |name| Name::new(name).unwrap();
    let entries = vec![
        entry(Name::dot(), Kind::Directory, FILE, Cookie::DOT),
        entry(Name::dot_dot(), Kind::Directory, 77, Cookie::DOTDOT),
        entry(name(b"a"), Kind::File, 5, Cookie(1 << 20)),
        entry(name(b"b"), Kind::File, 6, Cookie(1 << 21)),
    ];
    bench.answer(2, Ok(FsReply::Dir(entries)));
    let (_, error, content) = bench.sent();
    assert_eq!((error, content.len()), (0, 3 * 160), "the fourth does not fit");
    let records: Vec<_> = content
        .chunks(160)
        .map(|record| {
            let (entry, rest) = abi::EntryOut::read_from_prefix(record).unwrap();
            assert_eq!(entry, abi::EntryOut::default(), "no inodes");
            let (dirent, name) = abi::Dirent::read_from_prefix(rest).unwrap();
            (dirent.ino, dirent.off, dirent.kind, name[..dirent.namelen as usize].to_vec())
        })
        .collect();
    assert_eq!(records, [(FILE, 1, 4, b".".to_vec()), (77, 2, 4, b"..".to_vec()), (5, 1 << 20, 8, b"a".to_vec())]);
    bench.ask(4, FILE, Operation::Readdir { handle: 9, offset: 1 << 20, size: 4096 });
    assert!(matches!(bench.submitted().op, FsOp::ReadDir { after: Cookie(0x10_0000), bytes: 4096, .. }));
    bench.answer(4, Ok(FsReply::Dir(vec![])));
    assert_eq!(bench.sent(), (4, 0, vec![]));
}

/// Attribute validities of a page's entries, in seconds; none of those without an inode.
fn listed(bench: &Bench, attrs: &[Option<AttrWire>]) -> Vec<Option<u64>> {
    bench.ask(2, FILE, Operation::Readdirplus { handle: 9, offset: 0, size: 32_768 });
    let asked = bench.submitted().op;
    let entries = attrs.iter().zip(1..).map(|(attr, n)| {
        let (child, kind) = attr.map_or((InodeId(n), Kind::File), |attr| (attr.id, attr.kind));
        (
            DirEntry { child, kind, cookie: Cookie(n << 20), name: Name::new(format!("n{n:07}").as_bytes()).unwrap() },
            *attr,
        )
    });
    let reply = match asked {
        FsOp::ReadDirPlus { bytes: 8_192, .. } => FsReply::DirPlus(entries.collect()),
        FsOp::ReadDir { bytes: 8_192, .. } => FsReply::Dir(entries.map(|(entry, _)| entry).collect()),
        other => panic!("not a page: {other:?}"),
    };
    bench.answer(2, Ok(reply));
    let (_, error, content) = bench.sent();
    assert_eq!(error, 0);
    let record = |record: &[u8]| abi::EntryOut::read_from_prefix(record).unwrap().0;
    let valid = |entry: abi::EntryOut| (entry.nodeid != 0).then_some((entry.entry_valid, entry.attr_valid));
    let entries = content.chunks(160).map(|bytes| valid(record(bytes)));
    entries.map(|valid| valid.map(|(name, attributes)| [attributes, 9][usize::from(name != 1)])).collect()
}

#[test]
fn listings_carry_inodes_while_the_session_is_alone() {
    let bench = Bench::new();
    let file = AttrWire { flags: flag::SEARCHABLE, ..file_attr(1) };
    let directory = AttrWire { kind: Kind::Directory, nlink: 2, ..file };
    let unsettled = AttrWire { flags: flag::SEARCHABLE | flag::UNSETTLED, ..file };
    let page = [Some(file), None, Some(directory), Some(unsettled), Some(AttrWire { nlink: 0, ..file })];
    assert_eq!(listed(&bench, &page), [None; 5], "not alone");
    bench.answers.alone(AloneId(1), u64::MAX);
    assert_eq!(listed(&bench, &page), [Some(1), None, Some(0), Some(0), None]);
    // A chmod that ends meanwhile may have shut others out.
    bench.ask(2, FILE, Operation::Readdirplus { handle: 9, offset: 0, size: 32_768 });
    bench.submitted();
    bench.ask(4, FILE, Operation::Setattr(SetAttributes { mode: Some(0o700), ..SetAttributes::default() }));
    bench.submitted();
    bench.answer(4, Ok(FsReply::Attr { attr: AttrWire { mode: 0o700, ..directory }, btime: 0 }));
    bench.sent();
    let entry = DirEntry { child: InodeId(1), kind: Kind::File, cookie: Cookie(8), name: Name::new(b"a").unwrap() };
    bench.answer(2, Ok(FsReply::DirPlus(vec![(entry, Some(file))])));
    let (entry, _) = abi::EntryOut::read_from_prefix(&bench.sent().2).unwrap();
    assert_eq!(entry, abi::EntryOut::default());
}

#[test]
fn listings_are_plain_while_nobody_uses_their_attributes() {
    let bench = Bench::new();
    bench.answers.alone(AloneId(1), u64::MAX);
    let file = Some(AttrWire { flags: flag::SEARCHABLE, ..file_attr(1) });
    let page = [file; 128];
    let given = || listed(&bench, &page).iter().flatten().count();
    let look_up = |name| {
        bench.ask(2, FILE, Operation::Lookup { name });
        bench.submitted();
        bench.answer(2, Err(Errno::ENOENT));
        bench.sent();
    };
    assert_eq!([given(), given()], [128, 127], "a sample");
    let pages = || std::iter::repeat_with(&given).take_while(|given| *given > 0).count();
    assert_eq!(pages(), 16_384 / 128 - 2);
    look_up(c"n0000002");
    assert_eq!(given(), 0, "that was not listed without attributes");
    // Programs that read everything before they look at it come to have it all.
    for allowed in [65_536, 262_144, 262_144] {
        look_up(c"n0000001");
        assert_eq!(pages(), allowed / 128);
    }
    // Without such for long it is as at first.
    (0..8_192).for_each(|_| assert_eq!(given(), 0));
    look_up(c"n0000001");
    assert_eq!(pages(), 65_536 / 128);
}

fn lock(kind: u32, owner: u64) -> LockRequest {
    LockRequest { handle: 9, owner, start: 0, end: u64::MAX, kind, pid: 77, flock: false }
}

#[test]
fn a_lock_test_reports_the_conflict_or_none() {
    let bench = Bench::new();
    bench.ask(2, FILE, Operation::Getlk(lock(0, 1)));
    let FsOp::TestLock { lock: asked, .. } = bench.submitted().op else { panic!("not a test") };
    bench.answer(2, Ok(FsReply::LockIs(Some(asked))));
    let found = abi::LkOut::read_from_bytes(&bench.sent().2).unwrap();
    assert_eq!((found.lk.kind, found.lk.end, found.lk.pid), (0, u64::MAX, 77));
    bench.ask(4, FILE, Operation::Getlk(lock(0, 1)));
    bench.answer(4, Ok(FsReply::LockIs(None)));
    assert_eq!(abi::LkOut::read_from_bytes(&bench.sent().2).unwrap().lk.kind, 2);
    bench.submitted.lock().unwrap().clear();
    bench.ask(6, FILE, Operation::Getlk(lock(7, 1)));
    assert_eq!(bench.sent().1, Errno::EINVAL.raw());
}

#[test]
fn interrupts_go_to_the_session_under_numbers_of_their_own() {
    let bench = Bench::new();
    bench.ask_as(0, 2, FILE, Operation::Setlk { lock: lock(1, 1), wait: true });
    bench.submitted();
    bench.filesystem.interrupt(2);
    let request = bench.submitted();
    assert!(matches!(request.op, FsOp::Interrupt { unique: 2 }) && request.unique == 3);
    bench.answer(2, Err(Errno::EINTR));
    assert_eq!(bench.sent().1, Errno::EINTR.raw());
}

/// The kernel interrupts a request once: what is no signal lets it go on, and a later signal must be found.
#[test]
fn callers_without_a_signal_are_watched() {
    let bench = Bench::new();
    let mut caller = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    for unique in [2, 4] {
        bench.ask_as(caller.id(), unique, FILE, Operation::Readlink);
        bench.submitted();
        bench.filesystem.interrupt(unique);
    }
    assert_eq!(bench.submitted.lock().unwrap().len(), 0, "both go on");
    bench.answer(2, Ok(FsReply::Done));
    caller.kill().unwrap();
    caller.wait().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while bench.submitted.lock().unwrap().is_empty() && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(matches!(bench.submitted().op, FsOp::Interrupt { unique: 4 }));
}

#[test]
fn groups_of_this_process_can_be_read() {
    let groups = super::caller::supplementary_groups(std::process::id());
    let expected: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|gid| gid.as_raw()).collect();
    assert!(expected.iter().all(|gid| groups.contains(gid)));
    assert_eq!(super::caller::supplementary_groups(0), []);
}

#[test]
fn data_goes_both_ways() {
    let bench = Bench::new();
    let data = Payload::borrowed(b"hello");
    let write = Operation::Write {
        handle: 9,
        offset: 3,
        data,
        flags: 1,
        lock_owner: None,
        kill_suidgid: true,
        from_cache: false,
    };
    bench.ask(2, FILE, write);
    let FsOp::Write { offset: 3, data, kill_suidgid: true, .. } = bench.submitted().op else { panic!("not a write") };
    assert_eq!(data, b"hello"[..]);
    bench.answer(2, Ok(FsReply::Written(5)));
    assert_eq!(bench.sent().2, [5, 0, 0, 0, 0, 0, 0, 0]);
    bench.ask(4, FILE, Operation::Read { handle: 9, offset: 3, size: 100, flags: 0, lock_owner: None });
    bench.answer(4, Ok(FsReply::Data(vec![data.clone(), data])));
    assert_eq!(bench.sent().2, b"hellohello");
}

#[test]
fn requests_that_die_unanswered_get_eio() {
    let bench = Bench::new();
    bench.ask(2, FILE, Operation::Getattr { handle: None });
    bench.submitted();
    bench.answers.complete(99, Ok(FsReply::Done)); // an answer to nothing is ignored
    bench.answer(2, Ok(FsReply::Dir(vec![])));
    assert_eq!(bench.sent(), (2, Errno::EIO.raw(), vec![]), "an answer of the wrong kind");
    bench.ask(4, FILE, Operation::Getattr { handle: None });
    bench.answers.table().pending.clear();
    assert_eq!(bench.sent(), (4, Errno::EIO.raw(), vec![]));
}

fn looked_up(bench: &Bench, attr: AttrWire) -> (u64, u64) {
    bench.ask(2, 1, Operation::Lookup { name: c"a" });
    bench.submitted();
    bench.answer(2, Ok(FsReply::Entry(attr)));
    let entry = abi::EntryOut::read_from_bytes(&bench.sent().2).unwrap();
    (entry.entry_valid, entry.attr_valid)
}

#[test]
fn what_may_be_cached_while_the_session_is_alone() {
    let bench = Bench::new();
    let plain = AttrWire { flags: flag::SEARCHABLE, ..file_attr(1) };
    assert_eq!(looked_up(&bench, plain), (0, 0), "not alone");
    bench.answers.alone(AloneId(5), u64::MAX);
    assert_eq!(looked_up(&bench, plain), (1, 1));
    assert_eq!(looked_up(&bench, AttrWire { flags: 0, ..plain }), (0, 1), "not everybody may search the directory");
    let unsettled = AttrWire { flags: flag::SEARCHABLE | flag::UNSETTLED, ..plain };
    assert_eq!(looked_up(&bench, unsettled), (1, 0));
    assert_eq!(looked_up(&bench, AttrWire { mode: 0o4755, ..plain }), (1, 0), "a write takes setuid away");
    assert_eq!(
        looked_up(&bench, AttrWire { kind: Kind::Directory, ..plain }),
        (1, 0),
        "LOOKUP is not exact of directories"
    );
    assert_eq!(looked_up(&bench, AttrWire { nlink: 0, ..plain }), (0, 0), "an old value");
    bench.ask(2, 1, Operation::Lookup { name: c"missing" });
    bench.submitted();
    bench.answer(2, Ok(FsReply::Missing));
    let (_, error, content) = bench.sent();
    let entry = abi::EntryOut::read_from_bytes(&content).unwrap();
    assert_eq!((error, entry.nodeid, entry.entry_valid), (0, 0, 1));
    assert!(!bench.answers.share(AloneId(5), vec![], || ()), "without a kernel there is nothing to wait for");
    assert_eq!(looked_up(&bench, plain), (0, 0));
    bench.answers.alone(AloneId(5), u64::MAX);
    assert_eq!(looked_up(&bench, plain), (0, 0), "what is handed back does not come again");
    bench.ask(4, 1, Operation::Lookup { name: c"early" });
    bench.submitted();
    bench.answers.alone(AloneId(6), u64::MAX);
    bench.answer(4, Ok(FsReply::Entry(plain)));
    let entry = abi::EntryOut::read_from_bytes(&bench.sent().2).unwrap();
    assert_eq!((entry.entry_valid, entry.attr_valid), (0, 0), "asked before the session was alone");
    assert_eq!(looked_up(&bench, plain), (1, 1));
}

#[test]
fn attributes_of_a_directory_are_cached_unless_names_change_meanwhile() {
    let bench = Bench::new();
    bench.answers.alone(AloneId(1), u64::MAX);
    let directory = AttrWire { kind: Kind::Directory, nlink: 2, ..file_attr(2) };
    let valid = |changes: &[(u64, bool)]| {
        bench.ask(2, 1, Operation::Getattr { handle: None });
        bench.submitted();
        for (unique, answered) in changes {
            bench.ask(*unique, 1, Operation::Unlink { name: c"a" });
            bench.submitted();
            if *answered {
                bench.answer(*unique, Ok(FsReply::Done));
                bench.sent();
            }
        }
        bench.answer(2, Ok(FsReply::Attr { attr: directory, btime: 0 }));
        abi::AttrOut::read_from_bytes(&bench.sent().2).unwrap().attr_valid
    };
    assert_eq!(valid(&[]), 1);
    assert_eq!(valid(&[(4, true)]), 0, "a change came and went");
    assert_eq!(valid(&[(6, false)]), 0, "a change is under way");
    assert_eq!(valid(&[]), 0, "and still is");
    bench.answer(6, Ok(FsReply::Done));
    bench.sent();
    assert_eq!(valid(&[]), 1);
}

#[test]
fn where_the_kernel_decides_there_is_one_node_for_all() {
    let fifo = AttrWire { kind: Kind::Fifo, flags: flag::APART, ..file_attr(1) };
    for (flags, node) in [(0, nodes::apart(InodeId(FILE))), (init::POSIX_ACL, node_id(InodeId(FILE)))] {
        let bench = Bench::new();
        bench.filesystem.negotiated(&Negotiated { minor: 45, flags });
        bench.ask(2, 1, Operation::Lookup { name: c"fifo" });
        bench.submitted();
        bench.answer(2, Ok(FsReply::Entry(fifo)));
        assert_eq!(abi::EntryOut::read_from_bytes(&bench.sent().2).unwrap().nodeid, node);
    }
}

/// What depends on the system call of who asks waits until that is asleep in it: what reads no link gets none that is not to be followed.
#[test]
fn who_has_not_gone_to_sleep_is_answered_then() {
    let (pid, sleep, end, runner) = asleep::tests::runner();
    let bench = Bench::new();
    bench.ask_of(nodes::apart(InodeId(FILE)), pid, 2, Operation::Readlink);
    bench.submitted();
    bench.answer(2, Ok(FsReply::Target(b"target".to_vec())));
    assert_eq!(bench.transport.0.lock().unwrap()[..], [], "it runs");
    sleep.store(true, Ordering::Relaxed);
    while bench.transport.0.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(bench.sent().1, libc::EACCES);
    end.send(()).unwrap();
    runner.join().unwrap();
}

#[test]
fn the_kernel_decides_only_if_it_was_asked_to() {
    let filesystem = |answers| SessionFilesystem::new(Queue::default(), answers);
    assert_eq!(filesystem(Arc::default()).init_flags(), INIT_FLAGS);
    let asked = filesystem(Arc::default()).with_default_permissions();
    assert_eq!(asked.init_flags(), INIT_FLAGS | init::POSIX_ACL);
}
