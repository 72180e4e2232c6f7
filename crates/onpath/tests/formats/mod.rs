//! DIRs that earlier versions have written are read. `v1.tar.gz` holds one (`state`) with a checkpoint of images and a journal that
//! goes on after it, killed at work; what was in it by `find` (`listing`) and `sha256sum` (`sums`).

use crate::common::server::{Site, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unpacks a stored DIR beside a fresh site.
fn unpacked(site: &Site, name: &str) -> PathBuf {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(name);
    let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(site.root()).status();
    assert!(status.expect("tar runs").success(), "tar of {name}");
    site.root().join("state")
}

/// What a shell command says about a directory.
fn said(dir: &Path, command: &str) -> String {
    let output =
        Command::new("sh").args(["-c", command]).current_dir(dir).env("LC_ALL", "C").output().expect("sh runs");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn compare(site: &Site, dir: &Path) {
    let listed = said(dir, r"find . -printf '%P\0%y %m %U %G %n %s %b %T@ %l\n' | sort");
    let wanted = said(site.root(), "sort listing");
    assert!(listed == wanted, "attributes differ:\n{}", difference(&wanted, &listed));
    let sums = said(dir, "find . -type f ! -name sparse -print0 | sort -z | xargs -0 sha256sum | sort");
    let wanted = said(site.root(), "sort sums");
    assert!(sums == wanted, "bytes differ:\n{}", difference(&wanted, &sums));
}

fn difference(wanted: &str, found: &str) -> String {
    let only = |mark: &str, a: &str, b: &str| {
        let b: Vec<&str> = b.lines().collect();
        a.lines().filter(|line| !b.contains(line)).map(|line| format!("{mark} {line}\n")).collect::<String>()
    };
    only("-", wanted, found) + &only("+", found, wanted)
}

#[test]
fn the_first_format() {
    let Some(site) = Site::new("a DIR of the first format") else { return };
    let state = unpacked(&site, "v1.tar.gz");
    crate::common::server::assert_clean(&state, "of the stored DIR");
    let mount = site.dev(&[]);
    compare(&site, mount.path());
    assert!(fs::exists(state.join("checkpoint/manifest")).expect("stat"), "nothing was checkpointed yet");
    mount.stop();
    assert!(!fs::exists(state.join("checkpoint/manifest")).expect("stat"), "the stop has written a checkpoint");
    site.assert_clean("after its first checkpoint");
    let mut mount = site.dev(&[]);
    compare(&site, mount.path());
    fs::write(mount.path().join("d/new"), "x").expect("write of a file");
    mount.kill();
    site.assert_clean("after a kill");
}

/// What is wrong with a checkpoint of images is found and named, and not served.
#[test]
fn damage_of_the_first_format() {
    let Some(site) = Site::new("damage of a DIR of the first format") else { return };
    let damage = |what: &dyn Fn(&Path), code: &str| {
        let state = unpacked(&site, "v1.tar.gz");
        what(&state.join("checkpoint"));
        let output = run(["fsck".as_ref(), "--json".as_ref(), state.as_os_str()]);
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let codes: Vec<&str> =
            found["faults"].as_array().expect("a list").iter().filter_map(|fault| fault["code"].as_str()).collect();
        assert_eq!(codes, [code], "{found:#}");
        let mount = run(["dev".as_ref(), state.as_os_str(), site.mountpoint(1).as_os_str()]);
        assert!(!mount.status.success(), "a damaged checkpoint was served");
        fs::remove_dir_all(state).expect("remove");
    };
    let image = |dir: &Path| {
        let all = fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").path());
        all.filter(|path| path.extension().is_some_and(|e| e == "img")).min().expect("an image")
    };
    let flip = |path: &Path, at: usize| {
        let mut bytes = fs::read(path).expect("read");
        bytes[at] ^= 0x10;
        fs::write(path, bytes).expect("write");
    };
    damage(&|dir| flip(&dir.join("manifest"), 30), "F04");
    damage(&|dir| flip(&dir.join("manifest"), 8), "F02");
    damage(&|dir| flip(&image(dir), 60), "F05");
    damage(&|dir| fs::remove_file(image(dir)).expect("remove"), "F06");
    let cut = |dir: &Path| {
        let whole = fs::read(image(dir)).expect("read");
        fs::write(image(dir), &whole[..whole.len() - 9]).expect("write");
    };
    damage(&cut, "F05");
}
