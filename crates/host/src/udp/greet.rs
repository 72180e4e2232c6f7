//! Greetings and joins, as `hello` tells them.

use super::endpoint::Shared;
use super::hello::{Hello, VERSION};
use super::peers::{Other, OtherState};
use super::{hosts, session_of, told};
use crate::known::{Admission, Directory};
use crate::sys;
use onpath_transport::{EndpointId, Head, handshake};
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::ids::NodeId;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// First pause between two greetings of a host that does not answer, microseconds; doubled up to [`PAUSE_US_MAX`].
const PAUSE_US: u64 = 20_000;
/// Longest pause between two greetings, and how long a host may be silent before it is greeted, microseconds.
const PAUSE_US_MAX: u64 = 1_000_000;
/// A client that was not heard of for so long is forgotten, microseconds: far longer than it keeps silent while it lives.
const FORGET_US: u64 = 60_000_000;
/// How often the system is asked, whatever happens, for the longest datagram that gets to a peer, microseconds.
const PATH_EVERY_US: u64 = 30_000_000;
/// Peers that it is asked about at one look.
const PATHS_AT_ONCE: usize = 16;
/// Answers to joins that are remembered for clients who ask again.
const JOINS_MAX: usize = 256;
/// Strangers that are answered in a second.
const STRANGERS_PER_SECOND: u64 = 1_000;

/// The last answers to clients that joined, by their endpoint and nonce.
pub(super) type Joins = VecDeque<((EndpointId, u64), Hello)>;

/// How many strangers may be answered still.
#[derive(Debug, Default)]
pub(super) struct Patience {
    second: u64,
    taken: u64,
}

impl Patience {
    pub(super) fn take(&mut self, now_us: u64) -> bool {
        let second = now_us / 1_000_000;
        if second != self.second {
            (self.second, self.taken) = (second, 0);
        }
        self.taken += 1;
        self.taken <= STRANGERS_PER_SECOND
    }
}

/// A handshake has come.
pub(super) fn take(shared: &Arc<Shared>, datagram: &mut [u8], from: SocketAddr) {
    let Ok((head, bytes)) = handshake::open(&shared.config, datagram) else { return shared.malformed() };
    let Ok(hello) = Hello::from_bytes(&bytes) else { return shared.malformed() };
    let now_us = sys::mono_us();
    match hello {
        Hello::Join { version, nonce, fsid, first } => {
            return join(shared, &head, (version, nonce, fsid, first), from, now_us);
        }
        Hello::Next { nonce, number } => return tell_next(shared, &head, (nonce, number), from, now_us),
        Hello::Status { nonce } => return tell_status(shared, &head, nonce, from, now_us),
        Hello::Tell { nonce, part } => return told::tell(shared, &head, (nonce, part), from, now_us),
        _ => {}
    }
    if head.cluster != shared.config.cluster {
        return shared.malformed();
    }
    let fresh = head.to_boot == shared.config.boot;
    match hello {
        Hello::Greet { version: VERSION, .. } if !fresh => stranger(shared, &head, from, now_us),
        Hello::Greet { version: VERSION, directory } => greeted_by(shared, &head, from, directory, now_us),
        Hello::Where { number } if fresh => hosts::tell(shared, &head, number),
        Hello::Here { host } if fresh => hosts::hear(shared, &head, &host),
        Hello::Unknown {} if fresh => unknown_to(shared, &head, now_us),
        Hello::Greeted { directory } if fresh => known_to(shared, &head, directory, now_us),
        Hello::Strange { old } if fresh => strange_to(shared, &head, old),
        _ => shared.malformed(),
    }
}

/// Somebody whom this process does not know has sent something, or something to a former life of it.
pub(super) fn stranger(shared: &Shared, head: &Head, from: SocketAddr, now_us: u64) {
    shared.counts.strangers.fetch_add(1, Ordering::Relaxed);
    if shared.may_answer_stranger(now_us) {
        shared.handshake(from, head.boot, &Hello::Unknown {});
    }
}

