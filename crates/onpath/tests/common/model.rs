//! What one writer remembers: its own names and files, and what each operation makes of them.

use super::PATIENCE;
use super::check::done;
use super::random::Random;
use super::sys::{self, R, Stat};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// Modes of fallocate(2).
const ALLOCATIONS: [i32; 4] =
    [0, libc::FALLOC_FL_KEEP_SIZE, libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE, libc::FALLOC_FL_ZERO_RANGE];
/// Names a writer keeps at most: enough to make every operation possible, few enough to compare them all after every crash.
const NAMES_MAX: usize = 60;
/// Largest file, bytes: several blocks, one chunk.
const FILE_BYTES_MAX: usize = 24 << 10;

/// The kernel may send a write through its page cache as several requests, one after the other, that end at multiples of this.
const PAGE: usize = 4096;

/// One system call that changes something. Paths are relative to the top.
#[derive(Clone, Debug)]
pub enum Op {
    Create {
        path: String,
        mode: u32,
    },
    /// `direct`: past the page cache, so as one request.
    Write {
        path: String,
        offset: usize,
        bytes: Vec<u8>,
        direct: bool,
    },
    Append {
        path: String,
        bytes: Vec<u8>,
    },
    Truncate {
        path: String,
        size: usize,
    },
    /// fallocate(2) with this mode.
    Allocate {
        path: String,
        mode: i32,
        offset: usize,
        length: usize,
    },
    Empty {
        path: String,
    },
    Chmod {
        path: String,
        mode: u32,
    },
    Mkdir {
        path: String,
        mode: u32,
    },
    Rmdir {
        path: String,
    },
    Symlink {
        target: String,
        path: String,
    },
    Link {
        old: String,
        new: String,
    },
    Unlink {
        path: String,
    },
    Rename {
        old: String,
        new: String,
    },
    /// RENAME_EXCHANGE.
    Exchange {
        old: String,
        new: String,
    },
    /// O_TMPFILE, written, then linked: there whole or not at all.
    Nameless {
        path: String,
        mode: u32,
        bytes: Vec<u8>,
    },
}

#[derive(Clone, Debug)]
enum Node {
    File(u32),
    Dir { mode: u32 },
    Symlink { target: String },
}

#[derive(Clone, Debug)]
struct File {
    mode: u32,
    bytes: Vec<u8>,
}

/// A writer's names.
#[derive(Clone, Debug)]
pub struct Model {
    owner: usize,
    names: BTreeMap<String, Node>,
    files: BTreeMap<u32, File>,
    next: u32,
}

/// What can be seen of a writer's names: by path, one line each.
pub type View = BTreeMap<String, String>;

impl Op {
    /// What it may have done if its answer never came: nothing, the whole, or, where the kernel made several requests of it, the first of
    /// those.
    pub fn possible(&self) -> Vec<Option<Op>> {
        let mut possible = vec![None, Some(self.clone())];
        if let Op::Write { path, offset, bytes, direct: false } = self {
            let ends = (offset / PAGE + 1..).map(|page| page * PAGE).take_while(|end| *end < offset + bytes.len());
            possible.extend(ends.map(|end| {
                let bytes = bytes[..end - offset].to_vec();
                Some(Op::Write { path: path.clone(), offset: *offset, bytes, direct: false })
            }));
        }
        possible
    }

