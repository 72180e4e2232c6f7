//! The file below the checkpoint's store, as the store's library reads and writes it.

use super::beside;
use super::pointers;
use super::run::RESERVE;
use crate::held;
use crate::sys;
use redb::StorageBackend;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// How often a checkpoint looks whether a full disk has room again.
const ROOM_POLL: Duration = Duration::from_millis(50);
/// What a look at a file keeps of its writes at a time, bytes.
const CHUNK_BYTES: usize = 4096;

/// What a checkpoint does when the disk is full: it gives up a copy that is made of the store, then the room that was kept for it, then
/// it waits for more. An error would end the store, which others read.
#[derive(Debug)]
pub(super) struct Room {
    /// Where these are.
    dir: OnceLock<PathBuf>,
    given_up: AtomicBool,
}

impl Room {
    /// For the store in `dir`.
    pub(super) fn new(dir: &Path) -> Arc<Room> {
        Arc::new(Room { dir: dir.to_owned().into(), given_up: AtomicBool::new(false) })
    }

    /// For one that nobody uses: when what was kept is gone too, a full disk is an error.
    pub(super) fn unserved(dir: &Path) -> Arc<Room> {
        Arc::new(Room { dir: dir.to_owned().into(), given_up: AtomicBool::new(true) })
    }

    /// For one that does not count: a full disk is an error, and what is kept stays.
    pub(super) fn none() -> Arc<Room> {
        Arc::new(Room { dir: OnceLock::new(), given_up: AtomicBool::new(true) })
    }

    /// The store of which this is the room takes the place of that of `other`, which does not wait any more.
    pub(super) fn succeed(&self, other: &Room) {
        if let Some(dir) = other.dir.get() {
            self.dir.get_or_init(|| dir.clone());
        }
        self.given_up.store(other.given_up.swap(true, Ordering::AcqRel), Ordering::Release);
    }

    /// From now on a full disk is an error.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    fn retry(&self, mut act: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        let mut said = false;
        loop {
            let error = match act() {
                Err(error) if sys::is_no_space(&error) => error,
                done => return done,
            };
            if self.dir.get().is_some_and(|dir| beside::end_copy(dir) || held::remove(&dir.join(RESERVE)).is_ok()) {
                continue;
            }
            if self.given_up.load(Ordering::Acquire) {
                return Err(error);
            }
            if !said {
                tracing::warn!("no room for a checkpoint: it waits until something is removed from the disk below DIR");
                said = true;
            }
            std::thread::sleep(ROOM_POLL);
        }
    }
}

/// The file of a store that serves.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) file: File,
    pub(super) room: Arc<Room>,
}

impl StorageBackend for Pages {
    fn len(&self) -> io::Result<u64> {
        self.file.metadata().map(|about| about.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)?;
        // The header comes first, and is no page.
        if offset > 0 { pointers::check_page(out, || self.len()) } else { Ok(()) }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.room.retry(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.room.retry(|| self.file.write_all_at(data, offset))
    }
}

/// The file of a store that is only looked at: what is written stays in memory.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) file: File,
    pub(super) written: Mutex<Written>,
}

#[derive(Debug)]
pub(super) struct Written {
    pub(super) len: u64,
    chunks: HashMap<u64, Box<[u8; CHUNK_BYTES]>>,
}

impl Look {
    pub(super) fn new(file: File) -> io::Result<Look> {
        let len = file.metadata()?.len();
        Ok(Look { file, written: Mutex::new(Written { len, chunks: HashMap::new() }) })
    }

