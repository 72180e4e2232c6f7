//! du of a mount, whose directories say what their entries amount to.

use crate::common::server::{Mount, Site, binary};
use crate::common::user::ALICE;
use crate::common::xattr::getxattr;
use crate::common::{Over, process, skipped, sys, tool};
use crate::tools::{json, said, text};
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a walk finds that looks at everything.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    files: u64,
    directories: u64,
    others: u64,
    bytes: u64,
    allocated: u64,
    failures: u64,
}

impl Found {
    fn told(sum: &Value) -> Found {
        let of = |key: &str| sum[key].as_u64().unwrap_or_else(|| panic!("{key} in {sum}"));
        Found {
            files: of("files"),
            directories: of("directories"),
            others: of("others"),
            bytes: of("bytes"),
            allocated: of("allocated"),
            failures: of("failures"),
        }
    }

    /// Adds what is at this path, as du counts.
    fn add(&mut self, path: &Path, seen: &mut HashSet<u64>) {
        let Ok(stat) = fs::symlink_metadata(path) else {
            self.failures += 1;
            return;
        };
        if stat.is_dir() {
            let Ok(entries) = fs::read_dir(path) else {
                self.failures += 1;
                return;
            };
            self.directories += 1;
            self.allocated += stat.blocks() * 512;
            for entry in entries {
                self.add(&entry.expect("an entry").path(), seen);
            }
            return;
        }
        *(if stat.is_file() { &mut self.files } else { &mut self.others }) += 1;
        if stat.nlink() == 1 || seen.insert(stat.ino()) {
            self.bytes += if stat.is_file() { stat.len() } else { 0 };
            self.allocated += stat.blocks() * 512;
        }
    }

    fn below(path: &Path) -> Found {
        let mut found = Found::default();
        found.add(path, &mut HashSet::new());
        found
    }
}

/// Directories of every kind: with names that are elsewhere too, holes, reserved space, everything that is no file, nothing at all, and
/// more than a page of entries.
fn plant(tree: &Path) {
    let dir = |name: &str| {
        fs::create_dir_all(tree.join(name)).expect("mkdir");
        tree.join(name)
    };
    let plain = dir("plain/below/deeper");
    (0..30).for_each(|n| fs::write(plain.join(format!("f{n}")), vec![1; 777 * n]).expect("a file"));
    let wide = dir("wide");
    (0..1_500).for_each(|n| fs::write(wide.join(format!("{n:0100}")), &b"12345"[..n % 6]).expect("a file"));
    let holes = dir("plain/holes");
    let file = fs::File::create(holes.join("sparse")).expect("a file");
    file.set_len(1 << 33).expect("a sparse file");
    sys::pwrite(&file, "x", 1 << 32).expect("pwrite");
    let file = fs::File::create(holes.join("reserved")).expect("a file");
    sys::fallocate(&file, libc::FALLOC_FL_KEEP_SIZE, 0, 1 << 20).expect("fallocate");
    let odd = dir("odd");
    symlink("/etc/passwd", odd.join("symlink")).expect("symlink");
    symlink("x".repeat(4_000), odd.join("long symlink")).expect("symlink");
    sys::mkfifo(odd.join("fifo"), 0o644).expect("mkfifo");
    sys::mknod(odd.join("socket"), libc::S_IFSOCK | 0o644, 0).expect("mknod");
    sys::mknod(odd.join("device"), libc::S_IFCHR | 0o644, libc::makedev(1, 3)).expect("mknod");
    assert!(fs::symlink_metadata(odd.join("device")).expect("stat").file_type().is_char_device());
    dir("empty/below");
    let linked = dir("linked/below");
    fs::write(linked.join("twice"), [1; 5_000]).expect("a file");
    fs::hard_link(linked.join("twice"), linked.join("here")).expect("link");
    fs::write(linked.join("far"), [1; 9_000]).expect("a file");
    fs::hard_link(linked.join("far"), dir("plain/linked").join("far")).expect("link");
    fs::hard_link(odd.join("fifo"), tree.join("plain/linked/fifo")).expect("link");
    fs::hard_link(plain.join("f7"), tree.with_extension("outside")).expect("link");
    for (name, mode) in [("shut", 0o700), ("listed", 0o744), ("searched", 0o711)] {
        fs::write(dir(name).join("f"), "123").expect("a file");
        fs::create_dir(tree.join(name).join("d")).expect("mkdir");
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).expect("chmod");
    }
}

