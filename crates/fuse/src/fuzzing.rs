//! Parsers of what comes from outside, as the fuzz targets in `fuzz/` call them; nothing else does.

use crate::mount::MountEntry;

/// The mounts of a table as `/proc` shows it.
pub fn mounts(table: &[u8]) -> Vec<MountEntry> {
    crate::mount::parse_table(table)
}

/// Reads a text as each file of a thread in `/proc` that is asked of a caller.
pub fn proc_texts(text: &[u8]) {
    crate::adapter::read_texts(text);
}
