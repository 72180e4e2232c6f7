//! A mount that is alone caches; nobody ever sees anything old by that (protocol.md, "Alone").

use crate::common::check::{content, done, refused};
use crate::common::random::Random;
use crate::common::server::{Mount, Site};
use crate::common::sys::{self, R, Stat};
use crate::common::user::{ALICE, in_thread};
use crate::common::xattr;
use crate::common::{Over, skipped, wait_until};
use crate::two_mounts::Pair;
use libc::{O_CREAT, O_RDONLY, O_RDWR, O_WRONLY};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// What direct reads and writes are aligned to.
const BLOCK: usize = 4_096;

/// Requests by which the first mount was asked for names and attributes.
fn questions(site: &Site) -> u64 {
    site.status().operations(&["lookup", "getattr", "statx"])
}

/// The first mount, which is alone, and its file system.
fn alone(test: &str, args: &[&str]) -> Option<(Site, Mount)> {
    let site = Site::new(test)?;
    sys::umask(0);
    let mount = site.dev(args);
    if !args.iter().any(|arg| arg.ends_with("none")) {
        site.wait_alone(0);
    }
    Some((site, mount))
}

fn end(site: &Site, mount: Mount, when: &str) {
    mount.stop();
    site.assert_clean(when);
}

fn file(path: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
    let fd = done("create", sys::open(&path, O_WRONLY | O_CREAT, 0o644));
    assert_eq!(done("write", sys::write(&fd, bytes)), bytes.len());
    path.as_ref().to_owned()
}

fn stat(path: impl AsRef<Path>) -> Stat {
    done(path.as_ref().display(), sys::lstat(&path))
}

/// A thousand stats of a file, a directory and a missing name send no request: one for each second that passes, at most a few.
#[test]
fn a_repeated_stat_sends_no_request() {
    let Some((site, mount)) = alone("repeated stats", &[]) else { return };
    let (f, d, missing) = (file(mount.path().join("f"), b"1"), mount.path().join("d"), mount.path().join("missing"));
    done("mkdir", sys::mkdir(&d, 0o755));
    let look = |times: usize| {
        let began = Instant::now();
        for _ in 0..times {
            _ = (stat(&f), stat(&d), stat(mount.path()));
            refused("stat of a missing name", sys::stat(&missing), &[libc::ENOENT]);
        }
        began.elapsed().as_secs()
    };
    look(3);
    let before = questions(&site);
    let seconds = look(1_000);
    let asked = questions(&site) - before;
    assert!(asked <= 8 * (1 + seconds), "{asked} requests in {seconds} s for 4,000 stats");
    let second = site.mount(1, &[]);
    let before = questions(&site);
    look(100);
    let asked = questions(&site) - before;
    assert!(asked >= 400, "{asked} requests for 400 stats while another mount is there");
    second.stop();
    end(&site, mount, "after repeated stats");
}

/// Who lists a directory and then asks for each file sends hardly more than the pages, also after a pause in which all was forgotten; with
/// a second mount there every file is asked for.
#[test]
fn a_listing_tells_the_attributes() {
    const FILES: u64 = 2_000;
    let Some((site, mount)) = alone("listings with attributes", &["--shards", "2"]) else { return };
    let dir = |top: &Path| top.join("d");
    done("mkdir", sys::mkdir(dir(mount.path()), 0o755));
    (0..FILES).for_each(|n| _ = file(dir(mount.path()).join(format!("f{n}")), &vec![1; (n % 7) as usize]));
    let look = |top: &Path| {
        let (mut seen, before) = (0, questions(&site));
        for name in done("list", sys::names(dir(top))) {
            let number: u64 = name.to_str().and_then(|name| name.strip_prefix('f')?.parse().ok()).expect("our name");
            assert_eq!(stat(dir(top).join(name)).size, (number % 7) as i64);
            seen += 1;
        }
        assert_eq!(seen, FILES);
        questions(&site) - before
    };
    wait_until("the names of the creates to be forgotten", || {
        let before = questions(&site);
        stat(dir(mount.path()).join("f0"));
        questions(&site) > before
    });
    let asked = look(mount.path());
    assert!(asked <= FILES / 10, "{asked} requests for {FILES} files");
    let second = site.mount(1, &[]);
    let asked = look(mount.path());
    assert!(asked >= FILES, "{asked} requests for {FILES} files while another mount is there");
    look(second.path());
    second.stop();
    end(&site, mount, "after listings with attributes");
}

