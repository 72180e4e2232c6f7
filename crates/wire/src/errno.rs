//! Linux error numbers, as they reach a program's `errno`.

use crate::codec::{Reader, Wire, WireError};

macro_rules! errnos {
    ($($(#[$m:meta])* $name:ident = $value:literal),* $(,)?) => {
        /// A Linux error number that an operation can end with.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[allow(clippy::upper_case_acronyms)]
        #[repr(i32)]
        pub enum Errno { $($(#[$m])* #[doc = stringify!($name)] $name = $value),* }

        impl Errno {
            /// The errno of this number; an unknown one becomes EIO.
            pub fn from_raw(raw: i32) -> Errno {
                match raw { $($value => Errno::$name,)* _ => Errno::EIO }
            }
        }
    };
}

errnos! {
    EPERM = 1, ENOENT = 2, EINTR = 4, EIO = 5, ENXIO = 6, E2BIG = 7, EBADF = 9, EAGAIN = 11, ENOMEM = 12,
    EACCES = 13, EBUSY = 16, EEXIST = 17, EXDEV = 18, ENODEV = 19, ENOTDIR = 20, EISDIR = 21, EINVAL = 22, ENFILE = 23,
    EMFILE = 24, ENOTTY = 25, ETXTBSY = 26, EFBIG = 27, ENOSPC = 28, ESPIPE = 29, EROFS = 30, EMLINK = 31,
    ERANGE = 34, EDEADLK = 35, ENAMETOOLONG = 36, ENOLCK = 37, ENOSYS = 38, ENOTEMPTY = 39, ELOOP = 40, ENODATA = 61,
    EPROTO = 71, EOVERFLOW = 75, ERESTART = 85, EOPNOTSUPP = 95, ENOTCONN = 107, ETIMEDOUT = 110, ESTALE = 116, EDQUOT = 122,
}

impl Errno {
    /// The number.
    pub fn raw(self) -> i32 {
        self as i32
    }
}

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Errno {}

impl Wire for Errno {
    fn put(&self, out: &mut Vec<u8>) {
        (self.raw() as u16).put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Errno::from_raw(i32::from(u16::take(r)?)))
    }
}
