//! An inode as records, checkpoints and operations see it; `store` packs it for memory.

use crate::codec::{Blob, Reader, Wire, WireError};
use crate::disk::Stored;
use crate::ids::{Generation, InodeId, LogSeq, Stamp};
use crate::inode::Kind;
use crate::limits::REFUSED_MAX;
use crate::name::Name;
use crate::stored_struct;

stored_struct! {
    /// Everything about an inode. `parent`, `name`, `entries`, `mtime_stamp` matter for directories;
    /// `generation`, `cut`, `blocks`, `merged`, `refused` for regular files.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Inode {
        /// Its id.
        pub id: InodeId,
        /// File type.
        pub kind: Kind,
        /// Permission bits including setuid, setgid and sticky.
        pub mode: u16,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Links; a directory has 2 + subdirectories; 0 is an orphan (design.md, "Sessions").
        pub nlink: u32,
        /// File size in bytes.
        pub size: u64,
        /// Allocated 4 KiB blocks.
        pub blocks: u64,
        /// Version of `blocks`, counted by the data node.
        pub blocks_version: u64,
        /// Access time, ns since 1970.
        pub atime: i64,
        /// Modification time, ns since 1970.
        pub mtime: i64,
        /// Change time, ns since 1970: the stamp of the last change.
        pub ctime: i64,
        /// Birth time, ns since 1970.
        pub btime: i64,
        /// Stamp at which `mtime` was set: the higher stamp wins, whatever the value.
        pub mtime_stamp: Stamp,
        /// Device number.
        pub rdev: u32,
        /// The parent of a directory; for others the directory of a name, which is charged for the inode.
        pub parent: InodeId,
        /// Entries of a directory.
        pub entries: u64,
        /// Generation of the file's bytes.
        pub generation: Generation,
        /// Raised by every shrink to more than 0.
        pub cut: u32,
        /// Target of a symlink.
        pub target: Blob;
        /// The name of a directory in its parent; the root has none.
        1 => pub name: Option<Name>,
        /// Position up to which the writes of a file are known, counted by its data node. Up to the floor of that node all are known,
        /// so one that is not above it is left out.
        2 => pub merged: Option<LogSeq>,
        /// Which of those writes were refused.
        3 => pub refused: Option<Refused>,
    }
}

/// Writes of a file that its home has refused, so that who asks again is refused again: their positions, at least one, at most
/// [`REFUSED_MAX`], in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(Box<[LogSeq]>);

impl Refused {
    /// These; none if there are none. They must grow, and be no more than [`REFUSED_MAX`].
    pub fn of(positions: Vec<LogSeq>) -> Result<Option<Refused>, WireError> {
        within_bound(positions.len() as u64)?;
        if !positions.is_sorted_by(|a, b| a < b) {
            return Err(WireError::Bad("order of refused writes"));
        }
        Ok((!positions.is_empty()).then(|| Refused(positions.into())))
    }

    /// Their positions.
    pub fn positions(&self) -> &[LogSeq] {
        &self.0
    }
}

fn within_bound(len: u64) -> Result<(), WireError> {
    let max = REFUSED_MAX as u64;
    if len > max { Err(WireError::TooLong { what: "list of refused writes", len, max }) } else { Ok(()) }
}

impl Stored for Refused {
    fn store(&self, out: &mut Vec<u8>) {
        (self.0.len() as u32).put(out);
        self.0.iter().for_each(|position| position.store(out));
    }

    fn load(r: &mut Reader<'_>) -> Result<Refused, WireError> {
        let len = u32::take(r)?;
        within_bound(len.into())?;
        let positions = (0..len).map(|_| LogSeq::load(r)).collect::<Result<Vec<_>, _>>()?;
        Refused::of(positions)?.ok_or(WireError::Bad("list of refused writes without one"))
    }
}

impl Inode {
    /// An inode of `kind` with no permissions, no times and one link (two for a directory).
    pub fn new(id: InodeId, kind: Kind) -> Inode {
        Inode {
            id,
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            nlink: if kind == Kind::Directory { 2 } else { 1 },
            size: 0,
            blocks: 0,
            blocks_version: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            btime: 0,
            mtime_stamp: Stamp(0),
            rdev: 0,
            parent: InodeId::NONE,
            entries: 0,
            generation: Generation(0),
            cut: 0,
            target: Blob::default(),
            name: None,
            merged: None,
            refused: None,
        }
    }

    /// The size that stat shows: bytes, target length, or for a directory a size that grows with its entries.
    pub fn visible_size(&self) -> u64 {
        match self.kind {
            // What a damaged journal counts goes as far as it can, and fsck tells it.
            Kind::Directory => self.entries.saturating_mul(32).saturating_add(4096),
            Kind::Symlink => self.target.0.len() as u64,
            _ => self.size,
        }
    }

    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Inode {
        Inode::new(InodeId(6), Kind::File)
    }

    #[test]
    fn a_size_goes_as_far_as_it_can() {
        let dir = |entries| Inode { entries, ..Inode::new(InodeId::ROOT, Kind::Directory) }.visible_size();
        assert_eq!([dir(0), dir(3), dir(u64::MAX / 32), dir(u64::MAX)], [4096, 4192, u64::MAX, u64::MAX]);
    }

    fn refused(positions: impl IntoIterator<Item = u64>) -> Result<Option<Refused>, WireError> {
        Refused::of(positions.into_iter().map(LogSeq).collect())
    }

    /// The bytes of an inode without later fields, which others have written: they end with the tag that ends later fields.
    #[test]
    fn an_inode_without_what_is_known_of_its_writes_is_as_before() {
        let bytes = file().to_stored();
        assert_eq!((bytes.len(), bytes.last()), (124, Some(&0)));
        assert_eq!(Inode::from_stored(&bytes), Ok(file()));
        let known = Inode { merged: Some(LogSeq(1 << 40)), refused: refused([7, 1 << 39]).unwrap(), ..file() };
        let longer = known.to_stored();
        assert_eq!(longer[..123], bytes[..123]);
        assert_eq!(longer[123..136], [2, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(longer[136..141], [3, 20, 0, 0, 0]);
        assert_eq!(Inode::from_stored(&longer), Ok(known));
    }

    #[test]
    fn refused_writes_are_bounded_and_in_order() {
        assert_eq!(refused([]), Ok(None));
        let most = refused(0..REFUSED_MAX as u64).unwrap().expect("some");
        let mut bytes = most.to_stored();
        assert_eq!(Refused::from_stored(&bytes).as_ref(), Ok(&most));
        let (what, len, max) = ("list of refused writes", REFUSED_MAX as u64 + 1, REFUSED_MAX as u64);
        let too_many = WireError::TooLong { what, len, max };
        assert_eq!(refused(0..len), Err(too_many));
        LogSeq(len).store(&mut bytes);
        bytes[0] += 1;
        assert_eq!(Refused::from_stored(&bytes), Err(too_many));
        assert_eq!(refused([5, 5]), Err(WireError::Bad("order of refused writes")));
        let two = refused([5, 6]).unwrap().expect("some").to_stored();
        let disordered = [&two[..4], &two[12..], &two[4..12]].concat();
        assert_eq!(Refused::from_stored(&disordered), Err(WireError::Bad("order of refused writes")));
        assert_eq!(Refused::from_stored(&[0; 4]), Err(WireError::Bad("list of refused writes without one")));
        assert_eq!(Refused::from_stored(&two[..19]), Err(WireError::Truncated));
    }
}
