//! DIR held open: whatever becomes of the way to it, names in it are looked up from its descriptor, a component at a time and through no
//! symbolic link (openat and O_NOFOLLOW).
//!
//! Somebody else may own a directory above DIR, and may put another one in its place while it is used. So code that names files of DIR by
//! their paths opens them with the functions of this module. They find the [`Held`] of a path in a table of this process; a directory that
//! nobody holds is found by its path. Files are made with mode 0600 and directories with 0700, whatever the umask.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

/// Mode of every file in DIR.
pub(crate) const FILE_MODE: RawMode = 0o600;
/// Mode of every directory in DIR.
pub(crate) const SUBDIRECTORY_MODE: RawMode = 0o700;

static ALL: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

/// A directory that is held until this value is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    fd: OwnedFd,
}

impl Held {
    /// Opens the directory `path`, of which only the last component may be a symbolic link of somebody else, and holds it.
    pub(crate) fn new(path: &Path) -> io::Result<Arc<Held>> {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let held = Arc::new(Held { path: path.to_owned(), fd });
        let mut all = ALL.lock().expect("no holder panics");
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        Ok(held)
    }

    /// The directory itself.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.fd)?)
    }

    /// Gives the directory itself a mode.
    pub(crate) fn set_mode(&self, mode: RawMode) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.fd, Mode::from_raw_mode(mode))?)
    }
}

/// The directory that holds `path` or is it, and what follows in `path`.
fn holder(path: &Path) -> Option<(Arc<Held>, PathBuf)> {
    let all = ALL.lock().expect("no holder panics");
    let mut held = all.iter().filter_map(Weak::upgrade);
    held.find_map(|held| path.strip_prefix(&held.path).ok().map(Path::to_owned).map(|rest| (held.clone(), rest)))
}

/// Opens a directory.
pub(crate) fn folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Some((held, rest)) = holder(path) else { return Ok(rustix::fs::open(path, flags, Mode::empty())?) };
    let mut fd = rustix::fs::openat(&held.fd, ".", flags, Mode::empty())?;
    for part in rest.components() {
        let Component::Normal(name) = part else { return Err(Errno::INVAL.into()) };
        fd = rustix::fs::openat(&fd, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(fd)
}

/// The directory that a path names something in, and the name there.
fn parent(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((folder(above)?, name))
}

/// Opens a regular file. Nothing else is waited for (a FIFO) or asked to do something (a device).
fn regular(path: &Path, flags: OFlags) -> io::Result<File> {
    let (above, name) = parent(path)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&above, name, flags, Mode::from_raw_mode(FILE_MODE))?;
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    if flags.contains(OFlags::CREATE) && stat.st_mode & 0o7777 != FILE_MODE {
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(FILE_MODE))?;
    }
    Ok(fd.into())
}

/// Opens a file to read it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    regular(path, OFlags::RDONLY)
}

/// Opens a file that is there to read and write it.
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    regular(path, OFlags::RDWR)
}

/// Opens a file to read and write it, made if it is missing.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    regular(path, OFlags::RDWR | OFlags::CREATE)
}

/// Makes an empty file, also of one that is there.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    regular(path, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)
}

/// The bytes of a file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut bytes = Vec::with_capacity(file.metadata()?.len() as usize);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file.
pub(crate) fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// What is known of a name, without following it.
pub(crate) fn look(path: &Path) -> io::Result<Metadata> {
    let (above, name) = parent(path)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(rustix::fs::openat(&above, name, flags, Mode::empty())?).metadata()
}

/// Whether there is such a name.
pub(crate) fn exists(path: &Path) -> io::Result<bool> {
    match look(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives a file another name in the same directory, or in one beside it.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let ((old, from), (new, to)) = (parent(from)?, parent(to)?);
    Ok(rustix::fs::renameat(&old, from, &new, to)?)
}

/// Removes a name that is no directory.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (above, name) = parent(path)?;
    Ok(rustix::fs::unlinkat(&above, name, AtFlags::empty())?)
}

/// Makes a directory if it is missing.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let (above, name) = parent(path)?;
    match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(SUBDIRECTORY_MODE)) {
        Err(Errno::EXIST) => Ok(()),
        made => {
            made?;
            Ok(rustix::fs::fchmod(folder(path)?, Mode::from_raw_mode(SUBDIRECTORY_MODE))?)
        }
    }
}

/// The paths of what is in a directory.
pub(crate) fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(names(folder(path)?.as_fd())?.into_iter().map(|name| path.join(name)).collect())
}

/// The names in an open directory.
pub(crate) fn names(folder: impl AsFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_takes_the_place_of_a_held_directory_is_not_used() {
        let tmp = tempfile::tempdir().unwrap();
        let (dir, apart) = (tmp.path().join("dir"), tmp.path().join("apart"));
        fs::create_dir_all(dir.join("sub")).unwrap();
        let held = Held::new(&dir).unwrap();
        fs::rename(&dir, &apart).unwrap();
        fs::create_dir_all(dir.join("sub")).unwrap();
        create(&dir.join("sub/new")).unwrap();
        rename(&dir.join("sub/new"), &dir.join("sub/other")).unwrap();
        assert!(fs::exists(apart.join("sub/other")).unwrap() && !fs::exists(dir.join("sub/other")).unwrap());
        assert_eq!(list(&dir.join("sub")).unwrap(), [dir.join("sub/other")]);
        remove(&dir.join("sub/other")).unwrap();
        drop(held);
        create(&dir.join("sub/new")).unwrap();
        assert!(fs::exists(dir.join("sub/new")).unwrap(), "it is held no more");
    }

    #[test]
    fn links_and_what_is_no_file_are_not_opened() {
        let tmp = tempfile::tempdir().unwrap();
        let (file, link) = (tmp.path().join("file"), tmp.path().join("link"));
        fs::write(&file, "kept").unwrap();
        symlink(&file, &link).unwrap();
        for open in [open, open_to_write, open_or_create, create] {
            assert_eq!(open(&link).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        }
        assert!(exists(&link).unwrap() && look(&link).unwrap().is_symlink());
        assert_eq!(read(&file).unwrap(), b"kept");
        rustix::fs::mknodat(rustix::fs::CWD, tmp.path().join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(open(&tmp.path().join("fifo")).is_err(), "nobody waits for a writer");
    }

    #[test]
    fn modes_do_not_depend_on_what_was_there() {
        let tmp = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let (file, folder) = (tmp.path().join("file"), tmp.path().join("folder"));
        fs::write(&file, "x").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        create(&file).unwrap();
        make_folder(&folder).unwrap();
        assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
    }
}
