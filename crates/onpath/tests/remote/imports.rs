//! `import` and `export` without a mount.

use super::shell::{Said, Shell};
use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Mount, Site, binary};
use crate::common::user::ALICE;
use crate::common::xattr::{self, acl};
use crate::common::{process, sys, wait_until};
use crate::tools::copies::{look, marks, plant};
use crate::tools::resumed::large;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Size of a file during whose copy is killed.
const LARGE: u64 = 96 << 20;

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

/// What a command printed with `--json`.
#[track_caller]
fn json(said: &Said) -> Value {
    assert_eq!(said.code, Some(0), "{said:?}");
    serde_json::from_slice(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

fn counts(done: &Value, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| done[name].as_u64().unwrap_or_else(|| panic!("{name}: {done}"))).collect()
}

/// One of everything, with what other file systems need not have.
fn plant_all(root: &Path) {
    plant(root);
    let old = |seconds| [sys::Time { s: seconds, ns: 987_654_321 }; 2];
    assert_eq!(sys::mknod(root.join("socket"), libc::S_IFSOCK | 0o622, 0), Ok(()));
    assert_eq!(sys::lchown(root.join("link"), 1003, 1004), Ok(()));
    assert_eq!(sys::lutimens(root.join("link"), old(999_999_999)), Ok(()));
    fs::write(root.join("unreadable"), "for nobody").expect("a file");
    assert_eq!(sys::chmod(root.join("unreadable"), 0), Ok(()));
    fs::create_dir_all(root.join("closed/below")).expect("mkdir");
    let odd = OsStr::from_bytes(b"closed/below/new\nline \xfe \x1b[2J");
    fs::write(root.join(odd), "odd").expect("a file");
    assert_eq!(sys::chmod(root.join("closed"), 0o2500), Ok(()));
    assert_eq!(sys::utimens(root.join("closed"), old(-5)), Ok(()));
    for name in ["sub/f4", "sub/empty"] {
        // Where a file system has none there is nothing to compare.
        _ = xattr::setxattr(root.join(name), "user.colour", b"green \0 and \xff");
        _ = xattr::setxattr(root.join(name), "trusted.of-root", b"");
        _ = xattr::setxattr(root.join(name), xattr::ACCESS, acl("u::rwx,u:1000:r,g::r,m::rx,o::-"));
    }
    _ = xattr::setxattr(root.join("sub/empty"), xattr::DEFAULT, acl("u::rwx,g::r,o::-"));
    _ = xattr::setxattr(
        root.join("sub/f5"),
        "security.capability",
        [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    );
}

/// Extended attributes of what [`plant_all`] gives some.
fn attributes(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for path in ["", "sub", "sub/f4", "sub/f5", "sub/empty", "sparse"] {
        for name in xattr::listxattr(root.join(path)).unwrap_or_default() {
            let value = xattr::getxattr(root.join(path), &name).expect("it is listed");
            all.push((format!("{path} {name}"), value));
        }
    }
    all
}

#[track_caller]
fn assert_equal(a: &Path, b: &Path) {
    assert_eq!(look(a), look(b));
    assert_eq!(attributes(a), attributes(b));
}

/// Data and holes of a file.
fn holes(path: &Path) -> (i64, i64) {
    let file = fs::File::open(path).expect("open");
    let data = sys::lseek(&file, 0, libc::SEEK_DATA).expect("there is data");
    (data, sys::lseek(&file, data, libc::SEEK_HOLE).expect("there is a hole"))
}

/// A site, its mount, and a tree beside it.
fn prepared(test: &str) -> Option<(Site, Mount, PathBuf)> {
    let site = Site::new(test)?;
    let mount = site.dev(&["--shards", "2"]);
    let source = site.root().join("source");
    plant_all(&source);
    Some((site, mount, source))
}

#[test]
fn everything_comes_along() {
    let Some((site, mount, source)) = prepared("remote/imports::everything_comes_along") else { return };
    let (shell, back, there) = (Shell::at(&site), site.root().join("back"), mount.path().join("deep/er"));
    assert!(!attributes(&source).is_empty(), "the local file system has no extended attributes");
    let kinds = ["files", "directories", "symlinks", "special", "hard_links", "xattrs_lost", "owners_lost"];
    let done = json(&shell.run("import", &["--json", "--verify", text(&source), "/deep/er"]));
    assert_eq!(counts(&done, &kinds), [44, 4, 2, 3, 2, 0, 0], "{done}");
    assert!(counts(&done, &["compared"]) > vec![0], "{done}");
    assert_equal(&there, &source);
    assert_eq!(holes(&there.join("sparse")), holes(&source.join("sparse")), "holes stay holes");
    assert!(marks(&there).is_empty());
    let done = json(&shell.run("export", &["--json", "deep/er", text(&back)]));
    assert_eq!(counts(&done, &kinds), [44, 4, 2, 3, 2, 0, 0], "{done}");
    assert_equal(&back, &source);
    assert_eq!(holes(&back.join("sparse")), holes(&source.join("sparse")), "holes stay holes");
    assert!(marks(&back).is_empty());
    // Once more: nothing to do, whether it trusts or compares.
    for verify in [&[][..], &["--verify"]] {
        for (verb, from, to) in [("import", text(&source), "/deep/er"), ("export", "/deep/er", text(&back))] {
            let done = json(&shell.run(verb, &[&["--json", from, to], verify].concat()));
            assert_eq!(counts(&done, &["files", "directories", "bytes", "skipped"]), [0, 0, 0, 55], "{verb}: {done}");
            assert_eq!(counts(&done, &["compared"]) > vec![0], !verify.is_empty(), "{verb}: {done}");
        }
    }
    assert_equal(&there, &source);
    assert_equal(&back, &source);
    mount.stop();
    site.assert_clean("after an import without a mount");
}

/// What has changed in the source since is copied again, in place of what was there; the rest is brought up to date.
#[test]
fn changes_are_copied_again() {
    let Some((site, mount, source)) = prepared("remote/imports::changes_are_copied_again") else { return };
    let (shell, back, there) = (Shell::at(&site), site.root().join("back"), mount.path().join("copy"));
    let both = |options: &[&str]| {
        let imported = json(&shell.run("import", &[&["--json", text(&source), "copy"], options].concat()));
        let exported = json(&shell.run("export", &[&["--json", "copy", text(&back)], options].concat()));
        [imported, exported].map(|done| counts(&done, &["files", "symlinks", "special", "hard_links"]))
    };
    both(&[]);
    fs::write(source.join("sub/f5"), "changed").expect("write");
    fs::remove_file(source.join("link")).expect("unlink");
    symlink("elsewhere", source.join("link")).expect("symlink");
    assert_eq!(sys::chmod(source.join("sub/f6"), 0o600), Ok(()));
    assert_eq!(sys::chown(source.join("closed"), 1001, 1002), Ok(()));
    _ = xattr::removexattr(source.join("sub/f4"), "user.colour");
    fs::remove_file(source.join("seven")).expect("unlink");
    fs::write(source.join("seven"), "a file of its own").expect("write");
    fs::remove_file(source.join("fifo")).expect("unlink");
    assert_eq!(sys::mknod(source.join("fifo"), libc::S_IFSOCK | 0o600, 0), Ok(()));
    fs::hard_link(source.join("sub/f1"), source.join("sub/first")).expect("link");
    let told = both(&[]);
    assert_equal(&there, &source);
    assert_equal(&back, &source);
    for done in told {
        // The file that has got a second name is copied anew if that comes first.
        assert!((2..=3).contains(&done[0]) && done[1..] == [1, 1, 1], "{done:?}");
    }
    // As if bytes had been lost below the right size and time: only a comparison notices.
    let stat = fs::metadata(there.join("sub/f8")).expect("stat");
    let damaged = fs::File::options().write(true).open(there.join("sub/f8")).expect("open");
    damaged.write_all_at(b"!", 100).expect("write");
    damaged.set_modified(stat.modified().expect("mtime")).expect("utimens");
    drop(damaged);
    assert_eq!(both(&[])[0][0], 0);
    assert_eq!(both(&["--verify"])[0][0], 1);
    assert_equal(&there, &source);
    mount.stop();
    site.assert_clean("after imports of changes");
}

fn begin(site: &Site, verb: &str, from: &str, to: &str) -> Child {
    let mut command = Command::new(binary());
    command.args([verb, "--jobs", "2", "--at"]).arg(site.state()).args([from, to]);
    process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null())).expect("onpath starts")
}

