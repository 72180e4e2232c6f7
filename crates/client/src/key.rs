//! The file of secrets of a cluster: lines `NAME = VALUE`, of which `key` is the one that seals messages, or `none`. That of hosts has
//! `placement` and `inner` too ([`onpath_wire::secrets`]), which never change; that of clients does not.
//!
//! While one key takes the place of another (`onpath cluster key rotate`) there is a second one: `next`, with which nobody sends yet, or
//! `former`, with which nobody sends any more.
//!
//! That of hosts has the keys of clients too (`onpath cluster key add`): a line `client.NAME = DIGITS uid=U gid=G,…` of who has a key with which
//! he is that user and nobody else, or `client.NAME = DIGITS any` of who may be anybody.
//!
//! Lines of other names are somebody else's. A file with 64 hexadecimal digits and nothing else is a key, too.

use onpath_host::udp::{Key, Keys};
use onpath_wire::secrets::{Inner, Placement, SECRET_BYTES, Secrets};
use onpath_wire::shown::Shown;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use thiserror::Error;

mod owned;

use owned::owned;
pub use owned::{CLIENT, CLIENTS_MAX, ClientLine, GROUPS_MAX, is_name};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// The names of the lines.
pub const KEY: &str = "key";
/// That of a key that is not used yet.
pub const NEXT: &str = "next";
/// That of a key that is not used any more.
pub const FORMER: &str = "former";
const PLACEMENT: &str = "placement";
const INNER: &str = "inner";
/// The key of a cluster whose messages are not sealed.
const NONE: &str = "none";

/// Why a key cannot be used.
#[derive(Debug, Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("key {}: {source}", file.shown())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may read it.
    #[error("key {} can be read by others (mode {mode:03o}): chmod 600 it, and draw a new one if somebody may have", file.shown())]
    Open {
        /// The file.
        file: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Somebody else may write it.
    #[error("key {} belongs to uid {owner}: chown it to who runs this, or to root, and look who has written it", file.shown())]
    Owner {
        /// The file.
        file: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// A line is none.
    #[error("key {}:{line}: {why}; `onpath cluster init` draws a key and writes such a file", file.shown())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It has no key.
    #[error("key {}: no line `{KEY} = …`; `onpath cluster init` draws a key and writes such a file", file.shown())]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// It has a second key in two ways, or beside none.
    #[error("key {}: `{NEXT} = …` and `{FORMER} = …` are for a key that takes the place of another: at most one of them, and beside a line `{KEY} = …` that is not `{NONE}`", file.shown())]
    Second {
        /// The file.
        file: PathBuf,
    },
    /// Two of its keys are the same, or cannot be told apart.
    #[error("key {}: the key of client {name} has the name of another one: revoke it, and add one anew", file.shown())]
    Alike {
        /// The file.
        file: PathBuf,
        /// Whose it is.
        name: String,
    },
    /// It has one secret of two.
    #[error("key {}: of the lines `{PLACEMENT} = …` and `{INNER} = …` one is missing: copy both from the key file of another host", file.shown())]
    Half {
        /// The file.
        file: PathBuf,
    },
}

/// What such a file has.
#[derive(Debug)]
pub struct KeyFile {
    /// What seals messages, if something does.
    pub keys: Option<Keys>,
    /// The secrets of the file system; a client has none.
    pub secrets: Option<Secrets>,
}

/// The keys in a file that is named, if one is.
pub fn keys_of(file: Option<&Path>) -> Result<Option<Keys>, KeyError> {
    Ok(file.map(read).transpose()?.and_then(|file| file.keys))
}

/// Reads a file of secrets.
pub fn read(file: &Path) -> Result<KeyFile, KeyError> {
    let at = |source| KeyError::Read { file: file.to_owned(), source };
    // What is read is what was looked at, whatever becomes of the name meanwhile.
    let mut opened = File::open(file).map_err(at)?;
    let metadata = opened.metadata().map_err(at)?;
    let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
    if mode & 0o077 != 0 {
        return Err(KeyError::Open { file: file.to_owned(), mode });
    }
    if owner != 0 && owner != rustix::process::geteuid().as_raw() && !lies_with_root(file) {
        return Err(KeyError::Owner { file: file.to_owned(), owner });
    }
    let mut text = String::new();
    opened.read_to_string(&mut text).map_err(at)?;
    let lines = parse(&text).map_err(|(line, why)| KeyError::Malformed { file: file.to_owned(), line, why })?;
    let key = lines.key.ok_or_else(|| KeyError::Missing { file: file.to_owned() })?;
    let second = match (lines.next, lines.former, key) {
        (None, None, _) => None,
        (Some(second), None, Some(_)) | (None, Some(second), Some(_)) => Some(second),
        _ => return Err(KeyError::Second { file: file.to_owned() }),
    };
    let secrets = match (lines.placement, lines.inner) {
        (Some(placement), Some(inner)) => Some(Secrets { placement, inner }),
        (None, None) => None,
        _ => return Err(KeyError::Half { file: file.to_owned() }),
    };
    let keys = key.map(|key| Keys { second: second.map(Key::new), ..Keys::one(Key::new(key)) });
    let owned = keys.as_ref().map_or(Ok(BTreeMap::new()), |keys| owned(keys, &lines.clients));
    let owned = Arc::new(owned.map_err(|name| KeyError::Alike { file: file.to_owned(), name })?);
    Ok(KeyFile { keys: keys.map(|keys| Keys { owned, ..keys }), secrets })
}

/// Whether root alone decides which files are where this one is: then it is where it is on purpose, as that of a service with a user of its
/// own.
fn lies_with_root(file: &Path) -> bool {
    let place = file.parent().filter(|place| !place.as_os_str().is_empty()).unwrap_or(Path::new("."));
    place.metadata().is_ok_and(|place| place.uid() == 0 && place.mode() & 0o022 == 0)
}

/// The lines of a file that mean something here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// None inside: messages are not sealed.
    pub key: Option<Option<[u8; KEY_BYTES]>>,
    /// Of the line `next`.
    pub next: Option<[u8; KEY_BYTES]>,
    /// Of the line `former`.
    pub former: Option<[u8; KEY_BYTES]>,
    /// Keys of clients, as they are written.
    pub clients: Vec<ClientLine>,
    placement: Option<Placement>,
    inner: Option<Inner>,
}

