//! Names that come into the switch because they are asked for: which ones, what makes room for them, and who may pass.

use crate::visible::finish;
use bytes::Bytes;
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_sim::model::Caller;
use onpath_sim::scenario::Scenario;
use onpath_sim::world::Message;
use onpath_wire::attr::AttrWire;
use onpath_wire::data::DataRequest;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::request::{Request, SetAttr, set};

/// A session of root and one of somebody else, of a file system whose switch has a lease.
struct Two {
    sc: Scenario,
    root: usize,
    other: usize,
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a short name")
}

/// Makes a file that nobody has open.
fn closed_file(parent: InodeId) -> FsOp {
    FsOp::Make { parent, name: name("file"), kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, target: vec![] }
}

impl Two {
    fn new() -> Two {
        Two::of(Scenario::with_cache(2))
    }

    fn of(mut sc: Scenario) -> Two {
        let root = sc.world.add_session(&[Caller::default()]);
        let other = sc.world.add_keeping_session(&[Caller::new(1_000, 1_000)], 1 << 20);
        let mut two = Two { sc, root, other };
        two.make_directory(InodeId::ROOT, "first", 0o755);
        two.lookup(InodeId::ROOT, "first").expect("it is there");
        while two.counted("sessions_listed") < 2 {
            two.sc.go_on();
        }
        two
    }

    fn counted(&self, figure: &str) -> u64 {
        self.sc.world.counted_by_controller(figure).unwrap_or_default()
    }

    fn answered(&self) -> u64 {
        let counted = |name| self.sc.world.switch_counters().get(name).copied().unwrap_or_default();
        counted("read_answered") + counted("read_denied")
    }

    fn make_directory(&mut self, parent: InodeId, text: &str, mode: u16) -> InodeId {
        let make =
            FsOp::Make { parent, name: name(text), kind: Kind::Directory, mode, umask: 0, rdev: 0, target: vec![] };
        match finish(&mut self.sc, self.root, make) {
            Ok(FsReply::Entry(attr)) => attr.id,
            other => panic!("{other:?}"),
        }
    }

    fn make_file(&mut self, parent: InodeId, text: &str) -> InodeId {
        let open = OpenMode { direct: true, ..OpenMode::READ_WRITE };
        let create = FsOp::Create { parent, name: name(text), mode: 0o644, umask: 0, open };
        match finish(&mut self.sc, self.root, create) {
            Ok(FsReply::Created { attr, .. }) => attr.id,
            other => panic!("{other:?}"),
        }
    }

    fn change_mode(&mut self, id: InodeId, mode: u16) {
        let set = SetAttr { valid: set::MODE, mode, ..SetAttr::default() };
        let changed = finish(&mut self.sc, self.root, FsOp::SetAttr { id, set, handle: None });
        assert!(changed.is_ok(), "{changed:?}");
    }

    /// The other one looks for a name.
    fn lookup(&mut self, parent: InodeId, text: &str) -> Result<AttrWire, Errno> {
        match self.asks(FsOp::Lookup { parent, name: name(text) }) {
            Ok(FsReply::Entry(attr)) => Ok(attr),
            Err(errno) => Err(errno),
            other => panic!("{other:?}"),
        }
    }

    fn asks(&mut self, op: FsOp) -> FsResult {
        finish(&mut self.sc, self.other, op)
    }

    /// The other one looks for a name until the switch has answered it.
    fn looks_until_answered(&mut self, parent: InodeId, text: &str) -> AttrWire {
        for _ in 0..1_000 {
            let answered = self.answered();
            let found = self.lookup(parent, text).expect("it is there");
            if self.answered() > answered {
                return found;
            }
            self.sc.go_on_for(10_000_000);
        }
        panic!("{text} is never answered by the switch");
    }
}

/// C-5: nobody commands anything: a name that is looked for again and again comes into the switch, and its directory with it.
#[test]
fn what_is_asked_for_often_is_admitted_with_its_directories() {
    let mut two = Two::new();
    let dir = two.make_directory(InodeId::ROOT, "dir", 0o755);
    let below = two.make_directory(dir, "below", 0o755);
    let file = two.make_file(below, "file");
    two.lookup(InodeId::ROOT, "dir").expect("it is there");
    two.lookup(dir, "below").expect("it is there");
    let found = two.looks_until_answered(below, "file");
    assert_eq!((found.id, found.mode), (file, 0o644));
    assert_eq!(two.counted("names_cached"), 2, "the file, and the directory that it is in");
    // Its attributes, too.
    let requests = two.sc.hold(|m| m.request().is_some() && !m.wants_switch() && m.to().as_shard().is_some());
    let shown = two.asks(FsOp::GetAttr { id: file, handle: None });
    assert!(matches!(shown, Ok(FsReply::Attr { attr, .. }) if attr.id == file), "{shown:?}");
    assert_eq!(two.sc.world.held(requests), 0);
}

