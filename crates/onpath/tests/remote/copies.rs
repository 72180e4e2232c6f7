//! `get` and `put`.

use super::make_tree;
use super::shell::{Said, Shell};
use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Site, binary};
use crate::common::tree::{Times, assert_same, list};
use crate::common::wait_until;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

/// Names in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Bytes that a directory takes on the disk with everything in it.
fn stored(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let of = |path: &Path| match fs::symlink_metadata(path) {
        Ok(is) if is.is_dir() => stored(path),
        Ok(is) => is.blocks() * 512,
        Err(_) => 0, // gone meanwhile
    };
    entries.map(|entry| of(&entry.expect("an entry").path())).sum()
}

#[test]
fn files_come_and_go() {
    let Some(site) = Site::new("remote/copies::files_come_and_go") else { return };
    let mount = site.dev(&[]);
    let (shell, here) = (Shell::at(&site), site.root().join("here"));
    fs::create_dir(&here).expect("mkdir");
    let bytes: Vec<u8> = (0..3_000_001u32).map(|n| (n % 251) as u8).collect();
    fs::write(here.join("big"), &bytes).expect("a file");
    fs::write(here.join("empty"), "").expect("a file");
    fs::set_permissions(here.join("big"), Permissions::from_mode(0o4751)).expect("chmod");
    fs::create_dir(mount.path().join("dir")).expect("mkdir");
    let big = here.join("big");
    shell.ok("put", &[text(&big), "one"]);
    shell.ok("put", &["-p", text(&big), text(&here.join("empty")), "dir"]);
    assert_eq!(fs::read(mount.path().join("one")).expect("read"), bytes);
    assert_eq!(names(&mount.path().join("dir")), ["big", "empty"]);
    let is = |path: &Path| {
        let is = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (is.mode() & 0o7777, is.mtime(), is.mtime_nsec())
    };
    // No set-id bits: the copy may have another owner.
    let (_, seconds, nanoseconds) = is(&big);
    assert_eq!(is(&mount.path().join("dir/big")), (0o751, seconds, nanoseconds));
    // Back again, to another name, into a directory, and through a pipe.
    shell.ok("get", &["-p", "dir/big", text(&here.join("back"))]);
    assert_eq!(
        (fs::read(here.join("back")).expect("read"), is(&here.join("back"))),
        (bytes.clone(), is(&mount.path().join("dir/big")))
    );
    shell.ok("get", &["one", "dir/e*", text(&here)]);
    assert_eq!(names(&here), ["back", "big", "empty", "one"]);
    assert_eq!(shell.ok("get", &["one", "-"]), bytes);
    let mut child = shell.command("put", &["-", "piped"]).stdin(Stdio::piped()).spawn().expect("onpath runs");
    child.stdin.take().expect("piped").write_all(&bytes).expect("put reads");
    assert!(child.wait().expect("put ends").success());
    assert_eq!(fs::read(mount.path().join("piped")).expect("read"), bytes);
    // A symbolic link here is followed, there replaced; a device is written to.
    symlink("back", here.join("link")).expect("symlink");
    shell.ok("get", &["dir/empty", text(&here.join("link"))]);
    assert!(here.join("link").is_symlink() && fs::read(here.join("back")).expect("read").is_empty());
    symlink("one", mount.path().join("link")).expect("symlink");
    shell.ok("put", &[text(&here.join("empty")), "link"]);
    assert!(!mount.path().join("link").is_symlink() && fs::read(mount.path().join("one")).expect("read") == bytes);
    shell.ok("get", &["one", "/dev/null"]);
    assert!(!fs::metadata("/dev/null").expect("stat").is_file());
    mount.stop();
    site.assert_clean("after put");
}