fn kill(mut child: Child) {
    child.kill().expect("kill of our child");
    child.wait().expect("wait of our child");
}

/// Files below a directory, by their paths in it, and whether all of them are as in the source.
fn whole_files(there: &Path, source: &Path) -> usize {
    let (mut todo, mut files) = (vec![PathBuf::new()], 0);
    while let Some(path) = todo.pop() {
        let is = fs::symlink_metadata(there.join(&path)).expect("stat");
        if is.is_dir() {
            todo.extend(sys::names(there.join(&path)).expect("list").into_iter().map(|name| path.join(name)));
        } else if is.is_file() {
            let of = fs::symlink_metadata(source.join(&path)).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            assert_eq!((is.len(), is.mtime(), is.mtime_nsec()), (of.len(), of.mtime(), of.mtime_nsec()), "{path:?}");
            files += 1;
        }
    }
    files
}

/// Killed whenever, what has a name is whole, and nothing else is left; the next run goes on.
#[test]
fn a_killed_import_goes_on() {
    let Some((site, mount, source)) = prepared("remote/imports::a_killed_import_goes_on") else { return };
    (0..4).for_each(|number| plant_all(&source.join(format!("more{number}"))));
    large(&source, LARGE);
    let (shell, there) = (Shell::at(&site), mount.path().join("copy"));
    let mut files = Vec::new();
    for entries in [1, 2, 4] {
        let child = begin(&site, "import", text(&source), "copy");
        wait_until("the copy has begun", || sys::names(&there).is_ok_and(|names| names.len() > entries));
        kill(child);
        files.push(whole_files(&there, &source));
    }
    assert!(files.is_sorted(), "{files:?}");
    let done = json(&shell.run("import", &["--json", text(&source), "copy"]));
    assert!(counts(&done, &["skipped"]) > vec![0], "{done}");
    assert_equal(&there, &source);
    assert_eq!(fs::read(there.join("large")).expect("read"), fs::read(source.join("large")).expect("read"));
    let done = json(&shell.run("import", &["--json", "--verify", text(&source), "copy"]));
    assert_eq!(counts(&done, &["files", "bytes"]), [0, 0], "{done}");
    mount.stop();
    site.assert_clean("after killed imports");
}

