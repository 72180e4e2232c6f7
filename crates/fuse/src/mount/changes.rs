//! What the options of a mount become while it is mounted (`mount -o remount,ro`). The kernel tells the server nothing of that; who has
//! the mount table open hears that something in it has changed.

use super::mountinfo::{DeviceNumber, MountEntry, parse};
use super::{Mount, MountError, namespace};
use onpath_session::AccessTimes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Seek};
use std::path::Path;

/// The options of one mount, as they change.
#[derive(Debug)]
pub struct Changes {
    table: File,
    number: DeviceNumber,
    known: AccessTimes,
    over: PipeReader,
}

impl Mount {
    /// Its options from now on, which are known to be these; until the other one is dropped.
    pub fn changes(&self, known: AccessTimes) -> Result<(Changes, PipeWriter), MountError> {
        let failed = |error: io::Error| MountError::system("watch", Path::new("/proc/self/mountinfo"), error);
        let table = namespace::within(self.namespace.as_ref(), || namespace::open_table().map_err(failed))?;
        let (over, ends) = io::pipe().map_err(failed)?;
        Ok((Changes { table, number: self.number, known, over }, ends))
    }
}

impl Changes {
    /// Waits until access times move otherwise than before; nothing when it is over.
    pub fn wait(&mut self) -> io::Result<Option<AccessTimes>> {
        loop {
            let mut table = Vec::new();
            self.table.rewind()?;
            self.table.read_to_end(&mut table)?;
            if let Some(now) = access_times(&parse(&table), self.number).filter(|now| *now != self.known) {
                self.known = now;
                return Ok(Some(now));
            }
            // A change since it was opened, or since the last time that this was asked, is told at once.
            let mut asked = [
                PollFd::new(&self.table, PollFlags::PRI | PollFlags::ERR),
                PollFd::new(&self.over, PollFlags::empty()),
            ];
            match poll(&mut asked, None) {
                Err(Errno::INTR) | Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            if !asked[1].revents().is_empty() {
                return Ok(None);
            }
        }
    }
}

/// Whose access times reading moves, by the options of all mounts of a file system: who reads does not say by which of them. None if there
/// is no mount of it any more.
fn access_times(mounts: &[MountEntry], number: DeviceNumber) -> Option<AccessTimes> {
    let ours: Vec<_> = mounts.iter().filter(|mount| mount.device == number).collect();
    let all = |has: &dyn Fn(&MountEntry) -> bool| ours.iter().all(|mount| has(mount));
    (!ours.is_empty()).then(|| AccessTimes {
        never: all(&|mount| mount.has("ro") || mount.has("noatime")),
        not_of_directories: all(&|mount| mount.has("nodiratime")),
        always: !all(&|mount| mount.has("relatime") || mount.has("noatime")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_whose_access_times_move() {
        let of = |options: &[(&str, &str)]| {
            let line =
                |(mount, all): &(&str, &str)| format!("36 35 0:52 / /mnt {mount} shared:1 - fuse.onpath x {all}\n");
            let table: String = options.iter().map(line).collect();
            access_times(&parse(table.as_bytes()), DeviceNumber { major: 0, minor: 52 })
        };
        let times = |never, not_of_directories, always| Some(AccessTimes { never, not_of_directories, always });
        assert_eq!(of(&[("rw,relatime", "rw,user_id=0")]), times(false, false, false));
        assert_eq!(of(&[("rw,nodiratime", "rw")]), times(false, true, true));
        assert_eq!(of(&[("rw,noatime", "rw")]), times(true, false, false));
        assert_eq!(of(&[("rw,relatime", "ro,user_id=0")]), times(true, false, false));
        // One of two mounts is read-only.
        assert_eq!(of(&[("ro,relatime", "rw"), ("rw,relatime", "rw")]), times(false, false, false));
        assert_eq!(of(&[("ro,relatime", "rw"), ("rw,noatime", "rw")]), times(true, false, false));
        assert_eq!(of(&[]), None);
    }
}