/// Another process introduces itself, and knows who this one is.
fn greeted_by(shared: &Shared, head: &Head, from: SocketAddr, directory: Directory, now_us: u64) {
    let session = session_of(head.endpoint);
    if session.is_some() && shared.serves && !shared.hooks.serves() {
        return; // it asks again
    }
    let new = || shared.peers.enter(head.endpoint, NodeId::session(session.filter(|_| shared.serves)?), from);
    let Some(other) = shared.peers.get(head.endpoint).or_else(new) else { return shared.malformed() };
    if !admit(shared, &other, head, directory) {
        return;
    }
    adopt(&other, head.boot, now_us);
    let place = {
        let mut state = other.lock();
        if !other.fixed {
            state.address = from;
        }
        state.open_lane(&shared.socket);
        state.address
    };
    shared.hooks.reached_at(&other.roles, place);
    shared.handshake(from, head.boot, &Hello::Greeted { directory: shared.hooks.directory() });
}

/// Whether a host has the directory that is known, and this one's secrets. It is told of a directory that is not; of secrets it hears
/// itself.
fn admit(shared: &Shared, other: &Other, head: &Head, directory: Directory) -> bool {
    let host = head.endpoint.0 as u16;
    let admission = if other.fixed { shared.hooks.admits(host, directory) } else { Admission::Admitted };
    if admission == Admission::Admitted {
        return true;
    }
    let (address, before) = {
        let mut state = other.lock();
        (state.address, std::mem::replace(&mut state.refused, directory.id))
    };
    let is_new = before != directory.id;
    if admission == Admission::OtherSecrets {
        if is_new {
            tracing::warn!(
                host,
                "a host has other secrets than this one, and nothing is taken from it: give it the key file of this one"
            );
        }
        return false;
    }
    if admission == Admission::Unnoted {
        return false; // it asks again
    }
    let old = admission == Admission::OldCopy;
    if is_new && old {
        tracing::warn!(host, "a host has an old copy of its directory, and nothing is taken from it");
    } else if is_new {
        tracing::warn!(host, "a host has another directory than the one that it had, and nothing is taken from it");
    }
    shared.handshake(address, head.boot, &Hello::Strange { old });
    false
}

/// A host knows another directory of this one.
fn strange_to(shared: &Shared, head: &Head, old: bool) {
    match shared.peers.get(head.endpoint).filter(|other| other.fixed) {
        Some(_) => shared.hooks.strange_to(head.endpoint.0 as u16, old),
        None => shared.malformed(),
    }
}

/// A host does not know this process, or not its present life.
fn unknown_to(shared: &Shared, head: &Head, now_us: u64) {
    let Some(other) = shared.peers.get(head.endpoint).filter(|other| other.fixed) else {
        return shared.malformed();
    };
    let mut state = other.lock();
    state.see(head.boot, now_us);
    state.greeted = false;
    greet(shared, &mut state, now_us);
}

/// A host will take the messages of this process.
fn known_to(shared: &Shared, head: &Head, directory: Directory, now_us: u64) {
    let Some(other) = shared.peers.get(head.endpoint).filter(|other| other.fixed) else {
        return shared.malformed();
    };
    shared.hooks.taken_by(head.endpoint.0 as u16);
    if !admit(shared, &other, head, directory) {
        return;
    }
    adopt(&other, head.boot, now_us);
    let before = {
        let mut state = other.lock();
        state.open_lane(&shared.socket);
        std::mem::replace(&mut state.greeted, true)
    };
    if !before {
        tracing::debug!(endpoint = head.endpoint.0, "a host knows this process");
        shared.hooks.began_anew(shared.node(), &other.roles);
    }
}

/// The present life of another process is this one.
fn adopt(other: &Other, boot: u64, now_us: u64) {
    let mut state = other.lock();
    state.see(boot, now_us);
    if state.peer.boot() != Some(boot) {
        state.peer.set_boot(boot);
        state.greeted = false;
    }
}

impl OtherState {
    /// Something has come from that life of it.
    fn see(&mut self, boot: u64, now_us: u64) {
        self.heard_us = now_us;
        if std::mem::replace(&mut self.seen_boot, boot) != boot {
            (self.greet_us, self.pause_us) = (0, PAUSE_US);
        }
    }
}

