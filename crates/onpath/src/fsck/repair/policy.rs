//! Which kinds of findings are repaired, how, and why others are not.

use crate::fsck::code::Code;

/// What a repair does about a finding, or why it does nothing.
pub(in crate::fsck) fn of(code: Code) -> Result<&'static str, &'static str> {
    const BACKUP: &str = "restore DIR from a backup: what the bytes were is not known";
    const FILES: &str = "restore the files from a backup: which bytes are right is not known";
    Ok(match code {
        Code::NoRoot => "an empty root of mode 0700 is made, then it lists its names",
        Code::LostEntry => "the directory lists the name again",
        Code::ExtraEntry => "the directory does not list it any more",
        Code::EntryMismatch => "the directory lists what the name says",
        Code::EntryCount | Code::DirNlink => "the directory counts its listing",
        Code::FileNlink => "the names are counted",
        Code::Dangling => "the name is removed",
        Code::NameKind => "the name says what the inode says",
        Code::NoName => "it gets a name in /lost+found",
        Code::NoDirectory => "the name or listing is removed; what loses its last name by that gets one in /lost+found",
        Code::Parent => "\"..\" leads to where the name is",
        Code::OwnName => "it is called as the name that leads to it",
        Code::FileDirs => "the file says in which directories its names are",
        Code::Cycle => "one of the directories moves to /lost+found",
        Code::SecondName => {
            "the directory's own name stays, or one in the directory where \"..\" leads, or the first one"
        }
        Code::DoubleId => "the one that is not at its home is removed",
        Code::Misplaced => "it moves to its home or site, unless there is one",
        Code::Term => "the birth or term counts as given out, unless it is 0 or beyond what there can be",
        Code::Xattr => "the attribute is removed; with an access ACL the permissions of the group, which were its mask",
        Code::LostXattr => "the attributes are removed",
        Code::StaleWatermark | Code::WatermarkAhead | Code::FloorAhead => {
            "what is in the change-log is applied, then it counts as trimmed"
        }
        Code::LivePending => "it is not asked for any more",
        Code::BlockCount => "the blocks of the data node are counted",
        Code::OrphanChunk => "the bytes are dropped, unless the file has older ones",
        Code::IdKind => return Err("copy it and remove it: nothing says which of the two is right"),
        Code::DecisionLost => return Err("what the participant had promised is not known"),
        Code::BeyondSize => return Err("the size or the blocks may be right: set the size with truncate(1)"),
        Code::SharedBlock
        | Code::NoBlock
        | Code::IndexCount
        | Code::BlockCrc
        | Code::BlockUnreadable
        | Code::BlockMap => {
            return Err(FILES);
        }
        Code::TornTail | Code::Orphan | Code::Undecided | Code::Unfinished | Code::UnsettledBlock => {
            return Err("the next start does it");
        }
        Code::Superblock
        | Code::Version
        | Code::Foreign
        | Code::ImageMissing
        | Code::ImageObject
        | Code::Cookie
        | Code::LogOrder
        | Code::Journal
        | Code::Segment
        | Code::Record
        | Code::DataFile
        | Code::Store
        | Code::Unreadable => return Err(BACKUP),
    })
}
