//! import and export: everything that a tree has comes along.

use crate::common::server::{Mount, Site};
use crate::common::{skipped, sys, tool};
use crate::tools::{json, onpath, said, text};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// What a comparison looks at.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    mode: u32,
    owner: (u32, u32),
    size: u64,
    mtime: (i64, i64),
    rdev: u64,
    links: u64,
    content: Vec<u8>,
}

/// Everything below a directory, itself included, but for sizes and links of directories.
pub(crate) fn look(root: &Path) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
    let mut seen = Vec::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let stat = fs::symlink_metadata(&path).expect("stat");
        let kind = stat.file_type();
        if kind.is_dir() {
            paths.extend(fs::read_dir(&path).expect("readdir").map(|entry| entry.expect("an entry").path()));
        }
        let content = match kind {
            kind if kind.is_file() && stat.size() < 1 << 26 => fs::read(&path).expect("read"),
            kind if kind.is_symlink() => fs::read_link(&path).expect("readlink").as_os_str().as_bytes().to_vec(),
            _ => Vec::new(),
        };
        seen.push(Seen {
            path: path.strip_prefix(root).expect("below").to_owned(),
            mode: stat.mode(),
            owner: (stat.uid(), stat.gid()),
            size: if kind.is_dir() { 0 } else { stat.size() },
            mtime: (stat.mtime(), stat.mtime_nsec()),
            rdev: if kind.is_char_device() || kind.is_block_device() { stat.rdev() } else { 0 },
            links: if kind.is_dir() { 0 } else { stat.nlink() },
            content,
        });
    }
    seen.sort_by(|a, b| a.path.cmp(&b.path));
    seen
}

/// One of everything.
pub(crate) fn plant(root: &Path) {
    fs::create_dir_all(root.join("sub/empty")).expect("mkdir");
    for number in 0..40_usize {
        let bytes: Vec<u8> = (0..number * 1111).map(|at| (at * 7 + number) as u8).collect();
        fs::write(root.join(format!("sub/f{number}")), bytes).expect("a file");
    }
    let name = std::ffi::OsStr::from_bytes(b"\xff odd \n name");
    fs::write(root.join(name), "odd").expect("a file");
    symlink("sub/f1", root.join("link")).expect("symlink");
    symlink("nowhere", root.join("dangling")).expect("symlink");
    fs::hard_link(root.join("sub/f7"), root.join("seven")).expect("link");
    fs::hard_link(root.join("sub/f7"), root.join("sub/empty/seven")).expect("link");
    let sparse = fs::File::create(root.join("sparse")).expect("a file");
    sparse.write_all_at(b"in the middle", 5 << 20).expect("write");
    sparse.set_len(20 << 20).expect("truncate");
    let device = sys::mknod(root.join("null"), libc::S_IFCHR | 0o640, libc::makedev(1, 3));
    let fifo = sys::mknod(root.join("fifo"), libc::S_IFIFO | 0o604, 0);
    assert_eq!((device, fifo), (Ok(()), Ok(())));
    assert_eq!(sys::chown(root.join("sub/f3"), 1001, 1002), Ok(()));
    assert_eq!(sys::chmod(root.join("sub/f3"), 0o4711), Ok(()));
    assert_eq!(sys::chmod(root.join("sub"), 0o1777), Ok(()));
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    for path in ["sub/f3", "sub"] {
        let file = fs::File::open(root.join(path)).expect("open");
        file.set_times(fs::FileTimes::new().set_modified(old).set_accessed(old)).expect("utimens");
    }
}

fn blocks(path: &Path) -> u64 {
    fs::metadata(path).expect("stat").blocks()
}

