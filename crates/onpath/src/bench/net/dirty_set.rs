//! The switch of a measurement from outside: what it counts, and sets of it that have no room.

use super::client::{Client, getattr};
use super::servers::Servers;
use anyhow::{Context, ensure};
use onpath_dataplane::Config;
use onpath_wire::ids::{InodeId, ShardId, TrackingEpoch};
use onpath_wire::innet::{Fingerprint, InNet};
use std::fmt;
use std::net::UdpSocket;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the hosts may take for what they do by themselves.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// A shard that no measured cluster has: nobody waits for its marks.
const NOBODY: ShardId = ShardId(255);
/// Marks that are sent together: a receive buffer has room for them.
const TOGETHER: usize = 100;

/// What is measured is measured so often until nothing has interrupted it.
const ATTEMPTS_MAX: u32 = 3;

/// What hosts and switch have counted.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::bench) struct Counts {
    /// Marks that the switch took.
    pub(in crate::bench) marked: u64,
    /// Marks for which it had no room.
    pub(in crate::bench) full: u64,
    /// Queries that it answered from its set.
    pub(in crate::bench) answered: u64,
    /// Removes that it dropped, since they came after later ones.
    pub(in crate::bench) overtaken: u64,
    /// Of the shards: another one when the cluster has changed how it tracks directories.
    epoch: u64,
}

/// The hosts took the switch for lost meanwhile, as they do when it, or they, stand still for 0.3 s: nothing of a form was measured.
#[derive(Debug)]
pub(in crate::bench) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the hosts have taken the switch for lost while they were measured; the machine does something else too",
        )
    }
}

impl std::error::Error for Interrupted {}

/// Measures, again if that was interrupted.
pub(in crate::bench) fn uninterrupted<T>(mut measure: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let mut attempts = 1;
    loop {
        match measure() {
            Err(error) if error.is::<Interrupted>() && attempts < ATTEMPTS_MAX => {
                eprintln!("again: {error}");
                attempts += 1;
            }
            measured => return measured,
        }
    }
}

impl Counts {
    /// The present ones.
    pub(in crate::bench) fn of(servers: &Servers) -> anyhow::Result<Counts> {
        let mut counts = Counts::default();
        for (_, role) in servers.counters()? {
            let of = |name: &str| role[name].as_u64().unwrap_or(0);
            counts.marked += of("insert_marked");
            counts.full += of("insert_full");
            counts.answered += of("query_normal") + of("query_scattered");
            counts.overtaken += of("drop_not_newer");
            counts.epoch = counts.epoch.max(of("tracking_epoch"));
        }
        Ok(counts)
    }

    /// The present ones, if the cluster still tracks directories as it did.
    pub(in crate::bench) fn since(self, servers: &Servers) -> anyhow::Result<Counts> {
        let now = Counts::of(servers)?;
        ensure!(now.epoch == self.epoch, Interrupted);
        Ok(now)
    }
}

/// Looks until it is so.
fn until(what: &str, mut is: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !is()? {
        ensure!(begin.elapsed() < PATIENCE, "{what}: not so after {} s", PATIENCE.as_secs());
        sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Waits until the switch answers what is asked about directories.
pub(in crate::bench) fn in_use(servers: &Servers, client: &Client) -> anyhow::Result<()> {
    until("the switch answers queries", || {
        client.one(&getattr(InodeId::ROOT))?;
        Ok(Counts::of(servers)?.answered > 0)
    })
}

/// Takes all room of the sets in which these directories would be marked: by marks of fingerprints that no directory has, sent to the
/// switch as those of hosts are.
pub(in crate::bench) fn fill(
    servers: &Servers,
    client: &Client,
    dirs: &[InodeId],
    before: Counts,
) -> anyhow::Result<()> {
    let epoch = TrackingEpoch(before.epoch as u16);
    let socket = UdpSocket::bind(servers.host).context("a UDP socket")?;
    socket.connect(servers.switch).context("the switch")?;
    let room = Config::whole(client.cluster).stages;
    let marks: Vec<_> = dirs.iter().flat_map(|&dir| others(Fingerprint::of(dir), room)).collect();
    let mut expected = before.marked;
    for marks in marks.chunks(TOGETHER) {
        for &mark in marks {
            let packet = InNet::insert(client.cluster, epoch, mark, (NOBODY, 1, 1), None);
            socket.send(&packet.bytes()).context("a mark for the switch")?;
        }
        expected += marks.len() as u64;
        until("the switch has taken marks", || {
            let now = before.since(servers)?;
            ensure!(now.full == before.full, "the switch has no room for what is to fill it");
            Ok(now.marked >= expected)
        })?;
    }
    Ok(())
}

/// Other fingerprints of the same set, as many as it has room for.
fn others(of: Fingerprint, room: usize) -> impl Iterator<Item = Fingerprint> {
    (1..).filter_map(move |bits| Fingerprint::new(of.index(), of.tag() ^ bits).ok()).take(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_filled_with_others() {
        for tag in [1, 3, 77, u32::MAX] {
            let of = Fingerprint::new(9, tag).unwrap();
            let mut all: Vec<_> = others(of, 10).collect();
            assert!(all.iter().all(|other| other.index() == 9 && other.tag() != tag && other.tag() != 0));
            all.dedup();
            assert_eq!(all.len(), 10);
        }
    }
}
