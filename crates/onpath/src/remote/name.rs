//! What words of the command line stand for, and how it is named to people and programs.

use onpath_client::blocking::Client;
use onpath_client::{Caller, Error, Metadata, Source};
use onpath_wire::shown::Shown;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::io::{IsTerminal, stdout};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A path and the file system in which it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) source: Source,
    /// What the word had in front of the path: `onpath://HOST/`, or nothing.
    pub(crate) prefix: String,
    /// From its root.
    pub(crate) path: Vec<u8>,
}

/// A path and a session of the file system in which it is.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) client: Client,
    /// As in [`Place`].
    pub(crate) prefix: String,
    /// From its root.
    pub(crate) path: Vec<u8>,
}

impl Target {
    /// Another path of the same file system, named in the same way.
    pub(crate) fn with_path(&self, path: Vec<u8>) -> Target {
        Target { path, ..self.clone() }
    }

    /// What has that name in this directory.
    pub(crate) fn below(&self, name: &[u8]) -> Target {
        self.with_path(joined(&self.path, name))
    }

    /// As a word of the command line would name it.
    pub(crate) fn name(&self) -> Vec<u8> {
        match self.prefix.as_str() {
            "" => self.path.clone(),
            prefix => [prefix.as_bytes(), self.path.strip_prefix(b"/").unwrap_or(&self.path)].concat(),
        }
    }

    /// The same with the file system in front.
    pub(crate) fn told(&self) -> Vec<u8> {
        match self.prefix.as_str() {
            "" => joined(self.client.source().as_bytes(), self.path.strip_prefix(b"/").unwrap_or(&self.path)),
            _ => self.name(),
        }
    }

    /// The same as a path.
    pub(crate) fn local_name(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.name()))
    }

    /// The same for people.
    pub(crate) fn shown(&self) -> String {
        shown(&self.name())
    }

    /// Whether it is a directory, or a symbolic link to one.
    pub(crate) fn is_dir(&self, me: &Caller) -> bool {
        self.client.stat(me, &self.path).is_ok_and(|is| is.is_dir())
    }

    /// What it is; a symbolic link is not followed.
    pub(crate) fn lstat(&self, me: &Caller) -> Result<Metadata, Error> {
        self.client.lstat(me, &self.path)
    }
}

/// A name in a directory.
pub(crate) fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if dir.is_empty() || dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, name].concat()
}

/// The last name of a path: none of a root, and of what ends with dots.
pub(crate) fn last(path: &[u8]) -> Option<&[u8]> {
    let last = path.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty());
    last.filter(|name| *name != b"." && *name != b"..")
}

/// The end of a name that nobody uses, for a moment.
pub(crate) fn unlike() -> String {
    format!(".onpath-{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// A name for people.
pub(crate) fn shown(name: &[u8]) -> String {
    OsStr::from_bytes(name).shown().to_string()
}

/// A name for who reads standard output: people, or a program, which gets it as it is.
pub(crate) fn printed(name: &[u8]) -> Vec<u8> {
    if stdout().is_terminal() { shown(name).into_bytes() } else { name.to_vec() }
}

/// Puts a name into an object of JSON, which has text only: of a name that is none the bytes too, in hexadecimal, as `KEY_hex`.
pub(crate) fn put_name(object: &mut Value, key: &str, name: &[u8]) {
    object[key] = json!(String::from_utf8_lossy(name));
    if std::str::from_utf8(name).is_err() {
        let hex = name.iter().fold(String::new(), |mut hex, byte| {
            _ = write!(hex, "{byte:02x}"); // to memory
            hex
        });
        object[format!("{key}_hex")] = json!(hex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_with_one_slash() {
        for (dir, name, path) in [("/", "a", "/a"), ("a", "b", "a/b"), ("a/", "b", "a/b")] {
            assert_eq!(joined(dir.as_bytes(), name.as_bytes()), path.as_bytes());
        }
    }

    #[test]
    fn paths_have_a_last_name() {
        for (path, name) in
            [("a", Some("a")), ("/a/", Some("a")), ("a//b", Some("b")), ("/a/..", None), ("/", None), ("", None)]
        {
            assert_eq!(last(path.as_bytes()), name.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn json_tells_names_that_are_no_text() {
        let mut object = json!({});
        put_name(&mut object, "path", b"a\xff");
        assert_eq!(object, json!({ "path": "a\u{fffd}", "path_hex": "61ff" }));
        put_name(&mut object, "name", b"\x1b");
        assert_eq!(object["name"], "\u{1b}");
        assert!(object.get("name_hex").is_none());
    }
}