/// The sums of directories give what a look at everything gives: to root and to who may not see all, alone and beside another mount.
#[test]
fn a_sum_is_that_of_a_walk() {
    let Some(site) = Site::new("du beside walks") else { return };
    let mount = site.dev(&["--shards", "2"]);
    // Where others may run it.
    let copy = site.root().join("onpath");
    process::copy_program(binary(), &copy);
    let tree = mount.path().join("tree");
    plant(&tree);
    let du = |tree: &Path, jobs: &str| {
        let output = Command::new(&copy).args(["du", "--json", "--jobs", jobs]).arg(tree).output().expect("du runs");
        serde_json::from_slice(&output.stdout)
            .map_or_else(|error| panic!("{error}: {}", said(&output)), |v| Found::told(&v))
    };
    let second = site.mount(1, &[]);
    for top in [mount.path(), second.path()] {
        let tree = top.join("tree");
        let found = Found::below(&tree);
        assert!(found.files == 1_500 + 30 + 2 + 3 + 1 + 3 && found.others == 6 && found.failures == 0, "{found:?}");
        for jobs in ["1", "3", "16"] {
            assert_eq!(du(&tree, jobs), found);
            ALICE.run(|| {
                let part = Found::below(&tree);
                assert!(part.failures == 4 && part.files + 3 == found.files, "{part:?}");
                assert_eq!(du(&tree, jobs), part);
            });
        }
        let one = json(&["du", text(&tree.join("plain/below/deeper")), text(&tree.join("odd/fifo"))]);
        assert_eq!(
            (one["files"].as_u64(), one["directories"].as_u64(), one["others"].as_u64()),
            (Some(30), Some(1), Some(1))
        );
        let Some(other) = tool("du") else {
            skipped("du of others", "du is missing");
            continue;
        };
        let output = Command::new(other).args(["-s", "-B1"]).arg(&tree).output().expect("du runs");
        assert!(said(&output).starts_with(&format!("{}\t", found.allocated)), "{} {found:?}", said(&output));
    }
    second.stop();
    mount.stop();
    site.assert_clean("after du beside walks");
}

/// Every level down to a depth is shown with its own part.
#[test]
fn levels_are_shown_by_their_sums() {
    let Some(site) = Site::new("du of levels") else { return };
    let mount = site.dev(&[]);
    let tree = mount.path().join("tree");
    for dir in ["a/b/c", "a/d", "e"] {
        fs::create_dir_all(tree.join(dir)).expect("mkdir");
        fs::write(tree.join(dir).join("f"), dir).expect("a file");
    }
    let sum = json(&["du", "--depth", "2", text(&tree)]);
    let rows: Vec<_> = sum["paths"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            let path = row["path"].as_str().expect("a path").trim_start_matches(text(&tree)).to_owned();
            (path, row["files"].as_u64(), row["directories"].as_u64(), row["bytes"].as_u64())
        })
        .collect();
    let row = |path: &str, files, directories, bytes| (path.to_owned(), Some(files), Some(directories), Some(bytes));
    assert_eq!(
        rows,
        [row("", 3, 6, 9), row("/a", 2, 4, 8), row("/a/b", 1, 2, 5), row("/a/d", 1, 1, 3), row("/e", 1, 1, 1)]
    );
    mount.stop();
}

/// Requests of a kind that du makes, of all mounts; those of the second one are told with delay.
fn requests(site: &Site) -> u64 {
    let kinds = ["lookup", "getattr", "statx", "getxattr", "opendir", "readdir", "readdirplus", "releasedir"];
    site.status().operations(&kinds)
}

