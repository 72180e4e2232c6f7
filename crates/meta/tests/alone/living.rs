//! Bound sessions that have not joined, or are dead: what they would have open or locked nobody would ever give back.

use crate::{Alone, TERM, config, of_first_lap};
use onpath_kernel::{Input, Role};
use onpath_meta::ShardConfig;
use onpath_wire::caller::{Caller, Caps, cap};
use onpath_wire::codec::Blob;
use onpath_wire::header::{Header, MessageKind, Of, OfRequest};
use onpath_wire::identity::Refusal;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, SessionId, SessionNumber, ShardId, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::limits::SESSION_WINDOW;
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::peer::{Access, GrantResult, Peer, part};
use onpath_wire::reply::Reply;
use onpath_wire::request::{FileLock, LockKind, NewNode, Request, RequestBody, open};
use onpath_wire::secrets::Secrets;

const COORDINATOR: ShardId = ShardId(0);
/// Who is not bound.
const TRUSTED: SessionId = SessionId(1);
const BOUND: SessionId = SessionId(7);
const REFUSED: Reply = Reply::Refused { why: Refusal::Session };

/// A shard that is not the coordinator's, and a file there.
fn elsewhere() -> (Alone, InodeId) {
    let mut alone = Alone::of(ShardConfig { shard: ShardId(1), ..config(TERM) });
    let map = ClusterMap::even(2, Secrets::of_seed(7).placement);
    let mut names = (0u32..).map(|i| Name::new(i.to_string().as_bytes()).expect("a name"));
    let here = |name: &Name| map.shard(map.site(InodeId::ROOT, name.as_bytes())) == ShardId(1);
    let name = names.find(here).expect("every second name or so");
    let node = NewNode { kind: Kind::File, mode: 0o666, umask: 0, rdev: 0, target: Blob::default(), open: 0 };
    alone.ask_as(TRUSTED, 1, Request::Create { parent: InodeId::ROOT, name, node });
    let asked = alone.calls.pop();
    let Some((seq, Peer::GrantAsk { dir, parts, nonce })) = asked else { panic!("{asked:?}") };
    assert_eq!((dir, parts), (InodeId::ROOT, part::BOTH));
    let access = Access { mode: 0o777, ..Access::default() };
    let result = GrantResult::Granted { parts, access, write_through: false };
    alone.hear(MessageKind::PeerAnswer, NodeId::shard(COORDINATOR), seq, &Peer::GrantAnswer { dir, nonce, result });
    let Some((_, Reply::Entry { attr, .. })) = alone.replies.pop() else { panic!("{:?}", alone.replies) };
    (alone, attr.id)
}

impl Alone {
    /// A request of a session whose host knows who it is.
    fn ask_bound(&mut self, session: SessionId, seq: u64, request: Request) {
        let caller = Caller { caps: Caps::exactly(cap::ALL), ..Caller::default() };
        let mut header = Header::new(MessageKind::Request, NodeId::session(session), RequestSeq(seq));
        (header.term, header.stamp) = (TERM, Stamp(self.now.wall_ns));
        header.of = Of::Request(OfRequest { until: u32::MAX, oldest_behind: (seq - 1) as u32, ..OfRequest::default() });
        let packet = Packet { bound: true, ..Packet::new(&header, &RequestBody { caller, request }) };
        self.shard.handle(self.now, Input::Packet(packet));
        self.outputs();
    }

    fn wait_us(&mut self, us: u64) {
        self.now.mono_us += us;
        self.shard.handle(self.now, Input::Tick);
        self.outputs();
    }