/// C-1: whoever has read a file sees that at once, though the switch goes on to tell the access of before for a moment, and then everybody does.
#[test]
fn an_access_is_seen() {
    let mut two = Two::new();
    let file = two.make_file(InodeId::ROOT, "file");
    two.looks_until_answered(InodeId::ROOT, "file");
    let stat = |two: &mut Two| match two.asks(FsOp::GetAttr { id: file, handle: None }) {
        Ok(FsReply::Attr { attr, .. }) => attr.atime,
        other => panic!("{other:?}"),
    };
    let mut before = stat(&mut two);
    for _ in 0..3 {
        let handle = two.opens(file).expect("everybody may read it");
        two.reads(handle).expect("it is open");
        let moved = stat(&mut two);
        assert!(moved > before, "{moved} after {before}");
        two.sc.go_on_for(100_000_000);
        let answered = two.answered();
        assert_eq!(stat(&mut two), moved);
        assert!(two.answered() > answered, "by the switch");
        before = moved;
        two.closes(handle);
        let now = finish(&mut two.sc, two.root, FsOp::SetAttr { id: file, set: touched(), handle: None });
        assert!(now.is_ok(), "{now:?}");
        two.looks_until_answered(InodeId::ROOT, "file");
    }
}

/// A change after which the next read moves the access time again, as relatime has it.
fn touched() -> SetAttr {
    SetAttr { valid: set::MTIME | set::MTIME_NOW, ..SetAttr::default() }
}

/// C-2: who may not search a directory any more is not answered of what is below, and who may again is.
#[test]
pub(crate) fn a_directory_that_is_closed_is_passed_by_nobody() {
    let mut two = Two::new();
    let dir = two.make_directory(InodeId::ROOT, "dir", 0o755);
    two.make_file(dir, "file");
    two.lookup(InodeId::ROOT, "dir").expect("it is there");
    two.looks_until_answered(dir, "file");
    two.change_mode(dir, 0o700);
    assert_eq!(two.lookup(dir, "file"), Err(Errno::EACCES));
    two.sc.go_on_for(50_000_000);
    assert_eq!(two.lookup(dir, "file"), Err(Errno::EACCES), "the switch has it again, as it is now");
    two.change_mode(dir, 0o711);
    two.looks_until_answered(dir, "file");
}

/// C-2: the root is a directory like any other: closed, nobody finds anything in it.
#[test]
fn the_root_has_an_entry_of_its_own() {
    let mut two = Two::new();
    two.make_file(InodeId::ROOT, "file");
    two.looks_until_answered(InodeId::ROOT, "file");
    assert_eq!(two.counted("names_cached"), 2);
    two.change_mode(InodeId::ROOT, 0o700);
    assert_eq!(two.lookup(InodeId::ROOT, "file"), Err(Errno::EACCES));
    two.sc.go_on_for(50_000_000);
    assert_eq!(two.lookup(InodeId::ROOT, "file"), Err(Errno::EACCES));
}

/// What is in a sticky directory that others may write is said with what fs.protected_* look at, which no entry says.
#[test]
fn a_sticky_directory_is_not_lent() {
    let mut two = Two::new();
    let dir = two.make_directory(InodeId::ROOT, "dir", 0o777);
    two.asks(closed_file(dir)).expect("everybody may");
    two.lookup(InodeId::ROOT, "dir").expect("it is there");
    two.looks_until_answered(dir, "file");
    two.change_mode(dir, 0o1777);
    two.sc.go_on_for(50_000_000);
    let answered = two.answered();
    let found = two.lookup(dir, "file").expect("it is there");
    assert_eq!(two.answered(), answered);
    assert_ne!(found.flags & onpath_session::protected::STICKY, 0);
}

/// C-5: the cache has few entries: what answers least makes room for what is asked for, and a directory stays as long as something below it does.
#[test]
fn what_is_not_asked_for_makes_room() {
    let mut two = Two::new();
    let dir = two.make_directory(InodeId::ROOT, "dir", 0o755);
    two.lookup(InodeId::ROOT, "dir").expect("it is there");
    for file in 0..20 {
        let file = format!("file-{file}");
        two.make_file(dir, &file);
        two.looks_until_answered(dir, &file);
    }
    let (cached, evicted) = (two.counted("names_cached"), two.counted("names_evicted"));
    assert!(cached <= 8 && evicted >= 13, "{cached} cached, {evicted} evicted");
}

