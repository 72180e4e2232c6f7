//! rmr, chmod, chown, du, df, find.

use crate::common::server::{Site, binary};
use crate::common::{Over, process, sys};
use crate::tools::{json, onpath, said, text};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// A tree of 21 directories, 200 files of 10 bytes, one symlink and one name more of a file.
fn plant(root: &Path) {
    for dir in 0..20 {
        let dir = root.join(format!("d{dir}"));
        fs::create_dir_all(&dir).expect("mkdir");
        for file in 0..10 {
            fs::write(dir.join(format!("f{file}.txt")), "0123456789").expect("a file");
        }
    }
    symlink("/etc/passwd", root.join("link")).expect("symlink");
    fs::hard_link(root.join("d0/f0.txt"), root.join("second")).expect("link");
}

#[test]
fn a_tree_is_removed() {
    let Some(site) = Site::new("rmr") else { return };
    let mount = site.dev(&[]);
    let outside = site.root().join("outside");
    fs::create_dir(&outside).expect("mkdir");
    fs::write(outside.join("kept"), "").expect("a file");
    let tree = mount.path().join("tree");
    plant(&tree);
    symlink(&outside, tree.join("way-out")).expect("symlink");
    let removed = json(&["rmr", text(&tree)]);
    assert_eq!((removed["directories"].as_u64(), removed["others"].as_u64()), (Some(21), Some(203)));
    assert!(sys::names(mount.path()).expect("readdir").is_empty() && outside.join("kept").exists());
    let again = onpath(&["rmr", text(&tree)]);
    assert_eq!(again.status.code(), Some(1), "{}", said(&again));
    assert!(said(&again).contains("No such file"), "{}", said(&again));
    assert!(onpath(&["rmr", "--force", text(&tree)]).status.success());
    mount.stop();
    site.assert_clean("after rmr");
}

/// A slash behind a link leads to what it points to: that is not removed.
#[test]
fn a_link_with_a_slash_is_refused() {
    let Some(site) = Site::new("rmr of a link with a slash") else { return };
    let mount = site.dev(&[]);
    let (outside, link) = (mount.path().join("outside"), mount.path().join("link"));
    fs::create_dir(&outside).expect("mkdir");
    fs::write(outside.join("kept"), "").expect("a file");
    symlink(&outside, &link).expect("symlink");
    for slashes in ["/", "//"] {
        for path in [&link, &outside.join("kept")] {
            let refused = onpath(&["rmr", &format!("{}{slashes}", text(path))]);
            assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
            assert!(said(&refused).contains("without a slash"), "{}", said(&refused));
            assert!(outside.join("kept").exists() && link.is_symlink(), "nothing is removed");
        }
    }
    let removed = json(&["rmr", text(&link), &format!("{}/", text(&outside))]);
    assert_eq!((removed["directories"].as_u64(), removed["others"].as_u64()), (Some(1), Some(2)));
    mount.stop();
}

/// Very deep and very wide, with few threads and many.
#[test]
fn odd_shapes_are_removed() {
    let Some(site) = Site::new("rmr of odd shapes") else { return };
    let mount = site.dev(&[]);
    for jobs in ["1", "7"] {
        let deep = mount.path().join("deep");
        let path = (0..200).fold(deep.clone(), |path, _| path.join("level"));
        fs::create_dir_all(&path).expect("mkdir -p");
        fs::write(path.join("bottom"), "").expect("a file");
        let wide = mount.path().join("wide");
        fs::create_dir(&wide).expect("mkdir");
        (0..1500).for_each(|n| fs::write(wide.join(format!("{n}")), "").expect("a file"));
        let removed = json(&["rmr", "--jobs", jobs, text(&deep), text(&wide)]);
        assert_eq!((removed["directories"].as_u64(), removed["others"].as_u64()), (Some(202), Some(1501)));
    }
    mount.stop();
}

