//! File systems without a mount: the client library and the commands over it say what the kernel says of a mount.

mod completing;
mod copies;
mod globs;
mod imports;
mod library;
mod making;
mod moving;
pub(crate) mod paths;
mod reading;
mod same;
mod shell;
mod suite;
mod trees;
mod users;

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Mount, Site, binary};
use crate::common::sys;
use crate::common::user::{ALICE, BOB, BOB_IN_TEAM, ROOT, TEAM, User, in_thread};
use onpath_client::blocking::Client;
use onpath_client::{Caller, Metadata, Options};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// A tree with files of all kinds, and ways through it.
fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("a/b/c")).expect("mkdir");
    fs::write(root.join("a/b/c/file"), vec![7; 5_000]).expect("write");
    fs::hard_link(root.join("a/b/c/file"), root.join("a/second")).expect("link");
    fs::set_permissions(root.join("a/second"), Permissions::from_mode(0o4751)).expect("chmod");
    for (target, name) in [
        ("b/c/file", "a/to-file"),
        ("/a/b", "a/b/c/from-root"),
        ("../..", "a/b/up"),
        ("missing", "dangling"),
        ("loop-2", "loop-1"),
        ("loop-1", "loop-2"),
        ("a/b/", "slash"),
    ] {
        symlink(target, root.join(name)).expect("symlink");
    }
    let made = Command::new("mkfifo").arg(root.join("fifo")).status().expect("mkfifo runs");
    assert!(made.success());
    fs::write(root.join(OsStr::from_bytes(&[b'x'; 255])), "").expect("a long name");
    fs::write(root.join(OsStr::from_bytes(b"\xff\xfe\n name")), "1").expect("a name of any bytes");
}

/// Paths from the root that lead somewhere, or not.
fn paths() -> Vec<Vec<u8>> {
    let deep = |times: usize| b"/a/..".repeat(times);
    let mut all: Vec<Vec<u8>> = [
        "/",
        ".",
        "..",
        "a",
        "/a/",
        "//a//b///c/",
        "a/.",
        "a/./b/../b/c/file",
        "a/b/c/file/",
        "a/b/c/file/.",
        "a/b/c/file/..",
        "a/b/c/file/x",
        "a/second",
        "a/to-file",
        "a/to-file/",
        "a/b/c/from-root",
        "a/b/c/from-root/c/file",
        "a/b/up",
        "a/b/up/second",
        "dangling",
        "dangling/",
        "dangling/x",
        "loop-1",
        "loop-1/",
        "slash",
        "slash/c",
        "fifo",
        "fifo/",
        "missing",
        "missing/",
        "missing/x",
        "a/missing/../b",
        "../../a",
        "",
    ]
    .map(|path| path.as_bytes().to_vec())
    .into();
    all.extend([vec![b'x'; 255], vec![b'x'; 256], b"\xff\xfe\n name".to_vec(), deep(100), deep(682), deep(683)]);
    all
}

/// What stat(2) or lstat(2) says: the fields that both know, or the error.
fn of_kernel(path: &[u8], follow: bool) -> Result<Vec<u64>, i32> {
    let path = OsStr::from_bytes(path);
    let found = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) };
    let is = found.map_err(|error| error.raw_os_error().expect("of the kernel"))?;
    let times = [is.mtime() as u64, is.mtime_nsec() as u64, is.ctime() as u64, is.ctime_nsec() as u64];
    let fields = [is.ino(), is.mode().into(), is.nlink(), is.uid().into(), is.gid().into(), is.size(), is.blocks()];
    Ok([&fields[..], &times, &[is.rdev()]].concat())
}

fn of_client(told: Result<Metadata, onpath_client::Error>) -> Result<Vec<u64>, i32> {
    let is = told.map_err(|error| error.raw_os_error().unwrap_or_else(|| panic!("{error}")))?;
    let [mtime, ctime] = [is.mtime as u64, is.ctime as u64].map(|ns| [ns / 1_000_000_000, ns % 1_000_000_000]);
    let fields = [is.ino, is.mode().into(), is.nlink.into(), is.uid.into(), is.gid.into(), is.size, is.blocks];
    Ok([&fields[..], &mtime, &ctime, &[is.rdev]].concat())
}

/// Each path means to the client what it means to a process of that user whose root is the mount. How many lead nowhere.
fn assert_same(client: &Client, mount: &Mount, user: User) -> usize {
    let as_user = Caller { uid: user.uid, gid: user.gid, groups: user.groups.to_vec(), ..Caller::default() };
    let caller = if user.uid == 0 { Caller::root() } else { as_user };
    let all: Vec<(Vec<u8>, bool)> =
        paths().into_iter().flat_map(|path| [(path.clone(), true), (path, false)]).collect();
    let kernel = in_thread(|| {
        sys::chroot(mount.path()).expect("chroot");
        user.run(|| all.iter().map(|(path, follow)| of_kernel(path, *follow)).collect::<Vec<_>>())
    });
    for ((path, follow), kernel) in all.iter().zip(&kernel) {
        let told = if *follow { client.stat(&caller, path) } else { client.lstat(&caller, path) };
        assert_eq!(&of_client(told), kernel, "{:?}, follow: {follow}, {user:?}", String::from_utf8_lossy(path));
    }
    kernel.iter().filter(|told| told.is_err()).count()
}