/// C-5: a home that hears late of an entry that the name had before goes on to clear the one that it has.
#[test]
fn what_is_said_of_an_entry_of_before_changes_nothing() {
    let mut two = Two::new();
    let dir = two.make_directory(InodeId::ROOT, "dir", 0o755);
    let file = two.make_file(dir, "file");
    two.lookup(InodeId::ROOT, "dir").expect("it is there");
    let is_it = |of: &Option<Name>| of.as_ref().is_some_and(|of| of.as_bytes() == b"file");
    let lends = two.sc.hold(move |m| matches!(m.peer(), Some(Peer::Lend { name, .. }) if is_it(&name)));
    while two.sc.world.held(lends) == 0 {
        two.lookup(dir, "file").expect("it is there");
    }
    two.sc.world.stop_holding(lends);
    two.sc.world.deliver_copy(lends);
    two.looks_until_answered(dir, "file");
    let evicted = two.sc.hold(move |m| matches!(m.peer(), Some(Peer::Evicted { name, .. }) if is_it(&name)));
    for other in 0.. {
        if two.sc.world.held(evicted) > 0 {
            break;
        }
        let other = format!("other-{other}");
        two.make_file(dir, &other);
        two.looks_until_answered(dir, &other);
    }
    two.looks_until_answered(dir, "file");
    two.sc.let_go(lends);
    two.sc.let_go(evicted);
    two.sc.go_on_for(50_000_000);
    two.change_mode(file, 0o600);
    assert_eq!(two.lookup(dir, "file").map(|attr| attr.mode), Ok(0o600));
}

/// C-1: a file whose writes a data node answers is asked back before its name is lent, and is not lent while it is out.
#[test]
fn a_file_that_a_data_node_answers_for_is_not_lent() {
    let mut two = Two::of(Scenario::with_cache_and_parts(2));
    let dir = two.make_directory(InodeId::ROOT, "dir", 0o755);
    let file = two.make_file(dir, "file");
    two.lookup(InodeId::ROOT, "dir").expect("it is there");
    let open = FsOp::Open { id: file, mode: OpenMode { direct: true, ..OpenMode::READ_WRITE } };
    let Ok(FsReply::Opened(opened)) = finish(&mut two.sc, two.root, open) else { panic!("opened") };
    for written in 0..30 {
        let wrote = finish(&mut two.sc, two.root, crate::visible::write(opened.handle, 100 * written));
        assert!(wrote.is_ok(), "{wrote:?}");
        for _ in 0..20 {
            assert_eq!(two.lookup(dir, "file").map(|attr| attr.size), Ok(100 * (written + 1)));
            two.sc.go_on_for(20_000_000);
        }
    }
    assert!(two.answered() > 0, "it is lent now and then");
}

/// C-9: a client that keeps ways asks the switch for a whole path, and the switch looks at each directory on it, whatever the client knows.
#[test]
fn a_path_is_followed_by_the_switch_alone() {
    let mut two = Two::of(Scenario::with_cache_and_paths(2));
    let dir = two.make_directory(InodeId::ROOT, "dir", 0o755);
    let below = two.make_directory(dir, "below", 0o755);
    let file = two.make_file(below, "file");
    let names: Vec<Name> = ["dir", "below", "file"].map(name).to_vec();
    let follow = |two: &mut Two| {
        let resolve = FsOp::Resolve { from: InodeId::ROOT, names: names.clone(), look: true, kept: true };
        match two.asks(resolve) {
            Ok(FsReply::Attr { attr, .. } | FsReply::Entry(attr)) => Some((attr.id, attr.mode)),
            // Who may not go on is told how far the path node goes.
            Ok(FsReply::Resolved { .. }) | Err(Errno::EACCES) => None,
            other => panic!("{other:?}"),
        }
    };
    let until_answered = |two: &mut Two, expected: Option<(InodeId, u16)>| {
        for _ in 0..1_000 {
            let answered = two.answered();
            assert_eq!(follow(two), expected);
            if two.answered() > answered {
                return;
            }
            two.sc.go_on_for(10_000_000);
        }
        panic!("the path is never followed by the switch");
    };
    until_answered(&mut two, Some((file, 0o644)));
    assert_eq!(two.counted("names_cached"), 4, "the root, two directories and the file");
    let requests = two.sc.hold(|m| m.request().is_some() && !m.wants_switch() && m.to().as_session().is_none());
    assert_eq!(follow(&mut two), Some((file, 0o644)));
    assert_eq!(two.sc.world.held(requests), 0);
    two.sc.let_go(requests);
    two.change_mode(file, 0o600);
    assert_eq!(follow(&mut two), Some((file, 0o600)));
    two.change_mode(dir, 0o700);
    assert_eq!(follow(&mut two), None);
    two.sc.go_on_for(50_000_000);
    assert_eq!(follow(&mut two), None, "the switch has the directory again, as it is now");
    two.change_mode(dir, 0o711);
    until_answered(&mut two, Some((file, 0o600)));
}

