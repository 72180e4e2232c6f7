//! What programs get from the client library beside what the kernel gives on a mount.

use crate::common::cluster::{Cluster, Shape};
use crate::common::process::{End, fork_with_sockets};
use crate::common::random::Random;
use crate::common::server::Site;
use crate::common::sys;
use onpath_client::blocking::Client;
use onpath_client::{Allocation, Caller, Link, OpenOptions, Options, Replace, SetXattr, Source, Time};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

fn client_of(site: &Site) -> Client {
    Client::connect(&site.state().display().to_string(), &Options::default()).expect("a client")
}

fn read_write() -> OpenOptions {
    OpenOptions { read: true, ..OpenOptions::create() }
}

/// Bytes at any place, holes, appends, copies: what is written is what both the client and a mount read.
#[test]
fn bytes_are_where_they_were_written() {
    let Some(site) = Site::new("remote::bytes_are_where_they_were_written") else { return };
    let mount = site.dev(&[]);
    let (client, me) = (client_of(&site), Caller::root());
    let file = client.open(&me, "/file", &read_write()).expect("open");
    let bytes = Random::new(1).bytes(5 << 20);
    file.write_at(3, bytes.clone()).expect("write");
    let expected = [&[0; 3][..], &bytes].concat();
    assert_eq!(file.read_at(0, 100 << 20).expect("read"), expected, "to the end of the file");
    assert_eq!(file.read_at(1_000_001, 10).expect("read"), expected[1_000_001..1_000_011]);
    assert_eq!(file.read_at(expected.len() as u64, 10).expect("read").len(), 0);
    assert_eq!(fs::read(mount.path().join("file")).expect("read"), expected);
    assert_eq!(client.read(&me, "/file", expected.len()).expect("read"), expected);
    let short = client.read(&me, "/file", expected.len() - 1).map(drop);
    assert_eq!(short.expect_err("too long").raw_os_error(), Some(libc::EFBIG));
    let log = client.open(&me, "/log", &OpenOptions { append: true, ..read_write() }).expect("open");
    fs::write(mount.path().join("log"), "one ").expect("write");
    log.write_at(0, &b"two"[..]).expect("append");
    assert_eq!(fs::read(mount.path().join("log")).expect("read"), b"one two");
    file.truncate(1 << 20).expect("truncate");
    file.allocate(Allocation::Punch, 4_096, 8_192).expect("punch");
    let (hole, data) = (file.seek(0, true).expect("seek"), file.seek(5_000, false).expect("seek"));
    assert_eq!((hole, data), (4_096, 12_288));
    let copy = client.open(&me, "/copy", &read_write()).expect("open");
    assert_eq!(copy.copy_from(&file, 0, 0, 1 << 20).expect("copy"), 1 << 20);
    assert_eq!(fs::read(mount.path().join("copy")).expect("read"), fs::read(mount.path().join("file")).expect("read"));
    file.sync().expect("sync");
    let other = client_of(&site);
    let stranger = other.open(&me, "/copy", &read_write()).expect("open");
    let refused = stranger.copy_from(&file, 0, 0, 1).expect_err("of another session");
    assert_eq!(refused.raw_os_error(), Some(libc::EXDEV));
    let refused = client.open(&me, "/file", &OpenOptions { write: false, ..OpenOptions::create() }).map(drop);
    assert_eq!(refused.expect_err("made, and not written").raw_os_error(), Some(libc::EINVAL));
    mount.stop();
}

