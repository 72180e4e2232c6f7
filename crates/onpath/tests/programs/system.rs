//! What is larger: rsync of a system tree, dbench's file server, and this very project. `just tried` runs the long forms.

use crate::common::server::Site;
use crate::common::tree::{Times, assert_same, list};
use crate::common::xattr::setxattr;
use crate::common::{number_from_env, skipped};
use crate::programs::{installed, sh};
use std::fs;
use std::path::{Path, PathBuf};

/// What a system tree may have and a small part of one has not: devices, links, ACLs, attributes of every namespace, capabilities.
/// rsync tells parts of seconds of regular files only.
const ODD: &str = r#"cd "$1" && mknod null c 1 3 && mknod disk b 259 70000 && mkfifo -m 600 fifo
    echo program >program && chmod 4755 program && ln program hard && ln -s program soft && ln -s /nowhere dangling
    setcap cap_net_raw,cap_net_admin+eip hard && setfattr -n user.origin -v here soft && setfattr -hn trusted.link -v 1 dangling
    mkdir -m 1777 shared && setfacl -d -m u:65501:rwX,g:65510:r-X shared && touch shared/inherits
    setfacl -m u:65502:r-- program && chown -h 65501:65510 dangling
    find . -depth -exec touch -hd 1999-12-31T23:59:59Z {} + && touch -d 2001-02-03T04:05:06.123456789Z program"#;

/// What rsync finds different, contents included; nothing if nothing is.
const DIFFERENCES: &str = r#"rsync -aHAXx --delete --dry-run --checksum --itemize-changes "$1/" "$2/""#;

/// What getfattr and getfacl say of everything below a directory.
const DUMP: &str = r#"cd "$1" && find . -xdev | sort | xargs -d '\n' getfattr -hd -m - -e hex
    find . -xdev ! -type l | sort | xargs -d '\n' getfacl -Pn"#;

/// `ONPATH_SYSTEM_TREE` says which tree; by default a small one.
fn system_tree() -> PathBuf {
    std::env::var_os("ONPATH_SYSTEM_TREE").map_or_else(|| PathBuf::from("/usr/sbin"), PathBuf::from)
}

#[test]
fn rsync_of_a_system_tree() {
    let test = "rsync of a system tree";
    if !installed(test, &["rsync", "setcap", "setfattr", "setfacl", "getfacl"]) {
        return;
    }
    let Some(site) = Site::new(test) else { return };
    let odd = site.root().join("odd");
    fs::create_dir(&odd).expect("mkdir");
    if setxattr(&odd, "user.probe", "").is_err() {
        return skipped(test, "the local file system has no user attributes");
    }
    sh(site.root(), ODD, &[&odd]);
    let mount = site.dev(&["--shards", "4"]);
    for (name, tree) in [("odd", &odd), ("system", &system_tree())] {
        let there = mount.path().join(name);
        sh(site.root(), r#"rsync -aHAXx "$1/" "$2/""#, &[tree, &there]);
        assert_eq!(sh(site.root(), DIFFERENCES, &[tree, &there]), "", "what rsync finds different in {name}");
        assert_eq!(sh(site.root(), DUMP, &[tree]), sh(site.root(), DUMP, &[&there]), "attributes and ACLs of {name}");
    }
    assert_same("odd files", &list(&odd, Times::Mtime), &list(&mount.path().join("odd"), Times::Mtime));
    mount.stop();
    let again = site.dev(&["--shards", "4"]);
    let there = again.path().join("system");
    assert_eq!(
        sh(site.root(), DIFFERENCES, &[&system_tree(), &there]),
        "",
        "what rsync finds different after a restart"
    );
    sh(again.path(), "rm -rf system odd && test -z \"$(ls -A)\"", &[]);
    again.stop();
    site.assert_clean("after a system tree");
}

/// The load of a file server with several clients, on two mounts; dbench ends with an error if any call fails that must not.
#[test]
fn dbench() {
    if !installed("dbench", &["dbench"]) {
        return;
    }
    let Some(site) = Site::new("dbench") else { return };
    let (first, second) = (site.dev(&[]), site.mount(1, &[]));
    let seconds = number_from_env("ONPATH_DBENCH_SECONDS", 3);
    let script = format!(
        r#"mkdir "$1/one" "$2/two"; for d in "$1/one" "$2/two"; do dbench -t {seconds} -D "$d" 3 >"$3/$(basename "$d").log" 2>&1 & done
        wait %1 && wait %2 || {{ cat "$3"/*.log; exit 1; }}
        grep -h Throughput "$3"/*.log"#
    );
    let said = sh(site.root(), &script, &[first.path(), second.path(), site.root()]);
    assert_eq!(said.matches("Throughput").count(), 2, "{said}");
    second.stop();
    first.stop();
    site.assert_clean("after dbench");
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace")
}

/// A clone of this project on the mount: `git gc` and `git fsck`; with `ONPATH_OWN_PACKAGE` also a build and the tests of that package by
/// cargo, after which nothing is left to do.
#[test]
fn this_project() {
    let test = "this project on the mount";
    if !installed(test, &["git"]) {
        return;
    }
    if !workspace().join(".git").exists() {
        return skipped(test, "these sources are no git repository");
    }
    let Some(site) = Site::new(test) else { return };
    let mount = site.dev(&[]);
    let clone = mount.path().join("project");
    let git = r#"export HOME="$3" && git config --global --add safe.directory '*'
        git clone -q --no-local "$1" "$2" && cd "$2" && git gc -q --prune=now && git fsck --full --strict 2>&1 && git status --porcelain"#;
    let said = sh(site.root(), git, &[workspace(), &clone, site.root()]);
    assert_eq!(said, "", "git fsck and git status");
    if let Ok(package) = std::env::var("ONPATH_OWN_PACKAGE") {
        let build = format!(r#""$1" test --offline --locked --lib --bins -p {package} 2>&1"#);
        let cargo = Path::new(env!("CARGO"));
        let first = sh(&clone, &build, &[cargo]);
        assert!(first.contains("test result: ok"), "{first}");
        let second = sh(&clone, &build, &[cargo]);
        assert_eq!(second.matches("Compiling").count(), 0, "everything is up to date: {second}");
    }
    assert_eq!(sh(&clone, "git -c safe.directory='*' status --porcelain", &[]), "", "git status after all");
    mount.stop();
    site.assert_clean("after this project");
}