fn greet(shared: &Shared, state: &mut OtherState, now_us: u64) {
    let greet = Hello::Greet { version: VERSION, directory: shared.hooks.directory() };
    state.greet_us = now_us + state.pause_us.max(PAUSE_US);
    state.pause_us = (state.pause_us.max(PAUSE_US) * 2).min(PAUSE_US_MAX);
    shared.handshake(state.address, state.seen_boot, &greet);
}

/// Greets hosts that do not know this process, or were silent for long.
pub(super) fn greet_all(shared: &Shared, now_us: u64) {
    for other in shared.peers.all().iter().filter(|other| other.fixed) {
        let mut state = other.lock();
        if state.greeted && state.heard_us + PAUSE_US_MAX > now_us {
            state.pause_us = PAUSE_US;
        } else if state.greet_us <= now_us {
            greet(shared, &mut state, now_us);
        }
    }
    hosts::ask(shared, now_us);
    if shared.serves {
        shared.peers.forget(now_us.saturating_sub(FORGET_US));
    }
    ask_paths(shared, now_us);
}

/// The ways to peers may take longer datagrams than they did when one was too long, and nobody says so.
fn ask_paths(shared: &Shared, now_us: u64) {
    let due = |other: &&Arc<Other>| other.lock().path_asked_us + PATH_EVERY_US <= now_us;
    for other in shared.peers.all().iter().filter(due).take(PATHS_AT_ONCE) {
        shared.ask_path(&mut other.lock(), now_us);
    }
}

/// A client asks for a session. The same question gets the same answer.
fn join(
    shared: &Shared,
    head: &Head,
    (version, nonce, fsid, first): (u32, u64, u64, u16),
    from: SocketAddr,
    now_us: u64,
) {
    if !shared.serves || !shared.hooks.serves() || !shared.may_answer_stranger(now_us) {
        return;
    }
    let mut joins = shared.joins.lock().expect("joins do not panic");
    let asked = (head.endpoint, nonce);
    let answer = match joins.iter().find(|(known, _)| *known == asked) {
        Some((_, answer)) => answer.clone(),
        None => {
            let answer = answer(shared, version, nonce, fsid);
            joins.push_back((asked, answer.clone()));
            if joins.len() > JOINS_MAX {
                joins.pop_front();
            }
            answer
        }
    };
    drop(joins);
    shared.counts.joins.fetch_add(1, Ordering::Relaxed);
    let answer = match answer {
        Hello::Welcome { nonce, session, placement, cluster } => {
            Hello::Welcome { nonce, session, placement, cluster: cluster.page(first) }
        }
        refused => refused,
    };
    shared.handshake_of(head.cluster, from, head.boot, &answer);
}

/// A host whose directory is lost asks what was heard of it.
fn tell_next(shared: &Shared, head: &Head, (nonce, number): (u64, u16), from: SocketAddr, now_us: u64) {
    if shared.serves && shared.may_answer_stranger(now_us) {
        let next = shared.hooks.next_of(number);
        shared.handshake_of(head.cluster, from, head.boot, &Hello::NextIs { nonce, next });
    }
}

/// Somebody asks how this host is.
fn tell_status(shared: &Shared, head: &Head, nonce: u64, from: SocketAddr, now_us: u64) {
    if shared.serves && shared.may_answer_stranger(now_us) {
        let status = shared.host_status(now_us);
        shared.handshake_of(head.cluster, from, head.boot, &Hello::StatusIs { nonce, status });
    }
}

fn answer(shared: &Shared, version: u32, nonce: u64, fsid: u64) -> Hello {
    let refused = |why: String| Hello::Refused { nonce, why: Blob(why.into_bytes()) };
    if version != VERSION {
        return refused(format!("client has version {version}, host {VERSION}: use the same onpath for both"));
    }
    match shared.hooks.join() {
        Ok((.., cluster)) if fsid != 0 && fsid != cluster.fsid => {
            refused("another file system is here: unmount and mount again".to_owned())
        }
        Ok((session, placement, cluster)) => Hello::Welcome { nonce, session, placement, cluster },
        Err(why) => refused(why),
    }
}
