//! Checked pairs: a change on one mount has returned, then the other is asked. `ONPATH_PAIRS` says how many.

use crate::common::check::{content, done};
use crate::common::random::Random;
use crate::common::sys::{self, R, Time, at};
use crate::common::{number_from_env, report};
use crate::two_mounts::Pair;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const DIRS: usize = 6;
/// Names in a directory at most, so that whole listings can be compared every time.
const NAMES_MAX: usize = 24;
const FILE_BYTES_MAX: usize = 20_000;

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    mode: u32,
    /// If set explicitly and nothing changed it since.
    mtime: Option<Time>,
    /// Held open on one of the mounts.
    held: Option<(usize, OwnedFd)>,
}

struct Dir {
    files: BTreeMap<String, File>,
    subdirs: BTreeSet<String>,
    /// The latest mtime that was seen, on any mount.
    mtime: Time,
}

/// What must be there, and where the next change is made.
struct World {
    tops: [PathBuf; 2],
    dirs: Vec<Dir>,
    random: Random,
    next: usize,
    pairs: usize,
}

/// One change is made on mount `here`, then looked at on mount `there`.
#[derive(Clone, Copy)]
struct Turn {
    here: usize,
    there: usize,
}

impl World {
    fn new(tops: [PathBuf; 2], seed: u64) -> World {
        let dir = |n: usize| {
            let path = tops[n % 2].join(format!("d{n}"));
            done("mkdir", sys::mkdir(&path, 0o755));
            Dir { files: BTreeMap::new(), subdirs: BTreeSet::new(), mtime: done("stat", sys::stat(&path)).mtime }
        };
        let dirs = (0..DIRS).map(dir).collect();
        World { tops, dirs, random: Random::new(seed), next: 0, pairs: 0 }
    }

    fn path(&self, mount: usize, dir: usize, name: &str) -> PathBuf {
        self.tops[mount].join(format!("d{dir}")).join(name)
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("n{}", self.next)
    }

    fn some_file(&mut self, dir: usize) -> Option<String> {
        let names: Vec<&String> = self.dirs[dir].files.keys().collect();
        (!names.is_empty()).then(|| (*self.random.of(&names)).clone())
    }

    fn step(&mut self) {
        let here = self.pairs % 2;
        let turn = Turn { here, there: 1 - here };
        let dir = self.random.below(DIRS);
        let crowded = self.dirs[dir].files.len() + self.dirs[dir].subdirs.len() >= NAMES_MAX;
        let file = self.some_file(dir);
        match (self.random.below(16), file) {
            (0..3, _) | (_, None) if !crowded => self.create(turn, dir),
            (3, _) if !crowded => self.mkdir(turn, dir),
            (4, _) if !self.dirs[dir].subdirs.is_empty() => self.rmdir(turn, dir),
            (5, Some(name)) => self.chmod(turn, dir, &name),
            (6, Some(name)) => self.utimens(turn, dir, &name),
            (7..10, Some(name)) => self.write(turn, dir, &name),
            (10, Some(name)) => self.truncate(turn, dir, &name),
            (11, Some(name)) => self.rename(turn, dir, &name),
            (12, Some(name)) => self.link(turn, dir, &name),
            (13, Some(name)) => self.hold(turn, dir, &name),
            (14, _) => self.list(turn, dir),
            (_, Some(name)) => self.unlink(turn, dir, &name),
            (_, None) => self.list(turn, dir),
        }
        self.pairs += 1;
    }

    /// What the other mount says about the directory after a change of its names: count, nlink, and a later mtime.
    fn look_at_dir(&mut self, mount: usize, dir: usize, what: &str) {
        let path = self.path(mount, dir, "");
        let stat = done(what, sys::stat(&path));
        let state = &mut self.dirs[dir];
        assert_eq!(stat.nlink, 2 + state.subdirs.len() as u64, "{what}: nlink of d{dir}");
        assert!(stat.mtime > state.mtime, "{what}: mtime of d{dir}: {:?} → {:?}", state.mtime, stat.mtime);
        assert!(stat.ctime >= stat.mtime, "{what}: ctime of d{dir}");
        state.mtime = stat.mtime;
    }

    fn list(&mut self, turn: Turn, dir: usize) {
        let expected: BTreeSet<String> = self.dirs[dir].files.keys().chain(&self.dirs[dir].subdirs).cloned().collect();
        let got = done("readdir", sys::names(self.path(turn.there, dir, "")));
        let got: BTreeSet<String> = got.into_iter().map(|name| name.into_string().expect("text")).collect();
        assert_eq!(got, expected, "names of d{dir}");
    }