#[test]
fn a_killed_export_goes_on() {
    let Some((site, mount, source)) = prepared("remote/imports::a_killed_export_goes_on") else { return };
    (0..4).for_each(|number| plant_all(&source.join(format!("more{number}"))));
    let (shell, back) = (Shell::at(&site), site.root().join("back"));
    shell.ok("import", &["--quiet", text(&source), "copy"]);
    for entries in [1, 3] {
        let child = begin(&site, "export", "copy", text(&back));
        wait_until("the copy has begun", || sys::names(&back).is_ok_and(|names| names.len() > entries));
        kill(child);
        assert!(marks(&back).len() <= 1, "an unfinished copy is marked");
    }
    json(&shell.run("export", &["--json", "copy", text(&back)]));
    assert_equal(&back, &source);
    assert!(marks(&back).is_empty());
    mount.stop();
}

/// The server is killed under an import, which waits for it and goes on.
#[test]
fn a_killed_server_under_an_import() {
    let Some((site, mut mount, source)) = prepared("remote/imports::a_killed_server_under_an_import") else { return };
    (0..4).for_each(|number| plant_all(&source.join(format!("more{number}"))));
    let there = mount.path().join("copy");
    let mut child = begin(&site, "import", text(&source), "copy");
    wait_until("the copy has begun", || sys::names(&there).is_ok_and(|names| names.len() > 2));
    site.kill_server(&mut mount);
    mount = site.dev(&["--shards", "2"]);
    let mut ended = None;
    wait_until("the copy ends", || {
        ended = child.try_wait().expect("wait of our child");
        ended.is_some()
    });
    assert!(ended.is_some_and(|ended| ended.success()), "{ended:?}");
    assert_equal(&mount.path().join("copy"), &source);
    mount.stop();
    site.assert_clean("after an import whose server was killed");
}

