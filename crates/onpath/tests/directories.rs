//! DIR belongs to one user: nobody else reads what is in it, root does not work in that of somebody else, and nothing that another user
//! puts into the way of it is followed.

use crate::common::server::{Mount, Process, Site, binary, run};
use crate::common::user::ALICE;
use crate::common::{process, sys, wait_until};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A user whom every system has.
const NOBODY: u32 = 65_534;

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Everything below a directory, without what it links to.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("list") {
        let path = entry.expect("an entry").path();
        if fs::symlink_metadata(&path).expect("lstat").is_dir() {
            all.extend(below(&path));
        }
        all.push(path);
    }
    all
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("lstat").permissions().mode() & 0o7777
}

/// Fails the test unless DIR is closed to everybody but its owner.
#[track_caller]
fn assert_closed(state: &Path) {
    assert_eq!(mode(state), 0o711, "DIR");
    for path in below(state) {
        let kind = fs::symlink_metadata(&path).expect("lstat").file_type();
        let wanted = if kind.is_dir() { 0o700 } else { 0o600 };
        assert!(kind.is_socket() || mode(&path) == wanted, "{} has mode {:o}", path.display(), mode(&path));
    }
}

/// A command with umask 0.
fn open_handed(args: &[&OsStr]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"umask 0; exec "$@""#, "sh", binary()]).args(args);
    command
}

fn format(state: &Path) {
    let output = run(["format".as_ref(), state.as_os_str(), "--shards=2".as_ref()]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn others_read_nothing_whatever_the_umask() {
    let Some(site) = Site::new("others read nothing") else { return };
    let (state, mountpoint) = (site.state(), site.mountpoint(0));
    let dev = |log: &str| {
        let args = [OsStr::new("dev"), state.as_os_str(), mountpoint.as_os_str(), "--checkpoint-bytes=65536".as_ref()];
        Mount::start(open_handed(&args), mountpoint.clone(), site.log(log))
    };
    let mount = dev("first");
    for number in 0..300 {
        fs::write(mount.path().join(format!("file{number}")), "nobody's business").expect("a file");
    }
    assert_closed(&state);
    let socket = state.join("socket");
    assert_eq!(mode(&socket), 0o666, "whoever may attach is told by the server who may not");
    ALICE.run(|| {
        assert_eq!(sys::open(state.join("superblock"), libc::O_RDONLY, 0).err(), Some(libc::EACCES));
        assert_eq!(sys::open(&state, libc::O_RDONLY, 0).err(), Some(libc::EACCES));
        std::os::unix::net::UnixStream::connect(&socket).map(drop).expect("everybody reaches the socket");
    });
    mount.stop();
    assert_closed(&state);
    dev("second").stop();
    assert_closed(&state);
    let reshaped =
        open_handed(&["reshape".as_ref(), state.as_os_str(), "--shards=3".as_ref()]).output().expect("reshape");
    assert!(reshaped.status.success(), "{}", said(&reshaped));
    assert_closed(&state);
    site.assert_clean("at the end");
}

/// A DIR of an earlier version is closed when it is next started, and one line tells of it.
#[test]
fn an_open_directory_is_closed_at_start() {
    let Some(site) = Site::new("an open directory is closed") else { return };
    let state = site.state();
    format(&state);
    for path in below(&state) {
        let open = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(open)).expect("chmod");
    }
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).expect("chmod");
    let lines = |mount: &Mount| mount.said().lines().filter(|line| line.contains("0711")).count();
    let mount = site.dev(&[]);
    assert_closed(&state);
    assert_eq!(lines(&mount), 1, "{}", mount.said());
    mount.stop();
    let mount = site.dev(&[]);
    assert_eq!(lines(&mount), 0, "{}", mount.said());
    mount.stop();
}

/// Gives DIR and all in it to somebody.
fn give(state: &Path, uid: u32) {
    for path in below(state).into_iter().chain([state.to_owned()]) {
        std::os::unix::fs::lchown(path, Some(uid), Some(uid)).expect("chown");
    }
}

/// What `onpath ARGS…` says, which must refuse.
#[track_caller]
fn refused(args: &[&OsStr], words: &[&str]) {
    let output = run(args.iter().copied());
    let text = said(&output);
    assert_eq!(output.status.code(), Some(32), "{args:?}: {text}");
    assert!(words.iter().all(|word| text.contains(word)), "{args:?}: {text}");
}

#[test]
fn root_does_not_work_in_the_directory_of_somebody_else() {
    let Some(site) = Site::new("another user's directory") else { return };
    let (state, mountpoint) = (site.state(), site.mountpoint(0));
    let secret = site.root().join("secret");
    let [dir, at] = [state.as_os_str(), mountpoint.as_os_str()];
    for link in
        ["lock", "superblock.tmp", "boot.tmp", "socket", "journals/1/checkpoint/writing", "journals/1/data/0000.tmp"]
    {
        format(&state);
        fs::write(&secret, "secret").expect("a file");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("chmod");
        _ = fs::remove_file(state.join(link));
        symlink(&secret, state.join(link)).expect("symlink");
        give(&state, NOBODY);
        refused(&["dev".as_ref(), dir, at], &["runuser -u nobody", "onpath mount"]);
        refused(&["dev".as_ref(), dir], &["runuser -u nobody"]);
        refused(&["reshape".as_ref(), dir, "--shards=3".as_ref()], &["runuser -u nobody"]);
        let checked = run(["fsck".as_ref(), "--repair".as_ref(), dir]);
        assert!(said(&checked).contains("runuser -u nobody"), "{}", said(&checked));
        assert_eq!(fs::read(&secret).expect("read"), b"secret", "{link} was followed");
        assert_eq!(mode(&secret), 0o600, "{link} was followed");
        fs::remove_dir_all(&state).expect("remove");
    }
    // Nor is an empty one formatted.
    fs::create_dir(&state).expect("mkdir");
    chown(&state, Some(NOBODY), Some(NOBODY)).expect("chown");
    refused(&["dev".as_ref(), dir, at], &["runuser -u nobody"]);
    refused(&["format".as_ref(), dir], &["runuser -u nobody"]);
    assert_eq!(below(&state), Vec::<PathBuf>::new());
}

