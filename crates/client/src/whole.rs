//! Files that are read or written as a whole.

use crate::counters::add;
use crate::error::Error;
use crate::file::{AHEAD, File, joined};
use crate::metadata::Metadata;
use crate::names::Replace;
use bytes::Bytes;
use onpath_session::fs::FsOp;
use onpath_wire::errno::Errno;
use onpath_wire::limits::IO_BYTES_MAX;
use std::collections::VecDeque;
use std::pin::Pin;

/// Reads a file from its beginning to its end, some pieces ahead.
pub struct Reader {
    file: File,
    next: u64,
    ahead: VecDeque<Asked<Bytes>>,
    ended: bool,
}

type Asked<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

impl Reader {
    pub(crate) fn new(file: File) -> Reader {
        Reader { file, next: 0, ahead: VecDeque::new(), ended: false }
    }

    /// The next bytes of the file, at most 1 MiB; none at its end.
    ///
    /// # Errors
    /// As read(2).
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while !self.ended && self.ahead.len() < AHEAD {
            let asks = self.file.asks()?;
            let op =
                FsOp::Read { handle: self.file.handle, offset: self.next, bytes: IO_BYTES_MAX as u32, page: false };
            let asked = asks.ask(op);
            self.next += IO_BYTES_MAX as u64;
            self.ahead.push_back(Box::pin(async { joined(asked.await?) }));
        }
        // It stays in its place until it is answered: who drops this future misses nothing.
        let Some(first) = self.ahead.front_mut() else { return Ok(None) };
        let read = first.await;
        self.ahead.pop_front();
        let read = self.file.named(read)?;
        add(&self.file.session.requests.counting.read_bytes, read.len() as u64);
        if read.len() < IO_BYTES_MAX {
            self.ended = true;
            self.ahead.clear();
        }
        Ok((!read.is_empty()).then_some(read))
    }

    /// The file that is read.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Writes a file that gets its name when all of it is written: until then, and if it is dropped before, the name leads to what it led to.
pub struct Writer {
    file: File,
    replace: Replace,
    next: u64,
    behind: VecDeque<Asked<usize>>,
    /// Bytes are missing: it gets no name.
    failed: bool,
}

impl Writer {
    pub(crate) fn new(file: File, replace: Replace) -> Writer {
        Writer { file, replace, next: 0, behind: VecDeque::new(), failed: false }
    }

    /// Adds bytes at the end. A future that is dropped may have added some of them.
    ///
    /// # Errors
    /// As write(2), also of bytes that were added before. After an error it is EIO, and the file gets no name.
    pub async fn write(&mut self, data: impl Into<Bytes>) -> Result<(), Error> {
        let mut data = data.into();
        while !data.is_empty() {
            self.wait(AHEAD - 1).await?;
            let piece = data.split_to(data.len().min(IO_BYTES_MAX));
            let (length, asks) = (piece.len(), self.file.asks()?);
            let asked = self.file.begin_write(&asks, self.next, piece);
            self.next += length as u64;
            self.behind.push_back(Box::pin(async move {
                let n = asked.await?;
                if n == length { Ok(n) } else { Err(Errno::ENOSPC.into()) }
            }));
        }
        Ok(())
    }

    /// Waits until at most so many pieces are under way.
    async fn wait(&mut self, under_way: usize) -> Result<(), Error> {
        if self.failed {
            return self.file.named(Err(Errno::EIO.into()));
        }
        while self.behind.len() > under_way {
            let Some(first) = self.behind.front_mut() else { break };
            // It stays in its place until it is answered.
            let written = first.await;
            self.behind.pop_front();
            self.failed = written.is_err();
            self.file.named(written)?;
        }
        Ok(())
    }

    /// Returns when all that was added so far is written.
    ///
    /// # Errors
    /// As write(2).
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.wait(0).await
    }

    /// The file, to set its times or extended attributes before it has a name: after [`flush`](Self::flush), since a write changes times.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name when all of it is written, and with `sync` when all of it is durable. Says what it is.
    ///
    /// # Errors
    /// As write(2), fsync(2), linkat(2) and rename(2). The name leads to what it led to.
    pub async fn finish(mut self, sync: bool) -> Result<Metadata, Error> {
        self.wait(0).await?;
        if sync {
            self.file.sync().await?;
        }
        self.file.take_name(self.replace).await?;
        let is = self.file.stat().await;
        self.file.close().await?;
        is
    }
}
