//! Chains as deep as a file system lets them become, and names as long as they may be.

use onpath_index::{Access, Bound, DirId, Directory, End, Grant, Index, IndexError, Search};

/// Levels that a directory of Onpath has above it at most.
pub(crate) const DEEP: u64 = if cfg!(miri) { 300 } else { 131_072 };

fn bind<I: Index>(index: &mut I, id: u64, parent: u64, name: &[u8]) -> Result<Bound, IndexError> {
    let access = Access { mode: 0o755, ..Access::default() };
    index.bind(&Directory { id: DirId(id), parent: DirId(parent), name, access, grant: Grant { term: 1, count: id } })
}

fn depth<I: Index>(index: &mut I, path: &[u8]) -> usize {
    let walk = index.walk(DirId::ROOT, path, &mut |_: DirId, _: &Access| Search::Allowed);
    assert_eq!(walk.at == path.len(), walk.end == End::Found);
    walk.depth
}

/// One chain: parents come first or last, its middle moves, and no directory goes below itself.
pub(crate) fn chain<I: Index>(index: &mut I, parents_first: bool) {
    let name = |id: u64| if id.is_multiple_of(1_000) { vec![b'n'; 255] } else { b"d".to_vec() };
    let path = |ids: std::ops::RangeInclusive<u64>| ids.map(name).collect::<Vec<_>>().join(&b'/');
    bind(index, 1, 0, b"").unwrap();
    for number in 2..=DEEP {
        let id = if parents_first { number } else { DEEP + 2 - number };
        bind(index, id, id - 1, &name(id)).unwrap();
    }
    let (whole, middle) = (path(2..=DEEP), DEEP / 2);
    assert_eq!(depth(index, &whole) as u64, DEEP - 1);
    for id in [2, 3, middle, DEEP - 1] {
        assert_eq!(bind(index, id, DEEP, b"x"), Err(IndexError::Circle), "{id}");
    }
    assert_eq!(bind(index, 2, 3, b"d"), Err(IndexError::Circle), "over a descendant");
    assert_eq!(depth(index, &whole) as u64, DEEP - 1, "what is refused changes nothing");
    // The lower half goes up, and then the upper half below it.
    bind(index, middle, 1, b"up").unwrap();
    assert_eq!(depth(index, &whole) as u64, middle - 2);
    bind(index, 2, DEEP, b"down").unwrap();
    assert_eq!(bind(index, middle, 2, b"x"), Err(IndexError::Circle));
    assert_eq!(bind(index, middle, middle - 1, &name(middle)), Err(IndexError::Circle));
    let turned = [b"up".to_vec(), path(middle + 1..=DEEP), b"down".to_vec(), path(3..=middle - 1)].join(&b'/');
    assert_eq!(depth(index, &turned) as u64, DEEP - 1);
    // Without its topmost one the chain hangs nowhere, and is no circle when that comes back below it.
    index.remove(DirId(middle)).unwrap();
    assert_eq!(depth(index, &turned), 0);
    assert_eq!(bind(index, middle, middle - 1, b"x"), Err(IndexError::Circle));
    assert_eq!(index.len() as u64, DEEP - 1);
}
