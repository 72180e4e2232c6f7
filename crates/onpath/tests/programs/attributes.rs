//! Extended attributes and ACLs by the programs that people use for them: setfattr, setfacl, getfacl, cp, rsync, tar.

use crate::common::server::{Mount, Site};
use crate::common::skipped;
use crate::common::xattr::setxattr;
use crate::programs::{installed, sh};
use std::fs;
use std::path::{Path, PathBuf};

/// What getfattr and getfacl say of everything below a directory, with numbers for users.
const DUMP: &str = r#"cd "$1" && find . | sort | xargs -d '\n' getfattr -hd -m - -e hex
    find . ! -type l | sort | xargs -d '\n' getfacl -Pn; find . | sort | xargs -d '\n' stat -c '%n %A %u:%g'"#;

/// A directory beside the mount and one on it; none if the former's file system has no attributes or ACLs.
fn places(test: &str) -> Option<(Site, Mount, [PathBuf; 2])> {
    let site = Site::new(test)?;
    let local = site.root().join("local");
    fs::create_dir(&local).expect("mkdir");
    if setxattr(&local, "user.probe", "").is_err() {
        skipped(test, "the local file system has no user attributes");
        return None;
    }
    fs::remove_dir(&local).expect("rmdir");
    let mount = site.dev(&["--shards", "4"]);
    let there = mount.path().join("there");
    Some((site, mount, [local, there]))
}

/// A tree with attributes of every namespace, capabilities, access and default ACLs.
fn make(top: &Path) {
    let script = r#"mkdir "$1" && cd "$1" && mkdir -p a/b/c && echo one >a/one && echo two >a/b/two && ln -s one a/l
        setfattr -n user.comment -v 'any text' a/one && setfattr -n user.binary -v 0x00ff00 a/b
        setfattr -n trusted.mine -v secret a/b/two && setfattr -hn trusted.link -v 1 a/l
        setfattr -n user.large -v "$(printf '%03000d' 0)" a/b/two
        setfacl -R -m u:65501:rwX,g:65510:r-X a && setfacl -R -d -m u:65502:rwX,o::- a
        echo three >a/b/c/three && mkdir a/b/c/d && chmod 640 a/one && setfacl -x u:65501 a/b/two
        setcap cap_net_raw+ep a/b/c/three && setfacl -b a/b/c/d && setfacl -m m::r a/b/c"#;
    sh(Path::new("/"), script, &[top]);
}

fn dump(top: &Path) -> String {
    sh(Path::new("/"), DUMP, &[top])
}

fn missing(test: &str) -> bool {
    !installed(test, &["setfattr", "setfacl", "getfacl", "setcap"])
}

/// The same commands have the same effect as on the local file system.
#[test]
fn setfattr_and_setfacl() {
    let test = "setfattr and setfacl on the mount";
    if missing(test) {
        return;
    }
    let Some((site, mount, [local, there])) = places(test) else { return };
    make(&local);
    make(&there);
    assert_eq!(dump(&local), dump(&there));
    for top in [&local, &there] {
        sh(top, "setfacl -Rb . && setfattr -x user.comment a/one && echo more >>a/b/c/three", &[]);
    }
    assert_eq!(dump(&local), dump(&there));
    mount.stop();
    site.assert_clean("after setfacl");
}

/// cp -a, rsync -aAX and tar bring everything over, onto the mount, on it, and back.
#[test]
fn copies() {
    let test = "copies with attributes on the mount";
    if missing(test) || !installed(test, &["rsync", "tar"]) {
        return;
    }
    let Some((site, mount, [local, there])) = places(test) else { return };
    make(&local);
    let expected = dump(&local);
    let copiers = [
        ("cp", r#"cp -a "$1" "$2""#),
        ("rsync", r#"rsync -aHAX "$1/" "$2/""#),
        (
            "tar",
            r#"mkdir "$2" && tar --xattrs --xattrs-include='*' --acls -C "$1" -cf - . | tar --xattrs --xattrs-include='*' --acls -C "$2" -xpf -"#,
        ),
    ];
    for (name, copy) in copiers {
        let (on, again, back) = (there.with_file_name(name), there.with_file_name("again"), site.root().join(name));
        for (from, to) in [(&local, &on), (&on, &again), (&again, &back)] {
            sh(Path::new("/"), copy, &[from, to]);
            assert_eq!(dump(to), expected, "{name} {} to {}", from.display(), to.display());
        }
        sh(Path::new("/"), r#"rm -r "$1""#, &[&again]);
    }
    let quiet =
        sh(Path::new("/"), r#"rsync -aHAX --itemize-changes "$1/" "$2/""#, &[&local, &there.with_file_name("rsync")]);
    assert_eq!(quiet, "", "a second rsync finds nothing to do");
    mount.stop();
    site.assert_clean("after copies");
}