/// What a listing told is never older than a change of this mount that has returned.
#[test]
fn a_listing_overtakes_no_change() {
    let Some((site, mount)) = alone("listings and changes", &["--shards", "2"]) else { return };
    let (d, over) = (mount.path().join("d"), Over::default());
    done("mkdir", sys::mkdir(&d, 0o755));
    (0..200).for_each(|n| _ = file(d.join(format!("f{n}")), b"1"));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.is() {
                    done("list", sys::names(&d));
                    std::thread::yield_now();
                }
            });
        }
        let _end = over.at_end();
        let (mut random, began) = (Random::new(5), Instant::now());
        let mut round = 0_i64;
        while began.elapsed() < LOOKED_AT {
            round += 1;
            let f = d.join(format!("f{}", random.below(200)));
            let before = stat(&f);
            let shows = |what: &str, right: &dyn Fn(&Stat) -> bool| {
                assert!(in_a_moment(&f, right), "round {round}, {what}: {before:?} {:?}", stat(&f));
            };
            match random.below(6) {
                0 => {
                    done("chmod", sys::chmod(&f, before.perm() ^ 0o022));
                    shows("chmod", &|now| now.perm() == before.perm() ^ 0o022);
                }
                1 => {
                    let fd = done("open", sys::open(&f, O_WRONLY, 0));
                    done("write", sys::pwrite(&fd, b"x", before.size));
                    shows("write", &|now| now.size == before.size + 1);
                }
                2 => {
                    done("truncate", sys::truncate(&f, round));
                    shows("truncate", &|now| now.size == round);
                }
                3 => {
                    let g = d.join("g");
                    done("link", sys::link(&f, &g));
                    shows("link", &|now| now.nlink == 2);
                    done("unlink", sys::unlink(&g));
                    shows("unlink", &|now| now.nlink == 1);
                    refused("stat", sys::lstat(&g), &[libc::ENOENT]);
                }
                4 => {
                    done("setxattr", xattr::setxattr(&f, "user.x", format!("{round}")));
                    shows("setxattr", &|now| now.ctime > before.ctime);
                }
                _ => {
                    let g = d.join("g");
                    done("rename", sys::rename(&f, &g));
                    refused("stat", sys::lstat(&f), &[libc::ENOENT]);
                    assert_eq!(stat(&g).ino, before.ino);
                    done("rename", sys::rename(&g, &f));
                    refused("stat", sys::lstat(&g), &[libc::ENOENT]);
                }
            }
        }
    });
    end(&site, mount, "after listings and changes");
}

/// While a mount is alone its direct reads do not ask how long the file is, and they show every change at once: its own, and those of a mount
/// that joins.
#[test]
fn direct_reads_ask_no_home_and_are_never_stale() {
    let Some((site, mount)) = alone("direct reads", &[]) else { return };
    let f = file(mount.path().join("f"), &[1; 3 * BLOCK]);
    let fd = done("open", sys::open(&f, O_RDWR | libc::O_DIRECT, 0));
    let read = || done("read", sys::pread(&fd, 4 * BLOCK, 0));
    let asked = || site.status().sum("shard-", &["requests"]);
    read();
    let (before, began) = (asked(), Instant::now());
    (0..1_000).for_each(|_| assert_eq!(read(), [1; 3 * BLOCK]));
    let (requests, seconds) = (asked() - before, began.elapsed().as_secs());
    assert!(requests <= 100 * (1 + seconds), "{requests} requests in {seconds} s for 1,000 reads");
    let path = done("open", sys::open(&f, O_WRONLY, 0));
    for round in 0..20_u8 {
        done("ftruncate", sys::ftruncate(&path, BLOCK as i64));
        assert_eq!(read().len(), BLOCK);
        done("write", sys::pwrite(&path, [round; BLOCK], 2 * BLOCK as i64));
        assert_eq!(read(), [[1; BLOCK], [0; BLOCK], [round; BLOCK]].concat());
    }
    let second = site.mount(1, &[]);
    let theirs = done("open", sys::open(second.path().join("f"), O_WRONLY, 0));
    for round in 0..20_u8 {
        done("ftruncate", sys::ftruncate(&theirs, BLOCK as i64));
        assert_eq!(read().len(), BLOCK);
        done("write", sys::pwrite(&theirs, [round; BLOCK], 2 * BLOCK as i64));
        assert_eq!(read(), [[1; BLOCK], [0; BLOCK], [round; BLOCK]].concat());
    }
    drop(theirs);
    second.stop();
    drop((fd, path));
    end(&site, mount, "after direct reads");
}

