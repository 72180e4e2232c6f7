//! Renames and removals that more than one host takes part in: three hosts with a shard each, one request under way.

use super::client::{Ask, Client, Found, Load};
use super::report::Case;
use super::servers::Shape;
use super::{Asked, Site, median};
use crate::bench::fixed_secrets;
use onpath_session::fs::FsOp;
use onpath_wire::ids::{InodeId, ShardId};
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;

/// Shards, one a host.
const SHARDS: u16 = 3;
/// Numbers that each name may take until one is at the right shard.
const TRIES: usize = 256;
/// Files that are made at a time.
const AT_ONCE: usize = 64;

/// Where the names of the files are: those that they were born under, later ones, the last ones. Their inodes stay where they were born.
const BORN: Places = Places { prefix: "born", shard: ShardId(0) };
const MOVED: Places = Places { prefix: "moved", shard: ShardId(1) };
const LAST: Places = Places { prefix: "last", shard: ShardId(2) };

/// Names of one shard.
#[derive(Clone, Copy)]
struct Places {
    prefix: &'static str,
    shard: ShardId,
}

/// Names of a directory by their shards.
#[derive(Clone)]
struct Names {
    dir: InodeId,
    map: ClusterMap,
}

impl Names {
    fn of(&self, Places { prefix, shard }: Places, number: usize) -> Name {
        let names =
            (0..TRIES).map(|try_| Name::new(format!("{prefix}{number}-{try_}").as_bytes()).expect("a plain name"));
        let here = |name: &Name| self.map.shard(self.map.site(self.dir, name.as_bytes())) == shard;
        names.into_iter().find(here).expect("one of so many names is at each shard")
    }

    fn rename(&self, from: Places, to: Places) -> Ask {
        let names = self.clone();
        let parent = self.dir;
        Box::new(move |number, _| {
            let (from, name) = (names.of(from, number), names.of(to, number));
            FsOp::Rename { from_parent: parent, from, parent, name, flags: 0 }
        })
    }
}

/// Measures one of these cases.
pub(super) fn measure(site: &Site<'_>, case: Case) -> anyhow::Result<Asked> {
    site.started(Shape { hosts: SHARDS, ..Shape::OWNER }, SHARDS, |client, _| {
        let map = ClusterMap::even(SHARDS, fixed_secrets().placement);
        let names = Names { dir: client.directory("dir")?, map };
        let count = site.args.operations as usize;
        made(client, &names, count)?;
        let run = |ask: Ask| {
            let begin = client.traffic();
            let done = client.run(Load { count, window: 1, ask, timed: |_| true })?;
            let bytes = client.traffic().bytes_since(begin);
            anyhow::Ok(Asked { p50_ns: median(done.latencies), bytes, rate: None })
        };
        let renamed = run(names.rename(BORN, MOVED))?;
        if case == Case::RenameAcross {
            return Ok(renamed);
        }
        let renamed = run(names.rename(MOVED, LAST))?;
        if case == Case::RenameAcrossThird {
            return Ok(renamed);
        }
        run(Box::new(move |number, _| FsOp::Unlink { parent: names.dir, name: names.of(LAST, number) }))
    })
}

fn made(client: &Client, names: &Names, count: usize) -> anyhow::Result<()> {
    let places = names.clone();
    let ask = move |number, _: &Found| super::client::create_named(places.dir, places.of(BORN, number));
    let made = client.run(Load { count, window: AT_ONCE.min(count), ask: Box::new(ask), timed: |_| false })?;
    client.close(&made.found)
}
