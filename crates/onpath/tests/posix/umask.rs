//! umask(2): the bits that new objects do not get.

use crate::posix::prelude::*;

/// Files, directories and FIFOs get the asked mode without the mask's permission bits.
#[test]
fn takes_bits_away() {
    let d = area!();
    for mask in [0, 0o022, 0o027, 0o077, 0o111, 0o222, 0o444, 0o700, 0o777] {
        for mode in [0o777, 0o666, 0o640, 0o1755] {
            let sub = d.dir(format!("{mask:o}-{mode:o}"));
            with_umask(mask, || {
                drop(ok!(open(sub.p("f"), O_WRONLY | O_CREAT, mode)));
                ok!(mkdir(sub.p("d"), mode));
                ok!(mkfifo(sub.p("p"), mode));
                ok!(mknod(sub.p("n"), S_IFREG | mode, 0));
            });
            for name in ["f", "d", "p", "n"] {
                assert_eq!(ok!(stat(sub.p(name))).perm(), mode & !mask, "{name}: umask {mask:o}, mode {mode:o}");
            }
        }
    }
}

/// suid, setgid and sticky bits are not masked; symlinks, chmod and links are not touched by it.
#[test]
fn leaves_the_rest() {
    let d = area!();
    let old = d.file("old");
    with_umask(0o7777, || {
        drop(ok!(open(d.p("f"), O_WRONLY | O_CREAT, 0o7777)));
        ok!(symlink("x", d.p("l")));
        ok!(link(&old, d.p("h")));
        ok!(chmod(&old, 0o4755));
    });
    assert_eq!(
        (ok!(stat(d.p("f"))).perm(), ok!(lstat(d.p("l"))).perm(), ok!(stat(d.p("h"))).perm()),
        (0o7000, 0o777, 0o4755)
    );
}