/// The mount is made before the client comes, and looked at when both are there.
fn assert_same_for_all(client: &Client, mount: &Mount) {
    assert!((30..60).contains(&assert_same(client, mount, ROOT)));
    let (closed, open) = (Permissions::from_mode(0o750), Permissions::from_mode(0o755));
    let dir = mount.path().join("a/b");
    std::os::unix::fs::chown(&dir, Some(ALICE.uid), Some(TEAM)).expect("chown");
    fs::set_permissions(&dir, closed).expect("chmod");
    let (alice, bob) = (assert_same(client, mount, ALICE), assert_same(client, mount, BOB));
    assert!(bob > alice, "{bob} and {alice}: search permission is lost on the way");
    assert_eq!(assert_same(client, mount, BOB_IN_TEAM), alice);
    fs::set_permissions(&dir, open).expect("chmod");
    assert_eq!(assert_same(client, mount, BOB), alice);
}

#[test]
fn a_path_is_what_it_is_on_a_mount() {
    let Some(site) = Site::new("remote::a_path_is_what_it_is_on_a_mount") else { return };
    let mount = site.dev(&["--shards", "3"]);
    make_tree(mount.path());
    let client = Client::connect(&site.state().display().to_string(), &Options::default()).expect("a client");
    assert_same_for_all(&client, &mount);
    client.close();
    mount.stop();
    site.assert_clean("after a client");
}

#[test]
fn a_path_is_what_it_is_on_a_mount_of_a_cluster() {
    const TEST: &str = "remote::a_path_is_what_it_is_on_a_mount_of_a_cluster";
    let Some(site) = Site::new(TEST) else { return };
    let Some(cluster) = Cluster::start(TEST, &site, Shape { servers: 2, clients: 2, ..Shape::default() }) else {
        return;
    };
    // Set-user-id bits of a mount without a key count for nothing, but are shown.
    let mount = cluster.mount(&site, 0, &[]);
    make_tree(mount.path());
    let url = cluster.url();
    let client = cluster.net.run_on(3, || Client::connect(&url, &Options::default()).expect("a client"));
    assert_same_for_all(&client, &mount);
    // A host that restarts is waited for.
    client.close();
    mount.stop();
    cluster.stop();
}

#[test]
fn calls_end_as_on_a_mount() {
    const TEST: &str = "remote::calls_end_as_on_a_mount";
    let (Some(site), Some(other)) = (Site::new(TEST), Site::new(TEST)) else { return };
    for seed in 1..=3 {
        let state = site.root().join(format!("state-{seed}"));
        let mount = site.dev_on(&state, &[]);
        // The kernel alone decides who may search what.
        let kernel = other.dev_on(&other.root().join(format!("state-{seed}")), &["-o", "default_permissions"]);
        // By what it keeps of a path node's answers, name by name, and by a path node alone.
        let path_cache = if seed == 3 { 0 } else { Options::default().path_cache };
        let options = Options { path_nodes: seed != 2, path_cache, ..Options::default() };
        let client = Client::connect(&state.display().to_string(), &options).expect("a client");
        same::assert_ends_the_same(&client, &mount, &kernel, seed, 3_000);
        client.close();
        mount.stop();
        kernel.stop();
    }
}

/// What a normal user's shell sees: words, exit codes, and names that no terminal should get.
#[test]
fn stat_is_a_command() {
    let Some(site) = Site::new("remote::stat_is_a_command") else { return };
    let mount = site.dev(&[]);
    make_tree(mount.path());
    let stat = |args: &[&str]| {
        let mut command = Command::new(binary());
        let output = command.args(["stat", "--at"]).arg(site.state()).args(args).output().expect("onpath runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, told, _) = stat(&["--json", "a/b/c/file", "/a/to-file"]);
    let told: Vec<serde_json::Value> = told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let is = fs::metadata(mount.path().join("a/b/c/file")).expect("stat");
    assert_eq!((code, told.len()), (Some(0), 2));
    assert_eq!((&told[0]["ino"], &told[0]["size"]), (&is.ino().into(), &5_000.into()));
    assert_eq!(told[1]["type"], "symbolic link");
    let (code, told, _) = stat(&["-L", "/a/to-file"]);
    assert!(code == Some(0) && told.contains("regular file") && told.contains(&is.ino().to_string()), "{told}");
    let (code, told, error) = stat(&["/missing", "/a"]);
    assert!(code == Some(1) && told.contains("directory"), "{told}");
    assert!(
        error.contains("/missing: No such file or directory") && error.contains("1 failure, told above"),
        "{error}"
    );
    let nowhere = Command::new(binary()).args(["stat", "/a"]).output().expect("onpath runs");
    let error = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(!nowhere.status.success() && error.contains("names no file system"), "{error}");
    mount.stop();
}