#[test]
fn what_cannot_be_copied_is_told() {
    let Some(site) = Site::new("remote/copies::what_cannot_be_copied_is_told") else { return };
    let mount = site.dev(&[]);
    make_tree(mount.path());
    let (shell, here) = (Shell::at(&site), site.root().join("here"));
    fs::create_dir(&here).expect("mkdir");
    fs::write(here.join("file"), "new").expect("a file");
    let file = here.join("file");
    let dir = text(&here);
    shell.fails(1, "get", &["missing", "a/second", dir], &["missing: No such file", "1 failure"]);
    assert_eq!(fs::read(here.join("second")).expect("the rest is done").len(), 5_000);
    shell.fails(1, "get", &["a", dir], &["a is a directory: give -r"]);
    shell.fails(1, "get", &["a/second", "fifo", text(&file)], &["is not a directory"]);
    shell.fails(1, "get", &["a/second", text(&here.join("no/where"))], &["no/where", "No such file"]);
    shell.fails(1, "get", &["-n", "a/second", text(&file)], &["file", "File exists"]);
    shell.fails(1, "get", &["fifo", dir], &["fifo: No such device"]);
    shell.fails(1, "put", &[text(&here.join("missing")), "x"], &["here/missing", "No such file"]);
    shell.fails(1, "put", &[dir, "x"], &["is a directory: give -r"]);
    shell.fails(1, "put", &[text(&file), "no/where"], &["no/where: No such file"]);
    shell.fails(1, "put", &[text(&file), "a/second/x"], &["a/second/x: Not a directory"]);
    shell.fails(1, "put", &["-n", text(&file), "a/second"], &["a/second exists already"]);
    shell.fails(1, "put", &[text(&file), text(&file), "a/second"], &["is not a directory"]);
    assert_eq!(fs::read(mount.path().join("a/second")).expect("read").len(), 5_000);
    assert_eq!(fs::read(&file).expect("read"), b"new");
    assert_eq!(names(&here), ["file", "second"], "no part is left");
    mount.stop();
}