/// With `--cache none`, or by the mount option, every stat asks.
#[test]
fn caching_can_be_refused() {
    for args in [&["--cache", "none"][..], &["-o", "cache=none", "--cache=none"]] {
        let Some((site, mount)) = alone("no caching", args) else { return };
        let f = file(mount.path().join("f"), b"1");
        let before = questions(&site);
        (0..100).for_each(|_| assert_eq!(stat(&f).size, 1));
        assert!(questions(&site) - before >= 100);
        end(&site, mount, "without caching");
    }
}

/// Everything that a stat can show of a tree, by path.
fn view(top: &Path, all: &mut Vec<(PathBuf, Stat)>, below: &Path) {
    let here = top.join(below);
    all.push((below.to_owned(), stat(&here)));
    if here.is_dir() && !here.is_symlink() {
        let mut names: Vec<_> = done("list", sys::names(&here));
        names.sort();
        names.iter().for_each(|name| view(top, all, &below.join(name)));
    }
}

fn assert_same_views(tops: [&Path; 2], when: &str) {
    let [mut one, mut other] = [vec![], vec![]];
    view(tops[0], &mut one, Path::new(""));
    view(tops[1], &mut other, Path::new(""));
    for (mine, theirs) in one.iter().zip(&other) {
        let shown = |(path, stat): &(PathBuf, Stat)| (path.clone(), Stat { atime: mine.1.atime, dev: 0, ..*stat });
        assert_eq!(shown(mine), shown(theirs), "{when}");
    }
    assert_eq!(one.len(), other.len(), "{when}");
}

/// A change of something in a directory of a few names.
fn change(dir: &Path, random: &mut Random) {
    let name = |random: &mut Random| dir.join(format!("n{}", random.below(12)));
    let (one, other) = (name(random), name(random));
    // Most of them fail now and then.
    let _: R = match random.below(9) {
        0 => sys::open(&one, O_WRONLY | O_CREAT, 0o644).and_then(|fd| sys::write(fd, "bytes")).map(drop),
        1 => sys::unlink(&one),
        2 => sys::rename(&one, &other),
        3 => sys::link(&one, &other),
        4 => sys::mkdir(&one, 0o755),
        5 => sys::rmdir(&one),
        6 => sys::chmod(&one, 0o600 + random.below(64) as u32),
        7 => sys::renameat2(&one, &other, libc::RENAME_EXCHANGE),
        _ => symlink(&one, &other).map_err(|_| 0),
    };
}

/// A second mount comes and goes. It sees all that the first has done when it was alone; the first sees at once what the second does.
#[test]
fn who_joins_sees_everything_and_is_seen_at_once() {
    let Some((site, mount)) = alone("joining and leaving", &[]) else { return };
    let (dir, mut random) = (mount.path().join("d"), Random::new(7));
    done("mkdir", sys::mkdir(&dir, 0o755));
    for round in 0..3 {
        for _ in 0..200 {
            change(&dir, &mut random);
            (0..4).for_each(|n| _ = sys::lstat(dir.join(format!("n{n}"))));
        }
        let given = site.status().sum("shard", &["alone_given"]);
        let second = site.mount(1, &[]);
        assert_same_views([mount.path(), second.path()], &format!("round {round}, joined"));
        for step in 0..60 {
            change(&second.path().join("d"), &mut random);
            assert_same_views([mount.path(), second.path()], &format!("round {round}, step {step}"));
        }
        match round {
            1 => drop(second), // killed
            _ => second.stop(),
        }
        site.wait_alone(given);
    }
    end(&site, mount, "after joining and leaving");
}

