//! What others than its operation must know of a request of the mount, said once for each kind.

use super::FsOp;
use onpath_wire::ids::InodeId;
use onpath_wire::request::set;
use onpath_wire::xattr::ACL_ACCESS;

/// What a request changes of the file or directory that it is about; of a copy, of the one that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Nothing, or names in it.
    Nothing,
    /// Attributes, which are told in the answer, or bytes: a kernel that passes the request on takes notice.
    Noticed,
    /// Attributes or bytes, in a way that a kernel does not take notice of when it passes the request on.
    Unnoticed,
}

/// What of that which the homes have not been told yet ([`crate::limits::LATER_US`]) an answer would show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Nothing.
    Nothing,
    /// When this inode was read.
    Access(InodeId),
    /// That, or that something is still open.
    Everything,
}

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsDescription {
    /// Directories of which it changes names; both if a name moves from one to the other.
    pub directories: [Option<InodeId>; 2],
    /// What it changes of its file or directory.
    pub changed: Changed,
    /// It may take the right to search its directory, or to follow names in it, away from somebody.
    pub closes: bool,
    /// What its answer would show.
    pub shows: Shows,
}

impl FsOp {
    /// What there is to know of it.
    #[inline]
    pub fn describe(&self) -> FsDescription {
        use Changed::{Nothing, Noticed, Unnoticed};
        let say = |directories, changed, closes, shows| FsDescription { directories, changed, closes, shows };
        let looks = |shows| say([None, None], Nothing, false, shows);
        let names = |directory: &InodeId, shows| say([Some(*directory), None], Nothing, false, shows);
        let changes = |changed| say([None, None], changed, false, Shows::Nothing);
        match self {
            FsOp::Make { parent, .. } | FsOp::Create { parent, .. } => names(parent, Shows::Nothing),
            FsOp::Link { parent, .. } | FsOp::Unlink { parent, .. } | FsOp::Rmdir { parent, .. } => {
                names(parent, Shows::Everything)
            }
            FsOp::Rename { from_parent, parent, .. } if from_parent == parent => names(parent, Shows::Everything),
            FsOp::Rename { from_parent, parent, .. } => {
                say([Some(*from_parent), Some(*parent)], Nothing, false, Shows::Everything)
            }
            FsOp::SetAttr { set, .. } => say([None, None], Noticed, set.valid & set::MODE != 0, Shows::Everything),
            FsOp::SetXattr { name, .. } => say([None, None], Unnoticed, name.as_bytes() == ACL_ACCESS, Shows::Nothing),
            FsOp::RemoveXattr { .. } | FsOp::Allocate { .. } | FsOp::Copy { .. } | FsOp::Write { page: true, .. } => {
                changes(Unnoticed)
            }
            FsOp::Write { page: false, .. } => changes(Noticed),
            FsOp::Open { mode, .. } => changes(if mode.truncate { Noticed } else { Nothing }),
            FsOp::GetAttr { id, .. } => looks(Shows::Access(*id)),
            FsOp::StatFs => looks(Shows::Everything),
            FsOp::Lookup { .. }
            | FsOp::LookupId { .. }
            | FsOp::Resolve { .. }
            | FsOp::LookupParent { .. }
            | FsOp::TmpFile { .. }
            | FsOp::ReadLink { .. }
            | FsOp::Read { .. }
            | FsOp::Flush { .. }
            | FsOp::Release { .. }
            | FsOp::Seek { .. }
            | FsOp::Fsync { .. }
            | FsOp::OpenDir { .. }
            | FsOp::ReadDir { .. }
            | FsOp::ReadDirPlus { .. }
            | FsOp::ReleaseDir { .. }
            | FsOp::Access { .. }
            | FsOp::GetXattr { .. }
            | FsOp::ListXattr { .. }
            | FsOp::TestLock { .. }
            | FsOp::SetLock { .. }
            | FsOp::Interrupt { .. } => looks(Shows::Nothing),
        }
    }
}
