//! Merge parts that sessions show (V-1).

use crate::world::{World, data};
use onpath_wire::Wire;
use onpath_wire::codec::Blob;
use onpath_wire::data::{DataRequest, Merge, MergePart};
use onpath_wire::ids::{RequestSeq, SessionId, SessionNumber, Term};
use onpath_wire::secrets::Secrets;
use onpath_wire::ticket::{Ticket, right};

/// Who is bound to a user could make a part up: a data node does not even ask the home about it.
#[test]
fn a_part_of_a_bound_session_is_not_believed() {
    let file = data(3, 1);
    let part = Some(MergePart { term: Term(9), number: 1 << 40 });
    let write = DataRequest::Write { data: file, cut: 0, offset: 0, kill_suidgid: true, append: false, part };
    let number = SessionNumber::of(SessionId(1), RequestSeq(1));
    let ticket = Ticket::new(&Secrets::of_seed(1).inner.tickets(), number, (file, 0), right::WRITE, 1);
    let shown = DataRequest::Shown { ticket, source: None, request: Blob(write.to_bytes()) };
    for (request, believed) in [(shown, false), (write, true)] {
        let mut world = World::default();
        world.request(&request, b"hello");
        let asked = world.heard.iter().any(|merge| matches!(merge, Merge::PartAsk));
        let told = world.heard.iter().any(|merge| matches!(merge, Merge::Written { .. }));
        assert_eq!((asked, told), (believed, true), "{request:?}: {:?}", world.heard);
    }
}
