//! Patterns in remote paths, which no shell can expand: `*`, `?`, `[…]` and `\`, name by name, over bytes.

use super::name::{Target, joined};
use crate::tree::fits;
use anyhow::ensure;
use onpath_client::{Caller, Error, FileType};
use rustix::io::Errno;

/// Paths that one pattern may stand for.
const PATHS_MAX: usize = 1 << 20;

/// What takes the names of a directory, and whether something may be below them.
type Sink<'a> = &'a mut dyn FnMut(Vec<u8>, bool) -> anyhow::Result<()>;
/// Tells the names of a directory.
type List<'a> = &'a dyn Fn(&[u8], Sink<'_>) -> anyhow::Result<()>;

/// The paths that fit, in byte order. What is no pattern, or fits nothing, stands for itself.
///
/// # Errors
/// The names could not be read, or more fit than one command takes.
pub(super) fn expand(target: &Target, me: &Caller) -> anyhow::Result<Vec<Vec<u8>>> {
    let list = |dir: &[u8], sink: Sink<'_>| {
        let pages = target.client.list(me, dir, false).map(Some).or_else(unreadable)?;
        let Some(mut listing) = pages else { return Ok(()) };
        while let Some(page) = listing.next().or_else(unreadable)? {
            for entry in page {
                sink(entry.name, matches!(entry.file_type, FileType::Directory | FileType::Symlink))?;
            }
        }
        Ok(())
    };
    fitting(&target.path, &list, &|path| target.client.lstat(me, path).is_ok(), PATHS_MAX)
}

/// A directory that this user cannot read, or that is none, has nothing that fits, as in a shell. Whatever else goes wrong would hide names.
fn unreadable<T>(error: Error) -> Result<Option<T>, Error> {
    let nothing = [Errno::ACCESS, Errno::PERM, Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NAMETOOLONG];
    if nothing.iter().any(|errno| super::is(&error, *errno)) { Ok(None) } else { Err(error) }
}

fn fitting(
    pattern: &[u8],
    list: List<'_>,
    is_there: &dyn Fn(&[u8]) -> bool,
    most: usize,
) -> anyhow::Result<Vec<Vec<u8>>> {
    if !is_pattern(pattern) {
        return Ok(vec![plain(pattern)]);
    }
    let start: &[u8] = if pattern.starts_with(b"/") { b"/" } else { b"" };
    let names: Vec<&[u8]> = pattern.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    let (mut paths, mut is_known) = (vec![start.to_vec()], true);
    for (at, name) in names.iter().enumerate() {
        let is_last = at + 1 == names.len();
        is_known = is_pattern(name);
        if !is_known {
            paths.iter_mut().for_each(|dir| *dir = joined(dir, &unescaped(name)));
            continue;
        }
        let mut below = Vec::new();
        for dir in &paths {
            matching(dir, name, is_last, list, most, &mut below)?;
        }
        paths = below;
    }
    if pattern.ends_with(b"/") {
        (paths, is_known) = (paths.iter().map(|path| joined(path, b"")).map(with_slash).collect(), false);
    }
    paths.retain(|path| is_known || is_there(path));
    if paths.is_empty() {
        paths.push(plain(pattern));
    }
    Ok(paths)
}

fn with_slash(path: Vec<u8>) -> Vec<u8> {
    if path.ends_with(b"/") { path } else { [&path[..], b"/"].concat() }
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[')
}

/// Whether it has a `*`, `?` or `[` that no backslash takes its meaning.
fn is_pattern(text: &[u8]) -> bool {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => _ = bytes.next(),
            byte if is_special(*byte) => return true,
            _ => {}
        }
    }
    false
}

/// Adds the names in a directory that fit, as paths. Hidden ones only if the pattern says their dot.
fn matching(
    dir: &[u8],
    pattern: &[u8],
    is_last: bool,
    list: List<'_>,
    most: usize,
    paths: &mut Vec<Vec<u8>>,
) -> anyhow::Result<()> {
    let shows_hidden = pattern.starts_with(b".") || pattern.starts_with(b"\\.");
    let root: &[u8] = if dir.is_empty() { b"/" } else { dir };
    let begin = paths.len();
    list(root, &mut |name, leads_on| {
        if (is_last || leads_on) && (shows_hidden || !name.starts_with(b".")) && fits(pattern, &name) {
            ensure!(paths.len() < most, "more than {most} paths fit: name fewer of them at a time");
            paths.push(joined(dir, &name));
        }
        Ok(())
    })?;
    paths[begin..].sort_unstable();
    Ok(())
}

