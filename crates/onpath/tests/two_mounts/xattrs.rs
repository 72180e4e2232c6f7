//! Extended attributes and ACLs: what one mount has set counts on the other at once, and outlives the server.

use crate::common::check::done;
use crate::common::sys::{self, R};
use crate::common::user::{ALICE, BOB, User};
use crate::common::xattr::{ACCESS, DEFAULT, acl, acl_text, fgetxattr, getxattr, listxattr, removexattr, setxattr};
use crate::two_mounts::Pair;
use libc::{O_CREAT, O_EXCL, O_RDONLY, O_WRONLY};
use std::path::Path;

/// Rounds of each test that looks from mount to mount.
const ROUNDS: usize = 50;

/// Set on one mount, read on the other, by path and through a descriptor that was open before.
#[test]
fn attributes() {
    let Some(pair) = Pair::new("attributes on two mounts", &[]) else { return };
    let paths = pair.both("f");
    std::fs::write(&paths[0], "").expect("write");
    let open = paths.each_ref().map(|path| done("open", sys::open(path, O_RDONLY, 0)));
    for round in 0..ROUNDS {
        let (here, there) = (round % 2, 1 - round % 2);
        let value = format!("value {round}");
        done("set", setxattr(&paths[here], "user.a", &value));
        assert_eq!(done("get", getxattr(&paths[there], "user.a")), value.as_bytes());
        assert_eq!(done("fget", fgetxattr(&open[there], "user.a")), value.as_bytes());
        assert_eq!(done("list", listxattr(&paths[there])), ["user.a"]);
        let times = paths.each_ref().map(|path| done("stat", sys::stat(path)).ctime);
        assert_eq!(times[0], times[1]);
        done("remove", removexattr(&paths[there], "user.a"));
        assert_eq!(getxattr(&paths[here], "user.a"), Err(libc::ENODATA));
        assert_eq!(fgetxattr(&open[here], "user.a"), Err(libc::ENODATA));
    }
    drop(open);
    pair.stop("after attributes on two mounts");
}

fn creates(user: User, path: &Path) -> R {
    user.run(|| sys::open(path, O_WRONLY | O_CREAT | O_EXCL, 0o666).map(drop))
}

/// An ACL of a directory decides the next lookup and create on the other mount, and so does its removal; what is made there
/// inherits the default ACL. The shards that have the names hear of it before it is answered.
#[test]
fn acls_of_directories() {
    let Some(pair) = Pair::new("ACLs on two mounts", &["--shards", "4"]) else { return };
    let dirs = pair.both("d");
    done("mkdir", sys::mkdir(&dirs[0], 0o700));
    for i in 0..8 {
        std::fs::write(dirs[0].join(format!("f{i}")), "x").expect("write");
    }
    let mine = "u::rwx,u:65502:rwx,g::-,m::rwx,o::-";
    for round in 0..ROUNDS {
        let (here, there) = (&dirs[round % 2], &dirs[1 - round % 2]);
        let file = there.join(format!("f{}", round % 8));
        let new = |who: &str| there.join(format!("{who}{round}"));
        let stats = |user: User| user.run(|| sys::stat(&file).map(drop));
        assert_eq!((stats(BOB), creates(BOB, &new("bob"))), (Err(libc::EACCES), Err(libc::EACCES)), "before");
        done("set", setxattr(here, ACCESS, acl(mine)));
        done("set", setxattr(here, DEFAULT, acl("u::rwx,u:65501:rw,g::r,m::rwx,o::-")));
        assert_eq!((stats(BOB), creates(BOB, &new("bob"))), (Ok(()), Ok(())), "with the ACL");
        assert_eq!(
            (stats(ALICE), creates(ALICE, &new("alice"))),
            (Err(libc::EACCES), Err(libc::EACCES)),
            "no one else"
        );
        let inherited = done("get", getxattr(here.join(format!("bob{round}")), ACCESS));
        assert_eq!(acl_text(&inherited), "u::rw,u:65501:rw,g::r,m::rw,o::-");
        match round % 3 {
            0 => done("chmod", sys::chmod(here, 0o700)),
            1 => {
                done("remove", removexattr(here, ACCESS));
                done("chmod", sys::chmod(here, 0o700));
            }
            _ => done("set", setxattr(here, ACCESS, acl("u::rwx,u:65502:-,g::-,m::rwx,o::-"))),
        }
        done("remove", removexattr(here, DEFAULT));
        assert_eq!((stats(BOB), creates(BOB, &new("again"))), (Err(libc::EACCES), Err(libc::EACCES)), "after");
    }
    pair.stop("after ACLs on two mounts");
}

/// Attributes and ACLs are there again after the server was killed, and after it was stopped and started.
#[test]
fn after_a_kill() {
    let Some(mut pair) = Pair::new("attributes after a kill", &["--shards", "4"]) else { return };
    let [top, _] = pair.both("d");
    done("mkdir", sys::mkdir(&top, 0o755));
    let default = "u::rwx,u:65502:rwx,g::rx,m::rwx,o::-";
    done("set", setxattr(&top, DEFAULT, acl(default)));
    for i in 0..20 {
        let f = top.join(format!("f{i}"));
        std::fs::write(&f, "x").expect("write");
        done("set", setxattr(&f, "user.a", format!("{i}")));
        done("set", setxattr(&f, "trusted.b", vec![i; 5_000]));
        done("set", setxattr(&f, "user.gone", "x"));
        done("remove", removexattr(&f, "user.gone"));
    }
    done("unlink", sys::unlink(top.join("f19")));
    let check = |when: &str| {
        assert_eq!(acl_text(&done("get", getxattr(&top, DEFAULT))), default, "{when}");
        for i in 0..19 {
            let f = top.join(format!("f{i}"));
            assert_eq!(done("list", listxattr(&f)), [ACCESS, "trusted.b", "user.a"], "{when}");
            assert_eq!(done("get", getxattr(&f, "user.a")), format!("{i}").as_bytes(), "{when}");
            assert_eq!(done("get", getxattr(&f, "trusted.b")), vec![i; 5_000], "{when}");
            assert_eq!(acl_text(&done("get", getxattr(&f, ACCESS))), "u::rw,u:65502:rwx,g::rx,m::rw,o::-", "{when}");
            assert_eq!(BOB.run(|| sys::open(&f, O_WRONLY, 0).map(drop)), Ok(()), "{when}");
        }
        assert_eq!(sys::stat(top.join("f19")).map(drop), Err(libc::ENOENT), "{when}");
    };
    check("before");
    pair.site.kill_server(&mut pair.mounts[0]);
    pair.mounts[0] = pair.site.dev(&[]);
    check("after a kill");
    let Pair { site, mounts: [first, second] } = pair;
    second.stop();
    first.stop();
    site.assert_clean("between two starts");
    let again = site.dev(&[]);
    check("after a restart");
    again.stop();
    site.assert_clean("at the end");
}
