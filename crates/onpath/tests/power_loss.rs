//! What a power loss may take: bytes of files that no flush had covered. The machine is not switched off here; DIR is made
//! to believe that it was, by another boot id.

use crate::common::check::done;
use crate::common::server::Site;
use crate::common::{sys, wait_until};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The data file and offset of a block that begins with these bytes.
fn find_block(state: &Path, begin: &[u8]) -> (PathBuf, u64) {
    let files = std::fs::read_dir(state.join("journals/1/data")).expect("the data files");
    for path in files.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()) {
        // The files of this test are the first ones; the rest of a data file is a hole.
        let mut bytes = vec![0; 1 << 20];
        let file = std::fs::File::open(&path).expect("open of a data file");
        let length = file.read_at(&mut bytes, 0).expect("a data file");
        bytes.truncate(length);
        if let Some(at) = bytes.chunks(4096).position(|block| block.starts_with(begin)) {
            return (path, at as u64 * 4096);
        }
    }
    panic!("no block begins with {:?}", String::from_utf8_lossy(begin));
}

fn damage(state: &Path, begin: &[u8]) {
    let (path, offset) = find_block(state, begin);
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("open of a data file");
    file.write_all_at(b"?", offset).expect("write to a data file");
}

/// Writes `content` over the file, and makes it durable if `sync`.
fn write(path: &Path, content: &[u8], sync: bool) {
    let fd = done("open", sys::open(path, libc::O_RDWR | libc::O_CREAT, 0o644));
    assert_eq!(done("pwrite", sys::pwrite(&fd, content, 0)), content.len());
    if sync {
        done("fsync", sys::fsync(&fd));
    }
}

fn block(begin: &str) -> Vec<u8> {
    let mut block = begin.as_bytes().to_vec();
    block.resize(4096, b'.');
    block
}

/// A block that was durable and is damaged is an error to its reader, never the older bytes, although a block that was not
/// durable may be. So also after a power loss, which the older bytes would otherwise be taken for the sign of.
#[test]
fn a_durable_block_never_becomes_an_older_one() {
    let Some(site) = Site::new("a damaged block before the durable tail") else { return };
    // Nothing is flushed unless somebody asks for it.
    let mut mount = site.dev(&["--commit-interval-ms", "60000"]);
    let (durable, lost) = (mount.path().join("durable"), mount.path().join("lost"));
    for file in [&durable, &lost] {
        write(file, &block(&format!("old {}", file.display())), true);
    }
    let new = |file: &Path| block(&format!("new {}", file.display()));
    write(&durable, &new(&durable), true);
    // A later record of the journal says that the fsync was done.
    write(&lost, &new(&lost), false);
    mount.kill();
    drop(mount);
    damage(&site.state(), format!("new {}", durable.display()).as_bytes());
    damage(&site.state(), format!("new {}", lost.display()).as_bytes());
    std::fs::write(site.state().join("boot"), "another boot\n").expect("write of the boot id");
    let mount = site.dev(&[]);
    let fd = done("open", sys::open(&durable, libc::O_RDONLY, 0));
    let read = sys::pread(&fd, 4096, 0).map(|bytes| bytes[..8].to_vec());
    assert_eq!(read, Err(libc::EIO), "durable bytes are damaged: nothing else may stand for them");
    let fd_lost = done("open", sys::open(&lost, libc::O_RDONLY, 0));
    let found = done("pread", sys::pread(&fd_lost, 4096, 0));
    assert_eq!(found, block(&format!("old {}", lost.display())), "bytes that were not durable leave those of before");
    drop((fd, fd_lost));
    mount.stop();
}

/// A block that a power loss took from the end of a file is a hole afterwards, also in the file's count of blocks.
#[test]
fn a_lost_block_is_not_counted() {
    let Some(site) = Site::new("a lost block at the end of a file") else { return };
    let mut mount = site.dev(&["--commit-interval-ms", "60000"]);
    let fresh = mount.path().join("fresh");
    write(&fresh, &block("first"), true);
    let fd = done("open", sys::open(&fresh, libc::O_RDWR, 0));
    assert_eq!(done("pwrite", sys::pwrite(&fd, block("second"), 4096)), 4096);
    assert_eq!(done("stat", sys::stat(&fresh)).blocks, 16);
    drop(fd);
    mount.kill();
    drop(mount);
    damage(&site.state(), b"second");
    std::fs::write(site.state().join("boot"), "another boot\n").expect("write of the boot id");
    let mount = site.dev(&[]);
    let read = std::fs::read(&fresh).expect("read");
    assert_eq!(read, [block("first"), vec![0; 4096]].concat(), "the size survived, the bytes did not");
    wait_until("the count of blocks is told", || done("stat", sys::stat(&fresh)).blocks == 8);
    mount.stop();
    site.assert_clean("after a power loss");
}