    /// The call itself. A failure to open for writing changes nothing.
    pub fn perform(&self, top: &Path) -> R {
        match self {
            Op::Create { path, mode } => {
                sys::open(top.join(path), libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, *mode).map(drop)
            }
            Op::Write { path, offset, bytes, direct } => {
                let flags = if *direct { libc::O_WRONLY | libc::O_DIRECT } else { libc::O_WRONLY };
                let fd = sys::open(top.join(path), flags, 0)?;
                whole(sys::pwrite(&fd, bytes, *offset as i64)?, bytes)
            }
            Op::Append { path, bytes } => {
                let fd = sys::open(top.join(path), libc::O_WRONLY | libc::O_APPEND | libc::O_DIRECT, 0)?;
                whole(sys::write(&fd, bytes)?, bytes)
            }
            Op::Truncate { path, size } => sys::truncate(top.join(path), *size as i64),
            Op::Allocate { path, mode, offset, length } => {
                let fd = sys::open(top.join(path), libc::O_WRONLY, 0)?;
                sys::fallocate(&fd, *mode, *offset as i64, *length as i64)
            }
            Op::Empty { path } => sys::open(top.join(path), libc::O_WRONLY | libc::O_TRUNC, 0).map(drop),
            Op::Chmod { path, mode } => sys::chmod(top.join(path), *mode),
            Op::Mkdir { path, mode } => sys::mkdir(top.join(path), *mode),
            Op::Rmdir { path } => sys::rmdir(top.join(path)),
            Op::Symlink { target, path } => sys::symlink(target, top.join(path)),
            Op::Link { old, new } => sys::link(top.join(old), top.join(new)),
            Op::Unlink { path } => sys::unlink(top.join(path)),
            Op::Rename { old, new } => sys::rename(top.join(old), top.join(new)),
            Op::Exchange { old, new } => sys::renameat2(top.join(old), top.join(new), libc::RENAME_EXCHANGE),
            Op::Nameless { path, mode, bytes } => {
                let fd = sys::open(top.join(parent(path)), libc::O_TMPFILE | libc::O_RDWR, *mode)?;
                whole(sys::pwrite(&fd, bytes, 0)?, bytes)?;
                sys::linkat(sys::fd_path(&fd), top.join(path), libc::AT_SYMLINK_FOLLOW)
            }
        }
    }
}

impl Op {
    /// The call where other mounts move directories. Linux answers ESTALE for a directory that it still has in its cache under the name from
    /// which another mount has moved it away, always when it should move it, else while there are renames on this mount or somebody is busy
    /// where it was. A look at the new name, as mv(1) takes one, tells it.
    pub fn perform_from_any(&self, top: &Path) -> R {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match self.perform(top) {
                Err(libc::ESTALE) => {}
                result => return result,
            }
            if let Op::Rename { old, new } | Op::Exchange { old, new } = self {
                let _ = [old, new].map(|name| sys::lstat(top.join(name)));
            }
        }
        Err(libc::ESTALE)
    }
}

/// A short write is no success: its rest failed, which only the next write would tell.
fn whole(written: usize, bytes: &[u8]) -> R {
    if written == bytes.len() { Ok(()) } else { Err(libc::EIO) }
}

impl Model {
    /// A writer that has nothing yet.
    pub fn new(owner: usize) -> Model {
        Model { owner, names: BTreeMap::new(), files: BTreeMap::new(), next: 0 }
    }

    /// The writer's number, which its names begin with.
    pub fn owner(&self) -> usize {
        self.owner
    }

