//! Many operations through a network that loses, repeats and reorders: all are answered, and a run repeats exactly.

use crate::rig::*;
use onpath_session::fs::{FsOp, FsReply};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::*;
use onpath_wire::inode::Kind;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;
use std::collections::BTreeMap;

/// A small deterministic generator (xorshift): what the network does next.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// What a shard would answer, if this request reaches it.
fn serve(rig: &Rig, sent: &Sent) -> Reply {
    let term = rig.terms[sent.to.as_shard().unwrap().0 as usize];
    if sent.header.term != term {
        return Reply::NewTerm { term };
    }
    match sent.request() {
        Request::Lookup { .. } => entry(InodeId::new(sent.header.slot, Birth(3), sent.header.seq.0 as u16, Kind::File)),
        Request::GetAttr { id } => attr_reply(id, sent.header.seq.0, data_ref(0, 0)),
        Request::Attach { .. } => Reply::Attached { session: ME.id(), lease_ms: LEASE_MS },
        _ => Reply::Done,
    }
}

fn run(seed: u64) -> (u64, usize) {
    let (mut rig, mut dice) = (Rig::new(), Dice(seed));
    let (mut network, mut answered) = (Vec::<(Sent, Reply)>::new(), BTreeMap::new());
    let (mut digest, mut resent, mut asked) = (0u64, 0usize, 0u64);
    while answered.len() < 400 {
        if asked < 400 && dice.below(3) == 0 {
            asked += 1;
            let id = inode_at((asked % 4) as u16, asked as u32);
            rig.fs(match asked % 2 {
                0 => FsOp::GetAttr { id, handle: None },
                _ => FsOp::Lookup { parent: id, name: name(&format!("n{asked}")) },
            });
        }
        if dice.below(300) == 0 {
            let shard = dice.below(4) as usize;
            rig.terms[shard] = Term(rig.terms[shard].0 + 10);
        }
        while let Some(sent) = rig.try_sent() {
            assert_eq!(sent.header.kind(), MessageKind::Request);
            digest = digest.wrapping_mul(31).wrapping_add(sent.header.seq.0 ^ sent.header.stamp.0);
            resent += 1;
            if dice.below(10) > 2 {
                let reply = serve(&rig, &sent);
                network.push((sent, reply));
            }
        }
        if !network.is_empty() && dice.below(2) == 0 {
            let at = dice.below(network.len() as u64) as usize;
            let twice = dice.below(10) == 0;
            let (sent, reply) = network.swap_remove(at);
            // The reply of a shard that was restarted meanwhile still bears its old term.
            let term = match &reply {
                Reply::NewTerm { term } => *term,
                _ => sent.header.term,
            };
            rig.reply_in(sent.to, term, sent.header.seq, reply.clone());
            if twice {
                rig.reply_in(sent.to, term, sent.header.seq, reply);
            }
        }
        rig.pass(2_000);
        while let Some((unique, result)) = rig.try_result() {
            assert!(matches!(result, Ok(FsReply::Attr { .. } | FsReply::Entry(_))), "{result:?}");
            assert!(answered.insert(unique, ()).is_none(), "answered twice");
        }
    }
    (digest, resent)
}

#[test]
fn every_request_is_answered_once_however_bad_the_network_is() {
    for seed in 1..=20 {
        let (digest, resent) = run(seed * 0x9e37_79b9);
        assert!(resent > 400, "nothing was lost");
        assert_eq!((digest, resent), run(seed * 0x9e37_79b9), "seed {seed} does not repeat");
    }
}