/// What a word stands for that is no pattern: backslashes mean something beside `*`, `?` and `[` only.
pub(super) fn plain(word: &[u8]) -> Vec<u8> {
    if word.iter().any(|byte| is_special(*byte)) { unescaped(word) } else { word.to_vec() }
}

/// The word that stands for this path and no other one.
pub(super) fn escaped(path: &[u8]) -> Vec<u8> {
    if !path.iter().any(|byte| is_special(*byte)) {
        return path.to_vec();
    }
    let escape = |byte: &u8| if is_special(*byte) || *byte == b'\\' { vec![b'\\', *byte] } else { vec![*byte] };
    path.iter().flat_map(escape).collect()
}

/// A name without the backslashes that keep what follows from being a pattern.
fn unescaped(name: &[u8]) -> Vec<u8> {
    let (mut plain, mut bytes) = (Vec::new(), name.iter());
    while let Some(byte) = bytes.next() {
        plain.push(if *byte == b'\\' { *bytes.next().unwrap_or(byte) } else { *byte });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of two directories.
    fn expanded(pattern: &str, most: usize) -> anyhow::Result<Vec<String>> {
        let tree: &[&[u8]] =
            &[b"/a", b"/b*", b"/dir", b"/dir/.hidden", b"/dir/x1", b"/dir/x2", b"/dir/y\xff", b"/other", b"/other/x1"];
        let list = |dir: &[u8], sink: Sink<'_>| {
            let dir = joined(b"/", dir.strip_prefix(b"/").unwrap_or(dir));
            let mut below = tree.iter().filter_map(|path| {
                let rest = path.strip_prefix(&dir[..])?;
                let name = rest.strip_prefix(b"/").unwrap_or(rest);
                (!name.is_empty() && !name.contains(&b'/')).then(|| (name.to_vec(), name.len() > 2))
            });
            below.try_for_each(|(name, leads_on)| sink(name, leads_on))
        };
        let is_there = |path: &[u8]| {
            let plain = path.strip_suffix(b"/").unwrap_or(path);
            let rooted = joined(b"/", plain.strip_prefix(b"/").unwrap_or(plain));
            tree.contains(&&rooted[..]) && (plain == path || rooted.len() > 3)
        };
        let paths = fitting(pattern.as_bytes(), &list, &is_there, most)?;
        Ok(paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect())
    }

    #[test]
    fn patterns_stand_for_what_a_shell_would_take() {
        for (pattern, paths) in [
            ("/dir/x*", &["/dir/x1", "/dir/x2"][..]),
            ("dir/x[2-9]", &["dir/x2"]),
            ("*/x1", &["dir/x1", "other/x1"]),
            ("/d?r/*", &["/dir/x1", "/dir/x2", "/dir/y\u{fffd}"]),
            ("dir/.*", &["dir/.hidden"]),
            ("/*/", &["/dir/", "/other/"]),
            ("b\\*", &["b*"]),
            ("di\\r/*1", &["dir/x1"]),
            // Nothing fits, or there is nothing that could: a word stands for itself.
            ("plain", &["plain"]),
            ("dir\\x", &["dir\\x"]),
            ("/dir/z*", &["/dir/z*"]),
            ("a/*", &["a/*"]),
            ("*/none", &["*/none"]),
            ("new\\*\\\\", &["new*\\"]),
            ("new\\**", &["new**"]),
        ] {
            assert_eq!(expanded(pattern, 9).unwrap(), paths, "{pattern}");
        }
    }

    #[test]
    fn more_than_a_command_takes_is_an_error() {
        assert_eq!(expanded("*/x*", 3).unwrap().len(), 3);
        let error = expanded("*/x*", 2).unwrap_err().to_string();
        assert!(error.contains("more than 2 paths fit"), "{error}");
        let list = |_: &[u8], _: Sink<'_>| anyhow::bail!("the session is over");
        assert!(fitting(b"*", &list, &|_| true, 9).is_err(), "names that cannot be read are not left out");
    }

    #[test]
    fn an_escaped_path_stands_for_itself() {
        for path in ["plain", "back\\slash", "star*", "a[b]?\\*", "\\", "*\\"] {
            let word = escaped(path.as_bytes());
            assert!(!is_pattern(&word), "{path}");
            assert_eq!(String::from_utf8_lossy(&plain(&word)), path);
        }
    }
}
