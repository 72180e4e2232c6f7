//! Greetings and joins, as `hello` tells them.

use super::endpoint::Shared;
use super::hello::{Hello, VERSION};
use super::peers::{Other, OtherState};
use super::strangers::Budget;
use super::{hosts, session_of, told};
use crate::known::{Admission, Directory};
use onpath_transport::{EndpointId, Head, flag, handshake};
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::identity::Holder;
use onpath_wire::ids::NodeId;
use onpath_wire::secrets::Pass;
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
/// How often somebody is asked again because of a challenge before the timer greets it again.
const TRIES_MAX: u32 = 3;

/// The last answers to clients that joined, by their endpoint, nonce and key.
pub(super) type Joins = VecDeque<((EndpointId, u64, Holder), Hello)>;

/// A handshake has come.
pub(super) fn take(shared: &Arc<Shared>, head: &Head, datagram: &mut [u8], from: SocketAddr, now_us: u64) {
    if head.challenge() {
        return challenged(shared, head, datagram, from, now_us);
    }
    let answers = head.to_boot == shared.config.boot;
    if !answers && !shared.is_met(head, from, now_us) {
        return shared.challenge(head, from, false, now_us);
    }
    // Whoever fails again and again has not the key.
    if !shared.budgets.has(from.ip(), Budget::Forged, now_us) || !shared.may(from, Budget::Opened, now_us) {
        return;
    }
    let Ok(bytes) = handshake::open(&shared.config, head, datagram) else {
        shared.budgets.take(from.ip(), Budget::Forged, now_us);
        return shared.malformed();
    };
    // Who has a key of his own is a client, and no host.
    let is_client = shared.holder(head) != Holder::Anybody;
    match Hello::from_bytes(&bytes) {
        Ok(hello) if is_client && (answers || !may_ask(&hello, head)) => shared.malformed(),
        Ok(hello) if answers => answered(shared, head, hello, from, now_us),
        Ok(hello) => asked(shared, head, hello, from, now_us),
        Err(_) => shared.malformed(),
    }
}

/// Whether a client with a key of its own may ask that.
fn may_ask(hello: &Hello, head: &Head) -> bool {
    match hello {
        Hello::Join { .. } | Hello::Where { .. } => true,
        Hello::Greet { .. } => session_of(head.endpoint).is_some(),
        _ => false,
    }
}

/// A question of somebody who is where he says.
fn asked(shared: &Arc<Shared>, head: &Head, hello: Hello, from: SocketAddr, now_us: u64) {
    match hello {
        Hello::Join { version, nonce, fsid, first } => {
            join(shared, head, (version, nonce, fsid, first), from, now_us);
        }
        Hello::Next { nonce, number } => tell_next(shared, head, (nonce, number), from, now_us),
        Hello::Status { nonce } => tell_status(shared, head, nonce, from, now_us),
        Hello::Tell { nonce, part } => told::tell(shared, head, (nonce, part), None, from, now_us),
        Hello::Inspect { nonce, part, inode } => {
            told::tell(shared, head, (nonce, part), Some(inode), from, now_us);
        }
        Hello::Greet { version: VERSION, directory, pass, public } if head.cluster == shared.config.cluster => {
            greeted_by(shared, head, from, (directory, pass, &public.0), now_us);
        }
        Hello::Where { number } if head.cluster == shared.config.cluster => hosts::tell(shared, head, number),
        _ => shared.malformed(),
    }
}

/// An answer of somebody who knows the boot of this process.
fn answered(shared: &Shared, head: &Head, hello: Hello, from: SocketAddr, now_us: u64) {
    let host = shared.peers.get(head.endpoint).filter(|other| other.fixed && shared.may_be(&other.lock(), from));
    let Some(host) = host.filter(|_| head.cluster == shared.config.cluster) else { return shared.malformed() };
    let is_asked = |question| {
        let asked = host.lock().asked;
        asked.is_some_and(|(first, last)| (first..=last).contains(&question))
    };
    match hello {
        Hello::Greeted { question, directory, public } if is_asked(question) => {
            known_to(shared, &host, head, (directory, &public.0), now_us);
        }
        Hello::Strange { question, old } if is_asked(question) => {
            shared.hooks.strange_to(head.endpoint.0 as u16, old);
        }
        Hello::Here { question, host } => hosts::hear(shared, head, question, &host),
        _ => shared.malformed(),
    }
}