/// Others make and remove entries in the tree meanwhile; in the end it is gone.
#[test]
fn others_write_while_a_tree_is_removed() {
    let Some(site) = Site::new("rmr beside writers") else { return };
    let mount = site.dev(&[]);
    let tree = mount.path().join("tree");
    for _ in 0..5 {
        plant(&tree);
        let over = Over::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.is() {
                    for dir in 0..20 {
                        // Both fail as soon as the directory is gone.
                        let _ = fs::write(tree.join(format!("d{dir}/new")), "x");
                        let _ = fs::remove_file(tree.join(format!("d{dir}/f9.txt")));
                    }
                }
            });
            let _end = over.at_end();
            let output = onpath(&["rmr", text(&tree)]);
            // A directory into which others never stop writing may be given up, with words.
            assert!(output.status.success() || said(&output).contains("cannot remove"), "{}", said(&output));
        });
        assert!(onpath(&["rmr", "--force", text(&tree)]).status.success());
        assert!(!tree.exists());
    }
    mount.stop();
    site.assert_clean("after rmr beside writers");
}

#[test]
fn modes_and_owners_of_a_tree() {
    let Some(site) = Site::new("chmod and chown of trees") else { return };
    let mount = site.dev(&[]);
    let tree = mount.path().join("tree");
    plant(&tree);
    let passwd = fs::metadata("/etc/passwd").expect("stat");
    let changed = json(&["chmod", "-R", "u=rwX,go=", text(&tree)]);
    assert_eq!(changed["changed"].as_u64(), Some(21 + 200), "each inode once");
    let mode = |path: &str| fs::metadata(tree.join(path)).expect("stat").permissions().mode() & 0o7777;
    assert_eq!((mode("d3"), mode("d3/f3.txt")), (0o700, 0o600));
    assert_eq!(json(&["chmod", "640", text(&tree.join("d3/f3.txt"))])["changed"].as_u64(), Some(1));
    assert_eq!((mode("d3"), mode("d3/f3.txt")), (0o700, 0o640));
    let changed = json(&["chown", "-R", "1234:2345", text(&tree)]);
    assert_eq!(changed["changed"].as_u64(), Some(21 + 200 + 1));
    for entry in ["d7", "d7/f7.txt", "link"] {
        let stat = fs::symlink_metadata(tree.join(entry)).expect("stat");
        assert_eq!((stat.uid(), stat.gid()), (1234, 2345), "{entry}");
    }
    let now = fs::metadata("/etc/passwd").expect("stat");
    assert_eq!((now.mode(), now.uid()), (passwd.mode(), passwd.uid()), "no symlink was followed");
    assert_eq!(json(&["chown", "-R", ":2345", text(&tree)])["changed"].as_u64(), Some(0));
    mount.stop();
}

