//! Names lead to inodes of their type, and inodes count their names.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::{Named, View};
use onpath_wire::disk::inode::Inode;
use onpath_wire::ids::InodeId;

pub(super) fn check(view: &View, report: &mut Report) {
    view.doubtful_names(&mut |(parent, name), target| {
        let finding = |code, message: String| {
            Finding::new(code, message)
                .inode(target.child)
                .path(view.path_in(*parent, name))
                .shard(view.map.home(target.child))
        };
        match view.inodes.get(&target.child) {
            None => {
                let message =
                    format!("the name {name:?} of directory {:#x} leads to an inode that does not exist", parent.0);
                report.add(finding(Code::Dangling, message));
            }
            Some(inode) if inode.kind != target.kind => {
                let message = format!("the name {name:?} says {:?}, the inode is {:?}", target.kind, inode.kind);
                report.add(finding(Code::NameKind, message));
            }
            Some(_) => {}
        }
    });
    for named in view.named().filter(|named| named.inode.id != InodeId::ROOT) {
        if named.inode.is_dir() { directory(view, &named, report) } else { file(view, &named, report) }
    }
}

fn finding(view: &View, inode: &Inode, code: Code, message: String) -> Finding {
    Finding::new(code, message).inode(inode.id).shard(view.map.home(inode.id)).path(view.path(inode.id))
}

fn file(view: &View, Named { inode, count, .. }: &Named, report: &mut Report) {
    let names = *count as i64;
    let nlink = i64::from(inode.nlink) + view.promised.links.get(&inode.id).copied().unwrap_or(0);
    if names == 0 && nlink > 0 {
        let message = format!("{:?} with nlink {nlink}, but no name leads to it", inode.kind);
        report.add(finding(view, inode, Code::NoName, message));
    } else if names != nlink {
        report.add(finding(view, inode, Code::FileNlink, format!("nlink is {nlink}, but {names} names lead to it")));
    } else if inode.nlink == 0 {
        let message = format!("a removed {:?} of {} bytes", inode.kind, inode.size);
        report.add(finding(view, inode, Code::Orphan, message));
    }
}

fn directory(view: &View, Named { inode, names, .. }: &Named, report: &mut Report) {
    match (names.as_slice(), inode.nlink) {
        ([], 0) => report.add(finding(view, inode, Code::Orphan, "a removed directory".into())),
        ([], _) if view.promised.removed.contains(&inode.id) => {}
        ([], _) => report.add(finding(view, inode, Code::NoName, "a directory to which no name leads".into())),
        (_, 0) => report.add(finding(view, inode, Code::DirNlink, "nlink is 0, but the directory has a name".into())),
        ([_], _) => {}
        (more, _) => {
            let all: Vec<String> = more.iter().filter_map(|(parent, name)| view.path_in(*parent, name)).collect();
            let message = format!("a directory with {} names: {}", more.len(), all.join(", "));
            report.add(finding(view, inode, Code::SecondName, message));
        }
    }
}
