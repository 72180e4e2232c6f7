//! What went wrong, with the path and the file system that it went wrong with.

use crate::way::WayError;
use onpath_wire::errno::Errno;
use onpath_wire::shown::Shown;
use std::io;
use thiserror::Error;

/// Why a call failed.
#[derive(Debug, Error)]
#[error("{}{kind}", place(.at, .path))]
pub struct Error {
    kind: Box<ErrorKind>,
    at: Option<String>,
    path: Option<String>,
}

/// What kind of failure.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file system answers with an error of errno(3).
    #[error("{}", io::Error::from_raw_os_error(.0.raw()))]
    Errno(Errno),
    /// What names the file system makes no sense.
    #[error("{0}")]
    Source(String),
    /// There is no way to it.
    #[error(transparent)]
    Way(#[from] WayError),
    /// The session has ended, and calls with it.
    #[error("the session is over: {0}")]
    Over(String),
    /// More calls are under way than a session takes; none of this one was done.
    #[error("too many calls are under way; wait for some of them")]
    Busy,
    /// A file that was opened before fork(2): it belongs to the parent process.
    #[error("the file was opened before fork(2); open it again in this process")]
    Forked,
    /// A file of this machine that is read or written beside it.
    #[error(transparent)]
    Local(#[from] io::Error),
}

fn place(at: &Option<String>, path: &Option<String>) -> String {
    match (at, path) {
        (Some(at), Some(path)) => format!("{}: ", format!("{at}/{}", path.trim_start_matches('/')).shown()),
        (Some(alone), None) | (None, Some(alone)) => format!("{}: ", alone.shown()),
        (None, None) => String::new(),
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Error {
        Error { kind: Box::new(kind), at: None, path: None }
    }

    /// Of that path of that file system, unless it is known to be about another path of the call.
    pub(crate) fn at(self, source: &str, path: &[u8]) -> Error {
        let named = self.about(path);
        Error { at: Some(source.to_owned()), ..named }
    }

    /// Of a call with two paths: this is the one that it is about.
    pub(crate) fn about(self, path: &[u8]) -> Error {
        let path = self.path.unwrap_or_else(|| String::from_utf8_lossy(path).into_owned());
        Error { path: Some(path), ..self }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    pub(crate) fn is(&self, errno: Errno) -> bool {
        matches!(*self.kind, ErrorKind::Errno(is) if is == errno)
    }

    /// The number of errno(3), if the file system has answered with one.
    pub fn raw_os_error(&self) -> Option<i32> {
        match &*self.kind {
            ErrorKind::Errno(errno) => Some(errno.raw()),
            _ => None,
        }
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        Error::new(ErrorKind::Errno(errno))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::new(ErrorKind::Local(error))
    }
}

impl From<WayError> for Error {
    fn from(error: WayError) -> Error {
        Error::new(ErrorKind::Way(error))
    }
}