    /// Makes up the next operation: one that must succeed. `shared`: directories of everybody.
    pub fn choose(&mut self, shared: &[String], random: &mut Random) -> Op {
        let grow = self.names.len() < NAMES_MAX;
        let die = random.below(100);
        let file = self.some(random, |node| matches!(node, Node::File(_)));
        let empty = self.some_empty_dir(random);
        match (file, empty, die) {
            (Some(path), _, 0..4) => Op::Allocate {
                path,
                mode: *random.of(&ALLOCATIONS),
                offset: random.below(FILE_BYTES_MAX / 2),
                length: 1 + random.below(FILE_BYTES_MAX / 2),
            },
            (Some(path), _, 4..20) => self.some_write(path, random),
            (Some(path), _, 20..26) => Op::Truncate { path, size: random.below(FILE_BYTES_MAX) },
            (Some(path), _, 26..29) => Op::Empty { path },
            (Some(path), _, 29..34) => Op::Chmod { path, mode: 0o600 | random.below(0o200) as u32 },
            (Some(old), _, 34..40) if grow => Op::Link { old, new: self.fresh(shared, random) },
            (Some(path), _, 40..52) => Op::Unlink { path },
            (Some(old), _, 52..60) => Op::Rename { old, new: self.fresh(shared, random) },
            (Some(old), _, 60..66) => {
                let new = self.some(random, |node| matches!(node, Node::File(_))).expect("there is one");
                Op::Rename { old, new }
            }
            (_, Some(old), 66..69) => {
                let parent = random.of(shared).clone();
                Op::Rename { old, new: self.fresh_in(&parent) }
            }
            (_, Some(path), 69..74) => Op::Rmdir { path },
            (_, Some(new), 74..77) => match self.some_dir_besides(&new, random) {
                Some(old) => Op::Rename { old, new },
                None => Op::Rmdir { path: new },
            },
            (_, _, 77..83) if grow => {
                Op::Mkdir { path: self.fresh(shared, random), mode: 0o700 | random.below(0o100) as u32 }
            }
            (_, _, 83..86) if grow => {
                Op::Symlink { target: format!("to/{}", random.below(1000)), path: self.fresh(shared, random) }
            }
            (Some(old), _, 86..91) => match self.some_besides(&old, random) {
                Some(new) => Op::Exchange { old, new },
                None => Op::Unlink { path: old },
            },
            (_, _, 91..94) if grow => {
                let (count, mode) = (1 + random.below(9000), 0o600 | random.below(0o200) as u32);
                Op::Nameless { path: self.fresh(shared, random), mode, bytes: random.bytes(count) }
            }
            (Some(path), _, _) if !grow => Op::Unlink { path },
            (_, Some(path), _) if !grow => Op::Rmdir { path },
            _ => Op::Create { path: self.fresh(shared, random), mode: 0o600 | random.below(0o200) as u32 },
        }
    }

    fn some_write(&self, path: String, random: &mut Random) -> Op {
        let bytes = {
            let count = 1 + random.below(9000);
            random.bytes(count)
        };
        let size = self.file(&path).bytes.len();
        if random.below(3) == 0 && size + bytes.len() <= FILE_BYTES_MAX {
            Op::Append { path, bytes }
        } else {
            let offset = random.below(FILE_BYTES_MAX - bytes.len());
            Op::Write { path, offset, bytes, direct: random.below(2) == 0 }
        }
    }

    fn file(&self, path: &str) -> &File {
        match &self.names[path] {
            Node::File(number) => &self.files[number],
            other => panic!("{path} is {other:?}"),
        }
    }

    fn file_mut(&mut self, path: &str) -> &mut File {
        match &self.names[path] {
            Node::File(number) => self.files.get_mut(number).expect("its file"),
            other => panic!("{path} is {other:?}"),
        }
    }

    fn some(&self, random: &mut Random, wanted: impl Fn(&Node) -> bool) -> Option<String> {
        let found: Vec<&String> = self.names.iter().filter(|(_, node)| wanted(node)).map(|(path, _)| path).collect();
        (!found.is_empty()).then(|| (*random.of(&found)).clone())
    }

    fn is_empty_dir(&self, path: &str) -> bool {
        !self.names.keys().any(|other| is_below(other, path))
    }

    fn some_empty_dir(&self, random: &mut Random) -> Option<String> {
        let dirs = self.dirs();
        let found: Vec<&String> = dirs.iter().filter(|path| self.is_empty_dir(path)).collect();
        (!found.is_empty()).then(|| (*random.of(&found)).clone())
    }

    /// A directory that may be renamed to `target`.
    fn some_dir_besides(&self, target: &str, random: &mut Random) -> Option<String> {
        let mut dirs = self.dirs();
        dirs.retain(|dir| dir != target && !is_below(target, dir));
        (!dirs.is_empty()).then(|| random.of(&dirs).clone())
    }

