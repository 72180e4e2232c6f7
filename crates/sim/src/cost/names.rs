//! A tree whose files are asked for by a power law (Fletch §VIII-A): the hottest files one by one, and some that stand for all others.

use super::tree::Who;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use rand::distr::Distribution;
use rand::distr::weighted::WeightedIndex;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Directories at most: as many in each as fit.
const DIRECTORIES_MAX: u32 = 1_100;
/// So many files become the hottest at a time (Fletch, Exp#8).
pub const HOT_IN: u32 = 100;
/// So large a share of the files is in so large a share of the directories (the paper's 80/20 rule).
const CROWDED_FILES: f64 = 0.8;
const CROWDED_DIRECTORIES: f64 = 0.2;

/// Which files are the hottest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Any.
    Random,
    /// Those nearest to the root.
    HighFirst,
    /// Those farthest from it.
    LowFirst,
}

/// Which files there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NamesShape {
    /// Names of the longest paths; there are files at every level.
    pub depth: u32,
    /// The hottest files: those that a switch is given.
    pub hot: u32,
    /// Files that stand for all others, as often asked for as each other.
    pub cold: u32,
    /// As many files as there would be.
    pub files: u64,
    /// Which ones are the hottest.
    pub order: Order,
}

/// A directory.
#[derive(Clone, Debug)]
pub(super) struct NamedDir {
    pub(super) id: InodeId,
    pub(super) parent: Option<u32>,
    pub(super) name: Name,
    level: u32,
}

/// A file, in a directory or in the root.
#[derive(Clone, Debug)]
pub(super) struct NamedFile {
    pub(super) id: InodeId,
    pub(super) dir: Option<u32>,
    pub(super) name: Name,
}

/// The tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) dirs: Vec<NamedDir>,
    /// The hottest first, then those that stand for others.
    pub(super) files: Vec<NamedFile>,
    pub(super) hot: usize,
    pub(super) all: u64,
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a short name")
}

/// Directories in each directory, so that a tree of so many levels is not too large.
fn fanout(levels: u32) -> u32 {
    let all = |fanout: u32| (1..=levels).map(|level| fanout.saturating_pow(level)).fold(0, u32::saturating_add);
    (1..DIRECTORIES_MAX).take_while(|&fanout| all(fanout) <= DIRECTORIES_MAX).last().unwrap_or(1)
}

impl Names {
    /// A tree whose directories and files are still to be made.
    pub(super) fn new(shape: &NamesShape, seed: u64) -> Names {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let levels = shape.depth - 1;
        let fanout = fanout(levels);
        let mut dirs: Vec<NamedDir> = vec![];
        let mut above: Vec<Option<u32>> = vec![None];
        for level in 1..=levels {
            let from = dirs.len() as u32;
            for parent in above {
                dirs.extend((0..fanout).map(|at| NamedDir {
                    id: InodeId::NONE,
                    parent,
                    name: name(&format!("dir-{at}")),
                    level,
                }));
            }
            above = (from..dirs.len() as u32).map(Some).collect();
        }
        let mut order: Vec<Option<u32>> = (0..dirs.len() as u32).map(Some).chain([None]).collect();
        order.shuffle(&mut rng);
        let (crowded, others) = order.split_at((order.len() as f64 * CROWDED_DIRECTORIES).ceil() as usize);
        let count = shape.hot + shape.cold;
        let mut places: Vec<Option<u32>> = (0..count)
            .map(|_| {
                let is_crowded = others.is_empty() || rng.random_range(0.0..1.0) < CROWDED_FILES;
                let some = if is_crowded { crowded } else { others };
                some[rng.random_range(0..some.len())]
            })
            .collect();
        let level = |dir: &Option<u32>| dir.map_or(0, |dir| dirs[dir as usize].level);
        match shape.order {
            Order::Random => {}
            Order::HighFirst => places.sort_by_key(level),
            Order::LowFirst => places.sort_by_key(|dir| std::cmp::Reverse(level(dir))),
        }
        let file = |(at, dir)| NamedFile { id: InodeId::NONE, dir, name: name(&format!("file-{at}")) };
        let files = places.into_iter().enumerate().map(file).collect();
        Names { dirs, files, hot: shape.hot as usize, all: shape.files }
    }

    /// The id of a directory, or of the root.
    pub(super) fn id(&self, dir: Option<u32>) -> InodeId {
        dir.map_or(InodeId::ROOT, |dir| self.dirs[dir as usize].id)
    }

    /// The names of a directory's path.
    pub(super) fn way(&self, dir: Option<u32>) -> Vec<Name> {
        let up = |dir: &u32| self.dirs[*dir as usize].parent;
        let mut way: Vec<Name> =
            std::iter::successors(dir, up).map(|dir| self.dirs[dir as usize].name.clone()).collect();
        way.reverse();
        way
    }

    /// Directories on the way to a file, on average.
    pub(super) fn directories(&self) -> u32 {
        let level = |file: &NamedFile| file.dir.map_or(0, |dir| self.dirs[dir as usize].level);
        let all: u32 = self.files.iter().map(level).sum();
        (f64::from(all) / self.files.len().max(1) as f64).round() as u32
    }

    /// Directories of a level, from 1 on; nothing beyond the last one.
    pub(super) fn level(&self, level: u32) -> Vec<u32> {
        (0..).zip(&self.dirs).filter(|(_, dir)| dir.level == level).map(|(at, _)| at).collect()
    }
}

/// The sum of rank⁻ˢ over the ranks beyond `there` up to `all`, as an integral.
pub(super) fn beyond(skew: f64, there: f64, all: f64) -> f64 {
    let upto = |rank: f64| if skew == 1.0 { rank.ln() } else { rank.powf(1.0 - skew) / (1.0 - skew) };
    if all > there { upto(all) - upto(there) } else { 0.0 }
}

/// Which file is asked for.
#[derive(Clone, Debug)]
pub(super) struct Picks {
    /// By rank, and behind the last hot one the others together.
    ranks: WeightedIndex<f64>,
    /// Which file has a rank: the hottest may be others by now.
    of_rank: Vec<u32>,
    cold: std::ops::Range<u32>,
}

impl Picks {
    /// By this exponent; 0: all alike. So often have some of those that were asked for least become the hottest.
    pub(super) fn new(names: &Names, skew: f64, hot_in: u32) -> Picks {
        let (hot, count) = (names.hot, names.files.len());
        let weights = (1..=hot).map(|rank| (rank as f64).powf(-skew));
        let others = beyond(skew, hot as f64, names.all as f64);
        let ranks = WeightedIndex::new(weights.chain([others])).expect("there are files");
        let newcomers = (0..hot_in).rev().flat_map(|change| {
            let first = hot as u32 + change * HOT_IN;
            first..first + HOT_IN
        });
        let of_rank: Vec<u32> =
            newcomers.filter(|&file| (file as usize) < count).chain(0..hot as u32).take(hot).collect();
        Picks { ranks, of_rank, cold: hot as u32..count as u32 }
    }

    /// A file.
    pub(super) fn pick(&self, rng: &mut ChaCha8Rng) -> u32 {
        match self.of_rank.get(self.ranks.sample(rng)) {
            Some(&file) => file,
            None => rng.random_range(self.cold.clone()),
        }
    }
}

/// Who makes the tree and asks for what is in it.
pub(super) const OWNER: Who = Who::User;