/// Who serves DIR as its owner is attached to by root, which mounts.
#[test]
fn root_mounts_what_another_user_serves() {
    let Some(site) = Site::new("mounting what another user serves") else { return };
    let state = site.state();
    fs::create_dir(&state).expect("mkdir");
    chown(&state, Some(NOBODY), Some(NOBODY)).expect("chown");
    // The binary may be where only root gets to.
    let copy = site.root().join("onpath");
    process::copy_program(binary(), &copy);
    let mut command = Command::new(copy);
    command.arg("dev").arg(&state).uid(NOBODY).gid(NOBODY);
    let server = Process::start(command, site.log("dev"), "serving");
    let mount = site.mount(1, &[]);
    fs::write(mount.path().join("f"), "x").expect("a file");
    assert_eq!(fs::metadata(mount.path().join("f")).expect("stat").uid(), 0);
    assert!(run(["status".as_ref(), state.as_os_str()]).status.success());
    mount.stop();
    server.stop();
    assert_closed(&state);
    assert!(below(&state).iter().all(|path| fs::symlink_metadata(path).expect("lstat").uid() == NOBODY));
}

/// Root's own DIR, into which others have put something while they could.
#[test]
fn contents_of_others_are_refused() {
    let Some(site) = Site::new("contents of others") else { return };
    let (state, mountpoint) = (site.state(), site.mountpoint(0));
    let [dir, at] = [state.as_os_str(), mountpoint.as_os_str()];
    let secret = site.root().join("secret");
    type Deed<'a> = &'a dyn Fn(&Path);
    let given = |path: &Path| chown(path, Some(NOBODY), None).expect("chown");
    let opened = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("chmod");
    let linked = |path: &Path| {
        let moved = site.root().join("moved");
        _ = fs::remove_dir_all(&moved).or_else(|_| fs::remove_file(&moved));
        match fs::rename(path, &moved) {
            Ok(()) => symlink(&moved, path),
            Err(_) => symlink(&secret, path),
        }
        .expect("symlink");
    };
    let deeds: [(&str, Deed<'_>, &str); 10] = [
        ("superblock", &given, "65534"),
        ("journals/1/journal", &given, "65534"),
        ("superblock", &opened, "0666"),
        ("lock", &linked, "symbolic link"),
        ("superblock", &linked, "symbolic link"),
        ("superblock.tmp", &linked, "symbolic link"),
        ("boot.tmp", &linked, "symbolic link"),
        ("journals/1/journal", &linked, "symbolic link"),
        ("journals/1/checkpoint", &linked, "symbolic link"),
        ("journals/1/data/0000.tmp", &linked, "symbolic link"),
    ];
    for (name, deed, word) in deeds {
        format(&state);
        fs::write(&secret, "secret").expect("a file");
        deed(&state.join(name));
        refused(&["dev".as_ref(), dir, at], &[name, word]);
        assert_eq!(fs::read(&secret).expect("read"), b"secret", "{name} was followed");
        fs::remove_dir_all(&state).expect("remove");
    }
}

/// Root's DIR in a directory of another user, who swaps it while it is served: root goes on in its own.
#[test]
fn the_way_to_the_directory_may_change() {
    let Some(site) = Site::new("a swapped directory") else { return };
    let home = site.root().join("home");
    let (state, secret) = (home.join("state"), site.root().join("secret"));
    fs::create_dir_all(&home).expect("mkdir");
    chown(&home, Some(ALICE.uid), None).expect("chown");
    fs::write(&secret, "secret").expect("a file");
    let mount = site.dev_on(&state, &["--shards", "1", "--checkpoint-bytes", "65536"]);
    fs::write(mount.path().join("before"), "x").expect("a file");
    let apart = home.join("apart");
    let links = [
        "superblock.tmp",
        "boot.tmp",
        "socket",
        "journals/1/checkpoint/writing",
        "journals/1/checkpoint/reserve",
        "journals/1/data/0000.tmp",
    ];
    ALICE.run(|| {
        fs::rename(&state, &apart).expect("alice may rename what is in her directory");
        for dir in ["journal", "checkpoint", "data"] {
            fs::create_dir_all(state.join("journals/1").join(dir)).expect("mkdir");
        }
        links.iter().for_each(|link| symlink(&secret, state.join(link)).expect("symlink"));
    });
    let theirs = below(&state).len();
    for number in 0..2000 {
        fs::write(mount.path().join(format!("file{number}")), "y").expect("a file");
    }
    wait_until("checkpoints are written", || {
        mount.said().matches("checkpoint").count() > 0
            || fs::exists(apart.join("journals/1/checkpoint/store.redb")).is_ok()
    });
    mount.stop();
    assert_eq!(fs::read(&secret).expect("read"), b"secret");
    assert_eq!(mode(&secret), 0o644);
    assert_eq!(below(&state).len(), theirs, "{:?}", below(&state));
    let again = site.dev_on(&apart, &[]);
    assert_eq!(fs::read(again.path().join("file1999")).expect("read"), b"y");
    again.stop();
}
