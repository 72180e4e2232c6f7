//! Trims and drops: told to the data node once their record is durable, again and again until acknowledged
//! (DESIGN §5), also after a restart.

use crate::Cx;
use crate::state::commit::{Effects, commit_own};
use onpath_kernel::Need;
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::ids::{DataId, NodeId, RecordSeq};
use onpath_wire::record::Effect;
use smallvec::smallvec;

pub(crate) async fn run(cx: &Cx, data: DataId, cut: u32, drop: bool, after: RecordSeq) {
    let size = cx.with(|core| {
        core.rest_on(cx.op(), after);
        core.state.data_pending.get(&(data, cut, drop)).copied().unwrap_or(0)
    });
    let request = if drop { DataRequest::Drop { data } } else { DataRequest::Trim { data, cut, size } };
    let answer = cx.call_when(NodeId::data(0), Need::Durable, |core, seq| core.state.data_packet(seq, &request)).await;
    cx.with(|core| {
        if let Ok(DataReply::Trimmed { blocks, version }) = answer.body::<DataReply>()
            && core.state.data_pending.contains_key(&(data, cut, drop))
        {
            let effects: Effects = smallvec![Effect::DataDone { data, cut, drop, blocks, version }];
            commit_own(core, cx.op(), effects);
        }
    });
}
