//! Long histories of thousands of directories, done to an index and to the naive tree: tables that grow, split and shrink, crowds, chains,
//! children before their parents, and an index that is full most of the time.

use super::naive::Naive;
use onpath_index::{Access, DirId, Directory, End, Grant, Index, IndexError, Part, Search};

/// What a history is made of.
pub(crate) struct Storm {
    pub(crate) ids: u64,
    pub(crate) steps: u64,
    pub(crate) seed: u64,
}

/// What happened in it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) most: usize,
    pub(crate) refused: u64,
    pub(crate) circles: u64,
    pub(crate) displaced: u64,
    pub(crate) moved: u64,
}

/// xorshift64*: the same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

fn name(random: &mut Random) -> Vec<u8> {
    let number = random.below(400);
    let len = [0, 0, 0, 14, 40, 255][random.below(6) as usize];
    let mut name = format!("n{number}").into_bytes();
    name.resize(name.len().max(len), b'x');
    name
}

/// Does a history. What happens changes every few thousand steps: first directories come, then they move and go.
pub(crate) fn run<I: Index>(index: &mut I, storm: &Storm) -> Seen {
    let (mut naive, mut seen, mut random) = (Naive::default(), Seen::default(), Random(storm.seed));
    let root = Directory::root(access(0), Grant::default());
    assert_eq!(index.bind(&root), naive.bind(&root));
    for step in 0..storm.steps {
        let removes = [1, 3, 9][(step * 6 / storm.steps) as usize % 3];
        let id = 2 + random.below(storm.ids);
        if random.below(10) < removes {
            assert_eq!(index.remove(DirId(id)), naive.remove(DirId(id)));
        } else {
            let parent = match random.below(8) {
                0 => 2,      // a crowd
                1 => id - 1, // a chain
                2 => 1,
                _ => 1 + random.below(storm.ids),
            };
            let (name, grant) = (name(&mut random), Grant { term: 1, count: step });
            let access = access(random.below(60) as u32);
            bind(
                index,
                &mut naive,
                &mut seen,
                &Directory { id: DirId(id), parent: DirId(parent), name: &name, access, grant },
            );
        }
        assert_eq!(index.len(), naive.len());
        seen.most = seen.most.max(index.len());
        if step % 16 == 0 {
            walk(index, &mut naive, 2 + random.below(storm.ids));
        }
        if step % (storm.steps / 6) == 0 {
            assert_eq!(all(index), all(&naive));
        }
    }
    assert_eq!(all(index), all(&naive));
    // At last the leaves go, until nothing but the root is left.
    while index.len() > 1 {
        let before = index.len();
        give_up(index, &mut naive, 100);
        assert!(index.len() < before || naive.leaves().is_empty());
    }
    seen
}

fn access(uid: u32) -> Access {
    Access { mode: 0o755, uid, gid: 1, acl: false }
}

fn bind<I: Index>(index: &mut I, naive: &mut Naive, seen: &mut Seen, directory: &Directory<'_>) {
    loop {
        let expected = if directory.check().is_ok() && naive.is_above(directory.id, directory.parent) {
            Err(IndexError::Circle)
        } else {
            Ok(())
        };
        let done = index.bind(directory);
        if done == Err(IndexError::Full) {
            assert_eq!(expected, Ok(()), "who is refused for ever is told so at once");
            seen.refused += 1;
            give_up(index, naive, 8);
            continue;
        }
        assert_eq!(done, naive.bind(directory), "{directory:?}");
        seen.circles += u64::from(done == Err(IndexError::Circle));
        seen.displaced += u64::from(done.is_ok_and(|bound| bound.displaced.is_some()));
        seen.moved += u64::from(done.is_ok_and(|bound| bound.before.is_some()));
        return;
    }
}

/// What is given up has no held children.
fn give_up<I: Index>(index: &mut I, naive: &mut Naive, count: usize) {
    let mut found = vec![];
    index.candidates(count, &mut found);
    assert!(!found.is_empty() || naive.leaves().is_empty(), "there are leaves");
    for (id, grant) in found {
        assert!(naive.is_leaf(id) && id != DirId::ROOT, "{id:?}");
        let part = index.remove(id);
        assert_eq!((part, part.map(|part| part.grant)), (naive.remove(id), Some(grant)));
    }
}

/// Walks to a directory from the topmost one above it that is held.
fn walk<I: Index>(index: &mut I, naive: &mut Naive, id: u64) {
    let (mut at, mut way) = (DirId(id), vec![]);
    while let Some(part) = naive.get(at).filter(|part| naive.get(part.parent).is_some()) {
        way.push(naive.name(at).expect("it is held").as_bytes().to_vec());
        at = part.parent;
    }
    way.reverse();
    let path = way.join(&b"/"[..]);
    let mut all = |_: DirId, _: &Access| Search::Allowed;
    let (found, expected) = (index.walk(at, &path, &mut all), naive.walk(at, &path, &mut all));
    assert_eq!(found, expected);
    assert!(expected.end == End::NoStart || expected.last.map(|part| part.id) == Some(DirId(id)));
}

fn all(index: &impl Index) -> Vec<(Part, Vec<u8>)> {
    let mut all = vec![];
    index.each(&mut |directory| all.push((directory.part(), directory.name.to_vec())));
    all.sort_by_key(|(part, _)| part.id);
    all
}
