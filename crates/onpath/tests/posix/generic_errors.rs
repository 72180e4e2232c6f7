//! The errors that every call that takes a path shares: one table of calls, one test an error.

use crate::posix::prelude::*;

type Call = (&'static str, Box<dyn Fn(&Path) -> R + Sync>);

/// Calls on an existing object: the path's last component is followed (if at all) to something that must be there.
#[allow(clippy::redundant_closure)] // a generic function itself would fix the lifetime of its argument
fn lookups(d: &Dir) -> Vec<Call> {
    let (old, dir) = (d.file("lookup-file"), d.dir("lookup-dir"));
    let new = d.p("never-made");
    vec![
        ("open", Box::new(|path| open(path, O_RDONLY, 0).map(drop))),
        ("open for writing", Box::new(|path| open(path, O_RDWR, 0).map(drop))),
        ("open O_TRUNC", Box::new(|path| open(path, O_WRONLY | O_TRUNC, 0).map(drop))),
        ("open O_DIRECTORY", Box::new(|path| open(path, O_RDONLY | O_DIRECTORY, 0).map(drop))),
        ("open O_PATH", Box::new(|path| open(path, O_PATH, 0).map(drop))),
        ("stat", Box::new(|path| stat(path).map(drop))),
        ("lstat", Box::new(|path| lstat(path).map(drop))),
        ("statx", Box::new(|path| statx(path, 0, libc::STATX_BASIC_STATS).map(drop))),
        ("statvfs", Box::new(|path| statvfs(path).map(drop))),
        ("access", Box::new(|path| access(path, libc::R_OK))),
        ("faccessat2", Box::new(|path| eaccess(path, libc::F_OK))),
        ("chmod", Box::new(|path| chmod(path, 0o644))),
        ("chown", Box::new(|path| chown(path, KEEP, KEEP))),
        ("lchown", Box::new(|path| lchown(path, KEEP, KEEP))),
        ("truncate", Box::new(|path| truncate(path, 0))),
        ("utimensat", Box::new(|path| utimens(path, [NOW, NOW]))),
        ("utimensat of a link", Box::new(|path| lutimens(path, [NOW, NOW]))),
        ("readlink", Box::new(|path| readlink(path).map(drop))),
        ("chdir", Box::new(|path| chdir(path))),
        ("unlink", Box::new(|path| unlink(path))),
        ("rmdir", Box::new(|path| rmdir(path))),
        ("link, old path", {
            let new = new.clone();
            Box::new(move |path| link(path, &new))
        }),
        ("rename, old path", Box::new(move |path| rename(path, &new))),
        ("rename of a file, new path", {
            let old = old.clone();
            Box::new(move |path| rename(&old, path))
        }),
        ("rename of a directory, new path", Box::new(move |path| rename(dir.path(), path))),
        ("rename NOREPLACE, new path", {
            let old = old.clone();
            Box::new(move |path| renameat2(&old, path, libc::RENAME_NOREPLACE))
        }),
        ("link, new path", Box::new(move |path| link(&old, path))),
        ("open O_CREAT", Box::new(|path| open(path, O_RDWR | O_CREAT, 0o644).map(drop))),
        ("open O_CREAT|O_EXCL", Box::new(|path| open(path, O_RDWR | O_CREAT | O_EXCL, 0o644).map(drop))),
        ("mkdir", Box::new(|path| mkdir(path, 0o755))),
        ("mkfifo", Box::new(|path| mkfifo(path, 0o644))),
        ("mknod", Box::new(|path| mknod(path, S_IFREG | 0o644, 0))),
        ("symlink, new path", Box::new(|path| symlink("target", path))),
    ]
}

/// How many of the calls above need their object to be there (the rest make one, or replace one).
const NEED_THE_OBJECT: usize = 23;
const ALL: usize = 33;

fn check(d: &Dir, calls: usize, user: User, path: &Path, errnos: &[i32]) {
    let table = lookups(d);
    assert_eq!(table.len(), ALL);
    user.run(|| {
        for (name, call) in &table[..calls] {
            refused(format!("{name} of {}", path.display()), call(path), errnos);
        }
    });
    ok!(unlink(d.p("lookup-file")));
    ok!(rmdir(d.p("lookup-dir")));
}

/// ENOTDIR: something on the way is not a directory, of whatever kind.
#[test]
fn way_through_a_file() {
    let d = area!();
    for (kind, path) in d.one_of_each() {
        if !matches!(kind, "dir" | "symlink") {
            check(&d, ALL, ROOT, &path.join("x"), &[libc::ENOTDIR]);
            check(&d, ALL, ROOT, &path.join("x/y"), &[libc::ENOTDIR]);
        }
    }
    check(&d, ALL, ROOT, &d.symlink("file", "l").join("x"), &[libc::ENOTDIR]);
}

/// ENOENT: a directory on the way is missing, or a symlink on the way leads nowhere, or the path is empty.
#[test]
fn way_is_missing() {
    let d = area!();
    check(&d, ALL, ROOT, &d.p("missing/x"), &[libc::ENOENT]);
    check(&d, ALL, ROOT, &d.p("missing/x/y"), &[libc::ENOENT]);
    check(&d, ALL, ROOT, &d.symlink("nowhere", "l").join("x"), &[libc::ENOENT]);
    check(&d, ALL, ROOT, Path::new(""), &[libc::ENOENT]);
}

/// ENOENT: the object itself is missing, for calls that need one.
#[test]
fn object_is_missing() {
    let d = area!();
    check(&d, NEED_THE_OBJECT, ROOT, &d.p("missing"), &[libc::ENOENT]);
    ok!(chmod(d.path(), 0o777));
    check(&d, NEED_THE_OBJECT, ALICE, &d.p("missing"), &[libc::ENOENT]);
}

/// EACCES: a directory on the way may not be searched, whether the object is there or not.
#[test]
fn way_not_searchable() {
    let d = area!();
    ok!(chmod(d.path(), 0o777));
    let dir = d.dir_of("closed", 0o766, 0, 0);
    dir.dir("sub").file("x");
    dir.file("x");
    for path in ["x", "missing", "sub/x", "missing/x"] {
        check(&d, ALL, ALICE, &dir.p(path), &[libc::EACCES]);
    }
    let l = d.symlink("closed/sub", "l");
    check(&d, ALL, ALICE, &l.join("x"), &[libc::EACCES]);
}

/// ELOOP: the way goes round in circles.
#[test]
fn way_is_a_loop() {
    let d = area!();
    d.symlink("b", "a");
    d.symlink("a", "b");
    check(&d, ALL, ROOT, &d.p("a/x"), &[libc::ELOOP]);
    check(&d, ALL, ROOT, &d.p("b/../x"), &[libc::ELOOP]);
}

/// ENAMETOOLONG: a name of 256 bytes or more, last or on the way.
#[test]
fn name_too_long() {
    let d = area!();
    for length in [256, 257, 1000] {
        let name = "n".repeat(length);
        check(&d, ALL, ROOT, &d.p(&name), &[libc::ENAMETOOLONG]);
        check(&d, ALL, ROOT, &d.p(&name).join("x"), &[libc::ENAMETOOLONG]);
        check(&d, ALL, ROOT, &d.symlink(&name, format!("l{length}")).join("x"), &[libc::ENAMETOOLONG]);
    }
}

/// ENAMETOOLONG: a path of 4096 bytes or more.
#[test]
fn path_too_long() {
    let d = area!();
    let start = format!("{}/", d.path().display());
    for length in [4096, 4097, 5000] {
        let path = format!("{start}{}", "./".repeat(2600));
        check(&d, ALL, ROOT, Path::new(&path[..length]), &[libc::ENAMETOOLONG]);
    }
}