/// Somebody wants to know that this process is where it says, or does not know it, or not its present life.
fn challenged(shared: &Shared, head: &Head, datagram: &mut [u8], from: SocketAddr, now_us: u64) {
    let host = shared.peers.get(head.endpoint).filter(|other| other.fixed && shared.may_be(&other.lock(), from));
    let Some(host) = host.filter(|_| head.to_boot == shared.config.boot) else { return shared.malformed() };
    let Ok(challenge) = handshake::challenged(head, datagram) else { return shared.malformed() };
    let mut state = host.lock();
    if head.flags & flag::UNKNOWN != 0 {
        // What it was sent is lost. Who has said so already hears by the timer.
        if std::mem::replace(&mut state.greeted, false) {
            (state.challenge, state.pause_us, state.tries) = (challenge, PAUSE_US, 0);
            greet(shared, &mut state, now_us);
        }
        return;
    }
    let (greeted, asked) =
        (state.asked.is_some_and(|(_, last)| last == head.number), shared.hosts.is_asked(head.number));
    if !(greeted || asked) || state.tries >= TRIES_MAX {
        return;
    }
    (state.challenge, state.tries) = (challenge, state.tries + 1);
    if greeted { ask(shared, &mut state) } else { hosts::ask_again(shared, &state) }
}

/// Another process introduces itself.
fn greeted_by(
    shared: &Shared,
    head: &Head,
    from: SocketAddr,
    (directory, pass, public): (Directory, Pass, &[u8]),
    now_us: u64,
) {
    let session = session_of(head.endpoint);
    if session.is_some() && !shared.hooks.serves() {
        return; // it asks again
    }
    let holder = shared.holder(head);
    let is_its = |session| pass.session.id() == session && pass.holder == holder && shared.hooks.gave(&pass);
    if session.is_some_and(|session| !is_its(session)) {
        return shared.malformed();
    }
    let new = || shared.peers.enter(head.endpoint, NodeId::session(session?), from);
    let Some(other) = shared.peers.get(head.endpoint).or_else(new) else { return shared.malformed() };
    if head.endpoint == shared.config.me || other.fixed && !shared.may_be(&other.lock(), from) {
        return shared.malformed();
    }
    if !admit(shared, &other, head, directory, true) {
        return;
    }
    let place = {
        let mut state = other.lock();
        if pass.session < state.session {
            drop(state);
            return shared.malformed(); // a later session has that address
        }
        if !adopt(shared, &mut state, head, public, now_us) {
            return;
        }
        state.session = pass.session;
        if !shared.bind(&mut state, holder) {
            drop(state);
            return shared.malformed(); // its key has gone meanwhile
        }
        if !other.fixed {
            state.address = from;
        }
        state.open_lane(&shared.socket);
        state.address
    };
    shared.hooks.reached_at(&other.roles, place);
    let (directory, public) = (shared.hooks.directory(), shared.public());
    shared.answer(from, head, &Hello::Greeted { question: head.number, directory, public });
}

/// Whether a host has the directory that is known, and this one's secrets. If it has `asked`, it is told of a directory that is not; of
/// secrets it hears itself.
fn admit(shared: &Shared, other: &Other, head: &Head, directory: Directory, asked: bool) -> bool {
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
    if asked {
        shared.answer(address, head, &Hello::Strange { question: head.number, old });
    }
    false
}

