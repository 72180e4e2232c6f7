//! What is known of a file.

use onpath_wire::attr::AttrWire;
use onpath_wire::inode::Kind;

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FileType {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

/// What stat(2) tells. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Inode number: the same in each mount.
    pub ino: u64,
    /// What it is.
    pub file_type: FileType,
    /// Permission bits including setuid, setgid and sticky.
    pub permissions: u32,
    /// Number of its names; of a directory 2 and its subdirectories.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes that it takes.
    pub blocks: u64,
    /// Of a device: major and minor number, as the kernel packs them.
    pub rdev: u64,
    /// Access time.
    pub atime: i64,
    /// Modification time.
    pub mtime: i64,
    /// Change time.
    pub ctime: i64,
    /// When it was made; of an entry of a listing not known.
    pub btime: Option<i64>,
    /// Another number after each change of its bytes, names, owner or permissions; the higher one is the later one.
    pub change: u64,
}

impl From<Kind> for FileType {
    fn from(kind: Kind) -> FileType {
        match kind {
            Kind::File => FileType::File,
            Kind::Directory => FileType::Directory,
            Kind::Symlink => FileType::Symlink,
            Kind::Fifo => FileType::Fifo,
            Kind::Socket => FileType::Socket,
            Kind::CharDevice => FileType::CharDevice,
            Kind::BlockDevice => FileType::BlockDevice,
        }
    }
}

impl FileType {
    pub(crate) fn kind(self) -> Kind {
        match self {
            FileType::File => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::CharDevice => Kind::CharDevice,
            FileType::BlockDevice => Kind::BlockDevice,
        }
    }

    /// What stat(1) calls it.
    pub fn describe(self) -> &'static str {
        match self {
            FileType::File => "regular file",
            FileType::Directory => "directory",
            FileType::Symlink => "symbolic link",
            FileType::Fifo => "fifo",
            FileType::Socket => "socket",
            FileType::CharDevice => "character special file",
            FileType::BlockDevice => "block special file",
        }
    }
}

impl Metadata {
    pub(crate) fn of(attr: &AttrWire, btime: Option<i64>) -> Metadata {
        let AttrWire { id, mode, nlink, uid, gid, size, atime, mtime, ctime, .. } = *attr;
        let (blocks, rdev) = (attr.blocks(), u64::from(attr.rdev()));
        let (file_type, permissions) = (FileType::from(attr.kind), u32::from(mode));
        // A change time is the stamp of the change: no two changes of an inode have the same.
        let (ino, change) = (id.0, ctime as u64);
        Metadata {
            ino,
            file_type,
            permissions,
            nlink,
            uid,
            gid,
            size,
            blocks,
            rdev,
            atime,
            mtime,
            ctime,
            btime,
            change,
        }
    }

    /// Type and permissions as st_mode has them.
    pub fn mode(&self) -> u32 {
        let file_type = match self.file_type {
            FileType::Fifo => 0o010_000,
            FileType::CharDevice => 0o020_000,
            FileType::Directory => 0o040_000,
            FileType::BlockDevice => 0o060_000,
            FileType::File => 0o100_000,
            FileType::Symlink => 0o120_000,
            FileType::Socket => 0o140_000,
        };
        file_type | self.permissions
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }
}
