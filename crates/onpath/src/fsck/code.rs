//! The kinds of findings. Codes are stable: scripts may rely on them; a new kind gets a new number.

use super::repair::policy;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Something is wrong.
    Fault,
    /// A state that the next start resolves by itself.
    Note,
}

macro_rules! codes {
    ($($variant:ident $code:literal $name:literal $severity:ident $meaning:literal),* $(,)?) => {
        /// A kind of finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Code {
            $(#[doc = $meaning] $variant),*
        }

        impl Code {
            const ALL: &[Code] = &[$(Code::$variant),*];

            /// Its stable short code.
            pub(crate) fn code(self) -> &'static str {
                match self { $(Code::$variant => $code),* }
            }

            /// Its name.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Code::$variant => $name),* }
            }

            /// How bad it is.
            pub(crate) fn severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$severity),* }
            }

            fn meaning(self) -> &'static str {
                match self { $(Code::$variant => $meaning),* }
            }
        }
    };
}

codes! {
    Superblock "F01" "superblock" Fault "the superblock does not check",
    Version "F02" "format-version" Fault "a file has another format version or unknown features",
    Foreign "F03" "foreign-file" Fault "a file belongs to another file system or to another place",
    ImageMissing "F06" "range-missing" Fault "a range of a checkpoint is missing",
    ImageObject "F07" "checkpoint-object" Fault "an object of a checkpoint does not decode",
    Cookie "F08" "wrong-cookie" Fault "a listing entry is at another name's position, or two are at one",
    LogOrder "F09" "log-order" Fault "the positions of a change-log do not grow",
    Journal "F10" "journal-damage" Fault "bytes of the journal that were durable cannot be read back",
    Segment "F11" "segment-missing" Fault "batches of the journal are missing",
    Record "F12" "journal-record" Fault "a journal record does not decode or contradicts the state",
    DataFile "F13" "data-file" Fault "a data file is missing or its header does not check",
    Store "F15" "checkpoint-store" Fault "the store of the checkpoint does not check",
    Unreadable "F14" "unreadable" Fault "a file cannot be read",
    NoRoot "F20" "no-root" Fault "there is no root directory",
    LostEntry "F21" "lost-entry" Fault "a name is neither listed by its directory nor on its way there",
    ExtraEntry "F22" "extra-entry" Fault "a directory lists a name that does not exist",
    EntryMismatch "F23" "entry-mismatch" Fault "a listing entry and its name lead to different inodes or types",
    EntryCount "F24" "entry-count" Fault "a directory's entry count is not the length of its listing",
    DirNlink "F25" "dir-nlink" Fault "a directory's nlink is not 2 and its subdirectories",
    FileNlink "F26" "file-nlink" Fault "a file's nlink is not the number of its names",
    Dangling "F27" "dangling-name" Fault "a name leads to an inode that does not exist",
    NameKind "F28" "name-kind" Fault "a name and its inode disagree about the type",
    NoName "F29" "orphan-inode" Fault "an inode with nlink above 0 has no name",
    NoDirectory "F30" "no-directory" Fault "a name or listing belongs to no living directory",
    Parent "F31" "parent-pointer" Fault "a directory's \"..\" is not where its name is",
    Cycle "F32" "directory-cycle" Fault "directories contain each other and cannot be reached",
    SecondName "F33" "second-name" Fault "a directory has more than one name",
    DoubleId "F34" "double-id" Fault "an inode is at two shards",
    Misplaced "F35" "misplaced" Fault "an object is at a shard that is not its home or site",
    Term "F36" "unknown-term" Fault "an id is of a birth, or data are of a term, that was never given out",
    Xattr "F37" "extended-attribute" Fault "an inode has an extended attribute that it cannot have, or an ACL does not check",
    LostXattr "F38" "lost-attribute" Fault "there are extended attributes of an inode that does not exist",
    OwnName "F39" "own-name" Fault "a directory's own name, in its inode, is not the name that leads to it",
    StaleWatermark "F40" "stale-watermark" Fault "a change-log was trimmed beyond what its directory's owner has applied",
    WatermarkAhead "F41" "watermark-ahead" Fault "an owner has applied more of a change-log than its site ever had",
    FloorAhead "F42" "floor-ahead" Fault "a floor is above change-log entries that nobody has applied",
    DecisionLost "F43" "decision-lost" Fault "a transaction is decided, but a participant knows nothing of it",
    FileDirs "F44" "file-directories" Fault "a file does not say in which directories its names are",
    IdKind "F45" "id-kind" Fault "an inode's number says that it is a directory and it is none, or the other way round",
    LivePending "F50" "live-data-pending" Fault "bytes of a living file are about to be dropped or cut",
    BlockCount "F51" "block-count" Fault "an inode's block count is not what the data node has",
    BeyondSize "F52" "beyond-size" Fault "a file has blocks beyond its size",
    OrphanChunk "F53" "orphan-chunk" Fault "the data node has bytes of a file that is gone, and nobody will drop them",
    SharedBlock "F54" "shared-block" Fault "one block holds bytes of two files, or of two places of one",
    NoBlock "F55" "block-beyond-file" Fault "a block lies in a data file that does not exist",
    IndexCount "F56" "index-count" Fault "the data node's own block count is wrong",
    BlockCrc "F57" "block-crc" Fault "a block's bytes do not have their checksum (--data)",
    BlockUnreadable "F58" "block-unreadable" Fault "a block cannot be read (--data)",
    BlockMap "F59" "block-map" Fault "the data node's map of blocks in use is not what its files use",
    TornTail "I01" "torn-tail" Note "the journal ends in a torn batch, of which nothing was acknowledged: the next start cuts it",
    Orphan "I02" "orphan" Note "a removed file or directory that was open: reclaimed after the next start",
    Undecided "I03" "undecided" Note "a prepared transaction without a decision: the next start aborts it",
    Unfinished "I04" "unfinished" Note "a decided transaction that is not carried out everywhere: the next start finishes it",
    UnsettledBlock "I05" "unsettled-block" Note "a block whose bytes a power loss took: the next start puts back what was there (--data)",
}

/// The exit codes, as fsck(8) has them.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 clean, 1 all faults were repaired, 4 there are faults, 5 some were repaired, \
8 the check or the repair could not be made, 16 wrong use, 32 cancelled by a signal such as Ctrl-C (33 after a repair).";

/// All codes, what they mean and what --repair does about them, for the help.
pub(crate) fn table() -> String {
    let line = |code: &Code| {
        let repair = match policy::of(*code) {
            Ok(how) => format!("--repair: {how}"),
            Err(why) => format!("not repaired: {why}"),
        };
        format!("  {} {:<20} {}\n      {repair}\n", code.code(), code.name(), code.meaning())
    };
    let codes: String = Code::ALL.iter().map(line).collect();
    format!("{EXIT_CODES}\n\nFindings (F: faults, I: notes):\n{codes}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_a_code_of_its_own() {
        let all = |of: fn(Code) -> &'static str| Code::ALL.iter().map(|code| of(*code)).collect::<BTreeSet<_>>();
        assert_eq!((all(Code::code).len(), all(Code::name).len()), (Code::ALL.len(), Code::ALL.len()));
    }
}
