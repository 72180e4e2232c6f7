//! A full disk: DIR on a file system of 64 MiB is filled, emptied and filled again, with kill -9 in between.
//!
//! `ONPATH_FULL_ROUNDS` says how often. Needs losetup and mkfs.ext4; without them it is skipped with a reason.

use crate::common::check::errno_name;
use crate::common::disk::Disk;
use crate::common::random::Random;
use crate::common::server::{Mount, Site, assert_clean};
use crate::common::sys::{self, R};
use crate::common::{number_from_env, report, skipped, wait_until};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const DISK_BYTES: u64 = 64 << 20;
/// Files that may be made without content while the disk is full.
const EMPTY_FILES: usize = 300;

/// What must be in the file system: the seed and length of each file.
struct Files {
    files: BTreeMap<String, (u64, usize)>,
    next: u64,
    random: Random,
}

fn bytes_of(seed: u64, length: usize) -> Vec<u8> {
    Random::new(seed).bytes(length)
}

fn write_file(path: &Path, bytes: &[u8]) -> R {
    let fd = sys::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o644)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        rest = &rest[sys::write(&fd, rest)?..];
    }
    sys::fsync(&fd)
}

impl Files {
    /// Writes files until there is no room, or so many bytes are written; gives the bytes written. A file that did not become whole is
    /// removed: what it has must be the beginning of what was written.
    fn fill(&mut self, top: &Path, bytes_max: usize) -> usize {
        let mut written = 0;
        while written < bytes_max {
            self.next += 1;
            let (name, seed) = (format!("f{}", self.next), self.next);
            let length = 1 + self.random.below(1 << 20);
            let bytes = bytes_of(seed, length);
            match write_file(&top.join(&name), &bytes) {
                Ok(()) => {
                    written += length;
                    self.files.insert(name, (seed, length));
                }
                Err(errno) => {
                    assert_eq!(errno, libc::ENOSPC, "write: {}", errno_name(errno));
                    remove_torso(&top.join(&name), &bytes);
                    return written;
                }
            }
        }
        written
    }

    /// Empty files, as far as they can be made.
    fn make_empty(&mut self, top: &Path) -> usize {
        let mut made = 0;
        for _ in 0..EMPTY_FILES {
            self.next += 1;
            let name = format!("e{}", self.next);
            match sys::open(top.join(&name), libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o644) {
                Ok(_) => {
                    self.files.insert(name, (0, 0));
                    made += 1;
                }
                Err(errno) => {
                    assert_eq!(errno, libc::ENOSPC, "create: {}", errno_name(errno));
                    assert_eq!(sys::lstat(top.join(&name)), Err(libc::ENOENT), "a refused create left a name");
                }
            }
        }
        made
    }

    /// Removes about half of the files, which must be possible; gives their bytes.
    fn remove_half(&mut self, top: &Path) -> usize {
        let random = &mut self.random;
        let gone: Vec<String> = self.files.keys().filter(|_| random.below(2) == 0).cloned().collect();
        let mut bytes = 0;
        for name in gone {
            sys::unlink(top.join(&name)).unwrap_or_else(|errno| panic!("unlink on a full disk: {}", errno_name(errno)));
            bytes += self.files.remove(&name).expect("just listed").1;
        }
        bytes
    }

    fn check(&self, top: &Path, when: &str) {
        let names = sys::names(top).unwrap_or_else(|errno| panic!("{when}: readdir: {}", errno_name(errno)));
        let mut expected: Vec<&String> = self.files.keys().collect();
        expected.sort();
        assert_eq!(names.iter().map(|name| name.to_str().expect("text")).collect::<Vec<_>>(), expected, "{when}");
        for (name, &(seed, length)) in &self.files {
            let got = std::fs::read(top.join(name)).unwrap_or_else(|error| panic!("{when}: read {name}: {error}"));
            assert_eq!(got.len(), length, "{when}: length of {name}");
            assert!(got == bytes_of(seed, length), "{when}: content of {name}");
        }
    }
}

fn remove_torso(path: &Path, bytes: &[u8]) {
    match std::fs::read(path) {
        Ok(found) => assert!(bytes.starts_with(&found), "a refused write left other bytes than its own"),
        Err(error) => return assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "read of a torso: {error}"),
    }
    sys::unlink(path).unwrap_or_else(|errno| panic!("unlink on a full disk: {}", errno_name(errno)));
}

fn restart(site: &Site, disk: &Disk, mut mount: Mount) -> Mount {
    mount.kill();
    site.dev_on(&disk.path().join("state"), &["--shards", "2"])
}

