//! Whole trees without a mount: `rm -r`, `tree`, and the tools that work on mounts, too.

use super::make_tree;
use super::shell::{Said, Shell};
use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Site, binary};
use crate::common::user::{ALICE, TEAM};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

/// Numbers that a tool printed with `--json`, but for those that differ from run to run.
fn numbers(printed: &[u8]) -> Value {
    let mut told: Value = serde_json::from_slice(printed).unwrap_or_else(|error| panic!("{error}: {printed:?}"));
    let all = told.as_object_mut().expect("an object");
    all.remove("seconds");
    all.remove("paths");
    told
}

/// What the tool says of a mount.
fn mounted(args: &[&OsStr]) -> Said {
    Said::of(crate::common::server::run(args.iter().copied()))
}

fn lines(text: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn tools_say_of_a_path_what_they_say_of_a_mount() {
    const TEST: &str = "remote/trees::tools_say_of_a_path_what_they_say_of_a_mount";
    let Some(site) = Site::new(TEST) else { return };
    let mount = site.dev(&["--shards", "2"]);
    make_tree(mount.path());
    (0..300).for_each(|n| fs::write(mount.path().join(format!("a/b/{n}")), vec![1; n]).expect("a file"));
    chown(mount.path().join("a/b/7"), Some(ALICE.uid), Some(TEAM)).expect("chown");
    let shell = Shell::at(&site);
    for args in [
        &["du", "--json"][..],
        &["find", "--json"],
        &["find", "--json", "--name", "1*", "--larger", "5"],
        &["find", "--json", "--user", "65501"],
        &["find", "--json", "--type", "l"],
    ] {
        let (verb, options) = args.split_first().expect("a command");
        let there = shell.ok(verb, &[options, &["/"]].concat());
        let here: Vec<&OsStr> = args.iter().map(OsStr::new).chain([mount.path().as_os_str()]).collect();
        let here = mounted(&here);
        assert_eq!(numbers(&there), numbers(&here.out), "{args:?}");
    }
    // Paths are named as they were given.
    let found = lines(&shell.ok("find", &["/a", "a/b/c", "--name", "file"]));
    assert_eq!(found, ["/a/b/c/file", "a/b/c/file"]);
    let both = shell.plain(&["find", "--at", &site.state().display().to_string(), "a*", "--type", "d"]).output();
    assert_eq!(lines(&both.expect("onpath runs").stdout), ["a", "a/b", "a/b/c"]);
    // A symbolic link stands for what it leads to where it is a PATH, and for itself below one.
    let through = lines(&shell.ok("find", &["slash", "--name", "c"]));
    assert_eq!(through, ["slash/c"]);
    shell.fails(1, "find", &["missing", "a/b/c"], &["missing", "No such file", "1 failure"]);
    mount.stop();
}

#[test]
fn modes_and_owners_of_a_tree() {
    let Some(site) = Site::new("remote/trees::modes_and_owners_of_a_tree") else { return };
    let mount = site.dev(&[]);
    make_tree(mount.path());
    let shell = Shell::at(&site);
    let is = |name: &str| fs::symlink_metadata(mount.path().join(name)).expect("stat");
    assert_eq!(shell.text("chmod", &["-R", "u=rwX,go=", "/a"]), "changed 4 modes, 1 were so already\n");
    assert_eq!((is("a/b").mode() & 0o7777, is("a/second").mode() & 0o7777), (0o700, 0o700));
    shell.ok("chown", &["-R", "65501:65510", "/a"]);
    assert_eq!((is("a/b/c").uid(), is("a/to-file").gid(), is("slash").uid()), (65501, 65510, 0));
    shell.ok("chmod", &["750", "slash"]);
    assert_eq!((is("a/b").mode() & 0o7777, is("slash").mode() & 0o7777), (0o750, 0o777), "the link is followed");
    shell.ok("chmod", &["-R", "a-x", "/a"]);
    assert_eq!(is("a").mode() & 0o7777, 0o600);
    mount.stop();
}

#[test]
fn trees_are_removed() {
    let Some(site) = Site::new("remote/trees::trees_are_removed") else { return };
    let mount = site.dev(&[]);
    let at = |name: &str| mount.path().join(name);
    let shell = Shell::at(&site);
    for (name, verb, options) in [("one", "rm", &["-r"][..]), ("two", "rm", &["-rf"]), ("three", "rmr", &[])] {
        make_tree(&at(name));
        (0..500).for_each(|n| fs::write(at(name).join(format!("a/b/{n}")), "x").expect("a file"));
        symlink("../outside", at(name).join("link")).expect("symlink");
        fs::create_dir_all(at("outside")).expect("mkdir");
        fs::write(at("outside/kept"), "x").expect("a file");
        let said = shell.run(verb, &[options, &[name]].concat());
        assert_eq!((said.code, said.errors.as_str()), (Some(0), ""), "{verb}");
        assert!(!at(name).exists() && at("outside/kept").exists(), "{verb}");
    }
    symlink("outside", at("link")).expect("symlink");
    shell.ok("rm", &["-r", "link"]);
    assert!(at("link").symlink_metadata().is_err() && at("outside/kept").exists());
    for path in ["/", "outside/.", "outside/..", "."] {
        shell.fails(1, "rm", &["-r", path], &["refused", "1 failure"]);
        shell.fails(1, "rmr", &[path], &["refused"]);
    }
    shell.fails(1, "rm", &["-r", "missing", "outside"], &["missing: No such file", "1 failure"]);
    assert!(!at("outside").exists(), "the rest is done");
    fs::write(at("file"), "x").expect("a file");
    let local = site.root().join("local");
    fs::write(&local, "x").expect("a file");
    assert_eq!(mounted(&["rmr".as_ref(), "-f".as_ref(), local.join("x").as_os_str()]).code, Some(0));
    shell.ok("rmr", &["-f", "missing", "file/x"]);
    shell.fails(1, "rmr", &["missing"], &["missing", "1 failure"]);
    mount.stop();
    site.assert_clean("after trees were removed");
}

/// A slash behind a symbolic link leads to what nobody has named: as on a mount it is refused.
#[test]
fn a_link_with_a_slash_is_refused() {
    let Some(site) = Site::new("remote/trees::a_link_with_a_slash_is_refused") else { return };
    let mount = site.dev(&[]);
    let at = |name: &str| mount.path().join(name);
    fs::create_dir_all(at("outside/below")).expect("mkdir");
    fs::write(at("outside/kept"), "x").expect("a file");
    symlink("outside", at("link")).expect("symlink");
    let shell = Shell::at(&site);
    for path in ["link/", "link//", "outside/kept/"] {
        shell.fails(1, "rmr", &[path], &["is refused", "name it without a slash"]);
        shell.fails(1, "rmr", &["-f", "outside/below", path], &["is refused"]);
        shell.fails(1, "rm", &["-r", path], &["Not a directory", "1 failure"]);
        assert!(at("outside/kept").exists() && at("outside/below").exists() && at("link").is_symlink(), "{path}");
    }
    shell.fails(1, "rm", &["-rf", "link/"], &["link/: Not a directory"]);
    assert!(at("outside/kept").exists() && at("link").is_symlink());
    shell.ok("rmr", &["link", "outside/below//"]);
    assert!(at("link").symlink_metadata().is_err() && !at("outside/below").exists() && at("outside/kept").exists());
    shell.ok("rm", &["-r", "outside/"]);
    assert!(!at("outside").exists());
    mount.stop();
}

/// What the environment says is for commands that know no mounts.
#[test]
fn the_environment_moves_no_plain_path() {
    let Some(site) = Site::new("remote/trees::the_environment_moves_no_plain_path") else { return };
    let mount = site.dev(&[]);
    let local = site.root().join("local");
    for top in [local.as_path(), mount.path()] {
        fs::create_dir_all(top.join("dir")).expect("mkdir");
        fs::write(top.join("dir/file"), "x").expect("a file");
    }
    let run = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(args).current_dir(&local).env("ONPATH_AT", site.state());
        Said::of(command.output().expect("onpath runs"))
    };
    assert_eq!(run(&["ls", "/"]).out, b"dir\n");
    let found = format!("{}/dir/file\n", local.display());
    assert_eq!(String::from_utf8_lossy(&run(&["find", "dir", "--type", "f"]).out), found);
    assert_eq!(run(&["rmr", "dir"]).code, Some(0));
    assert!(!local.join("dir").exists() && mount.path().join("dir/file").exists());
    assert_eq!(run(&["rm", "-r", "dir"]).code, Some(0));
    assert!(!mount.path().join("dir").exists());
    mount.stop();
}

