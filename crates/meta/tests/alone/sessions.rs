//! Sessions: the registry, deaths, and ids that come again.

use super::*;

/// The registry has members by their addresses; a later life of one has a greater incarnation.
#[test]
fn a_mount_is_registered_as_a_member() {
    let mut alone = Alone::new();
    let member_of = |alone: &Alone, session| {
        let effects = alone.records.iter().rev().flat_map(|record| &record.effects);
        let members = effects.filter_map(|effect| match effect {
            Effect::Member { node, member } if *node == NodeId::session(session) => Some(member.clone()),
            _ => None,
        });
        members.take(1).next()
    };
    let [one, other] = [1, 2].map(SessionId);
    alone.ask_as(one, 1, Request::Attach { again: false });
    alone.ask_as(other, 1, Request::Attach { again: false });
    let [first, second] = [one, other].map(|session| member_of(&alone, session).expect("it is registered"));
    assert!(first.alive && second.alive && Stamp(0) < first.incarnation && first.incarnation < second.incarnation);
    assert_eq!((first.kind, &first.key), (MemberKind::Mount, &None));
    alone.ask_as(one, 2, Request::Detach { gone: false });
    assert_eq!(member_of(&alone, one), Some(Member { alive: false, ..first }), "the same life, and over");
    alone.restart();
    assert_eq!(alone.shard.survey().sessions, [one, other].map(of_first_lap), "not everybody has heard of the death");
}

/// Numbers go on after a restart, whatever became of those that were taken; ids come again, but not that of a session that lives.
#[test]
fn a_number_of_a_session_never_comes_again() {
    let mut alone = Alone::new();
    let first = alone.shard.take_sessions(3);
    assert_eq!(first, [1, 2, 3].map(SessionNumber));
    alone.outputs();
    let lives = first[1];
    alone.ask_as(lives.id(), 1, Request::Attach { again: false });
    alone.restart();
    assert_eq!(alone.shard.take_sessions(1), [SessionNumber(4)]);
    let all = u64::from(SessionNumber::MAX.id().0);
    alone.shard.reserve(Counter::Sessions, all); // every id was given out
    let again = alone.shard.take_sessions(2);
    assert_eq!(again, [all + 1, all + 3].map(SessionNumber), "the second id is in use");
    assert_eq!([again[0].id(), again[1].id()], [SessionId(1), SessionId(3)]);
    alone.shard.reserve(Counter::Sessions, SessionNumber::MAX.0 - 1);
    assert_eq!(alone.shard.take_sessions(9), [SessionNumber::MAX]);
    assert_eq!(alone.shard.take_sessions(9), []);
}

/// A session in the process of the registry ends with it, and others go on.
#[test]
fn a_resident_session_ends_with_its_process() {
    let mut alone = Alone::new();
    let resident = alone.shard.take_resident().expect("numbers are left");
    let other = alone.shard.take_sessions(1)[0];
    for session in [resident, other] {
        alone.ask_as(session.id(), 1, Request::Attach { again: false });
    }
    assert_eq!(alone.shard.survey().sessions, [resident, other]);
    alone.calls.clear();
    alone.restart();
    let dead: Vec<&Peer> =
        alone.calls.iter().map(|(_, peer)| peer).filter(|peer| matches!(peer, Peer::SessionDead { .. })).collect();
    assert_eq!(dead, [&Peer::SessionDead { session: resident }]);
}

/// who has an id by now is neither who had it before, nor answered what that was.
#[test]
fn sessions_that_have_one_id_after_each_other_are_not_mixed_up() {
    let mut alone = Alone::new();
    let former = SessionNumber(7);
    let later = SessionNumber::of(former.id(), SessionNumber::MAX.request(RequestSeq(1)));
    let file = alone.create(1).inode;
    let link = |number| Request::Link { id: file, parent: InodeId::ROOT, name: name_here(number) };
    alone.ask_as(former.id(), former.request(RequestSeq(1)).0, Request::Attach { again: false });
    alone.ask_as(later.id(), later.request(RequestSeq(1)).0, Request::Attach { again: false });
    let estale = Reply::Failed { errno: Errno::ESTALE };
    assert_eq!(alone.replies.pop(), Some((later.request(RequestSeq(1)), estale)), "the id is in use");
    alone.bury(1, former);
    let before = alone.records.len();
    alone.ask_as(former.id(), former.request(RequestSeq(2)).0, link(2));
    assert_eq!(alone.records.len(), before, "of the dead one");
    alone.ask_as(later.id(), later.request(RequestSeq(2)).0, link(3));
    assert!(alone.records.len() > before, "{:?}", alone.replies);
}

/// what was answered to a session is forgotten with it, so a late copy of a request must not be taken for a new one.
#[test]
fn a_late_copy_of_a_request_of_the_dead_is_not_executed() {
    let mut alone = Alone::new();
    let file = alone.create(1).inode;
    let (mortal, name) = (SessionId(7), Name::new(b"another").expect("a name"));
    let late = [
        Request::Link { id: file, parent: InodeId::ROOT, name },
        Request::Open { id: file, flags: open::READ },
        Request::Reserve { id: file },
    ];
    alone.bury(1, of_first_lap(mortal));
    let (records, running) = (alone.records.len(), alone.counter("operations_at_once"));
    for (seq, request) in (1..).zip(late) {
        alone.ask_as(mortal, seq, request);
    }
    assert_eq!((alone.records.len(), alone.replies.len()), (records, 0), "{:?}", alone.replies);
    assert_eq!((alone.counter("operations_at_once"), alone.counter("inodes_open")), (running, 0));
    // Whoever leaves hears that it has left, even if the first answer was lost.
    alone.ask_as(mortal, 9, Request::Detach { gone: false });
    assert_eq!(alone.replies.pop(), Some((RequestSeq(9), Reply::Done)));
}
