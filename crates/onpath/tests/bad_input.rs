//! Bad input: each is refused with a message that names it and says what to do, a non-zero exit, and no panic.

use crate::common::server::{Mount, Site, binary, run};
use crate::common::{skipped, sys, tool};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The first bytes of a batch in a journal segment; its length follows.
const BATCH_MAGIC: &[u8; 4] = b"OnpB";

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The command must have failed by itself, saying all of this on standard error.
fn assert_refused(what: &str, output: &Output, wanted: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(code.is_some_and(|code| code != 0 && code < 124), "{what}: {:?}\n{}", output.status, said(output));
    assert!(!said(output).contains("panicked"), "{what}: panicked\n{}", said(output));
    for words in wanted {
        assert!(error.contains(words), "{what}: does not say {words:?}:\n{error}");
    }
}

fn dev(dir: &Path, mountpoint: &Path, args: &[&str]) -> Output {
    let words = args.iter().map(OsStr::new);
    run(["dev".as_ref(), dir.as_os_str(), mountpoint.as_os_str()].into_iter().chain(words))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

/// A site with a DIR that was formatted, used and stopped.
fn used(test: &str, args: &[&str]) -> Option<Site> {
    let site = Site::new(test)?;
    let mount = site.dev(args);
    for n in 0..20 {
        fs::write(mount.path().join(format!("f{n}")), "content").expect("a file");
    }
    mount.stop();
    Some(site)
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let Some(site) = Site::new("a foreign DIR") else { return };
    fs::create_dir(site.state()).expect("mkdir");
    fs::write(site.state().join("thesis.tex"), "x").expect("a file");
    let output = dev(&site.state(), &site.mountpoint(0), &[]);
    assert_refused("a foreign directory", &output, &[text(&site.state()), "thesis.tex", "empty"]);
    assert_eq!(fs::read_dir(site.state()).expect("list").count(), 1, "something was left behind");
}

#[test]
fn a_dir_that_is_none() {
    let Some(site) = Site::new("DIR that is none") else { return };
    let file = site.root().join("file");
    fs::write(&file, "x").expect("a file");
    assert_refused("DIR is a file", &dev(&file, &site.mountpoint(0), &[]), &[text(&file)]);
    let deep = site.root().join("missing/dir");
    assert_refused("DIR in a missing directory", &dev(&deep, &site.mountpoint(0), &[]), &[text(&deep)]);
}

#[test]
fn a_dir_in_use() {
    let Some(site) = Site::new("DIR in use") else { return };
    let mount = site.dev(&[]);
    let output = dev(&site.state(), &site.mountpoint(1), &[]);
    let pid = mount.pid().to_string();
    assert_refused("a DIR in use", &output, &[text(&site.state()), "in use", &pid, "onpath mount"]);
    let data = run(["fsck".as_ref(), "--data".as_ref(), site.state().as_os_str()]);
    assert_refused("fsck --data of a DIR in use", &data, &[text(&site.state()), "is served", "stop it first"]);
    mount.stop();
}

#[test]
fn a_mountpoint_that_is_none() {
    let Some(site) = Site::new("bad mountpoints") else { return };
    let missing = site.root().join("nowhere");
    assert_refused("a missing mountpoint", &dev(&site.state(), &missing, &[]), &[text(&missing), "does not exist"]);
    let file = site.root().join("file");
    fs::write(&file, "x").expect("a file");
    assert_refused("a file as mountpoint", &dev(&site.state(), &file, &[]), &[text(&file), "not a directory"]);
    let below = file.join("below");
    assert_refused("a mountpoint below a file", &dev(&site.state(), &below, &[]), &[text(&below)]);
}

#[test]
fn a_mountpoint_in_use() {
    let Some(site) = Site::new("a busy mountpoint") else { return };
    let mount = site.dev(&[]);
    let other = site.root().join("other");
    let output = dev(&other, mount.path(), &[]);
    assert_refused("a live mount is there", &output, &[text(mount.path()), "mounted", "umount"]);
    fs::write(mount.path().join("f"), "still there").expect("the first mount works");
    mount.stop();
}

/// Somebody's working directory keeps the mount after Ctrl-C, which says who; it ends when they leave, or at the second Ctrl-C.
#[test]
fn a_busy_mount_at_the_end() {
    for leaves in [true, false] {
        let Some(site) = Site::new("a busy mount at the end") else { return };
        let mount = site.dev(&[]);
        let mut user = Command::new("sleep");
        let mut user = crate::common::process::spawn(user.arg("60").current_dir(mount.path())).expect("sleep");
        mount.signal(libc::SIGINT);
        let pid = user.id().to_string();
        crate::common::wait_until("the mount says who uses it", || {
            let said = mount.said();
            said.contains("busy") && said.contains(&pid)
        });
        if leaves {
            user.kill().and_then(|()| user.wait()).expect("kill of our child");
            mount.ends();
        } else {
            mount.signal(libc::SIGINT);
            crate::common::wait_until("the mount is detached", || !crate::common::server::is_mounted(mount.path()));
            assert!(sys::stat(format!("/proc/{pid}/cwd")).is_ok(), "its user keeps it");
            user.kill().and_then(|()| user.wait()).expect("kill of our child");
            mount.ends();
        }
    }
}

#[test]
fn no_fuse_device() {
    let Some(site) = Site::new("no /dev/fuse") else { return };
    if tool("unshare").is_none() {
        return skipped("no /dev/fuse", "unshare(1) is missing");
    }
    let empty = site.root().join("empty");
    fs::create_dir(&empty).expect("mkdir");
    let script = r#"mount --bind "$1" /dev && exec timeout 30 "$2" dev "$3" "$4""#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(&empty).arg(binary()).arg(site.state()).arg(site.mountpoint(0));
    let output = command.output().expect("unshare runs");
    assert_refused("no /dev/fuse", &output, &["/dev/fuse", "modprobe"]);
}

#[test]
fn unknown_words() {
    let Some(site) = Site::new("unknown words") else { return };
    let mountpoint = site.mountpoint(0);
    assert_refused("an unknown option", &dev(&site.state(), &mountpoint, &["-o", "frobnicate"]), &["frobnicate"]);
    assert_refused("no shards", &dev(&site.state(), &mountpoint, &["--shards", "0"]), &["shards"]);
    assert_refused("shards in words", &dev(&site.state(), &mountpoint, &["--shards", "many"]), &["many"]);
    assert_refused("a commit mode", &dev(&site.state(), &mountpoint, &["--commit", "never"]), &["never", "sync"]);
    assert_refused("an unknown verb", &run(["frobnicate".as_ref()]), &["frobnicate", "--help"]);
}

/// A second mount where no `dev` runs, where no file system is, and where nothing is at all.
#[test]
fn nothing_to_attach_to() {
    let Some(site) = used("nothing to attach to", &[]) else { return };
    let mountpoint = site.mountpoint(1);
    let attach = |dir: &Path| run(["mount".as_ref(), dir.as_os_str(), mountpoint.as_os_str()]);
    assert_refused("no dev runs", &attach(&site.state()), &[text(&site.state()), "onpath dev"]);
    let foreign = site.root().join("foreign");
    fs::create_dir(&foreign).expect("mkdir");
    assert_refused("no file system", &attach(&foreign), &[text(&foreign)]);
    let missing = site.root().join("missing");
    assert_refused("a missing DIR", &attach(&missing), &[text(&missing)]);
}

#[test]
fn another_number_of_shards() {
    let Some(site) = used("another number of shards", &["--shards", "2"]) else { return };
    let output = dev(&site.state(), &site.mountpoint(0), &["--shards", "4"]);
    assert_refused(
        "another number of shards",
        &output,
        &[text(&site.state()), "2 shards", "--shards", "onpath reshape"],
    );
    site.dev(&["--shards", "2"]).stop();
}

/// Changes one byte of a file.
fn patch(file: &Path, offset: usize, change: impl FnOnce(u8) -> u8) {
    let mut bytes = fs::read(file).expect("read");
    bytes[offset] = change(bytes[offset]);
    fs::write(file, bytes).expect("write");
}

#[test]
fn another_format() {
    let Some(site) = used("another format", &[]) else { return };
    let superblock = site.state().join("superblock");
    let refused = |what, wanted: &[&str]| {
        assert_refused(what, &dev(&site.state(), &site.mountpoint(0), &[]), wanted);
        assert_refused(what, &run(["fsck".as_ref(), site.state().as_os_str()]), wanted);
    };
    patch(&superblock, 8, |version| version + 8);
    refused("a superblock of another version", &[text(&site.state()), "format version 10"]);
    patch(&superblock, 8, |version| version - 8);
    patch(&superblock, 40, |byte| byte ^ 0x10);
    refused("a damaged superblock", &["superblock", "damaged"]);
    patch(&superblock, 40, |byte| byte ^ 0x10);
    fs::rename(&superblock, site.root().join("aside")).expect("rename");
    let output = run(["fsck".as_ref(), site.state().as_os_str()]);
    assert_refused("no superblock", &output, &[text(&site.state()), "superblock"]);
    fs::rename(site.root().join("aside"), &superblock).expect("rename back");
    site.dev(&[]).stop();
}

/// The segments that hold batches, each with the places of its batches: offset and length.
fn segments(dir: &Path) -> Vec<(PathBuf, Vec<(usize, usize)>)> {
    let names = sys::names(dir.join("journals/1/journal")).expect("the journal's directory");
    let segments = names.into_iter().filter(|name| Path::new(name).extension() == Some("seg".as_ref())).map(|name| {
        let path = dir.join("journals/1/journal").join(name);
        let places = batches(&fs::read(&path).expect("read of a segment"));
        (path, places)
    });
    segments.filter(|(_, places)| !places.is_empty()).collect()
}

fn batches(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut places = vec![];
    let Some(mut at) = bytes.windows(4).take(4096).position(|word| word == BATCH_MAGIC) else { return places };
    while bytes.get(at..at + 4) == Some(BATCH_MAGIC) {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        places.push((at, length));
        at += length;
    }
    places
}

/// A DIR whose process was killed before anything was flushed, so that the end of its journal may be torn.
fn killed_early(site: &Site) -> Mount {
    let mut mount = site.dev(&["--commit-interval-ms", "60000", "--shards", "1"]);
    for n in 0..50 {
        fs::write(mount.path().join(format!("f{n}")), format!("content {n}")).expect("a file");
    }
    mount.kill();
    mount
}

fn assert_cut(site: &Site, file: &Path, offset: usize) {
    let mount = site.dev(&[]);
    let said = mount.said();
    let name = file.file_name().expect("a name").to_str().expect("text");
    assert!(said.contains("cut") && said.contains(name), "the cut is not said:\n{said}");
    assert!(said.contains(&offset.to_string()), "the offset {offset} is not said:\n{said}");
    for n in 0..40 {
        let content = fs::read_to_string(mount.path().join(format!("f{n}"))).expect("a file from before");
        assert_eq!(content, format!("content {n}"));
    }
    fs::write(mount.path().join("later"), "later").expect("a file after the cut");
    mount.stop();
    site.assert_clean("after a cut");
    let again = site.dev(&[]);
    assert!(!again.said().contains("is cut"), "cut twice:\n{}", again.said());
    assert_eq!(fs::read(again.path().join("later")).expect("a file"), b"later");
    again.stop();
}

#[test]
fn a_torn_tail_is_cut() {
    let Some(site) = Site::new("a torn tail") else { return };
    drop(killed_early(&site));
    let (file, places) = segments(&site.state()).pop().expect("a segment with batches");
    let (offset, length) = *places.last().expect("a batch");
    patch(&file, offset + length - 1, |byte| byte ^ 0x55);
    assert_cut(&site, &file, offset);
}

#[test]
fn a_truncated_tail_is_cut() {
    let Some(site) = Site::new("a truncated tail") else { return };
    drop(killed_early(&site));
    let (file, places) = segments(&site.state()).pop().expect("a segment with batches");
    let (offset, length) = *places.last().expect("a batch");
    fs::OpenOptions::new()
        .write(true)
        .open(&file)
        .and_then(|f| f.set_len((offset + length / 2) as u64))
        .expect("truncate");
    assert_cut(&site, &file, offset);
}

/// What was durable and is broken now is refused: the file system does not start as if it had never been.
#[test]
fn a_damaged_middle_is_refused() {
    let Some(site) = Site::new("a damaged middle") else { return };
    let mut mount = site.dev(&["--commit", "sync", "--shards", "1"]);
    for n in 0..20 {
        fs::write(mount.path().join(format!("f{n}")), "content").expect("a file");
    }
    mount.kill();
    drop(mount);
    let (file, places) = segments(&site.state()).into_iter().next().expect("a segment with batches");
    let (offset, length) = places[places.len() / 2];
    let name = file.file_name().expect("a name").to_str().expect("text");
    patch(&file, offset + length - 1, |byte| byte ^ 0x55);
    let output = dev(&site.state(), &site.mountpoint(0), &[]);
    assert_refused("a damaged middle", &output, &["damaged", name, &offset.to_string()]);
    assert_refused("fsck of it", &run(["fsck".as_ref(), site.state().as_os_str()]), &[name, &offset.to_string()]);
    patch(&file, offset + length - 1, |byte| byte ^ 0x55);
    let mount = site.dev(&[]);
    assert_eq!(sys::names(mount.path()).expect("readdir").len(), 20);
    mount.stop();
}

/// The head of a segment whose batches were durable is no torn end either.
#[test]
fn a_damaged_segment_head_is_refused() {
    let Some(site) = Site::new("a damaged segment head") else { return };
    let mut mount = site.dev(&["--commit", "sync", "--shards", "1"]);
    fs::write(mount.path().join("f"), "content").expect("a file");
    mount.kill();
    drop(mount);
    let (file, _) = segments(&site.state()).into_iter().next().expect("a segment with batches");
    patch(&file, 0, |byte| byte ^ 0x55);
    let name = file.file_name().expect("a name").to_str().expect("text");
    let output = dev(&site.state(), &site.mountpoint(0), &[]);
    assert_refused("a damaged segment head", &output, &["damaged", name]);
}
