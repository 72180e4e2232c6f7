//! Taking checkpoints: when the journal has grown by so many bytes, when the disk is full, and on request.

use super::CheckpointError;
use super::manifest::{self, Entry, FILE_NAME, Manifest};
use crate::node::{FlushWatch, Node};
use crate::sys;
use onpath_store::image::{self, ImageHeader};
use onpath_wire::ids::{Lsn, NodeId};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;

/// Name of the file that keeps room for the next checkpoint on a full disk.
const RESERVE: &str = "reserve";
/// Least room kept for the next checkpoint, bytes.
const RESERVE_BYTES_MIN: u64 = 1 << 20;

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CheckpointReport {
    /// The journal is replayed from here.
    pub from: Lsn,
    /// Images in it.
    pub images: u64,
    /// Images that had to be written (the others had not changed).
    pub written: u64,
    /// Bytes of all images.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct State {
    due: bool,
    stop: bool,
    /// Bytes that the journal had when the last checkpoint began.
    journal_bytes: u64,
}

struct Inner {
    node: Weak<Node>,
    dir: PathBuf,
    fsid: u64,
    every_bytes: u64,
    state: Mutex<State>,
    work: Condvar,
    /// Held while a checkpoint is taken: one at a time.
    running: Mutex<()>,
}

/// Takes checkpoints of a node on a thread of its own.
pub struct Checkpointer {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Checkpointer {
    /// Starts. `every_bytes`: journal bytes after which a checkpoint is due.
    pub fn start(node: &Arc<Node>, dir: &Path, fsid: u64, every_bytes: u64) -> Checkpointer {
        let inner = Arc::new(Inner {
            node: Arc::downgrade(node),
            dir: dir.to_owned(),
            fsid,
            every_bytes,
            state: Mutex::default(),
            work: Condvar::new(),
            running: Mutex::default(),
        });
        node.watch_flushes(inner.clone());
        let run = {
            let inner = inner.clone();
            move || inner.run()
        };
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(run);
        let thread = Mutex::new(Some(thread.expect("a process can have a few threads")));
        Checkpointer { inner, thread }
    }

    /// Takes a checkpoint now and waits for it.
    pub fn checkpoint(&self) -> Result<CheckpointReport, CheckpointError> {
        self.inner.checkpoint()
    }

    /// Asks for a checkpoint soon.
    pub fn request(&self) {
        self.inner.request();
    }