#[test]
fn everything_comes_along() {
    let Some(site) = Site::new("import and export") else { return };
    let mount = site.dev(&[]);
    let (source, there, back) = (site.root().join("source"), mount.path().join("deep/er"), site.root().join("back"));
    plant(&source);
    let copied = json(&["import", "--verify", text(&source), text(&there)]);
    let count = |name: &str| copied[name].as_u64();
    assert_eq!((count("files"), count("directories")), (Some(42), Some(2)), "{copied}");
    assert_eq!((count("symlinks"), count("special"), count("hard_links")), (Some(2), Some(2), Some(2)), "{copied}");
    assert_eq!(look(&there), look(&source));
    assert!(blocks(&there.join("sparse")) < 2048, "holes stay holes");
    let copied = json(&["export", text(&there), text(&back)]);
    assert_eq!(copied["files"].as_u64(), Some(42));
    assert_eq!(look(&back), look(&source));
    assert!(blocks(&back.join("sparse")) < 2048, "holes stay holes");
    // Once more: nothing to do, whether it trusts or compares.
    for verify in [&[][..], &["--verify"]] {
        let again = json(&[&["import", text(&source), text(&there)], verify].concat());
        let count = |name: &str| again[name].as_u64();
        assert_eq!((count("files"), count("bytes"), count("skipped")), (Some(0), Some(0), Some(50)), "{again}");
        assert_eq!(count("compared") > Some(0), !verify.is_empty(), "{again}");
    }
    assert_eq!(look(&there), look(&source));
    mount.stop();
    site.assert_clean("after import");
}

/// What has changed in the source since is copied again, in place of what was there.
#[test]
fn changes_are_copied_again() {
    let Some(site) = Site::new("import of changes") else { return };
    let mount = site.dev(&[]);
    let (source, there) = (site.root().join("source"), mount.path().join("copy"));
    plant(&source);
    json(&["import", text(&source), text(&there)]);
    fs::write(source.join("sub/f5"), "changed").expect("write");
    fs::remove_file(source.join("link")).expect("unlink");
    symlink("elsewhere", source.join("link")).expect("symlink");
    assert_eq!(sys::chmod(source.join("sub/f6"), 0o600), Ok(()));
    fs::remove_file(source.join("seven")).expect("unlink");
    fs::write(source.join("seven"), "a file of its own").expect("write");
    // As if bytes had been lost below the right size and time: only a comparison notices.
    let stat = fs::metadata(there.join("sub/f8")).expect("stat");
    let damaged = fs::File::options().write(true).open(there.join("sub/f8")).expect("open");
    damaged.write_all_at(b"!", 100).expect("write");
    damaged.set_modified(stat.modified().expect("mtime")).expect("utimens");
    drop(damaged);
    let copied = json(&["import", "--verify", text(&source), text(&there)]);
    assert_eq!((copied["files"].as_u64(), copied["symlinks"].as_u64()), (Some(3), Some(1)), "{copied}");
    assert_eq!(look(&there), look(&source));
    mount.stop();
    site.assert_clean("after an import of changes");
}

/// An unfinished copy that was begun under another boot is not trusted.
#[test]
fn a_power_loss_makes_it_compare() {
    let Some(site) = Site::new("import after a power loss") else { return };
    let mount = site.dev(&[]);
    let (source, there) = (site.root().join("source"), mount.path().join("copy"));
    plant(&source);
    json(&["import", text(&source), text(&there)]);
    assert_eq!(marks(&there), [] as [PathBuf; 0], "a complete copy has no mark");
    let stat = fs::metadata(there.join("sub/f9")).expect("stat");
    let lost = fs::File::options().write(true).open(there.join("sub/f9")).expect("open");
    lost.write_all_at(&[0; 500], 0).expect("write");
    lost.set_modified(stat.modified().expect("mtime")).expect("utimens");
    drop(lost);
    let times = fs::metadata(&there).expect("stat").modified().expect("mtime");
    mark(&there, "a boot of before");
    let copied = json(&["import", text(&source), text(&there)]);
    assert_eq!(copied["files"].as_u64(), Some(1), "{copied}");
    assert_eq!(look(&there), look(&source));
    assert_eq!(fs::metadata(&there).expect("stat").modified().expect("mtime"), times);
    mount.stop();
}