/// A host will take the messages of this process.
fn known_to(shared: &Shared, host: &Other, head: &Head, (directory, public): (Directory, &[u8]), now_us: u64) {
    shared.hooks.taken_by(head.endpoint.0 as u16);
    if !admit(shared, host, head, directory, false) {
        return;
    }
    let before = {
        let mut state = host.lock();
        state.asked = None;
        if !adopt(shared, &mut state, head, public, now_us) {
            return;
        }
        state.open_lane(&shared.socket);
        std::mem::replace(&mut state.greeted, true)
    };
    if !before {
        tracing::debug!(endpoint = head.endpoint.0, "a host knows this process");
        shared.hooks.began_anew(shared.node(), &host.roles);
    }
}

/// The present life of another process is this one; false if nothing can be agreed with it.
fn adopt(shared: &Shared, state: &mut OtherState, head: &Head, public: &[u8], now_us: u64) -> bool {
    if state.peer.boot() != Some(head.boot) {
        let Some(agreed) = shared.agree(public) else {
            shared.malformed();
            return false;
        };
        state.set_boot(head.boot, agreed);
        state.greeted = false;
        (state.greet_us, state.pause_us) = (0, PAUSE_US);
    }
    if head.sealed() {
        state.peer.use_key(head.check);
    }
    state.heard_us = now_us;
    true
}

/// Greets somebody at this time, who is greeted again after a pause that grows.
fn greet(shared: &Shared, state: &mut OtherState, now_us: u64) {
    state.greet_us = now_us + state.pause_us.max(PAUSE_US);
    state.pause_us = (state.pause_us.max(PAUSE_US) * 2).min(PAUSE_US_MAX);
    state.tries = 0;
    state.by_second = !state.by_second && !state.greeted;
    ask(shared, state);
}

fn ask(shared: &Shared, state: &mut OtherState) {
    let (directory, public) = (shared.hooks.directory(), shared.public());
    let greet = Hello::Greet { version: VERSION, directory, pass: shared.pass, public };
    let question = shared.ask(state.address, state.challenge, state.by_second, &greet);
    state.asked = Some((state.asked.map_or(question, |(first, _)| first), question));
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
    if !shared.hooks.serves() || !shared.may_answer(from, now_us) {
        return;
    }
    let mut joins = shared.joins.lock().expect("joins do not panic");
    let holder = shared.holder(head);
    let asked = (head.endpoint, nonce, holder);
    let answer = match joins.iter().find(|(known, _)| *known == asked) {
        Some((_, answer)) => answer.clone(),
        None => {
            let answer = answer(shared, version, nonce, fsid, holder);
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
        Hello::Welcome { nonce, pass, identity, placement, cluster } => {
            Hello::Welcome { nonce, pass, identity, placement, cluster: cluster.page(first) }
        }
        refused => refused,
    };
    shared.answer(from, head, &answer);
}

/// A host whose directory is lost asks what was heard of it.
fn tell_next(shared: &Shared, head: &Head, (nonce, number): (u64, u16), from: SocketAddr, now_us: u64) {
    if shared.may_answer(from, now_us) {
        let next = shared.hooks.next_of(number);
        shared.answer(from, head, &Hello::NextIs { nonce, next });
    }
}

/// Somebody asks how this host is.
fn tell_status(shared: &Shared, head: &Head, nonce: u64, from: SocketAddr, now_us: u64) {
    if shared.may_answer(from, now_us) {
        let status = shared.host_status(now_us);
        shared.answer(from, head, &Hello::StatusIs { nonce, status });
    }
}

fn answer(shared: &Shared, version: u32, nonce: u64, fsid: u64, holder: Holder) -> Hello {
    let refused = |why: String| Hello::Refused { nonce, why: Blob(why.into_bytes()) };
    if version != VERSION {
        return refused(format!("client has version {version}, host {VERSION}: use the same onpath for both"));
    }
    match shared.hooks.join(holder) {
        Ok((.., cluster)) if fsid != 0 && fsid != cluster.fsid => {
            refused("another file system is here: unmount and mount again".to_owned())
        }
        Ok((pass, placement, cluster)) => match shared.identity_of(holder) {
            Some(identity) => Hello::Welcome { nonce, pass, identity, placement, cluster },
            None => refused("the key of this client was revoked".to_owned()),
        },
        Err(why) => refused(why),
    }
}
