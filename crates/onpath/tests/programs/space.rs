//! Space comes back: what DIR takes on the local disk falls when files are removed.

use crate::common::random::Random;
use crate::common::server::Site;
use crate::common::sys;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// After `rm -rf` this long at most …
const RECLAIMED_WITHIN: Duration = Duration::from_secs(10);
/// … until DIR takes at most so many percent more than before.
const PERCENT: u64 = 5;

/// What a directory takes on the disk, bytes.
fn du(top: &Path) -> u64 {
    let mut bytes = 0;
    let mut todo = vec![top.to_owned()];
    while let Some(path) = todo.pop() {
        let Ok(stat) = sys::lstat(&path) else { continue }; // files come and go beneath a running server
        bytes += stat.blocks as u64 * 512;
        if stat.kind() == libc::S_IFDIR {
            todo.extend(sys::names(&path).unwrap_or_default().into_iter().map(|name| path.join(name)));
        }
    }
    bytes
}

/// Bytes that all hosts' directories take.
fn used(site: &Site) -> u64 {
    site.states().iter().map(|state| du(state)).sum()
}

#[test]
fn removed_files_give_their_space_back() {
    let Some(site) = Site::new("space") else { return };
    let mount = site.dev(&[]);
    let mut random = Random::new(5);
    fs::write(mount.path().join("keep"), random.bytes(24 << 20)).expect("a file that stays");
    sys::fsync(fs::File::open(mount.path().join("keep")).expect("open")).expect("fsync");
    let before = used(&site);
    let top = mount.path().join("bulk");
    for dir in 0..20 {
        fs::create_dir_all(top.join(format!("{dir}"))).expect("mkdir");
        fs::write(top.join(format!("{dir}/large")), random.bytes(12 << 20)).expect("a large file");
        for file in 0..50 {
            fs::write(top.join(format!("{dir}/{file}")), random.bytes(1 + file * 333)).expect("a small file");
        }
    }
    let full = used(&site);
    assert!(full > before + (240 << 20), "{before} bytes grew to {full} only");
    let statfs_full = sys::statvfs(mount.path()).expect("statvfs");
    fs::remove_dir_all(&top).expect("rm -rf");
    let start = Instant::now();
    let allowed = before + before * PERCENT / 100;
    let mut now = used(&site);
    while now > allowed {
        assert!(
            start.elapsed() < RECLAIMED_WITHIN,
            "DIR took {before} bytes before, {full} with the files, {now} still {RECLAIMED_WITHIN:?} after they were removed"
        );
        std::thread::sleep(Duration::from_millis(100));
        now = used(&site);
    }
    let statfs = sys::statvfs(mount.path()).expect("statvfs");
    assert!(statfs.f_bfree > statfs_full.f_bfree, "statfs does not show the space");
    mount.stop();
    site.assert_clean("after rm -rf");
}