#[test]
fn a_tree_is_drawn() {
    let Some(site) = Site::new("remote/trees::a_tree_is_drawn") else { return };
    let mount = site.dev(&[]);
    fs::create_dir_all(mount.path().join("top/dir/deep")).expect("mkdir");
    fs::write(mount.path().join("top/file"), "x").expect("a file");
    fs::write(mount.path().join("top/.hidden"), "x").expect("a file");
    fs::write(mount.path().join("top/dir/deep/x"), "x").expect("a file");
    symlink("file", mount.path().join("top/link")).expect("symlink");
    let shell = Shell::at(&site);
    let whole = "top\n├── dir\n│   └── deep\n│       └── x\n├── file\n└── link -> file\n\n2 directories, 3 files\n";
    assert_eq!(shell.text("tree", &["top"]), whole);
    assert_eq!(
        shell.text("tree", &["-L", "1", "-a", "top"]),
        "top\n├── .hidden\n├── dir\n├── file\n└── link -> file\n\n1 directories, 3 files\n"
    );
    assert_eq!(shell.text("tree", &["-d", "top"]), "top\n└── dir\n    └── deep\n\n2 directories\n");
    let json = shell.text("tree", &["--json", "/top"]);
    let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((rows.len(), &rows[2]["path"], &rows[2]["depth"]), (5, &"/top/dir/deep/x".into(), &3.into()));
    assert_eq!((&rows[4]["target"], &rows[4]["type"]), (&"file".into(), &"symbolic link".into()));
    shell.fails(1, "tree", &["missing", "top/dir"], &["missing: No such file"]);
    mount.stop();
}

