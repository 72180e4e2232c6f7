//! What one mount shows of a tree, to be compared with what another one shows.

use super::check::{done, errno_name};
use super::sys::{self, Stat};
use super::xattr::{lgetxattr, listxattr};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// A line of text an object, by path; times of access are left out, since looking moves them.
pub type View = BTreeMap<PathBuf, String>;

/// Everything below `top`, and `top`. Fails the test where listings and attributes of one and the same mount contradict each other.
pub fn look(top: &Path) -> View {
    let mut stats = BTreeMap::new();
    let mut todo = vec![PathBuf::new()];
    stats.insert(PathBuf::new(), done("stat of the top", sys::lstat(top)));
    while let Some(dir) = todo.pop() {
        let fd = done(format!("open {dir:?}"), sys::open(top.join(&dir), libc::O_RDONLY | libc::O_DIRECTORY, 0));
        let mut subdirs = 0;
        for entry in done(format!("readdir {dir:?}"), sys::entries(fd)) {
            let path = dir.join(&entry.name);
            let stat = done(format!("lstat {path:?}"), sys::lstat(top.join(&path)));
            assert_eq!(
                (entry.ino, u32::from(entry.kind)),
                (stat.ino, stat.kind() >> 12),
                "entry and inode of {path:?}"
            );
            if stat.kind() == libc::S_IFDIR {
                subdirs += 1;
                todo.push(path.clone());
            }
            assert!(stats.insert(path.clone(), stat).is_none(), "{path:?} was listed twice");
        }
        // ext4 counts no directories where there are very many; here are few.
        assert_eq!(stats[&dir].nlink, 2 + subdirs, "links of {dir:?}");
    }
    assert_links(&stats, top);
    stats.iter().map(|(path, stat)| (path.clone(), describe(&top.join(path), stat))).collect()
}

/// Every inode has as many links as names.
fn assert_links(stats: &BTreeMap<PathBuf, Stat>, top: &Path) {
    let mut names: BTreeMap<u64, u64> = BTreeMap::new();
    let others = || stats.iter().filter(|(_, stat)| stat.kind() != libc::S_IFDIR);
    for (_, stat) in others() {
        *names.entry(stat.ino).or_default() += 1;
    }
    for (path, stat) in others() {
        assert_eq!(stat.nlink, names[&stat.ino], "links and names of {path:?} in {}", top.display());
    }
}

fn describe(path: &Path, stat: &Stat) -> String {
    let mut line = format!(
        "inode {} {:o} {}:{} nlink {} rdev {} size {} blocks {} mtime {:?} ctime {:?}",
        stat.ino, stat.mode, stat.uid, stat.gid, stat.nlink, stat.rdev, stat.size, stat.blocks, stat.mtime, stat.ctime
    );
    if stat.kind() == libc::S_IFREG {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
        assert_eq!(bytes.len() as i64, stat.size, "size of {}", path.display());
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let _ = write!(line, " content {:016x}", hasher.finish());
    }
    if stat.kind() == libc::S_IFLNK {
        let target = done(format!("readlink {}", path.display()), sys::readlink(path));
        let _ = write!(line, " → {}", target.display());
    } else if matches!(stat.kind(), libc::S_IFREG | libc::S_IFDIR) {
        for name in done(format!("listxattr {}", path.display()), listxattr(path)) {
            let value = lgetxattr(path, &name)
                .unwrap_or_else(|errno| panic!("{name} of {}: {}", path.display(), errno_name(errno)));
            let _ = write!(line, " {name}={value:?}");
        }
    }
    line
}

/// Fails the test unless both are the same; shows the first differences.
pub fn assert_same(what: &str, expected: &View, got: &View) {
    let lost = expected.iter().filter(|(path, line)| got.get(*path) != Some(line)).map(|(path, line)| {
        format!("{}:\n    {line}\n    {}", path.display(), got.get(path).map_or("nothing", String::as_str))
    });
    let extra = got.iter().filter(|(path, _)| !expected.contains_key(*path));
    let all: Vec<String> =
        lost.chain(extra.map(|(path, line)| format!("{}:\n    nothing\n    {line}", path.display()))).collect();
    let shown = &all[..all.len().min(10)];
    assert!(all.is_empty(), "{what}: {} of {} objects differ\n  {}", all.len(), expected.len(), shown.join("\n  "));
}