/// Who owns a tree may open what was closed to everybody, from the top down.
#[test]
fn modes_of_a_tree_that_was_shut() {
    let Some(site) = Site::new("chmod of a tree that was shut") else { return };
    let Some(setpriv) = crate::common::tool("setpriv") else {
        return crate::common::skipped("chmod of a tree that was shut", "setpriv is missing");
    };
    let copy = site.root().join("onpath");
    process::copy_program(binary(), &copy);
    let mount = site.dev(&[]);
    let tree = mount.path().join("tree");
    plant(&tree);
    assert!(onpath(&["chown", "-R", "65534:65534", text(&tree)]).status.success());
    for mode in ["u-rwx", "u+rwX"] {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
        let output = command.args(["chmod", "-R", "--", mode]).arg(&tree).output().expect("setpriv runs");
        assert!(output.status.success(), "{mode}: {}", said(&output));
    }
    assert_eq!(fs::metadata(tree.join("d1")).expect("stat").mode() & 0o700, 0o700);
    let mut command = Command::new(&setpriv);
    command.args(["--reuid=65533", "--clear-groups"]).arg(&copy).arg("rmr").arg(&tree);
    let output = command.output().expect("setpriv runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("run this as its owner or as root"), "{}", said(&output));
    assert_eq!(fs::read_dir(&tree).expect("readdir").count(), 22, "nothing is lost");
    mount.stop();
}

#[test]
fn trees_are_summed_up() {
    let Some(site) = Site::new("du, df and find") else { return };
    let mount = site.dev(&[]);
    let tree = mount.path().join("tree");
    plant(&tree);
    fs::File::create(tree.join("sparse")).and_then(|file| file.set_len(1 << 30)).expect("a sparse file");
    let sum = json(&["du", "--depth", "1", text(&tree)]);
    assert_eq!(sum["files"].as_u64(), Some(202), "200 files, one by a second name, and the sparse one");
    assert_eq!((sum["directories"].as_u64(), sum["others"].as_u64()), (Some(21), Some(1)));
    assert_eq!(sum["bytes"].as_u64(), Some(2000 + (1 << 30)), "bytes of two names count once");
    assert!(sum["allocated"].as_u64().is_some_and(|bytes| (200 * 4096..1 << 29).contains(&bytes)), "{sum}");
    let paths = sum["paths"].as_array().expect("paths");
    assert_eq!(paths.len(), 21);
    assert_eq!(paths[0]["path"].as_str(), Some(text(&tree)));
    let words = onpath(&["du", text(&tree.join("d1"))]);
    assert!(said(&words).contains("10 files, 1 directories"), "{}", said(&words));

    let space = json(&["df", text(&tree)]);
    assert!(space[0]["available"].as_u64() > Some(0) && space[0]["source"].as_str() == Some(site.source().as_str()));
    assert!(said(&onpath(&["df"])).contains(text(mount.path())));

    let found = onpath(&["find", text(&tree), "--name", "f[37].txt", "--type", "f", "--newer", "1h"]);
    assert_eq!(String::from_utf8_lossy(&found.stdout).lines().count(), 40, "{}", said(&found));
    let found = json(&["find", text(&tree), "--larger", "1M"]);
    assert_eq!((found["files"].as_u64(), found["bytes"].as_u64()), (Some(1), Some(1 << 30)));
    let found = json(&["find", text(&tree), "--user", "root", "--smaller", "11"]);
    assert_eq!((found["files"].as_u64(), found["symlinks"].as_u64()), (Some(201), Some(0)));
    let found = onpath(&["find", text(&tree), "--type", "d", "--name", "d1", "-0"]);
    assert_eq!(found.stdout, format!("{}\0", tree.join("d1").display()).into_bytes());
    let found = onpath(&["find", text(&tree), "--older", "1w", "--summary"]);
    assert!(said(&found).contains("nothing"), "{}", said(&found));
    mount.stop();
}

/// A file system mounted in a tree is left alone, and the tree above it stays.
#[test]
fn other_file_systems_are_left_out() {
    let Some(site) = Site::new("rmr beside another file system") else { return };
    let mount = site.dev(&[]);
    let tree = site.root().join("tree");
    fs::create_dir_all(tree.join("a/b")).expect("mkdir");
    let second = {
        let inner = tree.join("a/mounted");
        fs::create_dir(&inner).expect("mkdir");
        let mut command = Command::new(crate::common::server::binary());
        command.arg("mount").arg(site.state()).arg(&inner).stdout(std::process::Stdio::null());
        let child = process::spawn(&mut command).expect("onpath mount");
        crate::common::wait_until("it is mounted", || crate::common::server::is_mounted(&inner));
        (child, inner)
    };
    fs::write(mount.path().join("precious"), "x").expect("a file");
    let output = onpath(&["rmr", text(&tree)]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("another file system"), "{}", said(&output));
    assert!(mount.path().join("precious").exists() && !tree.join("a/b").exists());
    let (mut child, inner) = second;
    assert!(onpath(&["umount", text(&inner)]).status.success());
    child.wait().expect("wait");
    mount.stop();
}
