//! The file `boot` of a DIR: in which boot of the machine it was last in use, and in which term a loss of power was last noticed.

use crate::dir::replace_file;
use crate::held;
use crate::sys;
use onpath_wire::ids::Term;
use std::fs;
use std::io;
use std::path::Path;

/// Names the boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Whether DIR was last in use in another boot, or it is not known in which.
pub(crate) fn is_another(path: &Path) -> bool {
    look(path).is_ok_and(|(another, _)| another)
}

/// The same, and the first term of the last start that followed a loss of power; 0 if none did.
pub(crate) fn look(path: &Path) -> io::Result<(bool, Term)> {
    let now = fs::read_to_string(BOOT_ID)?;
    let noted = held::read_to_string(&path.join("boot")).unwrap_or_default();
    let mut lines = noted.lines();
    let another = lines.next() != now.lines().next();
    Ok((another, Term(lines.next().and_then(|term| term.parse().ok()).unwrap_or(0))))
}

/// Remembers the present boot and that term, durably.
pub(crate) fn note(path: &Path, loss: Term) -> io::Result<()> {
    let now = fs::read_to_string(BOOT_ID)?;
    match replace_file(path, "boot", format!("{now}{}\n", loss.0).as_bytes()) {
        // Not noted for lack of space: the next start reads a little more than it need.
        Err((_, error)) if sys::is_no_space(&error) => Ok(()),
        written => written.map_err(|(_, error)| error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_is_known_with_the_last_loss_before_it() {
        let tmp = tempfile::tempdir().unwrap();
        assert!(is_another(tmp.path()), "not known");
        note(tmp.path(), Term(7)).unwrap();
        assert_eq!(look(tmp.path()).unwrap(), (false, Term(7)));
        let noted = fs::read_to_string(tmp.path().join("boot")).unwrap();
        let before = format!("another boot\n{}", noted.split_once('\n').unwrap().1);
        fs::write(tmp.path().join("boot"), before).unwrap();
        assert_eq!(look(tmp.path()).unwrap(), (true, Term(7)));
        // As versions before wrote it.
        fs::write(tmp.path().join("boot"), fs::read_to_string(BOOT_ID).unwrap()).unwrap();
        assert_eq!(look(tmp.path()).unwrap(), (false, Term(0)));
    }
}
