//! Ranges of a file that one mount reserves, punches or copies, as the other one sees them.

use crate::common::check::{content, done};
use crate::common::random::Random;
use crate::common::sys;
use crate::two_mounts::Pair;
use libc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE, O_CREAT, O_RDWR, SEEK_DATA, SEEK_HOLE};
use std::os::fd::OwnedFd;

const BYTES: usize = 200_000;
const OPERATIONS: usize = 300;

/// Both mounts change one file in turn, in every way; after each change the other sees its bytes, its size, its blocks and its holes.
#[test]
fn changed_in_turn() {
    let Some(pair) = Pair::new("ranges across mounts", &[]) else { return };
    let paths = pair.both("f");
    let open = |path| done("open", sys::open(path, O_RDWR | O_CREAT, 0o644));
    let fds: [OwnedFd; 2] = [open(&paths[0]), open(&paths[1])];
    let mut random = Random::new(11);
    let mut bytes: Vec<u8> = vec![];
    for round in 0..OPERATIONS {
        let (here, there) = (round % 2, (round + 1) % 2);
        let (from, length) = (random.below(BYTES), 1 + random.below(30_000));
        let end = from + length;
        match random.below(6) {
            0 | 1 => {
                let piece = random.bytes(length);
                done("pwrite", sys::pwrite(&fds[here], &piece, from as i64));
                bytes.resize(bytes.len().max(end), 0);
                bytes[from..end].copy_from_slice(&piece);
            }
            2 => {
                done("fallocate", sys::fallocate(&fds[here], 0, from as i64, length as i64));
                bytes.resize(bytes.len().max(end), 0);
            }
            3 | 4 => {
                let mode = *random.of(&[FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE]) | FALLOC_FL_KEEP_SIZE;
                done("fallocate", sys::fallocate(&fds[here], mode, from as i64, length as i64));
                let size = bytes.len();
                bytes[from.min(size)..end.min(size)].fill(0);
            }
            _ => {
                let to = random.below(BYTES);
                // The kernel of a mount must have heard how long the file is.
                let size = done("fstat", sys::fstat(&fds[here])).size as usize;
                if from.abs_diff(to) >= length && from < size {
                    let n = done("copy", sys::copy_range(&fds[here], from as i64, &fds[here], to as i64, length, 0));
                    assert!(n > 0, "round {round}");
                    bytes.resize(bytes.len().max(to + n), 0);
                    bytes.copy_within(from..from + n, to);
                }
            }
        }
        let (mine, theirs) = (done("fstat", sys::fstat(&fds[here])), done("fstat", sys::fstat(&fds[there])));
        assert_eq!((theirs.size, theirs.blocks, theirs.mtime), (mine.size, mine.blocks, mine.mtime), "round {round}");
        assert_eq!(theirs.size, bytes.len() as i64, "round {round}");
        assert!(done("pread", sys::pread(&fds[there], 2 * BYTES, 0)) == bytes, "round {round}");
        for whence in [SEEK_DATA, SEEK_HOLE] {
            let seek = |fd| sys::lseek(fd, from as i64, whence);
            assert_eq!(seek(&fds[there]), seek(&fds[here]), "round {round}");
        }
    }
    assert!(content(&paths[0]) == bytes && content(&paths[1]) == bytes);
    drop(fds);
    pair.stop("after ranges");
}