/// The lines of a text; an error is the number of a line and what is wrong with it.
pub fn parse(text: &str) -> Result<Lines, (usize, &'static str)> {
    let mut found = Lines::default();
    if let Some(key) = digits(text.trim()) {
        found.key = Some(Some(key));
        return Ok(found);
    }
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or((number, "not NAME = VALUE"))?;
        let again = match name.trim() {
            KEY => found.key.replace(key(value.trim()).map_err(|why| (number, why))?).is_some(),
            NEXT => found.next.replace(digits(value.trim()).ok_or((number, DIGITS))?).is_some(),
            FORMER => found.former.replace(digits(value.trim()).ok_or((number, DIGITS))?).is_some(),
            PLACEMENT => found.placement.replace(secret(value, Placement::new).ok_or((number, SECRET))?).is_some(),
            INNER => found.inner.replace(secret(value, Inner::new).ok_or((number, SECRET))?).is_some(),
            name => match name.strip_prefix(CLIENT) {
                None => false,
                Some(_) if found.clients.len() >= CLIENTS_MAX => return Err((number, TOO_MANY)),
                Some(name) => {
                    let line = ClientLine::parse(name, value).map_err(|why| (number, why))?;
                    let again = found.clients.iter().any(|client| client.name == line.name);
                    found.clients.push(line);
                    again
                }
            },
        };
        if again {
            return Err((number, "a second line of this name"));
        }
    }
    Ok(found)
}

const TOO_MANY: &str = "keys of more than 1,024 clients are in it";
const DIGITS: &str = "a key has 64 hexadecimal digits";
const SECRET: &str = "a secret has 32 hexadecimal digits, not all of them 0";

fn key(value: &str) -> Result<Option<[u8; KEY_BYTES]>, &'static str> {
    if value == NONE {
        return Ok(None);
    }
    digits(value).map(Some).ok_or(DIGITS)
}

