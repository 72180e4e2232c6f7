//! The directory that the command line names on a file system that is not mounted, gone to name by name: what others put in place of a name
//! afterwards leads nowhere else.

use crate::copy::object::we_are_root;
use crate::remote::Target;
use anyhow::ensure;
use onpath_client::blocking::Client;
use onpath_client::{Caller, FileType, Link, Metadata};
use onpath_wire::shown::Shown;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Symbolic links in a path that are followed (Linux).
const LINKS_MAX: usize = 40;

/// As much of a path as is there.
pub(in crate::copy) struct Argument {
    /// From the root of the file system on.
    dirs: Vec<Client>,
    /// Names that are missing, from the first one on.
    missing: VecDeque<Vec<u8>>,
    /// As messages have it.
    told: PathBuf,
}

impl Argument {
    /// Goes along the path. Root follows only links that belong to root: any other user's may have been put there just now.
    pub(in crate::copy) fn find(target: &Target, me: &Caller) -> anyhow::Result<Argument> {
        let told = PathBuf::from(OsStr::from_bytes(&target.told()));
        let mut dirs = vec![target.client.within(me, "/", Link::Itself)?];
        let mut names = names(&target.path);
        let mut links = 0;
        while let Some(name) = names.pop_front() {
            if name == b".." {
                // Above the root is the root.
                dirs.truncate((dirs.len() - 1).max(1));
                continue;
            }
            let Some(dir) = dirs.last() else { break };
            let is = match dir.lstat(me, &name) {
                Ok(is) => is,
                Err(error) if errno_of(&error) == Some(Errno::NOENT) && !leads_up(&names) => {
                    names.push_front(name);
                    return Ok(Argument { dirs, missing: names, told });
                }
                Err(error) => return Err(error.into()),
            };
            match is.file_type {
                FileType::Directory => dirs.push(dir.within(me, &name, Link::Itself)?),
                FileType::Symlink => {
                    let of_others = we_are_root() && is.uid != 0;
                    ensure!(
                        !of_others,
                        "{} is a symbolic link of user {}, which root does not follow: give the path that it leads to",
                        OsStr::from_bytes(&name).shown(),
                        is.uid
                    );
                    links += 1;
                    ensure!(links <= LINKS_MAX, Errno::LOOP);
                    let target = dir.readlink(me, &name)?;
                    dirs.truncate(if target.starts_with(b"/") { 1 } else { dirs.len() });
                    self::names(&target).into_iter().rev().for_each(|name| names.push_front(name));
                }
                _ => anyhow::bail!("{} is not a directory: name the directory to copy", told.shown()),
            }
        }
        Ok(Argument { dirs, missing: VecDeque::new(), told })
    }

    /// As messages have it.
    pub(in crate::copy) fn told(&self) -> &PathBuf {
        &self.told
    }

    /// Whether all of it is there.
    pub(in crate::copy) fn is_there(&self) -> bool {
        self.missing.is_empty()
    }

    /// What is known of the directories of the path that are there, from the root on.
    pub(in crate::copy) fn above(&self, me: &Caller) -> anyhow::Result<Vec<Metadata>> {
        Ok(self.dirs.iter().map(|dir| dir.lstat(me, "/")).collect::<Result<_, _>>()?)
    }

    /// The directory itself, which must be there.
    pub(in crate::copy) fn open(mut self) -> anyhow::Result<Client> {
        ensure!(self.missing.is_empty(), Errno::NOENT);
        self.dirs.pop().ok_or_else(|| Errno::NOENT.into())
    }

    /// The same, with the directories made that are missing.
    pub(in crate::copy) fn make(mut self, me: &Caller) -> anyhow::Result<Client> {
        while let (Some(name), Some(dir)) = (self.missing.pop_front(), self.dirs.last()) {
            match dir.mkdir(me, &name, 0o777) {
                Err(error) if errno_of(&error) != Some(Errno::EXIST) => return Err(error.into()),
                _ => {}
            }
            // One that may not be read is on stable storage when the file system gets to it.
            if let Ok(open) = dir.list(me, "/", false) {
                open.sync()?;
            }
            self.dirs.push(dir.within(me, &name, Link::Itself)?);
        }
        self.open()
    }
}

fn errno_of(error: &onpath_client::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}

fn leads_up(names: &VecDeque<Vec<u8>>) -> bool {
    names.iter().any(|name| name == b"..")
}

fn names(path: &[u8]) -> VecDeque<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.map(<[u8]>::to_vec).collect()
}