#[test]
fn filled_and_emptied() {
    let Some(site) = Site::new("a full disk") else { return };
    let disk = match Disk::new(site.root(), DISK_BYTES) {
        Ok(disk) => disk,
        Err(reason) => return skipped("a full disk", &reason),
    };
    let state = disk.path().join("state");
    let mut files = Files { files: BTreeMap::new(), next: 0, random: Random::new(3) };
    for round in 0..number_from_env("ONPATH_FULL_ROUNDS", 2) {
        let when = |what: &str| format!("round {round}, {what}");
        let mut mount = site.dev_on(&state, &["--shards", "2"]);
        files.check(mount.path(), &when("at the start"));
        let filled = files.fill(mount.path(), usize::MAX);
        let empty = files.make_empty(mount.path());
        files.check(mount.path(), &when("full"));
        mount = restart(&site, &disk, mount);
        files.check(mount.path(), &when("full, after kill -9"));
        let freed = files.remove_half(mount.path());
        if round % 2 == 1 {
            mount = restart(&site, &disk, mount);
        }
        files.check(mount.path(), &when("half removed"));
        let mut again = 0;
        wait_until("freed space can be used again", || {
            again += files.fill(mount.path(), freed / 2 - again);
            again >= freed / 2
        });
        report(&format!("full disk: round {round}: {filled} bytes, {empty} empty files, {freed} freed, {again} again"));
        mount = restart(&site, &disk, mount);
        files.check(mount.path(), &when("filled again, after kill -9"));
        mount.stop();
        assert_clean(&state, &when("at the end"));
    }
    let mount = site.dev_on(&state, &[]);
    std::fs::remove_dir_all(mount.path()).unwrap_err();
    assert!(sys::names(mount.path()).expect("readdir").is_empty(), "everything can be removed");
    mount.stop();
    assert_clean(&state, "after everything was removed");
}

/// Everything is removed right after a restart: its space can be used at once, not only when no mount of before can come back any more.
#[test]
fn space_comes_back_right_after_a_restart() {
    const SOON: Duration = Duration::from_millis(onpath_wire::limits::SESSION_LEASE_MS / 2);
    let Some(site) = Site::new("space after a restart") else { return };
    let disk = match Disk::new(site.root(), DISK_BYTES) {
        Ok(disk) => disk,
        Err(reason) => return skipped("space after a restart", &reason),
    };
    let mount = site.dev_on(&disk.path().join("state"), &["--shards", "2"]);
    let mut files = Files { files: BTreeMap::new(), next: 0, random: Random::new(5) };
    let filled = files.fill(mount.path(), usize::MAX);
    let mount = restart(&site, &disk, mount);
    for name in std::mem::take(&mut files.files).into_keys() {
        sys::unlink(mount.path().join(name)).expect("unlink on a full disk");
    }
    let removed = Instant::now();
    let mut again = 0;
    wait_until("the space can be used again", || {
        again += files.fill(mount.path(), (filled / 2).saturating_sub(again));
        again >= filled / 2
    });
    let took = removed.elapsed();
    assert!(took < SOON, "it took {took:?}");
    files.check(mount.path(), "after the space was used again");
    mount.stop();
    assert_clean(&disk.path().join("state"), "after everything was removed");
}

/// What fallocate(2) has reserved can be written on a full disk, also after kill -9; what it cannot reserve it does not begin.
#[test]
fn reserved_space() {
    const BYTES: usize = 8 << 20;
    let Some(site) = Site::new("reserved space on a full disk") else { return };
    let disk = match Disk::new(site.root(), DISK_BYTES) {
        Ok(disk) => disk,
        Err(reason) => return skipped("reserved space on a full disk", &reason),
    };
    let mount = site.dev_on(&disk.path().join("state"), &["--shards", "2"]);
    let ok = |what: &str, result: R<usize>| result.unwrap_or_else(|errno| panic!("{what}: {}", errno_name(errno)));
    let open = |path: &Path| sys::open(path, libc::O_RDWR | libc::O_CREAT, 0o644).expect("open");
    let f = open(&mount.path().join("f"));
    sys::fallocate(&f, 0, 0, BYTES as i64).expect("fallocate");
    sys::fsync(&f).expect("fsync");
    std::fs::create_dir(mount.path().join("others")).expect("mkdir");
    let mut others = Files { files: BTreeMap::new(), next: 0, random: Random::new(4) };
    others.fill(&mount.path().join("others"), usize::MAX);
    let bytes = bytes_of(77, BYTES);
    for (n, piece) in bytes[..BYTES / 2].chunks(50_000).enumerate() {
        assert_eq!(ok("pwrite", sys::pwrite(&f, piece, n as i64 * 50_000)), piece.len());
    }
    let g = open(&mount.path().join("others/g"));
    assert_eq!(sys::fallocate(&g, 0, 0, BYTES as i64), Err(libc::ENOSPC));
    assert_eq!(sys::fstat(&g).map(|stat| (stat.size, stat.blocks)), Ok((0, 0)), "ENOSPC comes before any effect");
    sys::unlink(mount.path().join("others/g")).expect("unlink");
    sys::fsync(&f).expect("fsync");
    drop((f, g));
    let mount = restart(&site, &disk, mount);
    let f = open(&mount.path().join("f"));
    let blocks = sys::fstat(&f).expect("fstat").blocks;
    assert_eq!(ok("pwrite", sys::pwrite(&f, &bytes[BYTES / 2..], BYTES as i64 / 2)), BYTES / 2);
    assert!(std::fs::read(mount.path().join("f")).expect("read") == bytes);
    assert_eq!(sys::fstat(&f).expect("fstat").blocks, blocks, "written where it was reserved");
    others.check(&mount.path().join("others"), "at the end");
    drop(f);
    mount.stop();
    assert_clean(&disk.path().join("state"), "with reserved space");
}
