//! `/proc/self/mountinfo`: what is mounted where, without touching any of it.

use super::namespace;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// `major:minor` of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceNumber {
    /// Major number; 0 for file systems without a disk.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Number of the mount.
    pub id: u32,
    /// Number of the mount that it is mounted on.
    pub parent: u32,
    /// Number of the file system.
    pub device: DeviceNumber,
    /// What of the file system is mounted: `/`, or what a bind mount shows.
    pub root: PathBuf,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// Options of this mount: `rw,noatime`.
    pub options: String,
    /// Type, such as `ext4` or `fuse.onpath`.
    pub kind: String,
    /// What is mounted.
    pub source: String,
    /// Options of the file system, wherever it is mounted: `ro,user_id=0`.
    pub of_filesystem: String,
}

impl MountEntry {
    /// Whether it has this option, as a mount or as a file system.
    pub(super) fn has(&self, option: &str) -> bool {
        [&self.options, &self.of_filesystem].iter().any(|list| list.split(',').any(|given| given == option))
    }
}

/// All mounts in this thread's mount name space, older before newer.
pub fn mounts() -> std::io::Result<Vec<MountEntry>> {
    namespace::table().map(|table| parse(&table))
}

/// Whether something is mounted on a name of this file system, in the mount name space of any thread. A thread that ends meanwhile has
/// nothing to say.
pub(super) fn is_covered(device: DeviceNumber) -> std::io::Result<bool> {
    let mut seen = BTreeSet::new();
    for process in std::fs::read_dir("/proc")? {
        let process = process?;
        if !process.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        for thread in std::fs::read_dir(process.path().join("task")).into_iter().flatten().flatten() {
            let Ok(space) = std::fs::read_link(thread.path().join("ns/mnt")) else { continue };
            if seen.insert(space) && mounts_of(&thread.path()).is_ok_and(|mounts| covers(&mounts, device)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn covers(mounts: &[MountEntry], device: DeviceNumber) -> bool {
    let ours = |id| mounts.iter().any(|entry| entry.id == id && entry.device == device);
    mounts.iter().any(|entry| ours(entry.parent))
}

pub(super) fn mounts_of(thread: &Path) -> std::io::Result<Vec<MountEntry>> {
    std::fs::read(thread.join("mountinfo")).map(|table| parse(&table))
}

pub(crate) fn parse(table: &[u8]) -> Vec<MountEntry> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
    let (id, parent) = (number()?, number()?);
    let (major, minor) = std::str::from_utf8(fields.next()?).ok()?.split_once(':')?;
    let device = DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? };
    let mut path = || Some(PathBuf::from(OsString::from_vec(unescape(fields.next()?))));
    let (root, mountpoint) = (path()?, path()?);
    let options = String::from_utf8_lossy(fields.next()?).into_owned();
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = String::from_utf8_lossy(&unescape(fields.next()?)).into_owned();
    let of_filesystem = String::from_utf8_lossy(fields.next()?).into_owned();
    Some(MountEntry { id, parent, device, root, mountpoint, options, kind, source, of_filesystem })
}

/// Undoes the kernel's `\ooo` for blanks and backslashes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [byte, tail @ ..] = rest {
        let octal = match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if *byte == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        out.push(octal.unwrap_or(*byte));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_optional_fields_and_escapes() {
        let line = br"36 35 0:52 /srv/a\040b /mnt/a\040b\134c rw,nosuid shared:1 master:2 - fuse.onpath on\011path rw,user_id=0";
        let entry = parse_line(line).unwrap();
        assert_eq!(entry.device, DeviceNumber { major: 0, minor: 52 });
        assert_eq!(entry.root, PathBuf::from("/srv/a b"));
        assert_eq!(entry.mountpoint, PathBuf::from(r"/mnt/a b\c"));
        assert_eq!((entry.kind.as_str(), entry.source.as_str()), ("fuse.onpath", "on\tpath"));
        assert!(entry.has("nosuid") && entry.has("user_id=0") && !entry.has("ro"));
    }

    #[test]
    fn lines_that_are_not_mounts_are_skipped() {
        for line in [&b""[..], b"1 2", b"1 2 x:y / /a rw - t s", b"1 2 0:1 / /a rw"] {
            assert_eq!(parse_line(line), None);
        }
    }
}
