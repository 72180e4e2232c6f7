//! Writes behind the end of a file whose home is one host and whose bytes another one has, one under way.

use super::client::{Load, create};
use super::report::Case;
use super::servers::Shape;
use super::{Asked, Site, median};
use crate::bench::fixed_secrets;
use anyhow::Context;
use onpath_session::fs::FsOp;
use onpath_wire::ids::NodeId;
use onpath_wire::map::ClusterMap;

/// Most bytes of a write.
pub(super) const BYTES_MAX: u32 = 7_680;
/// Hosts, each with a shard and a data node.
const HOSTS: u16 = 2;
/// Files that are made until the bytes of one are elsewhere.
const TRIES: usize = 64;

const CHAIN: Shape = Shape { hosts: HOSTS, ..Shape::OWNER };
const VISIBLE: Shape = Shape { settings: &[("writes", "visible")], ..CHAIN };

/// Measures one of these cases.
pub(super) fn measure(site: &Site<'_>, case: Case) -> anyhow::Result<Asked> {
    let shape = if case == Case::WriteVisible { VISIBLE } else { CHAIN };
    site.started(shape, HOSTS, |client, _| {
        let map = ClusterMap::even(HOSTS, fixed_secrets().placement).with_data_nodes(&[1, 2]);
        let dir = client.directory("dir")?;
        let made = Load {
            count: TRIES,
            window: 1,
            ask: Box::new(move |number| create(dir, "file", number)),
            timed: |_| false,
        };
        let found = client.run(made)?.found;
        let apart = |id| map.data(id) != NodeId::data(map.home(id).0 + 1); // a host has the shard before its number
        let (_, handle) = *found.iter().find(|(id, _)| apart(*id)).context("no file has its bytes elsewhere")?;
        let handle = handle.context("a file that is not open")?;
        let size = site.args.bytes as usize;
        let data = vec![7; size];
        let run = |first: usize, count: usize| {
            let data = data.clone();
            let ask = move |number: usize| {
                let offset = ((first + number) * size) as u64;
                FsOp::Write {
                    handle,
                    offset,
                    data: data.clone().into(),
                    append: false,
                    kill_suidgid: false,
                    page: false,
                }
            };
            let begin = client.traffic();
            let done = client.run(Load { count, window: 1, ask: Box::new(ask), timed: |_| true })?;
            anyhow::Ok((done, client.traffic().bytes_each(begin, count)))
        };
        let count = site.args.operations as usize;
        run(0, count / 10)?; // the file is lent from now on
        let (done, bytes) = run(count / 10, count)?;
        client.close(&found)?;
        Ok(Asked { p50_ns: median(done.latencies), bytes, rate: None })
    })
}
