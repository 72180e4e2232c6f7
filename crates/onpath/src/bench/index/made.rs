//! Trees that are made up: as deep as those of the paper, and with as many directories that reachability bits let owners, groups and others
//! get to (*SPMeta*, Table II). Same names, same tree each time.

use super::namespace::Namespace;
use anyhow::Context;
use clap::ValueEnum;
use onpath_index::Access;
use serde::Serialize;

/// The trees of the paper's Table II.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// Home directories, closed to nearly all: 1.6 million directories in the paper.
    Users,
    /// Home directories of another site: 3.9 million.
    Annoy,
    /// Scratch space: 5.0 million.
    Scr4,
    /// Projects, whose members have directories in each other's: 14.0 million.
    Projs,
}

/// What a tree is to be like.
struct Wanted {
    mean_depth: f64,
    descending: f64,
    user: f64,
    group: f64,
    other: f64,
}

impl Kind {
    fn wanted(self) -> Wanted {
        let (mean_depth, descending, user, group, other) = match self {
            Kind::Users => (9.22, 0.9990, 0.9922, 0.1175, 0.0),
            Kind::Annoy => (11.52, 0.9996, 0.9759, 0.3329, 0.0494),
            Kind::Scr4 => (10.27, 0.9971, 0.9926, 0.2168, 0.0002),
            Kind::Projs => (13.65, 0.9998, 0.5056, 0.5201, 0.1917),
        };
        Wanted { mean_depth, descending, user, group, other }
    }
}

/// How far depths are from their mean, mostly.
const DEPTH_SPREAD: f64 = 2.5;
/// Later directories of a level hang below fewer of the level above: so some trees below one are large, and others small.
const SKEW: f64 = 1.2;
/// Directories that belong to somebody, with all that is below, are of the first level that has so many, or one of so many of all.
const HOMES: u64 = 16;
const HOMES_SHARE: u64 = 500;
/// At most so many directories are below one whose bits do not descend.
const STRANGE_MAX: u32 = 4;

/// xorshift64*.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed | 1 << 60)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 20) % end
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

const OPEN: Access = Access { mode: 0o755, uid: 0, gid: 0, acl: false };

/// A tree of about so many directories.
pub(super) fn make(kind: Kind, directories: usize) -> anyhow::Result<Namespace> {
    let (wanted, mut random) = (kind.wanted(), Random::new(1));
    let mut tree = Namespace::new(OPEN);
    let (mut above, mut name) = (0..1u64, Vec::new());
    let levels = levels(wanted.mean_depth, directories);
    let enough = HOMES.max(directories as u64 / HOMES_SHARE);
    let homes = levels.iter().position(|&count| count >= enough).context("too few directories")? as u16 + 1;
    for count in levels {
        let (begin, mut before, mut nth) = (tree.len() as u64, u64::MAX, 0u64);
        for at in 0..count {
            let share = (at as f64 + random.share()) / count as f64;
            let fan = (above.end - above.start) as f64;
            let parent = above.start + (fan * share.powf(SKEW)) as u64;
            nth = if parent == before { nth + 1 } else { 0 };
            before = parent;
            write_name(&mut random, nth, &mut name);
            tree.push(parent.min(above.end - 1) as u32, &name, OPEN)?;
        }
        above = begin..tree.len() as u64;
    }
    let mut tree = tree.finish();
    own(&mut tree, &wanted, homes, &mut random);
    Ok(tree)
}

/// Directories of each level below the root.
fn levels(mean: f64, directories: usize) -> Vec<u64> {
    let weight = |depth: f64| (-((depth - mean) / DEPTH_SPREAD).powi(2) / 2.0).exp();
    let depths = 1..=(mean + 4.0 * DEPTH_SPREAD) as u32;
    let sum: f64 = depths.clone().map(|depth| weight(depth.into())).sum();
    let count = |depth: u32| weight(depth.into()) / sum * directories as f64;
    let shallow = mean as u32;
    // No level is empty above one that is not.
    depths.map(|depth| if depth <= shallow { count(depth).ceil() } else { count(depth).round() } as u64).collect()
}

/// A name that no other child of a directory has that comes before: words, some with numbers, some long.
fn write_name(random: &mut Random, nth: u64, name: &mut Vec<u8>) {
    const SYLLABLES: [&str; 16] =
        ["a", "ba", "co", "da", "el", "fi", "gra", "in", "lo", "mu", "ne", "or", "pi", "ra", "st", "te"];
    name.clear();
    let long = random.below(6) == 0;
    for _ in 0..if long { 6 + random.below(4) } else { 2 + random.below(3) } {
        name.extend_from_slice(SYLLABLES[random.below(16) as usize].as_bytes());
    }
    if nth > 0 || random.below(4) == 0 {
        name.extend_from_slice(format!("{}{nth}", if long { "_" } else { "" }).as_bytes());
    }
}