#[test]
fn urls_and_users() {
    const TEST: &str = "remote/trees::urls_and_users";
    let Some(site) = Site::new(TEST) else { return };
    let Some(cluster) = Cluster::start(TEST, &site, Shape { servers: 2, clients: 2, ..Shape::default() }) else {
        return;
    };
    let mount = cluster.mount(&site, 0, &[]);
    make_tree(mount.path());
    let closed = mount.path().join("a/b");
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).expect("chmod");
    fs::set_permissions(mount.path().join("a"), Permissions::from_mode(0o777)).expect("chmod");
    let local = site.root().join("local");
    fs::create_dir(&local).expect("mkdir");
    fs::write(local.join("file"), "x").expect("a file");
    let (shell, url) = (Shell::on(&cluster, &site, 3), cluster.url());
    let run = |shell: &Shell<'_>, args: &[&str]| Said::of(shell.plain(args).output().expect("onpath runs"));
    let local_text = local.to_str().expect("text");
    let said = run(&shell, &["find", &format!("{url}a"), local_text, "--type", "f"]);
    let wanted = [format!("{local_text}/file"), format!("{url}a/b/c/file"), format!("{url}a/second")];
    assert_eq!((said.code, lines(&said.out)), (Some(0), wanted.to_vec()), "{said:?}");
    let alice = Shell::on(&cluster, &site, 3).of(ALICE);
    let said = run(&alice, &["rmr", &format!("{url}a")]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.errors.contains(&format!("cannot open {url}a/b: Permission denied")), "{said:?}");
    assert!(closed.join("c/file").exists() && !mount.path().join("a/second").exists(), "what may go has gone");
    let said = run(&shell, &["rmr", &format!("{url}a")]);
    assert_eq!((said.code, said.errors.as_str()), (Some(0), ""));
    assert!(!mount.path().join("a").exists());
    let said = run(&shell, &["rmr", &url]);
    assert!(said.code == Some(1) && said.errors.contains("root of everything"), "{said:?}");
    assert!(mount.path().join(OsStr::from_bytes(b"\xff\xfe\n name")).exists() && Path::new(local_text).exists());
    mount.stop();
    cluster.stop();
}