fn secret<T, E>(value: &str, of: impl FnOnce([u8; SECRET_BYTES]) -> Result<T, E>) -> Option<T> {
    of(digits(value.trim())?).ok()
}

fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| (digit as char).to_digit(16));
        *byte = (high? << 4 | low?) as u8;
    }
    Some(bytes)
}

/// Bytes as a line has them.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a file holds with this key, or without any; that of hosts has the secrets.
pub fn text(key: Option<&[u8; KEY_BYTES]>, secrets: Option<&Secrets>) -> String {
    let key = key.map_or(NONE.to_owned(), |key| hexadecimal(key));
    let whose = if secrets.is_some() { "on every host, and on no client" } else { "on every client" };
    let mut text = format!(
        "# Secrets of a cluster of Onpath, the same file {whose}, mode 600; docs/cluster.md describes it.\n{KEY} = {key}\n"
    );
    if let Some(Secrets { placement, inner }) = secrets {
        let [placement, inner] = [placement.reveal(), inner.reveal()].map(|bytes| hexadecimal(&bytes));
        _ = write!(text, "# Part of the format: they never change.\n{PLACEMENT} = {placement}\n{INNER} = {inner}\n");
    }
    text
}

/// How often a key file is looked at, which may have got other keys.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// From now on `take` is told the keys of a file whenever they are others than before, as long as there is one who takes them. What cannot be
/// read is told once, and changes nothing.
pub fn follow<T: Send + Sync + 'static>(
    file: &Path,
    before: Keys,
    by: Weak<T>,
    take: impl Fn(&T, Keys) + Send + 'static,
) -> io::Result<()> {
    let (file, mut present, mut failed) = (file.to_owned(), before, None);
    let look = move || {
        loop {
            std::thread::sleep(LOOK_EVERY);
            let Some(by) = by.upgrade() else { return };
            match read(&file) {
                Ok(KeyFile { keys: Some(keys), .. }) => {
                    failed = None;
                    if keys != present {
                        tracing::info!(file = %file.shown(), "other keys than before");
                        take(&by, keys.clone());
                        present = keys;
                    }
                }
                now => {
                    let why = now.err().map_or_else(|| "it has no key any more".to_owned(), |why| why.to_string());
                    if failed.as_ref() != Some(&why) {
                        tracing::warn!(file = %file.shown(), why, "the keys of before go on");
                        failed = Some(why);
                    }
                }
            }
        }
    };
    std::thread::Builder::new().name("keys".into()).spawn(look).map(drop)
}

