//! Patterns in remote paths, which no shell can expand: `*`, `?`, `[…]` and `\`, name by name, over bytes.

use super::name::{Target, joined};
use crate::tree::fits;
use onpath_client::{Caller, FileType};

/// Paths that one pattern may stand for.
const PATHS_MAX: usize = 1 << 20;

/// A directory to look through: the names in it, and whether something may be below them.
type List<'a> = &'a dyn Fn(&[u8]) -> Vec<(Vec<u8>, bool)>;

/// The paths that fit, in byte order; none if it is no pattern, or nothing fits.
pub(super) fn expand(target: &Target, me: &Caller) -> Option<Vec<Vec<u8>>> {
    let list = |dir: &[u8]| {
        let mut names = Vec::new();
        // What cannot be read has nothing that fits, as in a shell.
        let Ok(mut listing) = target.client.list(me, dir, false) else { return names };
        while let Ok(Some(page)) = listing.next() {
            let may_lead_on = |kind| matches!(kind, FileType::Directory | FileType::Symlink);
            names.extend(page.into_iter().map(|entry| (entry.name, may_lead_on(entry.file_type))));
        }
        names
    };
    fitting(&target.path, &list, &|path| target.client.lstat(me, path).is_ok())
}

fn fitting(pattern: &[u8], list: List<'_>, is_there: &dyn Fn(&[u8]) -> bool) -> Option<Vec<Vec<u8>>> {
    if !is_pattern(pattern) {
        return None;
    }
    let start: &[u8] = if pattern.starts_with(b"/") { b"/" } else { b"" };
    let names: Vec<&[u8]> = pattern.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    let (mut paths, mut is_known) = (vec![start.to_vec()], true);
    for (at, name) in names.iter().enumerate() {
        let is_last = at + 1 == names.len();
        is_known = is_pattern(name);
        paths = match is_known {
            true => paths.iter().flat_map(|dir| matching(dir, name, is_last, list)).take(PATHS_MAX).collect(),
            false => paths.iter().map(|dir| joined(dir, &unescaped(name))).collect(),
        };
    }
    if pattern.ends_with(b"/") {
        (paths, is_known) = (paths.iter().map(|path| joined(path, b"")).map(with_slash).collect(), false);
    }
    paths.retain(|path| is_known || is_there(path));
    (!paths.is_empty()).then_some(paths)
}

fn with_slash(path: Vec<u8>) -> Vec<u8> {
    if path.ends_with(b"/") { path } else { [&path[..], b"/"].concat() }
}

fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Names in a directory that fit, as paths. Hidden ones only if the pattern says their dot.
fn matching(dir: &[u8], pattern: &[u8], is_last: bool, list: List<'_>) -> Vec<Vec<u8>> {
    let shows_hidden = pattern.starts_with(b".") || pattern.starts_with(b"\\.");
    let root: &[u8] = if dir.is_empty() { b"/" } else { dir };
    let names = list(root).into_iter().filter(|(name, leads_on)| {
        (is_last || *leads_on) && (shows_hidden || !name.starts_with(b".")) && fits(pattern, name)
    });
    let mut paths: Vec<Vec<u8>> = names.map(|(name, _)| joined(dir, &name)).collect();
    paths.sort_unstable();
    paths
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
    fn expanded(pattern: &str) -> Option<Vec<String>> {
        let tree: &[&[u8]] =
            &[b"/a", b"/b*", b"/dir", b"/dir/.hidden", b"/dir/x1", b"/dir/x2", b"/dir/y\xff", b"/other", b"/other/x1"];
        let list = |dir: &[u8]| {
            let dir = joined(b"/", dir.strip_prefix(b"/").unwrap_or(dir));
            let below = tree.iter().filter_map(|path| {
                let rest = path.strip_prefix(&dir[..])?;
                let name = rest.strip_prefix(b"/").unwrap_or(rest);
                (!name.is_empty() && !name.contains(&b'/')).then(|| (name.to_vec(), name.len() > 2))
            });
            below.collect()
        };
        let is_there = |path: &[u8]| {
            let plain = path.strip_suffix(b"/").unwrap_or(path);
            let rooted = joined(b"/", plain.strip_prefix(b"/").unwrap_or(plain));
            tree.contains(&&rooted[..]) && (plain == path || rooted.len() > 3)
        };
        let paths = fitting(pattern.as_bytes(), &list, &is_there)?;
        Some(paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect())
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
        ] {
            assert_eq!(expanded(pattern).unwrap_or_default(), paths, "{pattern}");
        }
        for nothing in ["plain", "/dir/z*", "a/*", "*/none", "dir\\x"] {
            assert_eq!(expanded(nothing), None, "{nothing}");
        }
    }
}
