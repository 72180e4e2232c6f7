//! Names of what is not complete.

use rustix::fs::Stat;
use std::ffi::{CStr, CString};
use xxhash_rust::xxh3::Xxh3;

/// What they begin with.
const PREFIX: &[u8] = b".onpath-part-";
/// Hexadecimal digits after that.
const DIGITS: usize = 16;

/// The name under which a copy of this very state of a source is made: of another state it is another name.
pub(super) fn name(name: &CStr, stat: &Stat) -> CString {
    let mut hash = Xxh3::new();
    hash.update(name.to_bytes());
    let times = [stat.st_mtime, stat.st_mtime_nsec.cast_signed(), stat.st_size];
    times.iter().for_each(|number| hash.update(&number.to_le_bytes()));
    let digits = format!("{:016x}", hash.digest());
    CString::new([PREFIX, digits.as_bytes()].concat()).expect("ASCII without zeros")
}

/// Whether it is such a name.
pub(super) fn is_one(name: &CStr) -> bool {
    let digits = name.to_bytes().strip_prefix(PREFIX);
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}