/// What the environment says is for commands that know no mounts.
#[test]
fn the_environment_moves_no_plain_path() {
    let Some((site, mount, source)) = prepared("remote/imports::the_environment_moves_no_plain_path") else { return };
    let run = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(args).env("ONPATH_AT", site.state());
        Said::of(command.output().expect("onpath runs"))
    };
    let (there, back) = (mount.path().join("copy"), site.root().join("back"));
    assert_eq!(run(&["import", text(&source), text(&there)]).code, Some(0));
    assert_equal(&there, &source);
    let said = run(&["import", text(&source), "/copy-elsewhere"]);
    assert!(said.code == Some(1) && said.errors.contains("not on a mount of Onpath"), "{said:?}");
    assert_eq!(run(&["export", text(&there), text(&back)]).code, Some(0));
    assert_equal(&back, &source);
    let said = run(&["export", "/copy", text(&back)]);
    assert!(said.code == Some(1) && said.errors.contains("/copy"), "{said:?}");
    assert!(!mount.path().join("copy-elsewhere").exists());
    mount.stop();
}

#[test]
fn what_cannot_be_is_told() {
    let Some((site, mount, source)) = prepared("remote/imports::what_cannot_be_is_told") else { return };
    let (shell, here) = (Shell::at(&site), site.root().join("here"));
    let url = "onpath://127.0.0.1:1/a";
    let wrong_side = ["onpath://127.0.0.1:1/a names a file system", "onpath export SRC DIR"];
    for args in [["import", url, text(&here)], ["import", url, url], ["export", text(&here), url], ["export", url, url]]
    {
        let said = Said::of(shell.plain(&args).output().expect("onpath runs"));
        assert!(said.code == Some(1) && wrong_side.iter().all(|words| said.errors.contains(words)), "{said:?}");
    }
    for args in [["import", text(&source), url, "--timeout", "1"], ["export", url, text(&here), "--timeout", "1"]] {
        let said = Said::of(shell.plain(&args).output().expect("onpath runs"));
        assert!(said.code == Some(32) && said.errors.contains("onpath://127.0.0.1:1"), "{said:?}");
    }
    assert!(!here.exists(), "nothing is begun");
    fs::write(mount.path().join("file"), "x").expect("a file");
    symlink(&source, mount.path().join("linked")).expect("symlink");
    assert_eq!(sys::lchown(mount.path().join("linked"), ALICE.uid, ALICE.gid), Ok(()));
    let (source_text, here_text) = (text(&source), text(&here));
    let alices = ["symbolic link of user 65501", "give the path"];
    shell.fails(1, "import", &[source_text, "file"], &["cannot import into file", "is not a directory"]);
    shell.fails(1, "import", &[source_text, "linked/x"], &alices);
    shell.fails(1, "export", &["linked", here_text], &alices);
    shell.fails(1, "export", &["missing", here_text], &["cannot find missing", "No such file"]);
    shell.fails(1, "import", &[&format!("{source_text}/missing"), "copy"], &["cannot find", "missing"]);
    assert!(!here.exists() && !mount.path().join("copy").exists());
    // By the mount and without it the same directories are known.
    fs::create_dir_all(mount.path().join("top/below")).expect("mkdir");
    let (top, below) = (mount.path().join("top"), mount.path().join("top/below"));
    for (verb, from, to) in [
        ("import", text(&top), "top/below"),
        ("import", text(&top), "top"),
        ("import", text(&top), "top/below/new/er"),
        ("import", text(&below), "/top"),
        ("export", "/", text(&below)),
        ("export", "top/below", text(&top)),
    ] {
        shell.fails(1, verb, &[from, to], &["within each other"]);
    }
    // What stands in the way of a directory is not removed, and everything else is done.
    fs::create_dir(mount.path().join("copy")).expect("mkdir");
    fs::write(mount.path().join("copy/sub"), "a file").expect("a file");
    shell.fails(1, "import", &[source_text, "copy"], &["sub", "something else has its name", "1 failure"]);
    assert!(mount.path().join("copy/seven").exists());
    fs::remove_file(mount.path().join("copy/sub")).expect("unlink");
    shell.ok("import", &["--quiet", source_text, "copy"]);
    assert_equal(&mount.path().join("copy"), &source);
    mount.stop();
}

