//! The shape of the two trees: sizes of nodes, exact memory, what a rename costs, scans in order, loads in any order.

#[path = "../../index/tests/common/counted.rs"]
mod counted;

use counted::live;
use onpath_index::{Access, DirId, Directory, End, Grant, Index, IndexError, Part, Search, Secret};
use onpath_mart::{Art, Flavor, Mart, Tree};

const SECRET: Secret = Secret::new([2; 16]);

fn bind<F: Flavor>(tree: &mut Tree<F>, id: u64, parent: u64, name: &[u8]) {
    let access = Access { mode: 0o755, uid: 5, gid: 6, acl: id.is_multiple_of(7) };
    let grant = Grant { term: 1, count: id << 8 };
    tree.bind(&Directory { id: DirId(id), parent: DirId(parent), name, access, grant }).unwrap();
}

fn root<F: Flavor>() -> Tree<F> {
    let mut tree = Tree::new(SECRET, 1 << 28);
    bind(&mut tree, 1, 0, b"");
    tree
}

fn name(id: u64) -> Vec<u8> {
    let tail = if id.is_multiple_of(4) { "-with-a-long-name-beside-its-node" } else { "" };
    format!("{}{}{tail}", ["a", "b", "ab", "abc"][id as usize % 4], id / 3).into_bytes()
}

fn parent(id: u64) -> u64 {
    (id - 2) / 6 + 1
}

const MANY: u64 = if cfg!(miri) { 600 } else { 30_000 };

fn built<F: Flavor>(order: impl Iterator<Item = u64>) -> Tree<F> {
    let mut tree = Tree::new(SECRET, 1 << 28);
    for id in order {
        bind(&mut tree, id, if id == 1 { 0 } else { parent(id) }, &if id == 1 { vec![] } else { name(id) });
    }
    tree
}

fn scanned<F: Flavor>(tree: &Tree<F>) -> Vec<(Vec<u8>, Part)> {
    let mut all = vec![];
    tree.scan(DirId::ROOT, &mut |path, part| {
        all.push((path.to_vec(), part));
        true
    });
    all
}

/// Single bytes: all that a name can begin with.
#[test]
fn nodes_grow_and_shrink_with_their_children() {
    let mut tree = root::<onpath_mart::Embeds>();
    let bytes: Vec<u8> = (1..=255).filter(|byte| *byte != b'/' && *byte != b'.').collect();
    let inner = |tree: &Mart| tree.nodes()[1..].iter().position(|&count| count == 1);
    for (number, byte) in bytes.iter().enumerate() {
        bind(&mut tree, number as u64 + 2, 1, &[*byte]);
        let expected = [4, 16, 48, 256].iter().position(|most| number < *most);
        assert_eq!(inner(&tree), expected, "{number}");
    }
    let names = scanned(&tree).into_iter().map(|(path, _)| path[0]);
    assert_eq!(names.collect::<Vec<u8>>(), bytes, "in order");
    for (number, _) in bytes.iter().enumerate().rev() {
        tree.remove(DirId(number as u64 + 2)).unwrap();
        let expected = [3, 12, 36].iter().position(|few| number <= *few).unwrap_or(3);
        assert_eq!(inner(&tree), Some(expected), "{number}");
        let last = number.checked_sub(1).map(|last| tree.child(DirId::ROOT, &[bytes[last]]).unwrap().id.0);
        assert_eq!(last, number.checked_sub(1).map(|last| last as u64 + 2));
    }
}

/// *SPMeta §V-B*: a value in an inner node spares a leaf with an empty key.
#[test]
fn an_inner_directory_has_a_leaf_of_its_own_in_the_plain_tree_only() {
    let (mart, art): (Mart, Art) = (built(1..=MANY), built(1..=MANY));
    let (nodes, leaves) = (|nodes: [usize; 5]| nodes.iter().sum::<usize>(), |nodes: [usize; 5]| nodes[0]);
    let parents = (MANY - 2) / 6 + 1;
    assert_eq!(leaves(art.nodes()) as u64, MANY);
    assert_eq!(leaves(mart.nodes()) as u64, MANY - parents);
    assert_eq!(nodes(art.nodes()) as u64, nodes(mart.nodes()) as u64 + parents);
}

fn memory_is_exact<F: Flavor>() {
    let before = live();
    let mut tree = built::<F>((1..=MANY).rev());
    assert_eq!(tree.memory().reserved as isize, live() - before);
    assert_eq!(tree.walk(DirId::ROOT, b"a1/b2", &mut |_, _: &Access| Search::Allowed).end, End::Missing);
    for id in (2..=MANY).step_by(3) {
        tree.remove(DirId(id)).unwrap();
    }
    bind(&mut tree, 3, 1, b"another-long-name-that-lies-beside-its-node");
    assert_eq!(tree.memory().reserved as isize, live() - before);
    drop(tree);
    assert_eq!(live(), before);
}