/// What the other one opens and reads of a file that the switch answers for.
impl Two {
    fn opens(&mut self, id: InodeId) -> Result<Handle, Errno> {
        let mode = OpenMode { read: true, direct: true, ..OpenMode::default() };
        match self.asks(FsOp::Open { id, mode }) {
            Ok(FsReply::Opened(opened)) => Ok(opened.handle),
            Err(errno) => Err(errno),
            other => panic!("{other:?}"),
        }
    }

    fn reads(&mut self, handle: Handle) -> Result<Vec<u8>, Errno> {
        match self.asks(FsOp::Read { handle, offset: 0, bytes: 100, page: false }) {
            Ok(FsReply::Data(parts)) => Ok(parts.concat()),
            Err(errno) => Err(errno),
            other => panic!("{other:?}"),
        }
    }

    fn closes(&mut self, handle: Handle) {
        self.asks(FsOp::Release { handle, flock_owner: None }).expect("it is open");
    }

    /// A file with bytes in the root that the switch answers for.
    fn hot_file(&mut self) -> InodeId {
        let made = finish(&mut self.sc, self.root, closed_file(InodeId::ROOT));
        let Ok(FsReply::Entry(AttrWire { id: file, .. })) = made else { panic!("there is no such name") };
        let open = FsOp::Open { id: file, mode: OpenMode { direct: true, ..OpenMode::READ_WRITE } };
        let Ok(FsReply::Opened(opened)) = finish(&mut self.sc, self.root, open) else { panic!("its owner may") };
        let (handle, data) = (opened.handle, Bytes::from_static(b"bytes"));
        let write = FsOp::Write { handle, offset: 0, data, append: false, kill_suidgid: false, page: false };
        for op in [write, FsOp::Release { handle, flock_owner: None }] {
            let done = finish(&mut self.sc, self.root, op);
            assert!(done.is_ok(), "{done:?}");
        }
        self.looks_until_answered(InodeId::ROOT, "file");
        // The first read moves the access time.
        let handle = self.opens(file).expect("everybody may read it");
        assert_eq!(self.reads(handle).as_deref(), Ok(&b"bytes"[..]));
        self.closes(handle);
        self.sc.go_on_for(100_000_000);
        file
    }

    fn unlinks(&mut self) {
        let done = finish(&mut self.sc, self.root, FsOp::Unlink { parent: InodeId::ROOT, name: name("file") });
        assert!(done.is_ok(), "{done:?}");
    }
}

/// What a session tells the home of a file.
fn to_homes(m: &Message<'_>) -> bool {
    m.request().is_some() && !m.wants_switch() && m.to().as_shard().is_some()
}

/// C-10: a hot file that is opened, read and closed costs its home nothing.
#[test]
fn a_hot_file_is_opened_and_read_without_its_home() {
    let mut two = Two::new();
    let file = two.hot_file();
    let requests = two.sc.hold(to_homes);
    for _ in 0..10 {
        let handle = two.opens(file).expect("everybody may read it");
        assert_eq!(two.reads(handle).as_deref(), Ok(&b"bytes"[..]));
        two.closes(handle);
    }
    two.sc.go_on_for(1_000_000_000);
    assert_eq!(two.sc.world.held(requests), 0);
    two.sc.let_go(requests);
    two.change_mode(file, 0o600);
    two.sc.go_on_for(100_000_000);
    assert_eq!(two.opens(file), Err(Errno::EACCES));
}

/// C-10: what was opened by the switch can be read after its last name is gone, also if its home hears late of that; closed it is gone.
#[test]
fn what_a_switch_has_opened_stays() {
    let mut two = Two::new();
    let file = two.hot_file();
    let opens = |m: &Message<'_>| to_homes(m) && matches!(m.request(), Some(Request::Open { .. }));
    let requests = two.sc.hold(opens);
    let handle = two.opens(file).expect("everybody may read it");
    assert_eq!(two.sc.world.held(requests), 0);
    two.unlinks();
    two.sc.go_on_for(4_000_000_000);
    assert!(two.sc.world.held(requests) > 0, "the home is told soon");
    two.sc.let_go(requests);
    for _ in 0..3 {
        assert_eq!(two.reads(handle).as_deref(), Ok(&b"bytes"[..]));
        two.sc.go_on_for(10_000_000_000);
    }
    two.closes(handle);
    two.sc.go_on_for(1_000_000_000);
    assert_eq!(two.asks(FsOp::GetAttr { id: file, handle: None }).err(), Some(Errno::ESTALE));
}

