//! what a session asks for is executed only while it has a lease.

use crate::opens::id_of;
use onpath_sim::scenario::{Scenario, create};
use onpath_wire::errno::Errno;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

const S: u16 = 1;
const A: u16 = 2;
const LEASE_NS: u64 = 3_000_000_000;

/// A request is on the network for longer than its session's lease. By then others may have what the session had, a lock for example: it
/// is not executed. A session that lives after all hears that it may ask again.
#[test]
fn a_request_that_comes_after_the_lease_is_not_executed() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let (late, early) = (sc.reader_at(S), sc.reader_at(S));
    let (lost, made) = (sc.name_at(d, S, "lost"), sc.name_at(d, S, "made"));
    sc.lease_ends_in(late, LEASE_NS);
    sc.lease_ends_in(early, LEASE_NS);
    let asked = sc.ask_by(early, create(d, &made));
    id_of(sc.succeeds(asked));
    let on_its_way = sc.hold(|m| matches!(m.request(), Some(Request::Create { .. })));
    let asked = sc.ask_by(late, create(d, &lost));
    sc.go_on_for(2 * LEASE_NS);
    sc.let_go(on_its_way);
    assert_eq!(sc.wait_for(asked), Reply::Busy);
    let looked = sc.ask(Request::Lookup { parent: d, name: lost });
    sc.fails(looked, Errno::ENOENT);
    assert_eq!(sc.names(d), [made]);
}

/// It comes in time, and waits for a lock that it gets after the end of the lease.
#[test]
fn a_request_whose_lease_ends_while_it_waits_is_not_executed() {
    let mut sc = Scenario::new(3);
    let (d, _) = sc.directory_of(A, "d");
    let late = sc.reader_at(S);
    let name = sc.name_at(d, S, "f");
    // The first change of a directory asks its owner for a grant.
    let grants = sc.hold(|m| matches!(m.peer(), Some(Peer::GrantAsk { .. })));
    sc.lease_ends_in(late, LEASE_NS);
    let asked = sc.ask_by(late, create(d, &name));
    sc.go_on_for(2 * LEASE_NS);
    assert!(sc.world.held(grants) > 0, "it waits for the grant");
    sc.let_go(grants);
    assert_eq!(sc.wait_for(asked), Reply::Busy);
    let looked = sc.ask(Request::Lookup { parent: d, name });
    sc.fails(looked, Errno::ENOENT);
}