/// What a program holds open, or is in, shows what the second mount does from its first change on.
#[test]
fn open_files_and_the_working_directory_are_never_stale() {
    let Some((site, mount)) = alone("open files when another mount joins", &[]) else { return };
    let (d, f) = (mount.path().join("d"), mount.path().join("d/f"));
    done("mkdir", sys::mkdir(&d, 0o755));
    file(&f, b"one");
    let fd = done("open", sys::open(&f, O_RDONLY, 0));
    let dir = done("open", sys::open(&d, O_RDONLY, 0));
    let place = done("open", sys::open(&f, libc::O_PATH, 0));
    in_thread(|| {
        done("chdir", sys::chdir(&d));
        let look = || (done("fstat", sys::fstat(&fd)).size, stat(".").mtime, done("fstat", sys::fstat(&dir)).mtime);
        let before = look();
        assert_eq!(before.0, 3);
        assert_eq!(done("pread", sys::pread(&fd, 10, 0)), b"one");
        _ = (look(), done("fstat", sys::fstat(&place)));
        let second = site.mount(1, &[]);
        std::fs::write(second.path().join("d/f"), "three").expect("write");
        file(second.path().join("d/g"), b"");
        let after = look();
        assert_eq!((after.0, done("fstat", sys::fstat(&place)).size), (5, 5));
        assert!(after.1 > before.1 && after.2 == after.1, "{before:?} {after:?}");
        assert_eq!(done("pread", sys::pread(&fd, 10, 0)), b"three");
        done("unlink", sys::unlink(second.path().join("d/f")));
        assert_eq!(done("fstat", sys::fstat(&fd)).nlink, 0);
        refused("stat", sys::stat("f"), &[libc::ENOENT]);
        done("chmod", sys::chmod(second.path().join("d"), 0o700));
        assert_eq!(stat(".").perm(), 0o700);
        second.stop();
    });
    drop((fd, dir, place));
    end(&site, mount, "after open files");
}

/// Nobody finds in the cache what they may not look for: neither below a directory that only its owner may search, nor when the right is
/// taken away, by chmod or an ACL, nor when a name moves below such a directory.
#[test]
fn cached_names_do_not_pass_the_search_check() {
    let Some((site, mount)) = alone("search permission and cached names", &[]) else { return };
    let at = |name: &str| mount.path().join(name);
    let dir = |name: &str, mode| {
        done("mkdir", sys::mkdir(at(name), mode));
        stat(file(at(name).join("x"), b"secret"));
        done("list", sys::names(at(name)));
        at(name).join("x")
    };
    let denied = |path: &Path| {
        ALICE.run(|| {
            refused("stat", sys::stat(path), &[libc::EACCES]);
            refused("open", sys::open(path, O_RDONLY, 0), &[libc::EACCES]);
        });
    };
    let found = |path: &Path| ALICE.run(|| assert_eq!(stat(path).size, 6));
    denied(&dir("private", 0o700));
    for (name, close) in [
        ("chmod", &(|d: &Path| done("chmod", sys::chmod(d, 0o700))) as &dyn Fn(&Path)),
        ("chmod after a refused one", &|d| {
            refused("chmod", ALICE.run(|| sys::chmod(d, 0o700)), &[libc::EPERM]);
            done("chmod", sys::chmod(d, 0o700));
        }),
        ("chmod after one that leaves the right", &|d| {
            done("chmod", sys::chmod(d, 0o711));
            done("chmod", sys::chmod(d, 0o700));
        }),
        ("acl", &|d| {
            let value = xattr::acl("u::rwx,u:65501:---,g::rwx,m::rwx,o::rwx");
            done("setfacl", xattr::setxattr(d, "system.posix_acl_access", value));
        }),
    ] {
        let x = dir(name, 0o755);
        found(&x);
        close(x.parent().expect("a directory"));
        denied(&x);
        refused("stat", ALICE.run(|| sys::stat(at(name).join("missing"))), &[libc::EACCES]);
    }
    let moved = dir("open", 0o755);
    found(&moved);
    done("rename", sys::rename(&moved, at("private/moved")));
    denied(&at("private/moved"));
    let linked = dir("open2", 0o755);
    done("link", sys::link(&linked, at("private/linked")));
    stat(at("private/linked"));
    denied(&at("private/linked"));
    end(&site, mount, "after search permissions");
}