/// C-10: nobody has it open: it goes when the grace is over, and at once if its space is needed.
#[test]
fn what_a_switch_might_have_opened_goes_when_space_is_needed() {
    for needed in [false, true] {
        let mut two = Two::new();
        let file = two.hot_file();
        two.unlinks();
        two.sc.go_on_for(1_000_000_000);
        let is_there = |two: &mut Two| two.asks(FsOp::GetAttr { id: file, handle: None }).is_ok();
        assert!(is_there(&mut two), "somebody might have it open");
        if needed {
            two.sc.world.fill_journals();
            is_there(&mut two); // the home sees by the next message that it is full
            two.sc.go_on_for(100_000_000);
        } else {
            two.sc.go_on_for(10_000_000_000);
        }
        assert!(!is_there(&mut two), "needed: {needed}");
    }
}

/// C-6: a file is answered for again before its data node has given up what was cut off; then the switch shows how many blocks are left.
#[test]
fn what_is_cut_late_is_shown_soon() {
    let mut two = Two::new();
    let file = two.hot_file();
    let cuts = two.sc.hold(|m| matches!(m.data(), Some(DataRequest::Trim { .. } | DataRequest::Drop { .. })));
    let set = SetAttr { valid: set::SIZE, size: 1, ..SetAttr::default() };
    for set in [set, SetAttr { size: 0, ..set }] {
        let cut = finish(&mut two.sc, two.root, FsOp::SetAttr { id: file, set, handle: None });
        assert!(cut.is_ok(), "{cut:?}");
        two.looks_until_answered(InodeId::ROOT, "file");
    }
    assert!(two.sc.world.held(cuts) > 0);
    two.sc.let_go(cuts);
    two.sc.go_on_for(1_000_000_000);
    let shown = two.looks_until_answered(InodeId::ROOT, "file");
    assert_eq!((shown.size, shown.blocks_or_rdev), (0, 0));
}

impl Two {
    /// A file of this shard in the root that the switch answers for.
    fn hot_of(&mut self, shard: u16) -> (String, InodeId) {
        let made = (0..).map(|number| format!("file-{number}-of-{shard}")).find_map(|text| {
            let id = self.make_file(InodeId::ROOT, &text);
            (self.sc.world.map().home(id).0 == shard).then_some((text, id))
        });
        let (text, id) = made.expect("each shard has some");
        self.looks_until_answered(InodeId::ROOT, &text);
        (text, id)
    }
}

/// C-7: a home that has started again has what it has lent taken out of the switch, and the switch goes on to answer for others.
#[test]
fn a_restarted_home_has_its_own_entries_dropped() {
    let mut two = Two::new();
    let ((kept, _), (dropped, changed)) = (two.hot_of(0), two.hot_of(1));
    let epoch = two.counted("cache_epoch");
    two.sc.restart(1);
    two.change_mode(changed, 0o400);
    assert_eq!(two.lookup(InodeId::ROOT, &dropped).map(|attr| attr.mode), Ok(0o400));
    let answered = two.answered();
    two.lookup(InodeId::ROOT, &kept).expect("it is there");
    assert_eq!((two.counted("cache_epoch"), two.answered()), (epoch, answered + 1));
    // It is given an entry again.
    assert_eq!(two.looks_until_answered(InodeId::ROOT, &dropped).mode, 0o400);
    assert_eq!(two.counted("cache_epoch"), epoch);
}

/// C-7: if the controller does not say that the entries are gone the epoch ends.
#[test]
fn entries_that_cannot_be_dropped_end_with_their_epoch() {
    let mut two = Two::new();
    let (text, file) = two.hot_of(1);
    let epoch = two.counted("cache_epoch");
    let drops = two.sc.hold(|m| matches!(m.peer(), Some(Peer::CacheDrop { .. })));
    two.sc.restart(1);
    two.change_mode(file, 0o400);
    assert!(two.sc.world.held(drops) > 0, "it was asked for");
    assert_eq!(two.lookup(InodeId::ROOT, &text).map(|attr| attr.mode), Ok(0o400));
    assert_ne!(two.counted("cache_epoch"), epoch);
}