/// A file that is put has its name with all its bytes, or not at all.
#[test]
fn a_file_is_put_as_a_whole() {
    let Some(site) = Site::new("remote::a_file_is_put_as_a_whole") else { return };
    let mount = site.dev(&["--shards", "2"]);
    let (client, me) = (client_of(&site), Caller::root());
    let on_mount = mount.path().join("file");
    for (round, length) in [3_usize, 0, 5_000_000].into_iter().enumerate() {
        let bytes = Random::new(length as u64).bytes(length);
        let before = fs::read(&on_mount).ok();
        let mut put = client.put(&me, "/file", 0o640, Replace::Yes).expect("put");
        put.copy_from(&mut bytes.as_slice()).expect("write");
        assert_eq!(fs::read(&on_mount).ok(), before, "not before it is finished");
        put.utimens(Time::Keep, Time::At(5_000_000_007)).expect("times");
        let is = put.finish(true).expect("finish");
        let stat = fs::metadata(&on_mount).expect("stat");
        assert_eq!((is.ino, stat.mode() & 0o7777, stat.nlink()), (stat.ino(), 0o640, 1), "round {round}");
        assert_eq!((stat.mtime(), stat.mtime_nsec()), (5, 7));
        assert_eq!(fs::read(&on_mount).expect("read"), bytes);
        let mut got = Vec::new();
        assert_eq!(client.get(&me, "/file").expect("get").copy_to(&mut got).expect("read"), length as u64);
        assert_eq!(got, bytes);
    }
    let whole = fs::read(&on_mount).expect("read");
    let mut put = client.put(&me, "/file", 0o640, Replace::No).expect("put");
    put.write(&b"new"[..]).expect("write");
    assert_eq!(put.finish(false).expect_err("it is there").raw_os_error(), Some(libc::EEXIST));
    let mut put = client.put(&me, "/file", 0o640, Replace::Yes).expect("put");
    put.write(&b"new"[..]).expect("write");
    drop(put);
    let closed = client_of(&site);
    let mut put = closed.put(&me, "/file", 0o640, Replace::Yes).expect("put");
    closed.close();
    assert!(put.write(vec![0; 8 << 20]).is_err(), "its session is over");
    let again = put.finish(false).expect_err("bytes are missing");
    assert_eq!(again.raw_os_error(), Some(libc::EIO), "{again}");
    let nowhere = client.put(&me, "/missing/file", 0o640, Replace::Yes).map(drop);
    assert_eq!(nowhere.expect_err("no directory").raw_os_error(), Some(libc::ENOENT));
    client.mkdir(&me, "/dir", 0o755).expect("mkdir");
    let over = client.put(&me, "/dir", 0o640, Replace::Yes).expect("put").finish(false);
    assert_eq!(over.expect_err("a directory").raw_os_error(), Some(libc::EISDIR));
    assert_eq!(fs::read(&on_mount).expect("read"), whole);
    let names: Vec<_> =
        fs::read_dir(mount.path()).expect("list").map(|entry| entry.expect("entry").file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    mount.stop();
    site.assert_clean("after files were put");
}

/// What a path has led to stays that, whatever gets its name.
#[test]
fn an_inode_is_what_a_path_has_led_to() {
    let Some(site) = Site::new("remote::an_inode_is_what_a_path_has_led_to") else { return };
    let mount = site.dev(&["--shards", "2"]);
    let (client, me) = (client_of(&site), Caller::root());
    let at = |name: &str| mount.path().join(name);
    fs::create_dir_all(at("dir/below")).expect("mkdir");
    fs::write(at("dir/file"), "bytes").expect("write");
    std::os::unix::fs::symlink("file", at("dir/link")).expect("symlink");
    let file = client.inode(&me, "/dir/file", Link::Itself).expect("a file");
    let link = client.inode(&me, "/dir/link", Link::Itself).expect("a link");
    fs::rename(at("dir/file"), at("moved")).expect("rename");
    fs::write(at("dir/file"), "another").expect("write");
    file.chmod(0o4701).expect("chmod");
    file.chown(Some(7), None).expect("chown");
    file.chmod(0o4701).expect("chmod");
    file.setxattr(b"user.what", b"this", SetXattr::Create).expect("setxattr");
    file.utimens(Time::Keep, Time::At(5_000_000_007)).expect("utimens");
    let is = fs::metadata(at("moved")).expect("stat");
    assert_eq!((is.uid(), is.mode() & 0o7777, is.mtime(), is.mtime_nsec()), (7, 0o4701, 5, 7));
    assert_eq!(file.stat().expect("stat").ino, is.ino());
    assert_eq!(file.listxattr().expect("listxattr"), [b"user.what"]);
    assert_eq!(file.getxattr(b"user.what").expect("getxattr"), b"this");
    file.removexattr(b"user.what").expect("removexattr");
    assert_eq!(file.open(&OpenOptions::default()).expect("open").read_at(0, 9).expect("read"), &b"bytes"[..]);
    assert_eq!(link.readlink().expect("readlink"), b"file");
    let refused = link.open(&OpenOptions::default()).map(drop).expect_err("a link");
    assert_eq!(refused.raw_os_error(), Some(libc::ELOOP));
    let below = client.within(&me, "/dir/below", Link::Itself).expect("a directory");
    file.link(&below, b"second").expect("link");
    assert_eq!(fs::metadata(at("dir/below/second")).expect("stat").ino(), is.ino());
    assert_eq!(file.link(&below, b"second").expect_err("it is there").raw_os_error(), Some(libc::EEXIST));
    let other = client_of(&site);
    assert_eq!(file.link(&other, b"third").expect_err("of another session").raw_os_error(), Some(libc::EXDEV));
    below.list(&me, "/", false).expect("list").sync().expect("fsync");
    // Paths begin where the directories of a rename are, whatever their names are by then.
    let dir = client.within(&me, "/dir", Link::Itself).expect("a directory");
    fs::rename(at("dir"), at("elsewhere")).expect("rename");
    below.rename_to(&me, "second", &dir, b"../up", Replace::No).expect("rename");
    assert_eq!(
        fs::metadata(at("elsewhere/up")).expect("stat").ino(),
        is.ino(),
        "nothing leads above where paths begin"
    );
    let refused = below.rename_to(&me, "second", &dir, b"up", Replace::No).expect_err("it is gone");
    assert_eq!(refused.raw_os_error(), Some(libc::ENOENT));
    dir.rename_to(&me, "up", &below, b"second", Replace::Yes).expect("rename");
    fs::rename(at("elsewhere"), at("dir")).expect("rename");
    let refused = below.rename_to(&me, "second", &other, b"third", Replace::Yes).expect_err("of another session");
    assert_eq!(refused.raw_os_error(), Some(libc::EXDEV));
    fs::remove_file(at("moved")).expect("unlink");
    fs::remove_file(at("dir/below/second")).expect("unlink");
    let gone = file.stat().expect_err("it is gone").raw_os_error();
    assert!([Some(libc::ENOENT), Some(libc::ESTALE)].contains(&gone), "{gone:?}");
    mount.stop();
    site.assert_clean("after inodes were changed");
}

/// Pages of a listing with attributes, and names in their order.
#[test]
fn a_directory_is_listed() {
    let Some(site) = Site::new("remote::a_directory_is_listed") else { return };
    let mount = site.dev(&["--shards", "3"]);
    let (client, me) = (client_of(&site), Caller::root());
    client.mkdir(&me, "/dir", 0o700).expect("mkdir");
    let mut names = BTreeSet::new();
    for number in 0..3_000_u64 {
        let name = [&Random::new(number).next().to_le_bytes()[..], b"x"].concat();
        let name: Vec<u8> = name.into_iter().map(|byte| if byte == 0 || byte == b'/' { b'_' } else { byte }).collect();
        fs::write(mount.path().join("dir").join(std::ffi::OsStr::from_bytes(&name)), [1_u8; 2]).expect("write");
        names.insert(name);
    }
    for attributes in [false, true] {
        let mut listing = client.list(&me, "/dir", attributes).expect("list");
        let (mut seen, mut pages) = (BTreeSet::new(), 0);
        while let Some(page) = listing.next().expect("a page") {
            pages += 1;
            for entry in page {
                assert_eq!(entry.metadata.map(|is| (is.ino, is.size)), attributes.then_some((entry.ino, 2)));
                assert!(seen.insert(entry.name), "once each");
            }
        }
        assert!(seen == names && pages > 1, "{} names on {pages} pages", seen.len());
    }
    let mut sorted = client.sorted(&me, "/dir").expect("sorted");
    let (mut after, mut in_order) = (None, Vec::new());
    loop {
        let page = sorted.after(after.as_deref(), 70).expect("names");
        let Some(last) = page.last() else { break };
        after = Some(last.name.clone());
        in_order.extend(page.into_iter().map(|entry| entry.name));
    }
    assert!(in_order.iter().eq(&names));
    let some: Vec<_> = sorted.after(Some(b"m"), 5).expect("names").into_iter().map(|entry| entry.name).collect();
    let expected: Vec<_> = names.range(b"m\0".to_vec()..).take(5).cloned().collect();
    assert_eq!(some, expected);
    let refused = client.list(&me, "/dir/missing", false).map(drop).expect_err("nothing there");
    assert!(refused.to_string().contains("/dir/missing: No such file or directory"), "{refused}");
    mount.stop();
}

/// One look at a path tells all that a system call on a mount, or a call of a client, has changed when it has returned.
#[test]
fn a_look_tells_of_now() {
    let Some(site) = Site::new("remote::a_look_tells_of_now") else { return };
    let mount = site.dev(&["--shards", "3"]);
    let dir = mount.path().join("a/b/c");
    fs::create_dir_all(&dir).expect("mkdir");
    let (client, me, mut random) = (client_of(&site), Caller::root(), Random::new(5));
    let files: Vec<_> = (0..4).map(|n| (dir.join(format!("f{n}")), format!("/a/b/c/f{n}"))).collect();
    files.iter().for_each(|(file, _)| fs::write(file, "x").expect("write"));
    let append = |path: &std::path::Path| fs::OpenOptions::new().append(true).open(path);
    for step in 0..2_000 {
        let (file, path) = &files[random.below(files.len())];
        let second = file.with_extension("second");
        match random.below(8) {
            0 => append(file).and_then(|mut file| file.write_all(b"more")).expect("append"),
            1 => append(file).and_then(|file| file.set_len(random.below(9_000) as u64)).expect("truncate"),
            2 => fs::set_permissions(file, Permissions::from_mode(random.below(0o1000) as u32)).expect("chmod"),
            3 if second.exists() => fs::remove_file(second).expect("unlink"),
            3 => fs::hard_link(file, second).expect("link"),
            4 => {
                fs::rename(file, dir.join("moved")).and_then(|()| fs::rename(dir.join("moved"), file)).expect("rename")
            }
            5 => client.truncate(&me, path, random.below(9_000) as u64).expect("truncate"),
            6 => client.chown(&me, path, Some(random.below(9) as u32), None, Link::Follow).expect("chown"),
            _ => drop(fs::read(file).expect("read")),
        }
        let is = client.stat(&me, path).expect("stat");
        let on_mount = fs::metadata(file).expect("stat");
        let ns = |seconds: i64, ns: i64| seconds * 1_000_000_000 + ns;
        let seen = (is.ino, is.mode(), is.uid, u64::from(is.nlink), is.size, is.mtime, is.ctime, is.atime);
        let expected = (
            on_mount.ino(),
            on_mount.mode(),
            on_mount.uid(),
            on_mount.nlink(),
            on_mount.size(),
            ns(on_mount.mtime(), on_mount.mtime_nsec()),
            ns(on_mount.ctime(), on_mount.ctime_nsec()),
            ns(on_mount.atime(), on_mount.atime_nsec()),
        );
        assert_eq!(seen, expected, "step {step}, {path}");
    }
    let before = client.counters().requests;
    client.stat(&me, &files[0].1).expect("stat");
    assert_eq!(client.counters().requests - before, 1);
    client.close();
    mount.stop();
}

/// Every change of a file moves its change number, however fast one follows the other.
#[test]
fn changes_are_numbered() {
    let Some(site) = Site::new("remote::changes_are_numbered") else { return };
    let mount = site.dev(&[]);
    let (client, me) = (client_of(&site), Caller::root());
    let file = client.open(&me, "/file", &read_write()).expect("open");
    let mut before = file.stat().expect("stat").change;
    for step in 0..500_u64 {
        match step % 3 {
            0 => file.write_at(step % 7, &b"x"[..]).expect("write"),
            1 => file.truncate(step).expect("truncate"),
            _ => client.chmod(&me, "/file", (step % 0o777) as u32).expect("chmod"),
        }
        let now = file.stat().expect("stat").change;
        assert!(now > before, "step {step}: {now} after {before}");
        before = now;
    }
    let counters = client.counters();
    assert!(counters.requests >= 1_000 && counters.lookups >= 166 && counters.written_bytes == 167, "{counters:?}");
    mount.stop();
}

/// Rounds in which something is dropped, if a machine is so busy or so quick that few are dropped in time.
const ROUNDS_MAX: u32 = 20_000;

/// A future that is dropped, wherever it waits, leaves nothing open.
#[test]
fn a_dropped_future_leaves_nothing_open() {
    fn is_send<T: Send>(of: T) -> T {
        of
    }
    let Some(site) = Site::new("remote::a_dropped_future_leaves_nothing_open") else { return };
    let mount = site.dev(&["--shards", "2"]);
    let (source, me) = (Source::Dir(site.state()), Caller::root());
    let plain = client_of(&site);
    let client = wait_for(is_send(onpath_client::Client::connect(source, Options::default()))).expect("a client");
    let mut context = Context::from_waker(Waker::noop());
    let options = read_write();
    let (mut dropped, mut round) = (0, 0);
    // A busy machine may answer nearly all of them at the first look.
    while round < 400 || dropped <= 50 {
        assert!(round < ROUNDS_MAX, "{dropped} of {round} were dropped before they ended");
        round += 1;
        let path = format!("/file-{}", round % 7);
        // Looked at so often before it is dropped.
        let (mut opening, mut looks) = (Box::pin(is_send(client.open(&me, &path, &options))), round % 6);
        let file = loop {
            match opening.as_mut().poll(&mut context) {
                Poll::Ready(file) => break Some(file.expect("open")),
                Poll::Pending if looks == 0 => break None,
                Poll::Pending => {
                    looks -= 1;
                    std::thread::yield_now();
                }
            }
        };
        dropped += u32::from(file.is_none());
    }
    let until = Instant::now() + Duration::from_secs(20);
    while site.status().sum("shard", &["inodes_open"]) > 0 {
        assert!(Instant::now() < until, "files are open that nobody has");
        std::thread::sleep(Duration::from_millis(20));
    }
    plain.close();
    mount.stop();
    site.assert_clean("after futures were dropped");
}

/// The same of a file that takes the name of another: it has it, or not, and no third name is left.
#[test]
fn a_dropped_put_leaves_no_other_name() {
    let Some(site) = Site::new("remote::a_dropped_put_leaves_no_other_name") else { return };
    let mount = site.dev(&["--shards", "3"]);
    let (source, me) = (Source::Dir(site.state()), Caller::root());
    let connected = onpath_client::Client::connect(source, Options::default());
    let client = wait_for(connected).expect("a client");
    fs::write(mount.path().join("file"), "old").expect("write");
    let (mut context, mut dropped, mut replaced) = (Context::from_waker(Waker::noop()), 0, 0);
    let mut round = 0;
    while round < 300 || dropped <= 50 || replaced <= 50 {
        assert!(round < ROUNDS_MAX, "of {round} {dropped} were dropped, {replaced} have replaced it");
        round += 1;
        let bytes = format!("new {round}");
        let mut file = wait_for(client.unnamed(&me, "/file", 0o644)).expect("unnamed");
        wait_for(file.write_at(0, bytes.clone().into_bytes())).expect("write");
        let mut taking = Box::pin(file.take_name(Replace::Yes));
        // A third is dropped when it has begun, a third at some moment, which the machine chooses, and a third is waited for.
        let looks = [0, round % 60, u32::MAX][round as usize % 3];
        let is_over = (0..=looks).any(|look| {
            (0..look.min(1)).for_each(|_| std::thread::yield_now());
            taking.as_mut().poll(&mut context).is_ready()
        });
        drop(taking);
        dropped += u32::from(!is_over);
        drop(file);
        let until = Instant::now() + Duration::from_secs(10);
        let names = || -> Vec<_> {
            fs::read_dir(mount.path()).expect("list").map(|entry| entry.expect("an entry").file_name()).collect()
        };
        while names() != ["file"] {
            assert!(Instant::now() < until, "round {round}: {:?}", names());
            std::thread::yield_now();
        }
        replaced += u32::from(fs::read_to_string(mount.path().join("file")).expect("read") == bytes);
    }
    wait_for(client.close());
    mount.stop();
    site.assert_clean("after puts were dropped");
}

fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// After fork(2) the child has a session of its own, and the parent keeps what it had.
#[test]
fn a_fork_has_a_session_of_its_own() {
    let Some(site) = Site::new("remote::a_fork_has_a_session_of_its_own") else { return };
    let mount = site.dev(&[]);
    let (client, me) = (client_of(&site), Caller::root());
    let file = client.open(&me, "/file", &read_write()).expect("open");
    // The child has the sockets of its parent, as it has after any fork(2).
    let child = fork_with_sockets(|| {
        let old = file.write_at(0, &b"child"[..]).expect_err("it is the parent's");
        let made = client.mkdir(&me, "/of-child", 0o755);
        i32::from(!(old.to_string().contains("before fork") && made.is_ok() && client.stat(&me, "/file").is_ok()))
    });
    assert_eq!(child.wait(), End::Exit(0), "the child's exit code");
    file.write_at(0, &b"parent"[..]).expect("write");
    assert_eq!(fs::read(mount.path().join("file")).expect("read"), b"parent");
    assert!(client.stat(&me, "/of-child").expect("stat").is_dir());
    drop(file);
    client.close();
    mount.stop();
    site.assert_clean("after a fork");
}

/// What a mount changes a client sees when that has returned, and the reverse.
#[test]
fn a_mount_and_a_client_see_each_other() {
    const TEST: &str = "remote::a_mount_and_a_client_see_each_other";
    let Some(site) = Site::new(TEST) else { return };
    let mount = site.dev(&["--shards", "2"]);
    let (client, me) = (client_of(&site), Caller::root());
    let mut random = Random::new(7);
    for dir in ["a", "a/b", "c"] {
        fs::create_dir(mount.path().join(dir)).expect("mkdir");
    }
    for step in 0..50_000_u64 {
        let name = format!("/{}/{}", random.of(&["a", "a/b", "c"]), random.below(20));
        let on_mount = mount.path().join(&name[1..]);
        let by_mount = step % 2 == 0;
        if by_mount {
            if sys::unlink(&on_mount).is_err() {
                let file = sys::open(&on_mount, libc::O_CREAT | libc::O_WRONLY, 0o644).expect("create");
                sys::write(&file, vec![1; step as usize % 100]).expect("write");
            }
        } else if client.unlink(&me, &name).is_err() {
            let file = client.open(&me, &name, &OpenOptions::create()).expect("create");
            file.write_at(0, vec![1; step as usize % 100]).expect("write");
        }
        let seen = client.lstat(&me, &name).map(|is| (is.ino, is.size)).map_err(|error| error.raw_os_error());
        let kernel = sys::lstat(&on_mount).map(|is| (is.ino, is.size as u64)).map_err(Some);
        assert_eq!(seen, kernel, "step {step}, {name}, by the mount: {by_mount}");
    }
    client.close();
    mount.stop();
    site.assert_clean("after pairs");
}

/// Hosts that are killed and start again are waited for; what was open stays so.
#[test]
fn killed_hosts_are_waited_for() {
    const TEST: &str = "remote::killed_hosts_are_waited_for";
    let Some(site) = Site::new(TEST) else { return };
    let Some(mut cluster) = Cluster::start(TEST, &site, Shape { servers: 2, clients: 1, ..Shape::default() }) else {
        return;
    };
    let (url, me) = (cluster.url(), Caller::root());
    let client = cluster.net.run_on(2, || Client::connect(&url, &Options::default()).expect("a client"));
    let file = client.open(&me, "/file", &read_write()).expect("open");
    file.write_at(0, vec![1; 10_000]).expect("write");
    file.sync().expect("sync");
    client.unlink(&me, "/file").expect("unlink");
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            for number in 0..200 {
                client.mkdir(&me, format!("/d{number}"), 0o755).expect("mkdir");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        for host in 0..2 {
            std::thread::sleep(Duration::from_millis(200));
            cluster.kill(host);
            cluster.serve(host);
        }
        worker.join().expect("the worker");
    });
    assert_eq!(file.read_at(0, 20_000).expect("read"), vec![1; 10_000], "open without a name");
    let mut listing = client.list(&me, "/", false).expect("list");
    let mut names = 0;
    while let Some(page) = listing.next().expect("a page") {
        names += page.len();
    }
    assert_eq!(names, 200);
    let missing = client.chown(&me, "/missing", Some(1), None, Link::Follow).expect_err("it is not there");
    assert!(missing.to_string().starts_with(&format!("{}/missing: ", url.trim_end_matches('/'))), "{missing}");
    drop((file, listing));
    client.close();
    cluster.stop();
}
