//! What `get` and `put` have in common, and `mv` and `ln` with them.

use crate::walk::{Failure, ManyArgs};
use anyhow::bail;
use clap::Args;
use onpath_wire::shown::Shown;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What the owner of a directory may do with it while it is filled, whatever it is a copy of.
const FILLING: u32 = 0o700;

/// How files are copied, here and there.
#[derive(Args, Clone, Debug)]
pub(super) struct CopyHow {
    /// Directories with everything in them, several files at once.
    #[arg(short, long)]
    pub(super) recursive: bool,
    /// Copies have the modes and times of what they are copies of.
    #[arg(short, long)]
    pub(super) preserve: bool,
    /// It is a failure if there is something of that name already.
    #[arg(short, long)]
    pub(super) no_clobber: bool,
    #[command(flatten)]
    pub(super) many: ManyArgs,
}

impl CopyHow {
    /// Permission bits of a copy. None has set-id bits: it may have another owner.
    pub(super) fn mode(&self, permissions: u32, umask: u32) -> u32 {
        permissions & 0o777 & if self.preserve { !0 } else { !umask }
    }

    /// Permission bits to make the copy of a directory with.
    pub(super) fn filling(permissions: u32) -> u32 {
        permissions & 0o777 | FILLING
    }

    /// Permission bits for a directory that is complete, if it is to get others. `made`: those that it was made with; a directory that was there
    /// before keeps its own.
    pub(super) fn filled(&self, permissions: u32, made: Option<u32>) -> Option<u32> {
        match made {
            _ if self.preserve => Some(permissions & 0o777),
            Some(made) if permissions & FILLING != FILLING => Some(made & !(FILLING & !permissions)),
            _ => None,
        }
    }
}

/// What is neither file, directory nor symbolic link.
pub(super) fn no_copy() -> Failure {
    Failure::new("copy (it is neither file, directory nor symbolic link)", Errno::OPNOTSUPP)
}

/// The names that a command has given in the directory that everything goes into: the next source of such a name would take the place of
/// what the one before has become.
#[derive(Default)]
pub(super) struct Given(HashMap<Vec<u8>, Vec<u8>>);

impl Given {
    /// Whether a source may still get the name. False if it has it already.
    ///
    /// # Errors
    /// Another source has it.
    pub(super) fn is_free(&self, name: &[u8], source: &[u8]) -> anyhow::Result<bool> {
        match self.0.get(name) {
            None => Ok(true),
            Some(same) if same == source => Ok(false),
            Some(other) => {
                let [name, other, source] = [name, other, source].map(|name| OsStr::from_bytes(name).shown());
                bail!("{name} has just been made of {other}: {source} is left out")
            }
        }
    }

    /// It has got the name.
    pub(super) fn give(&mut self, name: &[u8], source: &[u8]) {
        self.0.insert(name.to_vec(), source.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(preserve: bool) -> CopyHow {
        CopyHow { recursive: true, preserve, no_clobber: false, many: ManyArgs { jobs: None, quiet: true } }
    }

    #[test]
    fn a_directory_that_was_there_keeps_its_mode() {
        for (preserve, permissions, made, mode) in [
            (false, 0o555, None, None),
            (false, 0o755, Some(0o2750), None),
            (false, 0o555, Some(0o2755), Some(0o2555)),
            (false, 0o477, Some(0o755), Some(0o455)),
            (true, 0o555, None, Some(0o555)),
            (true, 0o4755, Some(0o700), Some(0o755)),
        ] {
            let case = format!("preserve: {preserve}, {permissions:o}, {made:?}");
            assert_eq!(how(preserve).filled(permissions, made), mode, "{case}");
        }
    }

    #[test]
    fn a_name_is_given_once() {
        let mut given = Given::default();
        assert!(given.is_free(b"f", b"a/f").unwrap());
        given.give(b"f", b"a/f");
        assert!(!given.is_free(b"f", b"a/f").unwrap() && given.is_free(b"g", b"a/g").unwrap());
        let error = given.is_free(b"f", b"b/f").unwrap_err().to_string();
        assert_eq!(error, "f has just been made of a/f: b/f is left out");
    }
}