    fn create(&mut self, turn: Turn, dir: usize) {
        let name = self.fresh();
        assert_missing(&self.path(turn.there, dir, &name));
        let mode = 0o600 | self.random.below(0o100) as u32;
        done(
            "create",
            sys::open(self.path(turn.here, dir, &name), libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, mode),
        );
        self.dirs[dir].files.insert(name.clone(), File { mode, ..File::default() });
        self.look_at_file(turn.there, dir, &name, "create");
        self.look_at_dir(turn.there, dir, "create");
    }

    fn look_at_file(&self, mount: usize, dir: usize, name: &str, what: &str) {
        let path = self.path(mount, dir, name);
        let file = &self.dirs[dir].files[name];
        let stat = done(what, sys::stat(&path));
        assert_eq!((stat.size, stat.perm()), (file.bytes.len() as i64, file.mode), "{what}: {}", path.display());
        if let Some(mtime) = file.mtime {
            assert_eq!(stat.mtime, mtime, "{what}: mtime of {}", path.display());
        }
    }

    fn mkdir(&mut self, turn: Turn, dir: usize) {
        let name = self.fresh();
        done("mkdir", sys::mkdir(self.path(turn.here, dir, &name), 0o750));
        self.dirs[dir].subdirs.insert(name.clone());
        let stat = done("stat of a new directory", sys::stat(self.path(turn.there, dir, &name)));
        assert_eq!((stat.mode, stat.nlink), (libc::S_IFDIR | 0o750, 2));
        self.look_at_dir(turn.there, dir, "mkdir");
    }

    fn rmdir(&mut self, turn: Turn, dir: usize) {
        let name = self.dirs[dir].subdirs.pop_first().expect("asked before");
        done("stat before rmdir", sys::stat(self.path(turn.there, dir, &name)));
        done("rmdir", sys::rmdir(self.path(turn.here, dir, &name)));
        assert_missing(&self.path(turn.there, dir, &name));
        self.look_at_dir(turn.there, dir, "rmdir");
    }

    fn chmod(&mut self, turn: Turn, dir: usize, name: &str) {
        let mode = self.random.below(0o1000) as u32 | 0o600;
        done("chmod", sys::chmod(self.path(turn.here, dir, name), mode));
        self.dirs[dir].files.get_mut(name).expect("a file").mode = mode;
        self.look_at_file(turn.there, dir, name, "chmod");
    }

    fn utimens(&mut self, turn: Turn, dir: usize, name: &str) {
        let time = at(1_000_000_000 + self.random.below(1_000_000_000) as i64, self.random.below(1_000_000_000) as i64);
        done("utimensat", sys::utimens(self.path(turn.here, dir, name), [time, time]));
        self.dirs[dir].files.get_mut(name).expect("a file").mtime = Some(time);
        self.look_at_file(turn.there, dir, name, "utimensat");
    }

    /// A new write is seen through the name, and through a descriptor that was open before.
    fn write(&mut self, turn: Turn, dir: usize, name: &str) {
        let path = self.path(turn.here, dir, name);
        let count = 1 + self.random.below(6000);
        let bytes = self.random.bytes(count);
        let size = self.dirs[dir].files[name].bytes.len();
        let append = self.random.below(2) == 0 && size + count <= FILE_BYTES_MAX;
        let (flag, offset) =
            if append { (libc::O_APPEND, size) } else { (0, self.random.below(FILE_BYTES_MAX - count)) };
        let fd = done("open for writing", sys::open(path, libc::O_WRONLY | flag, 0));
        assert_eq!(done("pwrite", sys::pwrite(fd, &bytes, offset as i64)), count);
        let file = self.dirs[dir].files.get_mut(name).expect("a file");
        file.mtime = None;
        file.bytes.resize(size.max(offset + count), 0);
        file.bytes[offset..offset + count].copy_from_slice(&bytes);
        self.look_at_content(turn.there, dir, name, "write");
    }

    fn truncate(&mut self, turn: Turn, dir: usize, name: &str) {
        let size = self.random.below(FILE_BYTES_MAX);
        done("truncate", sys::truncate(self.path(turn.here, dir, name), size as i64));
        let file = self.dirs[dir].files.get_mut(name).expect("a file");
        file.mtime = None;
        file.bytes.resize(size, 0);
        self.look_at_content(turn.there, dir, name, "truncate");
    }

