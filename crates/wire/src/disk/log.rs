//! An update of a directory by one name, as records and checkpoints have it.

use crate::ids::{InodeId, LogSeq, Stamp};
use crate::inode::Kind;
use crate::name::Name;
use crate::peer::LogEntry;
use crate::stored_struct;

stored_struct! {
    /// The last operation on a name.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Entry {
        /// Position.
        pub seq: LogSeq,
        /// When.
        pub stamp: Stamp,
        /// The name is there afterwards; else it is gone.
        pub put: bool,
        /// The name.
        pub name: Name,
        /// What it leads to (or led to).
        pub child: InodeId,
        /// Type of the child.
        pub kind: Kind,
        /// Change of the entry count.
        pub dcount: i8,
        /// Change of the directory's nlink.
        pub dnlink: i8,
    }
}

impl From<LogEntry> for Entry {
    fn from(entry: LogEntry) -> Entry {
        let LogEntry { seq, stamp, put, name, child, kind, dcount, dnlink } = entry;
        Entry { seq, stamp, put, name, child, kind, dcount, dnlink }
    }
}

impl From<Entry> for LogEntry {
    fn from(entry: Entry) -> LogEntry {
        let Entry { seq, stamp, put, name, child, kind, dcount, dnlink } = entry;
        LogEntry { seq, stamp, put, name, child, kind, dcount, dnlink }
    }
}