/// How a home is closed.
#[derive(Clone, Copy, PartialEq)]
enum Closed {
    No,
    ToOthers,
    ToAll,
}

/// Gives every directory of the level of homes to somebody, so that as many directories are reached by their owners, groups and others as is wanted.
fn own(tree: &mut Namespace, wanted: &Wanted, level: u16, random: &mut Random) {
    let mut homes: Vec<usize> = (0..tree.len()).filter(|&number| tree.depth(number) == level).collect();
    homes.sort_by_key(|&home| std::cmp::Reverse(tree.size(home)));
    // Each is closed in the way of which most directories are missing; the largest first. Whose directories others have is chosen likewise.
    let all = tree.len() as f64;
    let mut missing = [
        (Closed::No, wanted.other * all),
        (Closed::ToOthers, (wanted.group - wanted.other).max(0.0) * all),
        (Closed::ToAll, (1.0 - wanted.group) * all),
    ];
    let mut shared = (1.0 - wanted.user) * all;
    let mut kinds = std::collections::BTreeMap::new();
    for (number, &home) in homes.iter().enumerate() {
        let size = f64::from(tree.size(home));
        let (closed, left) =
            missing.iter_mut().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are three ways to close a home");
        *left -= size;
        let is_shared = *closed != Closed::No && shared >= size / 2.0;
        shared -= if is_shared { size } else { 0.0 };
        kinds.insert(home, (number as u32, *closed, is_shared));
    }
    // The home of each, and whose it is.
    let mut of = vec![usize::MAX; tree.len()];
    for number in 0..tree.len() {
        if tree.depth(number) < level {
            continue;
        }
        of[number] = if tree.depth(number) == level { number } else { of[tree.parent(number)] };
        let (home, closed, is_shared) = kinds[&of[number]];
        let (owner, group) = (10_000 + 64 * home, 1_000 + home % 97);
        let uid = owner + if is_shared && number != of[number] { 1 + random.below(40) as u32 } else { 0 };
        let mode = match (number == of[number], closed) {
            (true, Closed::ToOthers) => 0o750,
            (true, Closed::ToAll) => 0o700,
            _ => [0o755, 0o755, 0o2775, 0o755][random.below(4) as usize],
        };
        tree.set_access(number, Access { mode, uid, gid: group, acl: false });
    }
    let mut strange = ((1.0 - wanted.descending) * all) as u32;
    while strange > 0 {
        let number = random.below(tree.len() as u64) as usize;
        if tree.size(number) <= STRANGE_MAX.min(strange) && tree.depth(number) > level {
            strange -= tree.size(number);
            tree.set_access(number, Access { mode: 0o705, ..tree.access(number) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_as_deep_and_as_closed_as_they_are_in_the_paper() {
        for &kind in Kind::value_variants() {
            let (wanted, tree) = (kind.wanted(), make(kind, 100_000).expect("names of less than 4 GiB"));
            let shape = tree.shape();
            for (what, is, should, far) in [
                ("depth", shape.mean_depth, wanted.mean_depth, 0.15),
                ("descending", shape.descending, wanted.descending, 0.001),
                ("user", shape.user, wanted.user, 0.02),
                ("group", shape.group, wanted.group, 0.02),
                ("other", shape.other, wanted.other, 0.02),
            ] {
                assert!((is - should).abs() <= far, "{kind:?}: {what} {is}, not {should}: {shape:?}");
            }
            assert!(tree.len().abs_diff(100_000) < 100);
        }
    }

    #[test]
    fn both_orders_have_each_directory_once_and_names_are_told_apart() {
        let tree = make(Kind::Scr4, 5_000).expect("short names");
        let mut names: Vec<_> = (0..tree.len()).map(|at| (tree.parent(at), tree.directory(at).name)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), tree.len());
        let (sorted, shuffled) = (tree.sorted(), tree.shuffled());
        for list in [&sorted, &shuffled] {
            let mut all: Vec<_> = (0..list.len()).map(|at| list.directory(at)).collect();
            all.sort_by_key(|directory| directory.id);
            assert!(all.iter().enumerate().all(|(number, one)| *one == tree.directory(number)));
        }
        let mut path = vec![];
        let mut paths = (0..sorted.len()).map(|at| {
            path.clear();
            tree.path(sorted.directory(at).id.0 as usize - 1, &mut path);
            path.clone()
        });
        let mut before = paths.next().expect("the root");
        for path in paths {
            let above = path.iter().rposition(|&byte| byte == b'/').expect("it is absolute");
            assert!(before.starts_with(&path[..above]), "a walk of the tree");
            before = path;
        }
    }
}