/// What is mounted on a name of ours stays, through chmods that make names void, and when another mount joins.
#[test]
fn mounts_on_our_names_stay() {
    let Some((site, mount)) = alone("mounts on names of ours", &[]) else { return };
    let (point, other) = (mount.path().join("point"), site.root().join("other"));
    done("mkdir", sys::mkdir(&point, 0o755));
    done("mkdir", sys::mkdir(&other, 0o755));
    std::fs::write(other.join("below"), "").expect("write");
    let ((covered, wait_covered), (joined, wait_joined)) = (channel(), channel());
    let top = mount.path();
    std::thread::scope(|scope| {
        // What is mounted in the namespace of this thread goes with it.
        scope.spawn(move || {
            sys::unshare(libc::CLONE_FS).expect("unshare(CLONE_FS)");
            if sys::unshare(libc::CLONE_NEWNS).and_then(|()| sys::make_mounts_private()).is_err() {
                return skipped("mounts in a namespace of their own", "unshare(CLONE_NEWNS) is not allowed");
            }
            done("mount", sys::bind_mount(&other, &point));
            for round in 0..2 {
                let d = top.join(format!("d{round}"));
                done("mkdir", sys::mkdir(&d, 0o755));
                stat(file(d.join("x"), b"secret"));
                done("chmod", sys::chmod(&d, 0o700));
                refused("stat", ALICE.run(|| sys::stat(d.join("x"))), &[libc::EACCES]);
                done("stat below the mount", sys::stat(point.join("below")));
            }
            refused("stat", sys::stat(top.join("new")), &[libc::ENOENT]);
            covered.send(()).expect("the other thread waits");
            wait_joined.recv().expect("the other mount joins");
            done("stat of what is new", sys::stat(top.join("new")));
            done("stat below the mount", sys::stat(point.join("below")));
        });
        if wait_covered.recv().is_ok() {
            let second = site.mount(1, &[]);
            file(second.path().join("new"), b"");
            joined.send(()).expect("the other thread waits");
            second.stop();
        }
    });
    end(&site, mount, "after mounts on names of ours");
}

/// What the kernel does not forget by itself when this mount changes something.
#[test]
fn own_changes_show_at_once() {
    let Some((site, mount)) = alone("own changes", &[]) else { return };
    let at = |name: &str| mount.path().join(name);
    let f = file(at("f"), &[1; 10_000]);
    for round in 0..20 {
        let before = (stat(&f), stat(mount.path()));
        done("link", sys::link(&f, at("g")));
        assert_eq!((stat(&f).nlink, stat(at("g")).nlink), (2, 2), "round {round}");
        done("rename", sys::rename(at("g"), at("h")));
        refused("stat", sys::stat(at("g")), &[libc::ENOENT]);
        done("unlink", sys::unlink(at("h")));
        let after = (stat(&f), stat(mount.path()));
        assert_eq!(after.0.nlink, 1);
        assert!(after.0.ctime > before.0.ctime && after.1.mtime > before.1.mtime, "round {round}");
        done("mkdir", sys::mkdir(at("sub"), 0o755));
        assert_eq!(stat(mount.path()).nlink, before.1.nlink + 1);
        done("rmdir", sys::rmdir(at("sub")));
        assert_eq!(stat(mount.path()).nlink, before.1.nlink);
        let ctime = stat(&f).ctime;
        done("setxattr", xattr::setxattr(&f, "user.x", format!("{round}")));
        assert!(stat(&f).ctime > ctime);
        done("setfacl", xattr::setxattr(&f, "system.posix_acl_access", xattr::acl("u::rw-,g::r--,o::---")));
        assert_eq!(done("statx", sys::statx(&f, 0, libc::STATX_MODE)).stx_mode & 0o777, 0o640);
        done("chmod", sys::chmod(&f, 0o644));
        assert_eq!(done("statx", sys::statx(&f, 0, libc::STATX_MODE)).stx_mode & 0o777, 0o644);
    }
    let blocks = || stat(&f).blocks;
    let fd = done("open", sys::open(&f, O_RDWR, 0));
    done("fallocate", sys::fallocate(&fd, libc::FALLOC_FL_KEEP_SIZE, 0, 1 << 20));
    assert_eq!((stat(&f).size, blocks()), (10_000, 2048));
    done("ftruncate", sys::ftruncate(&fd, 5_000));
    wait_until("the blocks that a truncate leaves", || blocks() == 16);
    done("chmod", sys::chmod(&f, 0o4666));
    assert_eq!(stat(&f).perm(), 0o4666);
    ALICE.run(|| {
        let fd = done("open", sys::open(&f, O_WRONLY, 0));
        done("write", sys::write(&fd, "x"));
        assert_eq!(stat(&f).perm(), 0o666, "a write takes setuid away");
    });
    drop(fd);
    end(&site, mount, "after own changes");
}

