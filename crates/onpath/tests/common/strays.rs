//! What no client may say: messages of hosts, of each kind, to each role, under a name of each class.

use super::liar::Liar;
use super::lies::{Tree, home_requests, name};
use onpath_wire::cached::CacheCommand;
use onpath_wire::codec::Wire;
use onpath_wire::data::{DataReply, Merge};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{
    AloneId, DataId, Generation, InodeId, JobId, NodeClass, NodeId, SessionNumber, ShardId, Term, TrackingEpoch, TxnId,
    TxnSeq,
};
use onpath_wire::peer::{Peer, part};
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::tracking::SwitchCommand;

/// A message that no client may send.
#[derive(Clone, Debug)]
pub struct Stray {
    pub to: NodeId,
    source: NodeId,
    kind: MessageKind,
    body: Vec<u8>,
    forwarded: bool,
}

impl Stray {
    pub fn send(&self, liar: &Liar) {
        liar.send(self.to, self.source, self.kind, &self.body, self.forwarded);
    }
}

/// Peer messages, answers and commands, to each of these roles, under a name of each class; `honest`: a session that would suffer. What
/// sessions may say is not among them.
pub fn all(liar: &Liar, roles: &[NodeId], honest: SessionNumber, tree: &Tree) -> Vec<Stray> {
    let me = NodeId::session(liar.there.session.id());
    let names = [
        me,
        NodeId::session(honest.id()),
        NodeId::shard(ShardId(0)),
        NodeId::shard(ShardId(1)),
        NodeId::data(1),
        NodeId::path(1),
        NodeId::switch(4),
        NodeId::controller(1),
        NodeId(0),
    ];
    let mut all = Vec::new();
    for &to in roles {
        for source in names {
            for (kind, body) in bodies(liar, honest, tree) {
                let asks = matches!(
                    (kind, to.class()),
                    (MessageKind::Request, Some(NodeClass::Shard | NodeClass::Path))
                        | (MessageKind::Data, Some(NodeClass::Data))
                        | (MessageKind::PeerAnswer, Some(NodeClass::Controller))
                );
                if source != me || !asks {
                    all.push(Stray { to, source, kind, body: body.clone(), forwarded: false });
                }
                // Only path nodes pass on.
                if kind == MessageKind::Request && asks {
                    all.push(Stray { to, source, kind, body, forwarded: true });
                }
            }
        }
    }
    all
}

/// What others say to each other, of each kind.
fn bodies(liar: &Liar, honest: SessionNumber, tree: &Tree) -> Vec<(MessageKind, Vec<u8>)> {
    let txn = TxnId { coordinator: ShardId(1), seq: TxnSeq(1) };
    let data = DataId { inode: tree.secret, generation: Generation(1) };
    let peers = [
        Peer::SessionDead { session: honest },
        Peer::SessionAsk { session: honest },
        Peer::GrantAsk { dir: InodeId::ROOT, parts: part::ALL, nonce: 1 },
        Peer::Recall { dir: InodeId::ROOT, parts: part::ALL, job: JobId(1) },
        Peer::HomeRead { id: tree.secret },
        Peer::Commit { txn },
        Peer::Confirm { txn },
        Peer::Decided { txn },
        Peer::Abort { txn },
        Peer::RenameUnlock { txn, moved: vec![] },
        Peer::RenameTurns { term: Term(u32::MAX) },
        Peer::ForgetWays { dir: InodeId::ROOT },
        Peer::SessionsAsk,
        Peer::PathLeaseAsk,
        Peer::PathsAsk { from: None },
        Peer::DirectoryAsk { parent: InodeId::ROOT, name: name(b"closed") },
    ];
    let (parent, epoch, switch) = (InodeId::ROOT, 1, 4);
    let of_cache = [
        Peer::CacheLeaseAsk { epoch: 0, numbers: true, registry: 0 },
        Peer::Lend { parent, name: Some(name(b"closed")), token: 1, number: 1, epoch, switch },
        Peer::Evicted { parent, name: Some(name(b"closed")), number: 1, epoch },
        Peer::CacheEnd { epoch: 0 },
        Peer::CacheHolderAsk,
        Peer::CacheDrop { epoch },
        Peer::CacheOn { switch, epoch, wanted: vec![1] },
    ];
    let answers = [Peer::Done, Peer::Promised, Peer::Lost, Peer::SessionIs { lives: true }, Peer::Busy, Peer::Void];
    let answers = answers.into_iter().chain([
        Peer::CacheHolder { epoch, controller: NodeId::session(liar.there.session.id()) },
        Peer::CacheNames { names: vec![] },
    ]);
    let session = NodeId::session(honest.id());
    let of_controller = [
        CacheCommand::Status,
        CacheCommand::Begin { epoch: u16::MAX, until: u32::MAX },
        CacheCommand::Renew { epoch, until: u32::MAX },
        CacheCommand::End,
        CacheCommand::Admit { epoch, key: 1, token: 1, index: 0, number: 1 },
        CacheCommand::Evict { epoch, key: 1, token: 1, index: 0 },
        CacheCommand::List { session: NodeId::session(liar.there.session.id()) },
        CacheCommand::Unlist { session },
        CacheCommand::Count { threshold: 0 },
        CacheCommand::Hits { indices: vec![0] },
    ];
    let commands = [
        SwitchCommand::Status,
        SwitchCommand::Epoch { epoch: TrackingEpoch(u16::MAX) },
        SwitchCommand::Complete { epoch: TrackingEpoch(u16::MAX) },
        SwitchCommand::Raise { shard: ShardId(0), term: Term(u32::MAX) },
        SwitchCommand::VisibilityEpoch { epoch: TrackingEpoch(u16::MAX) },
        SwitchCommand::VisibilityComplete { epoch: TrackingEpoch(u16::MAX) },
        SwitchCommand::VisibilityClear,
    ];
    let of_controller = of_controller.into_iter().map(|command| SwitchCommand::Cache { command });
    let request = RequestBody { caller: liar.me(), request: Request::Detach { gone: false } };
    let peers = peers.iter().chain(&of_cache).map(|peer| (MessageKind::Peer, peer.to_bytes()));
    let answers = answers.map(|answer| (MessageKind::PeerAnswer, answer.to_bytes()));
    let commands = commands.into_iter().chain(of_controller).map(|command| (MessageKind::Switch, command.to_bytes()));
    let of_homes = home_requests(data).map(|request| (MessageKind::Data, request.to_bytes()));
    let merged = Merge::Counted { data, blocks: 0, version: u64::MAX, undone: vec![] };
    peers
        .chain(answers)
        .chain(commands)
        .chain(of_homes)
        .chain([
            (MessageKind::Data, merged.to_bytes()),
            (MessageKind::Request, request.to_bytes()),
            (MessageKind::Reply, Reply::NewTerm { term: Term(u32::MAX) }.to_bytes()),
            (MessageKind::Reply, Reply::GiveBack { alone: AloneId(u64::MAX) }.to_bytes()),
            (MessageKind::DataReply, DataReply::NewTerm { term: Term(u32::MAX) }.to_bytes()),
            (MessageKind::DataReply, DataReply::Synced.to_bytes()),
        ])
        .collect()
}

/// None of them comes to a role: each is counted as one that its sender may not send. `count`: how many there were.
pub fn are_dropped(liar: &Liar, strays: &[Stray], count: impl Fn() -> u64) {
    let before = count();
    strays.iter().for_each(|stray| stray.send(liar));
    super::wait_until("what no client may say is dropped", || count() >= before + strays.len() as u64);
    assert_eq!(count(), before + strays.len() as u64);
}
