//! The file `boot` of a DIR: in which boot of the machine it was last in use.

use crate::dir::replace_file;
use crate::held;
use crate::sys;
use std::fs;
use std::io;
use std::path::Path;

/// Names the boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Whether DIR was last in use in another boot, or it is not known in which.
pub(crate) fn is_another(path: &Path) -> bool {
    look(path).unwrap_or(false)
}

/// The same, or why that cannot be told.
pub(crate) fn look(path: &Path) -> io::Result<bool> {
    let now = fs::read_to_string(BOOT_ID)?;
    let noted = held::read_to_string(&path.join("boot")).unwrap_or_default();
    Ok(noted != now)
}

/// Remembers the present boot, durably.
pub(crate) fn note(path: &Path) -> io::Result<()> {
    let now = fs::read_to_string(BOOT_ID)?;
    match replace_file(path, "boot", now.as_bytes()) {
        // Not noted for lack of space: the next start reads a little more than it need.
        Err((_, error)) if sys::is_no_space(&error) => Ok(()),
        written => written.map_err(|(_, error)| error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_is_known() {
        let tmp = tempfile::tempdir().unwrap();
        assert!(is_another(tmp.path()), "not known");
        note(tmp.path()).unwrap();
        assert!(!look(tmp.path()).unwrap());
        fs::write(tmp.path().join("boot"), "another boot\n").unwrap();
        assert!(look(tmp.path()).unwrap());
    }
}