/// Files of users are files, whatever they are called: nothing is left out, taken over or deleted.
#[test]
fn names_that_look_like_its_own() {
    let Some(site) = Site::new("import of names that look like its own") else { return };
    let mount = site.dev(&[]);
    let (source, there) = (site.root().join("source"), mount.path().join("copy"));
    let digits = "0123456789abcdef";
    let names = [
        ".onpath-copying".to_owned(),
        format!(".onpath-copying-{digits}{digits}"),
        format!(".onpath-part-{digits}"),
        format!("sub/.onpath-part-{digits}"),
        "sub/.onpath-copying".to_owned(),
        format!(".onpath-copying-{digits}aaaaaaaaaaaaaaaa/mark"),
    ];
    for top in [&source, &there] {
        fs::create_dir_all(top.join("sub")).expect("mkdir");
        fs::create_dir(top.join(Path::new(&names[5]).parent().expect("a directory"))).expect("mkdir");
    }
    for (number, name) in names.iter().enumerate() {
        fs::write(source.join(name), format!("{number} of a user")).expect("a file");
    }
    json(&["import", text(&source), text(&there)]);
    assert_eq!(look(&there), look(&source));
    // What is only in the destination stays.
    for name in &names {
        fs::remove_file(source.join(name)).expect("unlink");
    }
    fs::write(source.join("sub/new"), "new").expect("a file");
    json(&["import", text(&source), text(&there)]);
    for (number, name) in names.iter().enumerate() {
        let content = fs::read_to_string(there.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(content, format!("{number} of a user"));
    }
    mount.stop();
    site.assert_clean("after an import of odd names");
}

/// The mark of an interrupted copy is left out where the unfinished copy is copied itself.
#[test]
fn an_unfinished_copy_is_copied_without_its_mark() {
    let Some(site) = Site::new("export of an unfinished copy") else { return };
    let mount = site.dev(&[]);
    let (source, there, back) = (site.root().join("source"), mount.path().join("copy"), site.root().join("back"));
    plant(&source);
    json(&["import", text(&source), text(&there)]);
    mark(&there, "a boot of before");
    json(&["export", text(&there), text(&back)]);
    assert_eq!(marks(&back), [] as [PathBuf; 0]);
    json(&["import", text(&source), text(&there)]);
    assert_eq!(look(&there), look(&source));
    mount.stop();
}

/// Marks of copies that are under way into a directory.
pub(crate) fn marks(dir: &Path) -> Vec<PathBuf> {
    let names = sys::names(dir).unwrap_or_default();
    let marks = names.iter().filter(|name| name.to_string_lossy().starts_with(".onpath-copying-"));
    marks.map(|name| dir.join(name)).collect()
}

/// As if a copy had been interrupted that was begun under this boot.
fn mark(dir: &Path, boot: &str) {
    let name = format!(".onpath-copying-{}", "0f".repeat(16));
    let mark = dir.join(&name);
    fs::create_dir(&mark).expect("mkdir");
    assert_eq!(sys::chmod(&mark, 0o700), Ok(()));
    let text = format!("this marks a copy by onpath, {name}\n0123456789abcdef\n{boot}\n");
    fs::write(mark.join("mark"), text).expect("the mark");
}

/// Extended attributes come along where both sides have them; where the destination has none, that is said.
#[test]
fn extended_attributes() {
    let Some(site) = Site::new("import of extended attributes") else { return };
    let Some(setfattr) = tool("setfattr") else { return skipped("extended_attributes", "setfattr is missing") };
    let mount = site.dev(&[]);
    let (source, there, back) = (site.root().join("source"), mount.path().join("copy"), site.root().join("back"));
    fs::create_dir(&source).expect("mkdir");
    fs::write(source.join("f"), "x").expect("a file");
    let set = |path: &Path| {
        let mut command = Command::new(&setfattr);
        command.args(["-n", "user.colour", "-v", "green"]).arg(path);
        command.output().expect("setfattr runs").status.success()
    };
    if !set(&source.join("f")) {
        return skipped("extended_attributes", "the local file system has none");
    }
    let copied = json(&["import", text(&source), text(&there)]);
    let lost = copied["xattrs_lost"].as_u64();
    if lost == Some(0) {
        json(&["export", text(&there), text(&back)]);
        let read = Command::new("getfattr").args(["-n", "user.colour", "--only-values"]).arg(back.join("f")).output();
        assert_eq!(read.expect("getfattr runs").stdout, b"green");
    } else {
        assert_eq!(lost, Some(1), "{copied}");
        let again = onpath(&["import", text(&source), text(&there)]);
        assert!(again.status.success() && said(&again).contains("1 extended attributes"), "{}", said(&again));
    }
    mount.stop();
}

/// A site with a source, and a mount to copy to.
pub(crate) fn prepared(test: &str) -> Option<(Site, Mount, PathBuf)> {
    let site = Site::new(test)?;
    let mount = site.dev(&[]);
    let source = site.root().join("source");
    plant(&source);
    Some((site, mount, source))
}
