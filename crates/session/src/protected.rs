//! What proc(5) calls protected_symlinks, protected_regular, protected_fifos and protected_hardlinks. The shard says of a name whether its directory is
//! one of those that matter ([`flag::STICKY_FOR_ALL`], [`flag::STICKY_FOR_GROUP`]); the rest is decided where the caller is, as that host has it set.

use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::inode::Kind;

/// Flags of names that may be protected.
pub const STICKY: u8 = flag::STICKY_FOR_ALL | flag::STICKY_FOR_GROUP;

/// The settings of a host: 0 is off, 1 on, 2 in directories that a group may write as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// fs.protected_symlinks
    pub symlinks: u8,
    /// fs.protected_regular
    pub regular: u8,
    /// fs.protected_fifos
    pub fifos: u8,
    /// fs.protected_hardlinks
    pub hardlinks: u8,
}

impl Levels {
    /// By `read`, which gives the text of a file. What cannot be read counts as on.
    pub fn read(read: impl Fn(&str) -> Option<String>) -> Levels {
        let level = |name| {
            read(&format!("/proc/sys/fs/protected_{name}")).and_then(|text| text.trim().parse().ok()).unwrap_or(1)
        };
        let [symlinks, regular, fifos, hardlinks] = ["symlinks", "regular", "fifos", "hardlinks"].map(level);
        Levels { symlinks, regular, fifos, hardlinks }
    }

    /// Whether somebody else's files get no further names.
    pub fn keeps_links(self) -> bool {
        self.hardlinks != 0
    }

    /// Whether who does not own an inode found by name is kept from it.
    pub fn keeps(self, attr: &AttrWire) -> bool {
        let level = match attr.kind {
            Kind::Symlink => self.symlinks.min(1),
            Kind::File => self.regular,
            Kind::Fifo => self.fifos,
            _ => 0,
        };
        attr.flags & flag::STICKY_FOR_ALL != 0 && level > 0 || attr.flags & flag::STICKY_FOR_GROUP != 0 && level > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::disk::inode::Inode;
    use onpath_wire::ids::InodeId;

    #[test]
    fn the_level_and_the_directory_decide() {
        let levels = |level| Levels { symlinks: level, regular: level, fifos: level, hardlinks: level };
        for (kind, flags, from) in [
            (Kind::Symlink, flag::STICKY_FOR_ALL, 1),
            (Kind::File, flag::STICKY_FOR_ALL, 1),
            (Kind::Fifo, flag::STICKY_FOR_ALL, 1),
            (Kind::File, flag::STICKY_FOR_GROUP, 2),
            (Kind::Fifo, flag::STICKY_FOR_GROUP, 2),
            (Kind::Symlink, flag::STICKY_FOR_GROUP, 3),
            (Kind::Directory, flag::STICKY_FOR_ALL, 3),
            (Kind::File, flag::SEARCHABLE, 3),
        ] {
            let attr = AttrWire { flags, ..AttrWire::of(&Inode::new(InodeId(9), kind)) };
            for level in 0..3 {
                assert_eq!(levels(level).keeps(&attr), level >= from, "{kind:?} {flags} {level}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_on() {
        let levels = Levels::read(|name| (name == "/proc/sys/fs/protected_fifos").then(|| "2\n".to_owned()));
        assert_eq!(levels, Levels { symlinks: 1, regular: 1, fifos: 2, hardlinks: 1 });
        assert!(levels.keeps_links());
    }
}