/// With another mount there nothing is cached, and still no file is asked for; what the other mount did counts at once.
#[test]
fn no_file_is_asked_for() {
    const DIRECTORIES: u64 = 40;
    const FILES: u64 = 100;
    let Some(site) = Site::new("requests of du") else { return };
    let mount = site.dev(&["--shards", "2"]);
    let second = site.mount(1, &[]);
    let tree = |mount: &Mount| mount.path().join("tree");
    for dir in 0..DIRECTORIES {
        let dir = tree(&mount).join(format!("d{dir}"));
        fs::create_dir_all(&dir).expect("mkdir");
        (0..FILES).for_each(|n| fs::write(dir.join(format!("f{n}")), "12345").expect("a file"));
    }
    let all = DIRECTORIES * FILES;
    let before = requests(&site);
    let sum = json(&["du", text(&tree(&mount))]);
    let asked = requests(&site) - before;
    assert_eq!((sum["files"].as_u64(), sum["bytes"].as_u64()), (Some(all), Some(5 * all)));
    assert!(asked < all / 8, "{asked} requests for {all} files in {DIRECTORIES} directories");
    let before = requests(&site);
    assert_eq!(Found::below(&tree(&mount)).files, all);
    let asked = requests(&site) - before;
    assert!(asked > all, "{asked} requests of a walk for {all} files");
    for round in 1..20 {
        fs::write(tree(&second).join("d7/new"), vec![1; round * 1_000]).expect("a file");
        let sum = json(&["du", text(&tree(&mount))]);
        assert_eq!(sum["bytes"].as_u64(), Some(5 * all + 1_000 * round as u64));
    }
    second.stop();
    mount.stop();
    site.assert_clean("after requests of du");
}

/// For how long sums are asked for while others write.
const LOOKED_AT: Duration = Duration::from_secs(3);

fn numbers(dir: &Path) -> Vec<(String, u64)> {
    let value = String::from_utf8(getxattr(dir, "onpath.dir").expect("a sum")).expect("text");
    let row = |line: &str| line.split_once(' ').map(|(key, n)| (key.to_owned(), n.parse().expect("a number")));
    value.lines().map(|line| row(line).expect("a word and a number")).collect()
}

/// While files of a directory grow, come, go and get and lose names on two mounts, a sum holds all that had been done when it was asked
/// for, and nothing that was begun after it was told.
#[test]
fn sums_under_load_are_exact() {
    let Some(site) = Site::new("sums under load") else { return };
    let mounts = [site.dev(&["--shards", "2"]), site.mount(1, &[])];
    let dir = |mount: &Mount| mount.path().join("d");
    fs::create_dir(dir(&mounts[0])).expect("mkdir");
    fs::create_dir(mounts[0].path().join("elsewhere")).expect("mkdir");
    (0..200).for_each(|n| fs::write(dir(&mounts[0]).join(format!("kept{n}")), "12345").expect("a file"));
    (0..2).for_each(|n| fs::write(dir(&mounts[0]).join(format!("grows{n}")), "").expect("a file"));
    let (begun, done, over) = (AtomicU64::new(0), AtomicU64::new(0), Over::default());
    std::thread::scope(|scope| {
        let _end = over.at_end();
        for (number, mount) in mounts.iter().enumerate() {
            let (begun, done, over, dir) = (&begun, &done, &over, dir(mount));
            let second_name = mount.path().join(format!("elsewhere/name{number}"));
            let mut open = fs::OpenOptions::new();
            open.append(true);
            scope.spawn(move || {
                while !over.is() {
                    begun.fetch_add(10, Ordering::SeqCst);
                    let mut file = open.open(dir.join(format!("grows{number}"))).expect("a file");
                    file.write_all(b"0123456789").expect("write");
                    done.fetch_add(10, Ordering::SeqCst);
                    fs::hard_link(dir.join(format!("kept{number}")), &second_name).expect("link");
                    fs::remove_file(&second_name).expect("unlink");
                    fs::write(dir.join(format!("new{number}")), "").expect("a file");
                    fs::rename(dir.join(format!("new{number}")), dir.join(format!("old{number}"))).expect("rename");
                    fs::remove_file(dir.join(format!("old{number}"))).expect("unlink");
                }
            });
        }
        let (mut rounds, until) = (0, Instant::now() + LOOKED_AT);
        while Instant::now() < until {
            for mount in &mounts {
                let least = done.load(Ordering::SeqCst);
                let told = numbers(&dir(mount));
                let most = begun.load(Ordering::SeqCst);
                let of = |key: &str| told.iter().find(|(known, _)| known == key).expect("a row").1;
                assert!((1_000 + least..=1_000 + most).contains(&of("bytes")), "{told:?} of {least} to {most}");
                assert!((202..=206).contains(&of("files")), "{told:?}");
                assert_eq!((of("directories"), of("others")), (0, 0), "{told:?}");
                rounds += 1;
            }
        }
        assert!(rounds > 10, "{rounds} sums in {LOOKED_AT:?}");
    });
    let [mount, second] = mounts;
    second.stop();
    mount.stop();
    site.assert_clean("after sums under load");
}
