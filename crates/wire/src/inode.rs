//! Types of files.

crate::wire_enum! {
    /// File types, numbered as in `d_type`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
    pub enum Kind {
        /// FIFO.
        1 => Fifo,
        /// Character device.
        2 => CharDevice,
        /// Directory.
        4 => Directory,
        /// Block device.
        6 => BlockDevice,
        /// Regular file.
        8 => File,
        /// Symbolic link.
        10 => Symlink,
        /// Socket.
        12 => Socket,
    }
}

impl Kind {
    /// The S_IFMT bits.
    pub fn mode_bits(self) -> u32 {
        u32::from(self.d_type()) << 12
    }

    /// The number in directory entries.
    pub fn d_type(self) -> u8 {
        match self {
            Kind::Fifo => 1,
            Kind::CharDevice => 2,
            Kind::Directory => 4,
            Kind::BlockDevice => 6,
            Kind::File => 8,
            Kind::Symlink => 10,
            Kind::Socket => 12,
        }
    }

    /// The type of S_IFMT bits; 0 means a regular file, as for mknod(2).
    pub fn from_mode(mode: u32) -> Option<Kind> {
        Some(match mode >> 12 & 0xf {
            1 => Kind::Fifo,
            2 => Kind::CharDevice,
            4 => Kind::Directory,
            6 => Kind::BlockDevice,
            0 | 8 => Kind::File,
            10 => Kind::Symlink,
            12 => Kind::Socket,
            _ => return None,
        })
    }
}
