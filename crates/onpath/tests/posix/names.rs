//! Names and paths: their lengths and bytes.

use crate::posix::prelude::*;

fn name(length: usize) -> String {
    "n".repeat(length)
}

/// A path of exactly that many bytes to a name in the directory, by way of "./".
fn path_of(d: &Dir, name: &str, bytes: usize) -> PathBuf {
    let fixed = d.path().as_os_str().len() + 1 + name.len();
    let rest = bytes - fixed;
    PathBuf::from(format!(
        "{}/{}{}{name}",
        d.path().display(),
        "./".repeat(rest / 2),
        if rest % 2 == 1 { "/" } else { "" }
    ))
}

/// A name may have 255 bytes, in every call that makes, moves, changes or removes it.
#[test]
fn longest_name() {
    let d = area!();
    let (n, m) = (d.p(name(255)), d.p("m".repeat(255)));
    drop(ok!(open(&n, O_RDWR | O_CREAT | O_EXCL, 0o644)));
    ok!(stat(&n));
    ok!(chmod(&n, 0o600));
    ok!(link(&n, &m));
    ok!(unlink(&n));
    ok!(rename(&m, &n));
    assert_eq!(ok!(names(d.path())), [OsString::from(name(255))]);
    ok!(unlink(&n));
    ok!(mkdir(&n, 0o755));
    drop(ok!(open(n.join(name(255)), O_RDWR | O_CREAT, 0o644)));
    ok!(unlink(n.join(name(255))));
    ok!(rename(&n, &m));
    ok!(rmdir(&m));
    ok!(symlink(name(255), &n));
    ok!(mkfifo(&m, 0o644));
    assert_eq!(ok!(names(d.path())).len(), 2);
}

/// A path may have 4095 bytes, not 4096 (ENAMETOOLONG).
#[test]
fn longest_path() {
    let d = area!();
    for length in [4094, 4095] {
        let path = path_of(&d, "f", length);
        assert_eq!(path.as_os_str().len(), length);
        drop(ok!(open(&path, O_RDWR | O_CREAT | O_EXCL, 0o644)));
        ok!(chmod(&path, 0o600));
        ok!(rename(&path, path_of(&d, "g", length)));
        ok!(unlink(path_of(&d, "g", length)));
    }
    expect_errno!(open(path_of(&d, "f", 4096), O_RDWR | O_CREAT, 0o644), ENAMETOOLONG);
}

/// Trees may be deeper than any path: step by step.
#[test]
fn deeper_than_a_path() {
    let d = area!();
    in_thread(|| {
        ok!(chdir(d.path()));
        for _ in 0..30 {
            ok!(mkdir(name(200), 0o755));
            ok!(chdir(name(200)));
        }
        drop(ok!(open("leaf", O_WRONLY | O_CREAT, 0o644)));
        ok!(unlink("leaf"));
        for _ in 0..30 {
            ok!(chdir(".."));
            ok!(rmdir(name(200)));
        }
        assert_eq!(ok!(stat(".")).ino, ok!(stat(d.path())).ino);
    });
}

/// Names that differ in any byte are different: case, spaces, dots, encodings.
#[test]
fn different_names() {
    let d = area!();
    let e_acute: [&[u8]; 3] = ["é".as_bytes(), "e\u{301}".as_bytes(), &[0xe9]];
    let plain = [
        "a",
        "A",
        "a ",
        " a",
        "a.",
        ".a",
        "...",
        ".. ",
        "a\n",
        "a\\",
        "a*",
        "-",
        "~",
        "a:b",
        "\u{7f}",
        "aux",
        "a\u{200b}",
    ];
    let all: Vec<OsString> = plain
        .iter()
        .map(OsString::from)
        .chain(e_acute.iter().map(|bytes| OsString::from_vec(bytes.to_vec())))
        .collect();
    for (i, name) in all.iter().enumerate() {
        d.file_with(name, &[i as u8]);
    }
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(ok!(names(d.path())), sorted);
    for (i, name) in all.iter().enumerate() {
        assert_eq!(content(d.p(name)), [i as u8], "{name:?}");
    }
}
