//! The paper's experiments, one function each. What the paper says is that of its text.

use super::lab::{Lab, Size};
use super::workloads::{SKEW, Workload};
use super::{Row, Table};
use crate::bench::cost::model::Setup;

/// Numbers of servers, unless others are wanted.
const SERVERS: [u16; 2] = [16, 128];

/// What Exp#1 says for each workload: Fletch over NoCache, Fletch+ over CCache, percent.
fn gains(workload: Workload, servers: u16) -> Option<[f64; 2]> {
    Some(match (workload, servers) {
        (Workload::Alibaba, 16) => [22.9, 8.0],
        (Workload::Training, 16) => [51.7, 33.5],
        (Workload::Thumb, 16) => [53.7, 36.3],
        (Workload::LinkedIn, 16) => [47.6, 31.5],
        (Workload::Alibaba, 128) => [11.0, 14.7],
        (Workload::Training, 128) => [134.6, 103.6],
        (Workload::Thumb, 128) => [181.6, 139.6],
        (Workload::LinkedIn, 128) => [71.2, 57.3],
        _ => return None,
    })
}

/// Exp#1.
pub(super) fn workloads(setup: &Setup, size: Size, table: &mut Table) {
    let servers = if setup.servers.is_empty() { &SERVERS[..] } else { &setup.servers };
    for &servers in servers {
        let plans = Workload::ALL.map(|workload| workload.requests(SKEW, setup.seed));
        let runs = Lab::new(setup, servers, size).all(&plans);
        for (workload, [no_cache, ccache, fletch, plus]) in Workload::ALL.into_iter().zip(runs) {
            let paper = gains(workload, servers);
            let row = |what: &str, at: usize| Row {
                experiment: "1",
                what: format!("{}, {servers} servers, {what}", workload.name()),
                paper: paper.map_or(String::new(), |paper| format!("{:+.1} %", paper[at])),
            };
            table.gain(row("Fletch over NoCache", 0), &no_cache, &fletch);
            table.gain(row("Fletch+ over CCache", 1), &ccache, &plus);
        }
    }
}