/// Links below either side lead nowhere.
#[test]
fn nothing_outside_is_touched() {
    let Some((site, mount, source)) = prepared("remote/imports::nothing_outside_is_touched") else { return };
    let (shell, here) = (Shell::at(&site), site.root().join("here"));
    shell.ok("import", &["--quiet", text(&source), "whole"]);
    for top in [mount.path(), &here] {
        fs::create_dir_all(top.join("outside")).expect("mkdir");
        fs::create_dir_all(top.join("copy")).expect("mkdir");
        fs::write(top.join("outside/kept"), "kept").expect("a file");
        symlink("../outside", top.join("copy/sub")).expect("symlink");
        symlink("../outside/kept", top.join("copy/sparse")).expect("symlink");
        symlink("../outside/kept", top.join("copy/fifo")).expect("symlink");
        // A name that something outside has, too: that gets no other owner and no other mode.
        fs::hard_link(top.join("outside/kept"), top.join("copy/seven")).expect("link");
    }
    let copy = here.join("copy");
    for (verb, from, to, top) in
        [("import", text(&source), "copy", mount.path()), ("export", "whole", text(&copy), here.as_path())]
    {
        let before = look(&top.join("outside")).len();
        shell.fails(1, verb, &[from, to], &["sub", "something else has its name"]);
        assert_eq!(sys::names(top.join("outside")).expect("list").len() + 1, before);
        let kept = fs::metadata(top.join("outside/kept")).expect("stat");
        assert_eq!((fs::read(top.join("outside/kept")).expect("read").as_slice(), kept.nlink()), (&b"kept"[..], 1));
        assert!(fs::symlink_metadata(top.join("copy/sparse")).expect("stat").is_file(), "the link is replaced");
    }
    mount.stop();
}

/// By URLs of a cluster, and by who may not give files away.
#[test]
fn urls_and_users() {
    const TEST: &str = "remote/imports::urls_and_users";
    let Some(site) = Site::new(TEST) else { return };
    let Some(cluster) = Cluster::start(TEST, &site, Shape { servers: 2, clients: 2, ..Shape::default() }) else {
        return;
    };
    let mount = cluster.mount(&site, 0, &[]);
    let (source, back) = (site.root().join("source"), site.root().join("back"));
    plant_all(&source);
    let url = cluster.url();
    let run = |shell: &Shell<'_>, args: &[&str]| Said::of(shell.plain(args).output().expect("onpath runs"));
    let shell = Shell::on(&cluster, &site, 3);
    let done = json(&run(&shell, &["import", "--json", text(&source), &format!("{url}deep/er")]));
    assert_eq!(counts(&done, &["files", "hard_links", "xattrs_lost", "owners_lost"]), [44, 2, 0, 0], "{done}");
    assert_equal(&mount.path().join("deep/er"), &source);
    json(&run(&shell, &["export", "--json", &format!("{url}deep/er"), text(&back)]));
    assert_equal(&back, &source);
    // Alice keeps what is hers to keep.
    let (open, hers) = (mount.path().join("open"), site.root().join("hers"));
    fs::create_dir(&hers).expect("mkdir");
    fs::write(hers.join("file"), "x").expect("a file");
    fs::write(hers.join("hers"), "x").expect("a file");
    assert_eq!(sys::chmod(hers.join("file"), 0o754), Ok(()));
    assert_eq!(sys::chown(hers.join("hers"), ALICE.uid, ALICE.gid), Ok(()));
    fs::create_dir(&open).expect("mkdir");
    assert_eq!(sys::chmod(&open, 0o777), Ok(()));
    let alice = Shell::on(&cluster, &site, 3).of(ALICE);
    let to = format!("{url}open/copy");
    let said = run(&alice, &["import", "--json", text(&hers), &to]);
    assert!(said.code == Some(0) && said.errors.contains("2 entries could not be given their owner"), "{said:?}");
    let is = fs::metadata(open.join("copy/file")).expect("stat");
    assert_eq!(
        (is.uid(), is.mode() & 0o7777, is.mtime_nsec()),
        (ALICE.uid, 0o754, { fs::metadata(hers.join("file")).expect("stat").mtime_nsec() })
    );
    let said = run(&alice, &["import", text(&hers), &format!("{url}deep/er")]);
    assert!(said.code == Some(1) && said.errors.contains("Permission denied"), "{said:?}");
    mount.stop();
    cluster.stop();
}