    /// Ends the thread; a checkpoint in progress is finished first.
    pub fn stop(&self) {
        self.inner.state.lock().expect("checkpoint control does not panic").stop = true;
        self.inner.work.notify_all();
        let thread = self.thread.lock().expect("checkpoint control does not panic").take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl FlushWatch for Inner {
    fn flushed(&self, journal_bytes: u64) {
        let mut state = self.state.lock().expect("checkpoint control does not panic");
        if !state.due && journal_bytes.saturating_sub(state.journal_bytes) >= self.every_bytes {
            state.due = true;
            self.work.notify_all();
        }
    }

    fn space(&self, full: bool) {
        if full {
            self.request();
        }
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> CheckpointError + use<'_> {
    move |source| CheckpointError::Io { path: path.to_owned(), source }
}

impl Inner {
    fn request(&self) {
        self.state.lock().expect("checkpoint control does not panic").due = true;
        self.work.notify_all();
    }

    fn run(&self) {
        while self.next() {
            match self.checkpoint() {
                Ok(report) => tracing::info!(?report, "checkpoint"),
                Err(error) => tracing::warn!(%error, "no checkpoint; the journal is kept"),
            }
        }
    }

    fn next(&self) -> bool {
        let mut state = self.state.lock().expect("checkpoint control does not panic");
        while !state.stop && !state.due {
            state = self.work.wait(state).expect("checkpoint control does not panic");
        }
        state.due = false;
        !state.stop
    }

    fn checkpoint(&self) -> Result<CheckpointReport, CheckpointError> {
        let _one = self.running.lock().expect("a checkpoint does not panic");
        let Some(node) = self.node.upgrade() else { return Ok(CheckpointReport::default()) };
        let Some(journal) = node.journal() else { return Ok(CheckpointReport::default()) };
        self.state.lock().expect("checkpoint control does not panic").journal_bytes = journal.status().bytes;
        let before = manifest::read(&self.dir, self.fsid)?;
        let kept: HashSet<Entry> = before.into_iter().flat_map(|m| m.images).collect();
        let mut report = CheckpointReport::default();
        let mut manifest = Manifest { fsid: self.fsid, from: Lsn(u64::MAX), images: vec![] };
        let mut last = Lsn(0);
        for (role, ranges) in node.recoverable() {
            for range in 0..ranges {
                let (entry, lsn, written) = self.image(&node, role, range, &kept)?;
                manifest.from = manifest.from.min(Lsn(lsn.0 + 1));
                last = last.max(lsn);
                report.bytes += entry.bytes;
                report.written += u64::from(written);
                manifest.images.push(entry);
            }
        }
        if manifest.images.is_empty() {
            return Ok(report);
        }
        manifest.images.sort_by_key(|e| (e.role, e.range));
        sys::sync_dir(&self.dir).map_err(at(&self.dir))?;
        journal.wait_durable(last)?;
        manifest::write(&self.dir, &manifest)
            .or_else(|(path, error)| match self.free_reserve(&error) {
                true => manifest::write(&self.dir, &manifest),
                false => Err((path, error)),
            })
            .map_err(|(path, source)| CheckpointError::Io { path, source })?;
        self.tidy(&manifest);
        journal.release(manifest.from);
        (report.from, report.images) = (manifest.from, manifest.images.len() as u64);
        Ok(report)
    }

    /// Takes and writes the image of one range, unless the last checkpoint has the same.
    fn image(
        &self,
        node: &Node,
        role: NodeId,
        range: u32,
        kept: &HashSet<Entry>,
    ) -> Result<(Entry, Lsn, bool), CheckpointError> {
        let (image, lsn) = node.image(role, range).expect("a recoverable role stays where it is");
        let same = |e: &&Entry| (e.role, e.range, e.upto) == (role, range, image.upto);
        if let Some(entry) = kept.iter().find(same) {
            return Ok((*entry, lsn, false));
        }
        let header = ImageHeader { fsid: self.fsid, role, range, upto: image.upto };
        let bytes = image::encode(header, &image.pairs);
        let entry = Entry { role, range, upto: image.upto, bytes: bytes.len() as u64 };
        let path = self.dir.join(entry.file_name());
        write_file(&path, &bytes)
            .or_else(|error| if self.free_reserve(&error) { write_file(&path, &bytes) } else { Err(error) })
            .map_err(at(&path))?;
        Ok((entry, lsn, true))
    }

    /// Gives up the room kept for this case; true if that may help.
    fn free_reserve(&self, error: &io::Error) -> bool {
        sys::is_no_space(error) && fs::remove_file(self.dir.join(RESERVE)).is_ok()
    }

    /// Removes what the manifest does not name, and keeps room for the next checkpoint if there is any.
    fn tidy(&self, manifest: &Manifest) {
        remove_unnamed(&self.dir, manifest.images.iter().map(Entry::file_name).collect());
        let room = (manifest.images.iter().map(|e| e.bytes).sum::<u64>() * 5 / 4).max(RESERVE_BYTES_MIN);
        let path = self.dir.join(RESERVE);
        let reserved = fs::metadata(&path).is_ok_and(|m| m.len() >= room);
        if !reserved && File::create(&path).and_then(|file| sys::allocate(&file, room)).is_err() {
            // Without room for a whole reserve half of one helps nobody.
            let _ = fs::remove_file(&path);
        }
    }
}

/// Removes images and manifests that are not among `names`; how many there were.
fn remove_unnamed(dir: &Path, names: HashSet<String>) -> u64 {
    let mut found = 0;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".img") && !names.contains(&name) || name == format!("{FILE_NAME}.tmp") {
            found += 1;
            let removed = fs::remove_file(entry.path());
            removed.unwrap_or_else(|error| tracing::warn!(%error, %name, "cannot remove an old image"));
        }
    }
    found
}

/// Removes what a checkpoint left in `dir` that was interrupted by the end of its process; how many files there were. 0 says
/// that none was.
pub fn clear_interrupted(dir: &Path, fsid: u64) -> Result<u64, CheckpointError> {
    let manifest = manifest::read(dir, fsid)?;
    let named = manifest.into_iter().flat_map(|manifest| manifest.images);
    Ok(remove_unnamed(dir, named.map(|entry| entry.file_name()).collect()))
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().inspect_err(|_| _ = fs::remove_file(path))
}