/// A put that does not come to its end changes nothing, whenever it is killed.
#[test]
fn a_killed_put_leaves_what_was_there() {
    const TEST: &str = "remote/copies::a_killed_put_leaves_what_was_there";
    let Some(site) = Site::new(TEST) else { return };
    let mount = site.dev(&[]);
    fs::write(mount.path().join("file"), "before").expect("a file");
    // Others write and remove on the same disk meanwhile.
    let before = stored(&site.state());
    // Itself, with nobody in between who would be killed in its place.
    let mut command = Command::new(binary());
    command.args(["put", "--at"]).arg(site.state()).args(["-", "file"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("onpath runs");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(&vec![1; 8 << 20]).expect("put reads");
    wait_until("a part of it is written", || stored(&site.state()) >= before + (1 << 20));
    child.kill().expect("kill of our child");
    child.wait().expect("wait of our child");
    drop(input);
    assert_eq!(fs::read(mount.path().join("file")).expect("read"), b"before");
    assert_eq!(names(mount.path()), ["file"]);
    mount.stop();
    site.assert_clean("after a killed put");
}

#[test]
fn trees_come_and_go() {
    const TEST: &str = "remote/copies::trees_come_and_go";
    let Some(site) = Site::new(TEST) else { return };
    let Some(cluster) = Cluster::start(TEST, &site, Shape { servers: 2, clients: 2, ..Shape::default() }) else {
        return;
    };
    let mount = cluster.mount(&site, 0, &[]);
    let (shell, here) = (Shell::on(&cluster, &site, 3), site.root().join("here"));
    let tree = here.join("tree");
    fs::create_dir_all(&here).expect("mkdir");
    make_tree(&tree);
    fs::remove_file(tree.join("fifo")).expect("unlink");
    (0..200).for_each(|n| fs::write(tree.join(format!("a/b/{n}")), format!("file {n}")).expect("a file"));
    fs::set_permissions(tree.join("a/second"), Permissions::from_mode(0o751)).expect("chmod");
    fs::set_permissions(tree.join("a/b"), Permissions::from_mode(0o500)).expect("chmod");
    shell.ok("put", &["-r", "-p", text(&tree), "/copy"]);
    let plain = |root: &Path| list(root, Times::Ignored);
    // Names of one inode become files of their own.
    let second = tree.join("a/second");
    let bytes = fs::read(&second).expect("read");
    fs::remove_file(&second).expect("unlink");
    fs::write(&second, bytes).expect("a file");
    fs::set_permissions(&second, Permissions::from_mode(0o751)).expect("chmod");
    assert_same("put -r", &plain(&tree), &plain(&mount.path().join("copy")));
    // Into a directory that is there, and back.
    shell.ok("put", &["-r", "-p", text(&tree), "/"]);
    assert_same("put -r into a directory", &plain(&tree), &plain(&mount.path().join("tree")));
    shell.ok("get", &["-r", "-p", "/copy", text(&here)]);
    assert_same("get -r", &plain(&tree), &plain(&here.join("copy")));
    // Again, over what is there.
    shell.ok("get", &["-r", "-p", "/copy", text(&here)]);
    assert_same("get -r again", &plain(&tree), &plain(&here.join("copy")));
    shell.ok("put", &["-r", "-p", text(&tree), "/"]);
    // What is no file is told, and the rest is done.
    crate::common::sys::mkfifo(mount.path().join("copy/fifo").as_path(), 0o600).expect("mkfifo");
    shell.fails(1, "get", &["-r", "/copy", text(&here.join("more"))], &["copy/fifo", "neither file", "1 failure"]);
    assert_eq!(names(&here.join("more/a/b")).len(), 202);
    // A symbolic link that lies where a directory is to be is not followed.
    let (outside, trap) = (site.root().join("outside"), here.join("trap"));
    fs::create_dir_all(&outside).expect("mkdir");
    fs::create_dir_all(trap.join("copy")).expect("mkdir");
    symlink(&outside, trap.join("copy/a")).expect("symlink");
    shell.fails(1, "get", &["-r", "/copy", text(&trap)], &["copy/a", "Not a directory"]);
    fs::remove_file(trap.join("copy/a")).expect("unlink");
    fs::rename(trap.join("copy"), trap.join("other")).expect("rename");
    symlink(&outside, trap.join("copy")).expect("symlink");
    shell.fails(1, "get", &["-r", "/copy", text(&trap)], &["trap/copy", "Not a directory", "1 failure"]);
    assert!(names(&outside).is_empty());
    symlink("/tree", mount.path().join("copy/trap")).expect("symlink");
    fs::create_dir(tree.join("trap")).expect("mkdir");
    fs::write(tree.join("trap/planted"), "").expect("a file");
    shell.fails(1, "put", &["-r", text(&tree.join("trap")), "/copy/sub/.."], &["copy/sub"]);
    shell.fails(1, "put", &["-r", &format!("{}/.", text(&tree)), "/copy/."], &["trap"]);
    symlink("/tree", mount.path().join("trap")).expect("symlink");
    shell.fails(1, "put", &["-r", text(&tree.join("trap")), "/"], &["/trap: Not a directory", "1 failure"]);
    assert!(!mount.path().join("tree/planted").exists());
    // What the command line names is meant.
    shell.ok("put", &["-r", &format!("{}/.", text(&tree.join("trap"))), "/trap"]);
    assert!(mount.path().join("tree/planted").exists());
    mount.stop();
    cluster.stop();
}

/// A second source of the same name takes the place of nothing that this command has made.
#[test]
fn no_source_takes_the_place_of_another() {
    let Some(site) = Site::new("remote/copies::no_source_takes_the_place_of_another") else { return };
    let mount = site.dev(&[]);
    let (shell, here) = (Shell::at(&site), site.root().join("here"));
    for top in [mount.path(), &here] {
        for name in ["a/f", "b/f", "b/g", "a/d/x", "b/d/y"] {
            fs::create_dir_all(top.join(name).parent().expect("a directory")).expect("mkdir");
            fs::write(top.join(name), name).expect("a file");
        }
        fs::create_dir(top.join("into")).expect("mkdir");
    }
    let (theirs, ours) = (mount.path().join("into"), here.join("into"));
    let local = |name: &str| text(&here).to_owned() + name;
    let check = |into: &Path| {
        assert_eq!(names(into), ["d", "f", "g"]);
        assert_eq!(names(&into.join("d")), ["x", "y"], "directories become one, as with cp");
        assert_eq!(fs::read(into.join("f")).expect("read"), b"a/f");
    };
    let said = ["has just been made of", "b/f is left out", "1 failure"];
    shell.fails(1, "get", &["-r", "a/f", "a/d", "b/f", "b/d", "b/g", text(&ours)], &said);
    check(&ours);
    let sources = ["/a/f", "/a/d", "/b/f", "/b/d", "/b/g"].map(local);
    let put: Vec<&str> = ["-r"].into_iter().chain(sources.iter().map(String::as_str)).chain(["into"]).collect();
    shell.fails(1, "put", &put, &said);
    check(&theirs);
    // The same source twice is one.
    shell.ok("get", &["-r", "a/f", "a/*", text(&ours)]);
    shell.ok("put", &[&local("/b/g"), &local("/b/g"), "into"]);
    mount.stop();
}

/// Below the directory that the command line names no symbolic link leads a copy elsewhere, whoever has put it there.
#[test]
fn get_follows_no_link_below_its_destination() {
    let Some(site) = Site::new("remote/copies::get_follows_no_link_below_its_destination") else { return };
    let mount = site.dev(&[]);
    let (shell, here, outside) = (Shell::at(&site), site.root().join("here"), site.root().join("outside"));
    fs::create_dir_all(outside.join("dir")).expect("mkdir");
    fs::create_dir(&here).expect("mkdir");
    fs::write(outside.join("file"), "kept").expect("a file");
    for (name, bytes) in [("file", "new"), ("one/kept", "one"), ("two/link/planted", "two"), ("three/link", "three")] {
        fs::create_dir_all(mount.path().join(name).parent().expect("a directory")).expect("mkdir");
        fs::write(mount.path().join(name), bytes).expect("a file");
    }
    let kept = || {
        assert_eq!(
            (fs::read(outside.join("file")).expect("read"), names(&outside)),
            (b"kept".into(), vec!["dir".into(), "file".into()])
        );
        assert!(names(&outside.join("dir")).is_empty());
    };
    symlink(outside.join("file"), here.join("file")).expect("symlink");
    shell.ok("get", &["file", text(&here)]);
    kept();
    assert!(!here.join("file").is_symlink() && fs::read(here.join("file")).expect("read") == b"new");
    // A link that the tree has brought itself.
    symlink(outside.join("dir"), mount.path().join("one/link")).expect("symlink");
    shell.ok("get", &["-r", "one/.", text(&here)]);
    shell.fails(1, "get", &["-r", "two/.", text(&here)], &["two/./link", "Not a directory"]);
    shell.ok("get", &["-r", "three/.", text(&here)]);
    kept();
    assert!(!here.join("link").is_symlink() && fs::read(here.join("link")).expect("read") == b"three");
    // A FIFO takes the bytes; one behind a link is somebody's.
    crate::common::sys::mkfifo(outside.join("fifo").as_path(), 0o600).expect("mkfifo");
    fs::remove_file(here.join("file")).expect("unlink");
    symlink(outside.join("fifo"), here.join("file")).expect("symlink");
    shell.ok("get", &["file", text(&here)]);
    assert!(!here.join("file").is_symlink());
    mount.stop();
}

/// A directory that was there has its mode from somebody who meant it.
#[test]
fn directories_that_were_there_keep_their_modes() {
    let Some(site) = Site::new("remote/copies::directories_that_were_there_keep_their_modes") else { return };
    let mount = site.dev(&[]);
    let (shell, here) = (Shell::at(&site), site.root().join("here"));
    let mode = |path: &Path| fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).mode() & 0o7777;
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
    for top in [mount.path(), &here] {
        for name in ["tree/below", "into/tree/below", "other"] {
            fs::create_dir_all(top.join(name)).expect("mkdir");
        }
        for name in ["into/tree", "into/tree/below"] {
            set(&top.join(name), 0o2771);
        }
        set(&top.join("other"), 0o2777);
        for name in ["tree", "tree/below"] {
            set(&top.join(name), 0o555);
        }
    }
    let local = |name: &str| format!("{}/{name}", text(&here));
    let call = |options: &[&str], into: &str| {
        shell.ok("get", &[options, &["tree", &local(into)]].concat());
        shell.ok("put", &[options, &[&local("tree"), into]].concat());
    };
    call(&["-r"], "into");
    call(&["-r"], "other");
    for top in [mount.path(), &here] {
        for name in ["tree", "tree/below"] {
            assert_eq!(mode(&top.join("into").join(name)), 0o2771, "{name} in {}", top.display());
            let new = mode(&top.join("other").join(name));
            assert_eq!((new & 0o7700, new & 0o7022), (0o2500, 0o2000), "{new:o}: new, in a directory with setgid");
        }
    }
    call(&["-rp"], "into");
    for top in [mount.path(), &here] {
        assert_eq!(mode(&top.join("into/tree/below")), 0o555);
    }
    mount.stop();
}

/// What a copy has no place for is no file that somebody has removed from the source.
#[test]
fn a_destination_that_goes_is_told() {
    let Some(site) = Site::new("remote/copies::a_destination_that_goes_is_told") else { return };
    let mount = site.dev(&[]);
    let (shell, here) = (Shell::at(&site), site.root().join("here"));
    fs::create_dir(mount.path().join("tree")).expect("mkdir");
    fs::create_dir(&here).expect("mkdir");
    fs::File::create(mount.path().join("tree/big")).and_then(|big| big.set_len(256 << 20)).expect("a file");
    let mut command = shell.command("get", &["-r", "tree", text(&here)]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("onpath runs");
    let copy = here.join("tree");
    wait_until("a part of it is written", || copy.exists() && !names(&copy).is_empty());
    assert_ne!(names(&copy), ["big"], "so soon");
    fs::remove_dir_all(&copy).expect("rm -r");
    let said = Said::of(child.wait_with_output().expect("wait of our child"));
    assert_eq!(said.code, Some(1), "{said:?}");
    let words = ["cannot write the copy of", "tree/big: No such file"];
    assert!(words.iter().all(|words| said.errors.contains(words)), "{said:?}");
    mount.stop();
}

/// Standard input has nothing to preserve, and no name.
#[test]
fn standard_input_is_bytes_alone() {
    let Some(site) = Site::new("remote/copies::standard_input_is_bytes_alone") else { return };
    let mount = site.dev(&[]);
    let shell = Shell::at(&site);
    fs::create_dir(mount.path().join("dir")).expect("mkdir");
    shell.fails(1, "put", &["-p", "-", "file"], &["-p and - contradict each other"]);
    shell.fails(1, "put", &["-", "dir"], &["dir is a directory: standard input has no name"]);
    assert_eq!((names(mount.path()), names(&mount.path().join("dir")).len()), (vec!["dir".to_owned()], 0));
    shell.ok("put", &["-", "file"]);
    assert_eq!(fs::metadata(mount.path().join("file")).expect("stat").mode() & 0o022, 0, "the umask counts");
    mount.stop();
}

/// Two file systems in one command, each named by its URL or DIR.
#[test]
fn errors_name_path_and_file_system() {
    let Some(site) = Site::new("remote/copies::errors_name_path_and_file_system") else { return };
    let mount = site.dev(&[]);
    let shell = Shell::at(&site);
    let odd = "no\n\x1b[2J";
    let said = shell.fails(1, "get", &[odd, "-"], &[&site.state().display().to_string(), r"no\n\x1B[2J"]);
    assert!(!said.errors.contains('\x1b'), "{said:?}");
    let said =
        Said::of(shell.plain(&["cat", "onpath://127.0.0.1:1/x", "--timeout", "1"]).output().expect("onpath runs"));
    assert!(said.code == Some(32) && said.errors.contains("onpath://127.0.0.1:1"), "{said:?}");
    mount.stop();
}