    fn look_at_content(&self, mount: usize, dir: usize, name: &str, what: &str) {
        let path = self.path(mount, dir, name);
        let file = &self.dirs[dir].files[name];
        let same = |got: &[u8], how: &str| {
            assert_eq!(got.len(), file.bytes.len(), "{what}: length of {} by {how}", path.display());
            let wrong = (0..got.len()).find(|&i| got[i] != file.bytes[i]);
            assert_eq!(wrong, None, "{what}: first wrong byte of {} by {how}", path.display());
        };
        self.look_at_file(mount, dir, name, what);
        same(&content(&path), "its name");
        if let Some((_, fd)) = &file.held {
            assert_eq!(done("fstat", sys::fstat(fd)).size, file.bytes.len() as i64, "{what}: {}", path.display());
            same(&done("pread", sys::pread(fd, FILE_BYTES_MAX, 0)), "a descriptor");
        }
    }

    /// From now on the file is open on one mount, or on none.
    fn hold(&mut self, turn: Turn, dir: usize, name: &str) {
        let path = self.path(turn.here, dir, name);
        let file = self.dirs[dir].files.get_mut(name).expect("a file");
        file.held = match file.held {
            Some(_) => None,
            None => Some((turn.here, done("open", sys::open(path, libc::O_RDONLY, 0)))),
        };
        self.look_at_content(turn.there, dir, name, "open or close");
    }

    fn rename(&mut self, turn: Turn, dir: usize, name: &str) {
        let over = self.random.below(3) == 0;
        let to = self.random.below(DIRS);
        let new = match self.some_file(to) {
            Some(existing) if over && (to, existing.as_str()) != (dir, name) => existing,
            _ => self.fresh(),
        };
        done("stat before rename", sys::stat(self.path(turn.there, dir, name)));
        done("rename", sys::rename(self.path(turn.here, dir, name), self.path(turn.here, to, &new)));
        let file = self.dirs[dir].files.remove(name).expect("a file");
        self.dirs[to].files.insert(new.clone(), file);
        assert_missing(&self.path(turn.there, dir, name));
        self.look_at_content(turn.there, to, &new, "rename");
        self.look_at_dir(turn.there, dir, "rename from");
        if dir != to {
            self.look_at_dir(turn.there, to, "rename to");
        }
    }

    /// A second name, which goes away again on the other mount.
    fn link(&mut self, turn: Turn, dir: usize, name: &str) {
        let new = self.fresh();
        let links = |world: &World, mount| done("stat", sys::stat(world.path(mount, dir, name))).nlink;
        done("link", sys::link(self.path(turn.here, dir, name), self.path(turn.here, dir, &new)));
        assert_eq!(links(self, turn.there), 2, "nlink after link");
        let inode = |name: &str| done("stat", sys::stat(self.path(turn.there, dir, name))).ino;
        assert_eq!(inode(name), inode(&new), "inode numbers after link");
        self.look_at_dir(turn.there, dir, "link");
        done("unlink", sys::unlink(self.path(turn.there, dir, &new)));
        assert_eq!(links(self, turn.here), 1, "nlink after unlink");
        assert_missing(&self.path(turn.here, dir, &new));
        self.look_at_dir(turn.here, dir, "unlink of a link");
        self.pairs += 1;
    }

    fn unlink(&mut self, turn: Turn, dir: usize, name: &str) {
        done("stat before unlink", sys::stat(self.path(turn.there, dir, name)));
        done("unlink", sys::unlink(self.path(turn.here, dir, name)));
        let file = self.dirs[dir].files.remove(name).expect("a file");
        assert_missing(&self.path(turn.there, dir, name));
        self.look_at_dir(turn.there, dir, "unlink");
        if let Some((_, fd)) = file.held {
            assert_eq!(done("fstat", sys::fstat(&fd)).nlink, 0, "nlink of an open file without a name");
            assert_eq!(done("pread", sys::pread(&fd, FILE_BYTES_MAX, 0)), file.bytes, "content of it");
        }
    }
}

fn assert_missing(path: &Path) {
    let result: R<_> = sys::lstat(path);
    assert!(result == Err(libc::ENOENT), "{} must be missing, got {result:?}", path.display());
}

#[test]
fn what_one_mount_changed_the_other_sees() {
    let Some(pair) = Pair::new("checked pairs", &["--shards", "4"]) else { return };
    let wanted = number_from_env("ONPATH_PAIRS", 10_000);
    let mut world = World::new(pair.both(""), 21);
    while world.pairs < wanted {
        world.step();
    }
    for dir in 0..DIRS {
        for here in 0..2 {
            world.list(Turn { here, there: 1 - here }, dir);
        }
    }
    report(&format!("two mounts: {} checked pairs", world.pairs));
    drop(world);
    pair.stop("after the pairs");
}
