//! What a session has done, for whoever wants to show it.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a session has done since it began. All of them only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The same while they are counted.
        #[derive(Debug, Default)]
        pub(crate) struct Counting {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Counting {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl Counters {
            /// Their names and values.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Requests that calls were made of.
    requests,
    /// Those of them that ended with an error of errno(3), ENOENT among them.
    errors,
    /// Requests that nobody waited for any more when they were answered.
    abandoned,
    /// Names that were looked up on the way of a path, one by one.
    lookups,
    /// Names that a path node has followed for this session, many by one request, or that the session itself has (`paths_kept`).
    names_followed,
    /// Paths that were followed by what the session keeps of path nodes' answers, without asking one.
    paths_kept,
    /// Requests that were not executed, since what the session keeps might not be right any more: it has asked anew.
    paths_behind,
    /// Bytes read from files.
    read_bytes,
    /// Bytes written to files.
    written_bytes,
    /// Times the session was declared dead and another one was begun.
    joined_anew,
}

pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