/// A file of these, read and written again; none if it is no such file.
pub fn again(file: &str) -> Option<String> {
    let lines = parse(file).ok()?;
    let secrets = lines.placement.zip(lines.inner).map(|(placement, inner)| Secrets { placement, inner });
    let clients: String = lines.clients.iter().map(ClientLine::text).collect();
    Some(text(lines.key?.as_ref(), secrets.as_ref()) + &clients)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    #[test]
    fn a_file_is_followed_as_long_as_somebody_takes_its_keys() {
        let dir = tempfile::tempdir().unwrap();
        let (file, [one, other]) = (dir.path().join("key"), [[1; KEY_BYTES], [2; KEY_BYTES]]);
        let write = |key: &[u8; KEY_BYTES]| {
            std::fs::write(&file, text(Some(key), None)).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        };
        write(&one);
        let before = keys_of(Some(&file)).unwrap().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let by = Arc::new(tell);
        follow(&file, before, Arc::downgrade(&by), |tell, keys| tell.send(keys).unwrap()).unwrap();
        write(&other);
        assert_eq!(told.recv_timeout(5 * LOOK_EVERY).ok(), keys_of(Some(&file)).unwrap());
        let thread = Arc::downgrade(&by);
        drop(by);
        // It has it as long as it tells, which may last a little longer than it takes to hear that.
        let end = Instant::now() + 5 * LOOK_EVERY;
        while thread.upgrade().is_some() {
            assert!(Instant::now() < end, "the thread keeps nothing");
            std::thread::yield_now();
        }
        // Its sender is gone, and with it whoever could tell more.
        assert!(told.recv_timeout(5 * LOOK_EVERY).is_err());
    }

    fn lines(key: Option<[u8; KEY_BYTES]>) -> Lines {
        Lines { key: Some(key), ..Lines::default() }
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let key = std::array::from_fn(|i| i as u8 * 7);
        let text = text(Some(&key), None);
        assert_eq!(parse(&text), Ok(lines(Some(key))));
        let line = text.lines().last().unwrap();
        let bare = line.strip_prefix("key = ").unwrap();
        for same in [bare.to_owned(), format!("{bare}\n"), format!("other=1\n\n key={bare} \n# key = 7\n")] {
            assert_eq!(parse(&same), Ok(lines(Some(key))), "{same}");
        }
        assert_eq!(parse(&format!("{line}\n{line}\n")), Err((2, "a second line of this name")));
        for (wrong, at) in [("12", 1), ("a = b\nkey = 12", 2), (&*format!("key = {}", "é".repeat(32)), 1)] {
            assert_eq!(parse(wrong).unwrap_err().0, at, "{wrong}");
        }
        for none in ["", "# nothing\n", "other = 12"] {
            assert_eq!(parse(none), Ok(Lines::default()));
        }
        assert_eq!(parse("key = none"), Ok(lines(None)));
    }

    #[test]
    fn a_key_is_of_who_reads_it_and_of_nobody_else() {
        let tmp = tempfile::tempdir().unwrap();
        let file = tmp.path().join("k.key");
        std::fs::write(&file, text(Some(&[7; KEY_BYTES]), None)).unwrap();
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o640);
        assert!(matches!(read(&file), Err(KeyError::Open { mode: 0o640, .. })));
        mode(0o600);
        assert!(read(&file).is_ok_and(|file| file.keys.is_some()));
        // Only root can give a file away.
        let given = std::os::unix::fs::chown(&file, Some(12_345), None);
        assert_eq!(given.is_ok(), rustix::process::geteuid().is_root());
        assert!(read(&file).is_ok(), "it is where nobody else has put it");
        std::fs::set_permissions(tmp.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(matches!(read(&file), Err(KeyError::Owner { owner: 12_345, .. })), given.is_ok());
    }

    #[test]
    fn a_second_key_takes_the_place_of_one() {
        let tmp = tempfile::tempdir().unwrap();
        let file = tmp.path().join("k.key");
        let [one, two] = [1, 2].map(|byte| format!("{byte:02x}").repeat(KEY_BYTES));
        let read = |text: String| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            read(&file).map(|file| file.keys)
        };
        let keys = Keys { second: Some(Key::new([2; KEY_BYTES])), ..Keys::one(Key::new([1; KEY_BYTES])) };
        for second in [NEXT, FORMER] {
            assert_eq!(read(format!("key = {one}\n{second} = {two}\n")).unwrap(), Some(keys.clone()));
        }
        for wrong in [format!("key = {one}\nnext = {two}\nformer = {two}\n"), format!("key = none\nnext = {two}\n")] {
            assert!(matches!(read(wrong), Err(KeyError::Second { .. })));
        }
        assert!(matches!(read(format!("key = {one}\nnext = 12\n")), Err(KeyError::Malformed { line: 2, .. })));
    }

    #[test]
    fn secrets_are_read_as_they_are_written() {
        let secrets = Secrets::of_seed(5);
        for key in [None, Some([7; KEY_BYTES])] {
            let written = text(key.as_ref(), Some(&secrets));
            let Secrets { placement, inner } = secrets;
            let read = Lines { key: Some(key), placement: Some(placement), inner: Some(inner), ..Lines::default() };
            assert_eq!(parse(&written), Ok(read), "{written}");
            assert!(!text(key.as_ref(), None).contains(INNER), "a client's file has none");
        }
        let zeros = "0".repeat(32);
        for wrong in [format!("inner = {zeros}"), format!("placement = {zeros}"), "inner = 12".to_owned()] {
            assert_eq!(parse(&wrong), Err((1, SECRET)), "{wrong}");
        }
    }
}
