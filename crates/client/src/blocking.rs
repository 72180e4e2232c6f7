//! The calls of a client for threads, which wait.

use crate::caller::Caller;
use crate::client::{Metadata, Options};
use crate::error::Error;
use crate::source::Source;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A session of a file system. Clones are the same session.
#[derive(Clone)]
pub struct Client(crate::Client);

impl Client {
    /// Begins a session. `source`: a DIR, or `onpath://HOST[:PORT][,HOST[:PORT]…]/`.
    ///
    /// # Errors
    /// There is no such file system, or it does not let this process in.
    pub fn connect(source: &str, options: &Options) -> Result<Client, Error> {
        let (source, _) = Source::parse(source)?;
        Client::connect_to(&source, options)
    }

    /// The same with a source that is parsed already.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_to(source: &Source, options: &Options) -> Result<Client, Error> {
        crate::Client::connect_here(source, options).map(Client)
    }

    /// What a path leads to; a symbolic link at its end is followed.
    ///
    /// # Errors
    /// As stat(2).
    pub fn stat(&self, caller: &Caller, path: impl AsRef<[u8]> + Send) -> Result<Metadata, Error> {
        wait(self.0.stat(caller, path))
    }

    /// What a path leads to; a symbolic link at its end is what is told of.
    ///
    /// # Errors
    /// As lstat(2).
    pub fn symlink_metadata(&self, caller: &Caller, path: impl AsRef<[u8]> + Send) -> Result<Metadata, Error> {
        wait(self.0.symlink_metadata(caller, path))
    }

    /// Ends the session, also for its other clones.
    pub fn close(self) {
        wait(self.0.close());
    }
}