#[test]
fn memory_is_known_exactly() {
    memory_is_exact::<onpath_mart::Embeds>();
    memory_is_exact::<onpath_mart::Separate>();
}

fn in_any_order<F: Flavor>() {
    let sorted = built::<F>(1..=MANY);
    let mut expected: Vec<(Vec<u8>, u64)> = vec![(vec![], 1)];
    for id in 2..=MANY {
        let above = expected[parent(id) as usize - 1].0.clone();
        expected.push(([above, name(id), b"/".to_vec()].concat(), id));
    }
    expected.remove(0);
    expected.sort();
    let all = scanned(&sorted);
    let found = all.iter().map(|(path, part)| ([path, &b"/"[..]].concat(), part.id.0));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    // 7919 is prime: each number comes once, children long before their parents.
    let unsorted = built::<F>((0..MANY).map(|n| n * 7_919 % MANY + 1));
    assert_eq!(scanned(&unsorted), all);
    let mut few = 0;
    sorted.scan(DirId(2), &mut |_, _| {
        few += 1;
        few < 3
    });
    assert_eq!(few, 3);
}

#[test]
fn loads_in_any_order_make_the_same_tree_and_scans_go_in_order() {
    in_any_order::<onpath_mart::Embeds>();
    in_any_order::<onpath_mart::Separate>();
}

/// No node below is touched: what a rename takes of memory does not depend on how many there are, and in the plain tree it does.
#[test]
fn a_directory_moves_with_all_that_is_below_it() {
    let mut mart = built::<onpath_mart::Embeds>(1..=MANY);
    let before = scanned(&mart).len();
    let nodes = mart.nodes();
    bind(&mut mart, 2, 3, b"moved");
    assert_eq!((scanned(&mart).len(), mart.nodes().iter().sum::<usize>()), (before, nodes.iter().sum()));
    let mut art = built::<onpath_mart::Separate>(1..=MANY);
    bind(&mut art, 2, 3, b"moved");
    assert_eq!(scanned(&art), scanned(&mart));
    let again = Directory {
        id: DirId(3),
        parent: DirId(2),
        name: b"x",
        ..Directory::root(Access::default(), Grant::default())
    };
    assert_eq!((mart.bind(&again), art.bind(&again)), (Err(IndexError::Circle), Err(IndexError::Circle)));
}

#[test]
fn a_full_tree_refuses_and_goes_on_when_leaves_are_given_up() {
    let mut tree = Mart::new(SECRET, 1 << 20);
    let mut found = vec![];
    let mut refused = 0;
    for id in 1..20_000 {
        let grant = Grant { term: 1, count: id };
        let name = name(id);
        let directory = Directory { id: DirId(id), parent: DirId(1), name: &name, access: Access::default(), grant };
        let directory = if id == 1 { Directory::root(Access::default(), grant) } else { directory };
        while tree.bind(&directory) == Err(IndexError::Full) {
            refused += 1;
            tree.candidates(10, &mut found);
            assert_eq!(found.len(), 10);
            found.drain(..).for_each(|(leaf, grant)| assert_eq!(tree.remove(leaf).map(|part| part.grant), Some(grant)));
        }
    }
    assert!(refused > 50 && tree.get(DirId::ROOT).is_some(), "{refused}");
}

/// First leaves, then chains, then wide directories, then wider ones: what one size of nodes has is not for another, and all count.
#[test]
fn no_more_is_allocated_than_allowed_whatever_the_shape() {
    let limit = 2 << 20;
    let mut tree = Mart::new(SECRET, limit);
    bind(&mut tree, 1, 0, b"");
    for fan in [100_000, 1, 10, 40, 200] {
        let mut held = 1;
        for id in 2..100_000u64 {
            let parent = (id - 2) / fan + 1;
            let name = if fan > 200 { format!("{id}").into_bytes() } else { vec![b'0' + (id % fan) as u8, b'x'] };
            let access = Access { mode: 0o755, ..Access::default() };
            let directory =
                Directory { id: DirId(id), parent: DirId(parent), name: &name, access, grant: Grant::default() };
            match tree.bind(&directory) {
                Ok(_) => held = id,
                Err(full) => {
                    assert_eq!(full, IndexError::Full);
                    break;
                }
            }
        }
        assert!(tree.memory().reserved <= 2 * limit, "fan {fan}: {:?}", tree.memory());
        assert!(held > 100, "fan {fan}: {held}");
        (2..=held).rev().for_each(|id| _ = tree.remove(DirId(id)));
        assert_eq!(tree.len(), 1);
    }
}