    /// The questions about sessions since the last look; repetitions are none.
    fn asked(&mut self) -> Vec<(RequestSeq, SessionNumber)> {
        let mut asked: Vec<_> = std::mem::take(&mut self.calls)
            .into_iter()
            .filter_map(|(seq, peer)| match peer {
                Peer::SessionAsk { session } => Some((seq, session)),
                _ => None,
            })
            .collect();
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    fn told(&mut self, seq: RequestSeq, lives: bool) {
        self.hear(MessageKind::PeerAnswer, NodeId::shard(COORDINATOR), seq, &Peer::SessionIs { lives });
    }

    fn dies(&mut self, session: SessionId) {
        let dead = Peer::SessionDead { session: of_first_lap(session) };
        self.hear(MessageKind::Peer, NodeId::shard(COORDINATOR), RequestSeq(90), &dead);
    }
}

fn opened(id: InodeId) -> Request {
    Request::Open { id, flags: open::READ | open::WRITE | open::REGISTER }
}

fn locked(id: InodeId) -> Request {
    let lock = FileLock { flock: true, kind: LockKind::Write, start: 0, end: 1, owner: 1, pid: 1 };
    Request::SetLock { id, lock, wait: false, again: false }
}

#[test]
fn it_is_asked_once_whether_a_bound_session_lives() {
    let (mut alone, file) = elsewhere();
    alone.ask_bound(BOUND, 1, Request::GetAttr { id: file });
    assert!(matches!(alone.replies.pop(), Some((_, Reply::Attr { .. }))), "what leaves nothing is not asked about");
    alone.ask_bound(BOUND, 2, opened(file));
    alone.ask_bound(
        BOUND,
        3,
        Request::SetXattr {
            id: file,
            name: onpath_wire::xattr::XattrName::new(b"user.a").expect("a name"),
            value: Blob::default(),
            flags: 0,
        },
    );
    assert_eq!((alone.replies.len(), alone.counter("inodes_open")), (0, 0), "{:?}", alone.replies);
    let asked = alone.asked();
    assert_eq!(asked.iter().map(|(_, session)| *session).collect::<Vec<_>>(), [of_first_lap(BOUND)]);
    alone.told(asked[0].0, true);
    assert_eq!((alone.replies.len(), alone.counter("inodes_open")), (2, 1), "{:?}", alone.replies);
    alone.ask_bound(BOUND, 4, locked(file));
    assert_eq!(alone.replies.pop(), Some((RequestSeq(4), Reply::Done)));
    alone.ask_as(TRUSTED, 2, opened(file));
    assert_eq!((alone.asked(), alone.counter("inodes_open"), alone.counter("file_locks")), (vec![], 1, 1));
    alone.replies.clear();
    alone.dies(BOUND);
    alone.ask_bound(BOUND, 5, locked(file));
    assert_eq!((alone.replies.len(), alone.asked(), alone.counter("file_locks")), (0, vec![], 0));
}

#[test]
fn one_that_has_not_joined_has_nothing() {
    let (mut alone, file) = elsewhere();
    let cached = alone.counter("replies_cached");
    for (seq, request) in (1..).zip([opened(file), locked(file), Request::Release { id: file }]) {
        alone.ask_bound(BOUND, seq, request);
    }
    let asked = alone.asked();
    assert_eq!(asked.len(), 1);
    alone.told(asked[0].0, false);
    assert!(
        alone.replies.len() == 3 && alone.replies.iter().all(|(_, reply)| *reply == REFUSED),
        "{:?}",
        alone.replies
    );
    let left = ["inodes_open", "file_locks", "requests_running"].map(|counter| alone.counter(counter));
    assert_eq!((left, alone.counter("replies_cached")), ([0; 3], cached));
    alone.ask_bound(BOUND, 4, opened(file));
    assert_eq!((alone.replies.pop(), alone.asked()), (Some((RequestSeq(4), REFUSED)), vec![]), "nobody asks so soon");
    // It has joined meanwhile.
    alone.wait_us(1_000_001);
    alone.ask_bound(BOUND, 5, opened(file));
    let asked = alone.asked();
    alone.told(asked[0].0, true);
    assert_eq!((asked.len(), alone.counter("inodes_open")), (1, 1));
}

/// Messages overtake each other.
#[test]
fn the_news_of_a_death_may_come_before_the_answer() {
    let (mut alone, file) = elsewhere();
    alone.ask_bound(BOUND, 1, opened(file));
    let asked = alone.asked();
    alone.dies(BOUND);
    alone.told(asked[0].0, true);
    assert_eq!((alone.replies.pop(), alone.counter("inodes_open")), (Some((RequestSeq(1), REFUSED)), 0));
}

/// It was alive when it asked.
#[test]
fn one_that_dies_while_its_request_waits_has_nothing() {
    let (mut alone, file) = elsewhere();
    alone.ask_as(TRUSTED, 2, Request::Open { id: file, flags: open::WRITE | open::REGISTER | open::MAP });
    let flags = open::WRITE | open::TRUNCATE | open::KILL_SUIDGID | open::REGISTER;
    alone.ask_bound(BOUND, 1, Request::Open { id: file, flags });
    let asked = alone.asked();
    alone.told(asked[0].0, true);
    assert_eq!(alone.counter("requests_running"), 1, "pages of another one may have changed");
    alone.dies(BOUND);
    let records = alone.records.len();
    alone.replies.clear();
    (0..40).for_each(|_| alone.wait_us(100_000));
    assert_eq!((alone.counter("requests_running"), alone.records.len()), (0, records), "{:?}", alone.replies);
    let truncate = Request::Open { id: file, flags: open::WRITE | open::REGISTER };
    alone.ask_as(TRUSTED, 3, truncate);
    let shared = match alone.replies.pop() {
        Some((_, Reply::Attr { shared, .. })) => shared,
        other => panic!("{other:?}"),
    };
    assert!(!shared, "nobody else has it open");
}

/// Neither requests that wait nor questions are without end, whoever asks and whoever does not answer.
#[test]
fn what_waits_for_an_answer_is_bounded() {
    let (mut alone, file) = elsewhere();
    (1..SESSION_WINDOW).for_each(|seq| alone.ask_bound(BOUND, seq, opened(file)));
    assert_eq!((alone.counter("requests_running"), alone.asked().len()), (64, 1));
    (100..3_000).for_each(|session| alone.ask_bound(SessionId(session), 1, locked(file)));
    assert_eq!((alone.counter("requests_running"), alone.asked().len()), (64 + 1_023, 1_023));
    alone.ask_as(TRUSTED, 2, opened(file));
    assert!(matches!(alone.replies.pop(), Some((_, Reply::Attr { .. }))), "others are served");
    // The coordinator's host is down: who waits asks again.
    (0..12).for_each(|_| alone.wait_us(100_000));
    assert_eq!((alone.counter("requests_running"), alone.replies.len()), (0, 0), "{:?}", alone.replies);
    alone.asked();
    alone.ask_bound(BOUND, 1, opened(file));
    let asked = alone.asked();
    alone.told(asked[0].0, true);
    assert!(matches!(alone.replies.pop(), Some((RequestSeq(1), Reply::Shown { .. }))));
}

#[test]
fn the_coordinator_knows_who_lives() {
    let mut alone = Alone::new();
    let file = alone.create(1).inode;
    let session = of_first_lap(BOUND);
    let asks = |alone: &mut Alone, seq| {
        alone.last = None;
        alone.hear(MessageKind::Peer, NodeId::shard(ShardId(1)), RequestSeq(seq), &Peer::SessionAsk { session });
        match alone.last.take() {
            Some(Peer::SessionIs { lives }) => lives,
            other => panic!("{other:?}"),
        }
    };
    alone.ask_bound(BOUND, 1, opened(file));
    assert_eq!((alone.replies.pop(), alone.asked()), (Some((RequestSeq(1), REFUSED)), vec![]));
    assert!(!asks(&mut alone, 1));
    alone.ask_bound(BOUND, 2, Request::Attach { again: false });
    assert!(matches!(alone.replies.pop(), Some((_, Reply::Attached { .. }))), "it may join");
    assert!(asks(&mut alone, 2));
    alone.ask_bound(BOUND, 3, opened(file));
    assert!(matches!(alone.replies.pop(), Some((_, Reply::Shown { .. }))));
    alone.ask_bound(BOUND, 4, Request::Detach { gone: false });
    assert!(!asks(&mut alone, 3));
    assert_eq!(alone.counter("inodes_open"), 0);
    // After a restart it is forgotten that it was there.
    alone.restart();
    assert!(!asks(&mut alone, 4));
}