/// For how long changes are looked at while others ask.
const LOOKED_AT: Duration = Duration::from_secs(3);

/// For as long as the kernel, which reads the attributes that it has field by field, may take to write those of an answer to somebody
/// else; a small part of the time for which something old could be cached.
const A_MOMENT: Duration = Duration::from_millis(50);

fn in_a_moment(path: &Path, right: impl Fn(&Stat) -> bool) -> bool {
    let began = Instant::now();
    right(&stat(path))
        || std::iter::repeat_with(|| stat(path)).take_while(|_| began.elapsed() < A_MOMENT).any(|d| right(&d))
}

/// Who changes a directory sees it changed, whatever others ask for at the same time.
#[test]
fn attributes_of_directories_are_not_overtaken() {
    let Some((site, mount)) = alone("attributes of directories", &[]) else { return };
    let (d, over) = (mount.path().join("d"), Over::default());
    done("mkdir", sys::mkdir(&d, 0o755));
    file(d.join("f"), b"");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.is() {
                    stat(&d);
                    stat(d.join("f"));
                    std::thread::yield_now();
                }
            });
        }
        let _end = over.at_end();
        let began = Instant::now();
        for round in 0..1_500 {
            if began.elapsed() > LOOKED_AT {
                break; // on a busy machine
            }
            let before = stat(&d);
            let sub = d.join(format!("s{round}"));
            done("mkdir", sys::mkdir(&sub, 0o755));
            let made = |d: &Stat| d.nlink == before.nlink + 1 && d.mtime > before.mtime;
            assert!(in_a_moment(&d, made), "round {round}: {before:?} {:?}", stat(&d));
            done("rmdir", sys::rmdir(&sub));
            let gone = |d: &Stat| d.nlink == before.nlink;
            assert!(in_a_moment(&d, gone), "round {round}: {before:?} {:?}", stat(&d));
        }
    });
    end(&site, mount, "after attributes of directories");
}

/// The server is killed while its mount is alone, then while both are there: the next one serves, and nobody waits for the dead.
#[test]
fn a_killed_server_that_was_alone_keeps_nobody_waiting() {
    let Some((site, mut mount)) = alone("a killed server that was alone", &[]) else { return };
    stat(file(mount.path().join("f"), b"1"));
    site.kill_server(&mut mount);
    let began = Instant::now();
    let mount = site.dev(&[]);
    let second = site.mount(1, &[]);
    assert!(began.elapsed().as_secs() < 8, "mounted {:?} after the death", began.elapsed());
    assert_eq!(content(second.path().join("f")), b"1");
    std::fs::write(second.path().join("f"), "22").expect("write");
    assert_eq!(stat(mount.path().join("f")).size, 2);
    second.stop();
    end(&site, mount, "after a killed server");
}

/// The second mount is killed while it joins again and again; the first is alone in between, and never wrong.
#[test]
fn a_mount_that_is_killed_does_not_stay_in_the_way() {
    let Some(mut pair) = Pair::new("killed mounts and being alone", &[]) else { return };
    let [here, there] = pair.both("f");
    file(&there, b"1");
    for round in 2..4_u8 {
        let given = pair.site.status().sum("shard", &["alone_given"]);
        assert_eq!(stat(&here).size, i64::from(round - 1));
        pair.mounts[1].kill();
        pair.site.wait_alone(given);
        stat(&here);
        pair.mounts[1] = pair.site.mount(1, &[]);
        file(&there, &vec![1; usize::from(round)]);
        assert_eq!(stat(&here).size, i64::from(round));
    }
    pair.stop("after killed mounts");
}
