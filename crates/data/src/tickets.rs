//! Whether a bound session shows that it has opened the files that it asks about.

use crate::state::Node;
use onpath_wire::data::{Asker, DataReply, DataRequest};
use onpath_wire::header::Header;
use onpath_wire::identity::Refusal;
use onpath_wire::ids::{DataId, SessionNumber};
use onpath_wire::ticket::{Ticket, right};

/// The request itself. That of a bound session needs the ticket of each file that it is about: one that counts no more, or is of another
/// state of the file, is stale, and its home gives another one to who has the file open still.
pub(crate) fn request(
    core: &Node,
    header: &Header,
    request: DataRequest,
    bound: bool,
) -> Result<DataRequest, DataReply> {
    let refused = Err(DataReply::Refused { why: Refusal::Bytes });
    let (ticket, source, request) = match request {
        DataRequest::Shown { ticket, source, request } => (ticket, source, DataRequest::shown(&request)),
        DataRequest::Space | DataRequest::Kept => return Ok(request),
        _ if bound => return refused,
        request => return Ok(request),
    };
    let (Some(request), Some(session)) = (request, header.source.as_session()) else { return refused };
    let session = SessionNumber::of(session, header.seq);
    let counts = |ticket: &Ticket, data: DataId, cut: Option<u32>, rights: u8| {
        ticket.is_of(&core.state.config.tickets, session)
            && ticket.data == data
            && cut.is_none_or(|cut| cut == ticket.cut)
            && ticket.gives(rights)
            && ticket.counts_at(core.now.wall_ns)
    };
    let what = request.describe();
    // To make durable what is there takes either right.
    let rights = match (&request, what.writes) {
        (DataRequest::Sync { .. }, _) => 0,
        (_, true) => right::WRITE,
        (_, false) => right::READ,
    };
    let Some(data) = what.data.filter(|_| what.by != Asker::Home) else { return refused };
    if !counts(&ticket, data, request.cut(), rights) {
        return Err(DataReply::Stale);
    }
    if let DataRequest::Copy { from, from_cut, .. } = &request
        && !source.is_some_and(|source| counts(&source, *from, Some(*from_cut), right::READ))
    {
        return Err(DataReply::SourceStale);
    }
    Ok(without_part(request))
}

/// A bound session is not believed what it says of merge parts: by one that it made up, writes of others would be answered of which the home
/// does not know that it has to ask.
fn without_part(mut request: DataRequest) -> DataRequest {
    if let DataRequest::Write { part, .. } = &mut request {
        *part = None;
    }
    request
}
