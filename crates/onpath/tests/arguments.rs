//! What is wrong with arguments is told first, once, and with what to do; and who serves in the background can be asked why it ended.

use crate::common::server::{Process, Site, binary, run};
use crate::common::tree::{Times, list};
use crate::common::{sys, wait_until};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What `onpath ARGS…` says, which must fail with this code.
#[track_caller]
fn fails(code: i32, args: &[&OsStr], words: &[&str]) -> String {
    let output = run(args.iter().copied());
    let text = said(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    assert!(words.iter().all(|word| text.contains(word)), "{args:?}: {text}");
    text
}

#[test]
fn a_wrong_mountpoint_formats_nothing() {
    let Some(site) = Site::new("a wrong mountpoint formats nothing") else { return };
    let (state, file) = (site.root().join("new"), site.root().join("file"));
    fs::write(&file, "").expect("a file");
    let missing = site.root().join("no/where");
    let wrong = [(missing.as_path(), "does not exist"), (&file, "is not a directory")];
    for (mountpoint, word) in wrong {
        fails(32, &["dev".as_ref(), state.as_os_str(), mountpoint.as_os_str()], &[word]);
        assert!(!state.exists(), "{} was made for a mountpoint that {word}", state.display());
    }
    let mount = site.dev(&[]);
    fails(32, &["dev".as_ref(), state.as_os_str(), mount.path().as_os_str()], &["already mounted"]);
    assert!(!state.exists());
    fails(1, &["dev".as_ref(), state.as_os_str(), site.mountpoint(1).as_os_str(), "-ofoo".as_ref()], &["foo"]);
    assert!(!state.exists());
    mount.stop();
}

#[test]
fn nobody_serves_is_told_once() {
    let Some(site) = Site::new("nobody serves is told once") else { return };
    let (state, mountpoint) = (site.state(), site.mountpoint(1));
    for args in [
        &["mount".as_ref(), state.as_os_str(), mountpoint.as_os_str()][..],
        &["top".as_ref(), "--json".as_ref(), state.as_os_str()],
    ] {
        let text = fails(32, args, &["nobody serves", "onpath dev"]);
        assert_eq!(text.matches("os error").count(), 1, "{text}");
    }
}

/// The configuration of a cluster is no DIR, nor is any other file.
#[test]
fn a_configuration_is_no_directory() {
    let Some(site) = Site::new("a configuration is no directory") else { return };
    let config = site.root().join("cluster.toml");
    let written = run(["cluster".as_ref(), "init".as_ref(), config.as_os_str(), "a=127.0.0.1".as_ref()]);
    assert!(written.status.success(), "{}", said(&written));
    let at = site.mountpoint(1);
    let [file, at] = [config.as_os_str(), at.as_os_str()];
    let other = site.root().join("notes");
    fs::write(&other, "x").expect("a file");
    for (command, more, code) in [
        ("mount", &[at][..], 32),
        ("dev", &[at], 32),
        ("dev", &[], 32),
        ("format", &[], 32),
        ("reshape", &["--shards=2".as_ref()], 32),
        ("fsck", &[], 8),
        ("inspect", &["--inode=1".as_ref()], 32),
    ] {
        let args: Vec<&OsStr> = [command.as_ref(), file].into_iter().chain(more.iter().copied()).collect();
        let text = fails(code, &args, &["onpath cluster status", "onpath serve --config"]);
        assert!(!text.contains("onpath dev"), "{command}: {text}");
        let args: Vec<&OsStr> = [command.as_ref(), other.as_os_str()].into_iter().chain(more.iter().copied()).collect();
        let text = fails(code, &args, &["is a file, not a directory"]);
        assert!(!text.contains("onpath dev"), "{command}: {text}");
    }
}

/// A start that has nothing to tell tells nothing but that it serves.
#[test]
fn a_quiet_start() {
    let Some(site) = Site::new("a quiet start") else { return };
    for round in ["first", "second", "third"] {
        let mut command = Command::new(binary());
        command.arg("dev").arg(site.state()).env_remove("ONPATH_LOG");
        let server = Process::start(command, site.log(round), "serving");
        let text = server.said();
        assert_eq!(text.lines().filter(|line| !line.starts_with("onpath: ")).count(), 0, "{round}: {text}");
        server.stop();
    }
}

/// A mount in the background whose file system has been replaced ends; why is in a log, though none was asked for.
#[test]
fn the_end_of_a_mount_in_the_background_is_told() {
    let Some(site) = Site::new("the end of a mount in the background") else { return };
    let (state, mountpoint) = (site.state(), site.mountpoint(1));
    let server = site.dev(&[]);
    let output = run(["mount".as_ref(), "-d".as_ref(), state.as_os_str(), mountpoint.as_os_str()]);
    assert!(output.status.success(), "{}", said(&output));
    let name = mountpoint.display().to_string().trim_start_matches('/').replace('/', "-");
    let log = PathBuf::from(format!("/var/log/onpath/{name}.log"));
    server.stop();
    fs::rename(&state, site.root().join("before")).expect("rename");
    let other = site.dev(&[]);
    wait_until("the mount ends", || !crate::common::server::is_mounted(&mountpoint));
    wait_until("it is told why", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("holds another file system"))
    });
    assert_eq!(
        fs::metadata(&log).map(|about| std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777).ok(),
        Some(0o600)
    );
    fs::remove_file(&log).expect("the log is there");
    other.stop();
}