    fn written(&self) -> std::sync::MutexGuard<'_, Written> {
        self.written.lock().expect("a look does not panic")
    }

    /// The bytes of a chunk as the file has them; zeros beyond its end.
    fn original(&self, chunk: u64) -> io::Result<Box<[u8; CHUNK_BYTES]>> {
        let (mut bytes, mut have) = (Box::new([0; CHUNK_BYTES]), 0);
        while have < CHUNK_BYTES {
            match self.file.read_at(&mut bytes[have..], chunk * CHUNK_BYTES as u64 + have as u64)? {
                0 => break,
                more => have += more,
            }
        }
        Ok(bytes)
    }

    /// The parts of a range in its chunks: chunk, offset in it, offset in the range, length.
    fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (chunk, inside) =
                ((offset + at as u64) / CHUNK_BYTES as u64, (offset + at as u64) as usize % CHUNK_BYTES);
            let (begin, part) = (at, (len - at).min(CHUNK_BYTES - inside));
            at += part;
            (part > 0).then_some((chunk, inside, begin, part))
        })
    }
}

impl StorageBackend for Look {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        if offset + out.len() as u64 > written.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (chunk, inside, begin, len) in Look::parts(offset, out.len()) {
            let to = &mut out[begin..begin + len];
            match written.chunks.get(&chunk) {
                Some(bytes) => to.copy_from_slice(&bytes[inside..inside + len]),
                None => to.copy_from_slice(&self.original(chunk)?[inside..inside + len]),
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.written().len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        for (chunk, inside, begin, len) in Look::parts(offset, data.len()) {
            let bytes = match written.chunks.entry(chunk) {
                Entry::Occupied(bytes) => bytes.into_mut(),
                Entry::Vacant(place) => place.insert(self.original(chunk)?),
            };
            bytes[inside..inside + len].copy_from_slice(&data[begin..begin + len]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn error(errno: i32) -> io::Error {
        io::Error::from_raw_os_error(errno)
    }

    #[test]
    fn a_full_disk_takes_the_reserve_then_waits_then_is_given_up() {
        [libc::ENOSPC, libc::EDQUOT].into_iter().for_each(gives_up);
    }

    fn gives_up(errno: i32) {
        let full = || error(errno);
        let tmp = tempfile::tempdir().unwrap();
        let reserve = tmp.path().join("reserve");
        fs::write(&reserve, "room").unwrap();
        let room = Room::new(tmp.path());
        let copy = beside::copy(tmp.path());
        fs::write(&copy, "copy").unwrap();
        let open = File::open(&copy).unwrap();
        room.retry(|| if copy.exists() { Err(full()) } else { Ok(()) }).unwrap();
        assert!(reserve.exists() && open.metadata().unwrap().len() == 0, "a copy goes first, and its space with it");
        room.retry(|| if reserve.exists() { Err(full()) } else { Ok(()) }).unwrap();
        let mut tries = 0;
        room.retry(|| {
            tries += 1;
            if tries < 3 { Err(full()) } else { Ok(()) }
        })
        .unwrap();
        let other = || Err(error(libc::EIO));
        assert_eq!(room.retry(other).unwrap_err().raw_os_error(), Some(libc::EIO));
        let next = Room::none();
        fs::write(&reserve, "room").unwrap();
        assert_eq!(next.retry(|| Err(full())).unwrap_err().raw_os_error(), Some(errno));
        assert!(reserve.exists(), "what is kept stays");
        next.succeed(&room);
        next.retry(|| if reserve.exists() { Err(full()) } else { Ok(()) }).unwrap();
        for room in [room, next] {
            room.give_up();
            assert_eq!(room.retry(|| Err(full())).unwrap_err().raw_os_error(), Some(errno));
        }
    }

    #[test]
    fn a_look_writes_nothing() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("file");
        let bytes: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let look = Look::new(File::open(&path).unwrap()).unwrap();
        let mut expected = bytes.clone();
        look.set_len(12_000).unwrap();
        expected.resize(12_000, 0);
        for (offset, length) in [(0, 10), (4090, 20), (8000, 4000), (4096, 4096)] {
            look.write(offset as u64, &vec![7; length]).unwrap();
            expected[offset..offset + length].fill(7);
        }
        let mut found = vec![0; 12_000];
        look.read(0, &mut found).unwrap();
        assert!(found == expected);
        assert!(look.read(11_999, &mut [0; 2]).is_err());
        assert!(fs::read(&path).unwrap() == bytes, "the file has changed");
    }
}