    /// Something that may change places with `other`.
    fn some_besides(&self, other: &str, random: &mut Random) -> Option<String> {
        let apart = |path: &&String| *path != other && !is_below(other, path) && !is_below(path, other);
        let found: Vec<&String> = self.names.keys().filter(apart).collect();
        (!found.is_empty()).then(|| (*random.of(&found)).clone())
    }

    fn dirs(&self) -> Vec<String> {
        self.names.iter().filter(|(_, node)| matches!(node, Node::Dir { .. })).map(|(path, _)| path.clone()).collect()
    }

    /// A name of this writer that was never used, in a directory of everybody's or in one of its own.
    fn fresh(&mut self, shared: &[String], random: &mut Random) -> String {
        let own: Vec<String> = self.dirs().into_iter().filter(|dir| dir.matches('/').count() < 4).collect();
        let parent = if own.is_empty() || random.below(3) > 0 { random.of(shared) } else { random.of(&own) };
        self.fresh_in(parent)
    }

    fn fresh_in(&mut self, parent: &str) -> String {
        self.next += 1;
        format!("{parent}/w{}-{}", self.owner, self.next)
    }

    /// The change that the operation makes.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { path, mode } => {
                self.next += 1;
                self.files.insert(self.next, File { mode: *mode, bytes: vec![] });
                self.add(path, Node::File(self.next));
            }
            Op::Write { path, offset, bytes, .. } => self.overwrite(path, *offset, bytes),
            Op::Append { path, bytes } => self.overwrite(path, self.file(path).bytes.len(), bytes),
            Op::Truncate { path, size } => self.file_mut(path).bytes.resize(*size, 0),
            Op::Allocate { path, mode, offset, length } => {
                let (content, end) = (&mut self.file_mut(path).bytes, offset + length);
                if mode & libc::FALLOC_FL_KEEP_SIZE == 0 {
                    content.resize(content.len().max(end), 0);
                }
                if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0 {
                    let size = content.len();
                    content[(*offset).min(size)..end.min(size)].fill(0);
                }
            }
            Op::Empty { path } => self.file_mut(path).bytes.clear(),
            Op::Chmod { path, mode } => self.file_mut(path).mode = *mode,
            Op::Mkdir { path, mode } => self.add(path, Node::Dir { mode: *mode }),
            Op::Symlink { target, path } => self.add(path, Node::Symlink { target: target.clone() }),
            Op::Link { old, new } => self.add(new, self.names[old].clone()),
            Op::Unlink { path } | Op::Rmdir { path } => drop(self.names.remove(path)),
            Op::Rename { old, new } => self.rename(old, new),
            Op::Exchange { old, new } => self.exchange(old, new),
            Op::Nameless { path, mode, bytes } => {
                self.apply(&Op::Create { path: path.clone(), mode: *mode });
                self.overwrite(path, 0, bytes);
            }
        }
    }

    fn add(&mut self, path: &str, node: Node) {
        let before = self.names.insert(path.to_owned(), node);
        assert!(before.is_none(), "{path} was there");
    }

    fn overwrite(&mut self, path: &str, offset: usize, bytes: &[u8]) {
        let content = &mut self.file_mut(path).bytes;
        let end = offset + bytes.len();
        content.resize(content.len().max(end), 0);
        content[offset..end].copy_from_slice(bytes);
    }

    fn rename(&mut self, old: &str, new: &str) {
        if let (Node::File(a), Some(Node::File(b))) = (&self.names[old], self.names.get(new))
            && a == b
        {
            return; // two names of one file: POSIX wants nothing done
        }
        self.names.remove(new);
        let moved: Vec<String> =
            self.names.keys().filter(|path| *path == old || is_below(path, old)).cloned().collect();
        for path in moved {
            let node = self.names.remove(&path).expect("just listed");
            self.names.insert(format!("{new}{}", &path[old.len()..]), node);
        }
    }

    fn exchange(&mut self, old: &str, new: &str) {
        let at = |path: &str, dir: &str| path == dir || is_below(path, dir);
        let names = std::mem::take(&mut self.names).into_iter().map(|(path, node)| {
            let path = match (at(&path, old), at(&path, new)) {
                (true, _) => format!("{new}{}", &path[old.len()..]),
                (_, true) => format!("{old}{}", &path[new.len()..]),
                _ => path,
            };
            (path, node)
        });
        self.names = names.collect();
    }

    /// What must be seen.
    pub fn view(&self) -> View {
        let mut first = BTreeMap::new();
        let mut links = BTreeMap::new();
        for (path, node) in &self.names {
            if let Node::File(number) = node {
                first.entry(number).or_insert(path);
                *links.entry(number).or_insert(0) += 1;
            }
        }
        let line = |path: &String, node: &Node| match node {
            Node::Dir { mode } => {
                let subdirs = self.dirs().iter().filter(|dir| parent(dir) == path).count();
                format!("directory {mode:o} nlink {}", 2 + subdirs)
            }
            Node::Symlink { target } => format!("symlink to {target}"),
            Node::File(number) => {
                let file = &self.files[number];
                file_line(file.mode, links[number], first[number], &file.bytes)
            }
        };
        self.names.iter().map(|(path, node)| (path.clone(), line(path, node))).collect()
    }
}

fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

/// The path of the directory a name is in.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn file_line(mode: u32, links: u64, first: &str, bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("file {mode:o} nlink {links} = {first}, {} bytes {:016x}", bytes.len(), hasher.finish())
}

/// Everything below `top` as it is on the mount, the shared directories included.
pub fn observe(top: &Path) -> View {
    let mut stats: BTreeMap<String, Stat> = BTreeMap::new();
    let mut todo = vec![String::new()];
    while let Some(dir) = todo.pop() {
        for name in done(format!("readdir {dir:?}"), sys::names(top.join(&dir))) {
            let name = name.to_str().expect("our names are text");
            let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
            let stat = done(format!("lstat {path}"), sys::lstat(top.join(&path)));
            if stat.kind() == libc::S_IFDIR {
                todo.push(path.clone());
            }
            assert!(stats.insert(path.clone(), stat).is_none(), "{path} was listed twice");
        }
    }
    let mut first = BTreeMap::new();
    for (path, stat) in &stats {
        first.entry(stat.ino).or_insert(path);
    }
    let line = |path: &String, stat: &Stat| match stat.kind() {
        libc::S_IFDIR => format!("directory {:o} nlink {}", stat.perm(), stat.nlink),
        libc::S_IFLNK => {
            let target = done(format!("readlink {path}"), sys::readlink(top.join(path)));
            format!("symlink to {}", target.display())
        }
        kind if kind != libc::S_IFREG => format!("special {:o} nlink {}", stat.mode, stat.nlink),
        _ => {
            let bytes = std::fs::read(top.join(path)).unwrap_or_else(|error| panic!("read {path}: {error}"));
            let size = std::fs::metadata(top.join(path)).unwrap_or_else(|error| panic!("stat {path}: {error}")).size();
            assert_eq!(bytes.len() as u64, size, "size of {path}");
            file_line(stat.perm(), stat.nlink, first[&stat.ino], &bytes)
        }
    };
    stats.iter().map(|(path, stat)| (path.clone(), line(path, stat))).collect()
}

/// The differences in words, few of them.
pub fn differences(expected: &View, got: &View) -> Vec<String> {
    let lost = expected.iter().filter(|(path, line)| got.get(*path) != Some(line)).map(|(path, line)| {
        format!("{path}: expected {line}, got {}", got.get(path).map_or("nothing", String::as_str))
    });
    let extra = got.iter().filter(|(path, _)| !expected.contains_key(*path));
    lost.chain(extra.map(|(path, line)| format!("{path}: unexpected {line}"))).take(12).collect()
}