/// Runs `mount --bind`.
fn bind(from: &Path, to: &Path) {
    let status = Command::new("mount").arg("--bind").args([from, to]).status().expect("mount runs");
    assert!(status.success());
}

/// Bind mounts of a test that go with it.
struct Bound(PathBuf);

impl Drop for Bound {
    fn drop(&mut self) {
        _ = sys::detach(&self.0);
    }
}

/// A mount above DIR would hide it from its own server, which waits for itself then; a mount in DIR would hide what the server keeps.
#[test]
fn a_directory_and_a_mountpoint_do_not_nest() {
    let Some(site) = Site::new("nested directories") else { return };
    let root = site.root().join("nested");
    let path = |name: &str| root.join(name);
    for name in ["a/b/c", "elsewhere", "bound", "outside"] {
        fs::create_dir_all(path(name)).expect("mkdir");
    }
    symlink(path("a"), path("link")).expect("symlink");
    bind(&path("a"), &path("bound"));
    let _bound = Bound(path("bound"));
    fs::create_dir(path("inner")).expect("mkdir");
    bind(&path("a/b"), &path("inner"));
    let _inner = Bound(path("inner"));
    let nested = [
        ("a", "a"),
        ("a/b", "a"),
        ("a/b/c", "a"),
        ("a/new", "a"),
        ("a", "a/b"),
        ("a", "a/b/c"),
        ("link/new", "a"),
        ("a/new", "link"),
        ("a", "link/b"),
        ("elsewhere/../a/b", "a"),
        ("bound/new", "a"),
        ("a/new", "bound"),
        ("a", "bound/b"),
        ("bound", "a/b"),
        ("inner/new", "a"),
        ("a/b", "inner/c"),
    ];
    let before = list(&root, Times::Ignored);
    for (dir, at) in nested {
        let text = fails(32, &["dev".as_ref(), path(dir).as_os_str(), path(at).as_os_str()], &["choose"]);
        assert!(!text.contains("mounted on"), "{dir} {at}: {text}");
        assert_eq!(list(&root, Times::Ignored), before, "{dir} {at}");
    }
    // Beside each other they may be, and a name that only begins like the other is no nesting.
    fs::create_dir_all(path("outside/data-mnt")).expect("mkdir");
    let mut command = Command::new(binary());
    command.arg("dev").arg(path("outside/data")).arg(path("outside/data-mnt"));
    let beside = Process::start(command, site.log("beside"), "mounted on");
    // A further mount does not hide it either, nor does a log in it make it wait for itself.
    fails(32, &["mount".as_ref(), path("outside/data").as_os_str(), path("outside").as_os_str()], &["choose"]);
    let at = path("elsewhere");
    let log = at.join("log");
    let args =
        ["mount".as_ref(), "--log-file".as_ref(), log.as_os_str(), path("outside/data").as_os_str(), at.as_os_str()]
            .map(OsStr::to_owned);
    fails(32, &args.iter().map(AsRef::as_ref).collect::<Vec<_>>(), &["choose"]);
    assert!(!log.exists());
    beside.stop();
}

/// Suites in a shape that does not exist would pass, and show nothing of the one that was meant.
#[test]
fn suites_refuse_a_shape_that_does_not_exist() {
    let suite = "arguments::nobody_serves_is_told_once";
    for (variable, word, there_is) in
        [("ONPATH_WRITES", "visble", "two-phase"), ("ONPATH_TRACKING", "table", "xdp"), ("ONPATH_COMMIT", "", "sync")]
    {
        let program = std::env::current_exe().expect("this program");
        let output = Command::new(program).args(["--exact", suite]).env(variable, word).output().expect("it runs");
        let text = said(&output);
        assert!(!output.status.success() && text.contains(&format!("{variable}={word} is none of")), "{text}");
        assert!(text.contains(there_is), "{text}");
    }
}
