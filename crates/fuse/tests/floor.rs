//! The floor, really mounted: every operation a program would use, and the end of a mount.
//!
//! Needs root and `/dev/fuse`; without them each test says why it is skipped.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use onpath_fuse::floor::{Floor, FloorError, run_floor};
use onpath_fuse::mount::{FILESYSTEM_TYPE, MountError, MountOptions, mounts, unmount};
use onpath_fuse::serve::ServeOptions;
use onpath_fuse::transport::Notification;

/// Names the directories for the re-executed server of the tests that kill one.
const SERVER_VARIABLE: &str = "ONPATH_FUSE_TEST_SERVER";
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        Some("needs root")
    } else if !Path::new("/dev/fuse").exists() {
        Some("needs /dev/fuse")
    } else {
        None
    }
}

/// Says on the real standard error (libtest captures only the print macros) that the calling test could not run, and why.
fn skipped(reason: &str) {
    let thread = std::thread::current();
    onpath_testing::skipped(&format!("floor::{}", thread.name().unwrap_or("?")), reason);
}

macro_rules! needs_fuse {
    () => {
        if let Some(reason) = missing() {
            return skipped(reason);
        }
    };
}

/// A floor over a temporary directory, served by a thread.
struct Mounted {
    floor: Arc<Floor>,
    server: Option<JoinHandle<Result<(), FloorError>>>,
    directory: tempfile::TempDir,
}

impl Mounted {
    fn new(readers: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["below", "mnt"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let (below, mnt) = (directory.path().join("below"), directory.path().join("mnt"));
        let floor = Arc::new(Floor::new(&below, &mnt, &MountOptions::default()).unwrap());
        let (ready, mounted) = mpsc::channel();
        let serving = Arc::clone(&floor);
        let server = std::thread::spawn(move || serving.serve(ServeOptions { readers }, || ready.send(()).unwrap()));
        mounted.recv_timeout(PATIENCE).unwrap();
        Self { floor, server: Some(server), directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("mnt").join(name)
    }

    fn below(&self, name: &str) -> PathBuf {
        self.directory.path().join("below").join(name)
    }

    fn finish(mut self) {
        // A close returns before its RELEASE is answered, and until then the mount is busy, with no user to name.
        let start = std::time::Instant::now();
        while let Err(error) = self.floor.mount().unmount() {
            assert!(matches!(error, MountError::Busy { .. }) && start.elapsed() < PATIENCE, "{error}");
            std::thread::yield_now();
        }
        self.server.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.server.is_some() {
            let _ = self.floor.mount().abort();
        }
    }
}

fn shell(script: &str, directory: &Path) -> String {
    let output = Command::new("timeout").args(["20", "sh", "-ec", script]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn files_are_made_written_read_and_removed() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    let path = mounted.path("file");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o640).open(&path).unwrap();
    file.write_all(b"hello world").unwrap();
    file.seek(SeekFrom::Start(6)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "world");
    assert_eq!(fs::read(mounted.below("file")).unwrap(), b"hello world");
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o7777, metadata.nlink()), (11, 0o640, 1));
    file.set_len(5).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    let error = OpenOptions::new().write(true).create_new(true).open(&path).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"!!").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hello!!");
    fs::write(&path, b"x").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 1);
    fs::remove_file(&path).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.write_all_at(b"still here", 0).unwrap();
    assert_eq!(fs::metadata(&path).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    drop(file);
    mounted.finish();
}

#[test]
fn names_are_renamed_linked_and_listed() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    fs::create_dir_all(mounted.path("a/b")).unwrap();
    fs::write(mounted.path("a/one"), b"1").unwrap();
    fs::rename(mounted.path("a/one"), mounted.path("a/b/two")).unwrap();
    fs::hard_link(mounted.path("a/b/two"), mounted.path("three")).unwrap();
    assert_eq!(fs::metadata(mounted.path("three")).unwrap().nlink(), 2);
    std::os::unix::fs::symlink("a/b/two", mounted.path("link")).unwrap();
    assert_eq!(fs::read_link(mounted.path("link")).unwrap(), Path::new("a/b/two"));
    assert_eq!(fs::read(mounted.path("link")).unwrap(), b"1");
    assert!(fs::symlink_metadata(mounted.path("link")).unwrap().is_symlink());
    let mut names: Vec<_> = fs::read_dir(mounted.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "link", "three"]);
    assert!(fs::remove_dir(mounted.path("a")).is_err());
    fs::remove_dir_all(mounted.path("a")).unwrap();
    assert_eq!(fs::metadata(mounted.path("three")).unwrap().nlink(), 1);
    mounted.finish();
}

#[test]
fn names_change_under_those_who_hold_what_they_name() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    let script = "mkdir -p a/b/c; cd a/b; echo 1 > c/one; mv ../../a ../../moved; cat c/one; echo 2 > two; ls; \
                  exec 5> gone; rm gone; echo held >&5; cat /proc/self/fd/5; echo other > gone; cat gone /proc/self/fd/5; \
                  exec 5>&-; ln c/one linked; rm c/one; cat linked; mv linked two; cat two; cd -P ..; rmdir b/c; ls b";
    let expected = "1\nc\ntwo\nheld\nother\nheld\n1\n1\ngone\ntwo\n";
    assert_eq!(shell(script, &mounted.path("")), expected);
    mounted.finish();
}

#[test]
fn more_directories_than_keep_descriptors() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    let script = "for i in 0 1 2 3 4; do mkdir $i; (cd $i; seq 1 110 | sed 's,$,/x,' | xargs mkdir -p); done; \
                  find . -type d | wc -l; find . -name x | wc -l; rm -rf ./*; ls";
    assert_eq!(shell(script, &mounted.path("")), "1106\n550\n");
    mounted.finish();
}

#[test]
fn large_directories_are_listed_once_each_and_emptied() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    for number in 0..3000 {
        File::create(mounted.path(&format!("a-name-of-some-length-{number:05}"))).unwrap();
    }
    let mut names: Vec<_> = fs::read_dir(mounted.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3000);
    assert_eq!(shell("ls | wc -l; find . -type f -delete; ls | wc -l", &mounted.path("")), "3000\n0\n");
    mounted.finish();
}

#[test]
fn trees_are_copied_and_removed_by_programs() {
    needs_fuse!();
    let mounted = Mounted::new(2);
    let script = "mkdir -p src/x/y; head -c 3000000 /dev/urandom > src/x/data; ln -s data src/x/link; mkfifo src/pipe; \
                  chmod 700 src/x/y; cp -a src dst; cmp src/x/data dst/x/data; readlink dst/x/link; \
                  stat -c %a dst/x/y; tar cf - src | tar tf - | wc -l; ls -lR > /dev/null; rm -rf src dst; ls";
    assert_eq!(shell(script, &mounted.path("")), "data\n700\n6\n");
    mounted.finish();
}

#[test]
fn attributes_change() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    let path = mounted.path("file");
    fs::write(&path, b"12345").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
    std::os::unix::fs::chown(&path, Some(12), Some(34)).unwrap();
    let time = std::time::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    File::open(&path).unwrap().set_modified(time).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.uid(), metadata.gid()), (0o604, 12, 34));
    assert_eq!(metadata.modified().unwrap(), time);
    assert!(metadata.created().is_ok(), "birth time comes by STATX");
    assert!(Command::new("truncate").args(["-s", "2"]).arg(&path).status().unwrap().success());
    assert_eq!(fs::read(&path).unwrap(), b"12");
    mounted.finish();
}

#[test]
fn extended_attributes_sparse_files_and_nameless_files() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    let path = mounted.path("file");
    let file = File::create_new(&path).unwrap();
    rustix::fs::setxattr(&path, "user.color", b"blue", rustix::fs::XattrFlags::CREATE).unwrap();
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(&path, "user.color", &mut value).unwrap();
    assert_eq!(&value[..length], b"blue");
    assert_eq!(rustix::fs::getxattr(&path, "user.color", &mut [0u8; 2]).unwrap_err(), rustix::io::Errno::RANGE);
    rustix::fs::removexattr(&path, "user.color").unwrap();
    file.write_all_at(b"end", 1 << 20).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 2 << 20, 4096).unwrap();
    assert_eq!(file.metadata().unwrap().len(), (1 << 20) + 3);
    let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).unwrap();
    assert_eq!(hole, 4096);
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(hole)).unwrap(), 1 << 20);
    let nameless = rustix::fs::open(
        mounted.path(""),
        rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR,
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    rustix::io::pwrite(&nameless, b"found", 0).unwrap();
    rustix::fs::linkat(&nameless, "", rustix::fs::CWD, mounted.path("named"), rustix::fs::AtFlags::EMPTY_PATH).unwrap();
    assert_eq!(fs::read(mounted.path("named")).unwrap(), b"found");
    assert_eq!(fs::copy(mounted.path("named"), mounted.path("copy")).unwrap(), 5);
    assert_eq!(fs::read(mounted.path("copy")).unwrap(), b"found");
    drop((file, nameless));
    mounted.finish();
}

#[test]
fn locks_exclude() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    let path = mounted.path("file");
    let (first, second) = (File::create_new(&path).unwrap(), File::open(&path).unwrap());
    first.lock().unwrap();
    assert!(matches!(second.try_lock(), Err(fs::TryLockError::WouldBlock)));
    drop(first);
    second.try_lock().unwrap();
    drop(second);
    mounted.finish();
}

#[test]
fn mapped_files_share_their_bytes() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    let script = "import mmap,os\nf=os.open('file',os.O_RDWR|os.O_CREAT)\nos.ftruncate(f,8192)\nm=mmap.mmap(f,8192)\n\
                  m[4096:4101]=b'hello'\nm.flush()\nprint(os.pread(f,5,4096).decode())";
    let output = Command::new("timeout").args(["20", "python3", "-c", script]).current_dir(mounted.path("")).output();
    match output {
        Ok(output) if output.status.success() => {
            assert_eq!(output.stdout, b"hello\n");
            assert_eq!(&fs::read(mounted.below("file")).unwrap()[4096..4101], b"hello");
        }
        // So says timeout(1) where there is no such program.
        Ok(output) if output.status.code() == Some(127) => skipped("python3 is not installed"),
        other => panic!("{other:?}"),
    }
    mounted.finish();
}

#[test]
fn large_writes_arrive_whole() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    let data: Vec<u8> = (0..10_000_000u32).map(|number| (number % 251) as u8).collect();
    fs::write(mounted.path("big"), &data).unwrap();
    assert!(fs::read(mounted.below("big")).unwrap() == data);
    assert!(fs::read(mounted.path("big")).unwrap() == data);
    mounted.finish();
}

#[test]
fn notifications_are_accepted() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    fs::write(mounted.path("file"), b"1").unwrap();
    let held = File::open(mounted.path("file")).unwrap();
    let transport = mounted.floor.mount().transport();
    assert!(transport.notify(Notification::InvalidateAttributes { inode: 1 }).unwrap());
    assert!(transport.notify(Notification::InvalidateData { inode: 2, offset: 0, length: 0 }).unwrap());
    assert!(!transport.notify(Notification::InvalidateData { inode: 999, offset: 0, length: 0 }).unwrap());
    let entry = Notification::InvalidateEntry { parent: 1, name: b"file", expire_only: true };
    assert!(transport.notify(entry).unwrap());
    assert!(transport.notify(Notification::Delete { parent: 1, child: 2, name: b"file" }).unwrap());
    match transport.notify(Notification::IncrementEpoch) {
        Ok(known) => assert!(known),
        Err(error) => println!("INC_EPOCH not offered by this kernel: {error}"),
    }
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"1");
    drop(held);
    mounted.finish();
}

#[test]
fn a_busy_mount_names_its_users_and_can_be_detached() {
    needs_fuse!();
    let mut mounted = Mounted::new(1);
    let held = File::create(mounted.path("held")).unwrap();
    let error = mounted.floor.mount().unmount().unwrap_err();
    let MountError::Busy { users, .. } = &error else { panic!("{error}") };
    assert!(users.0.iter().any(|user| user.pid == std::process::id()), "{error}");
    assert!(error.to_string().contains("/held"), "{error}");
    mounted.floor.mount().detach().unwrap();
    held.write_all_at(b"still served", 0).unwrap();
    drop(held);
    mounted.server.take().unwrap().join().unwrap().unwrap();
}

#[test]
fn a_live_mount_is_never_replaced() {
    needs_fuse!();
    let mounted = Mounted::new(1);
    let other = tempfile::tempdir().unwrap();
    let error = run_floor(other.path(), &mounted.path(""), &MountOptions::default()).unwrap_err();
    assert!(matches!(error, FloorError::Mount(MountError::AlreadyMounted(_))), "{error}");
    fs::write(mounted.path("works"), b"").unwrap();
    mounted.finish();
}

#[test]
fn mountpoints_that_are_none_are_refused() {
    needs_fuse!();
    let directory = tempfile::tempdir().unwrap();
    let below = tempfile::tempdir().unwrap();
    let mount = |path: &Path| run_floor(below.path(), path, &MountOptions::default()).unwrap_err();
    let error = mount(&directory.path().join("missing"));
    assert!(matches!(error, FloorError::Mount(MountError::Missing(_))), "{error}");
    fs::write(directory.path().join("file"), b"").unwrap();
    let error = mount(&directory.path().join("file"));
    assert!(matches!(error, FloorError::Mount(MountError::NotADirectory(_))), "{error}");
    fs::create_dir(below.path().join("inside")).unwrap();
    let error = mount(&below.path().join("inside"));
    assert!(matches!(error, FloorError::Inside { .. }), "{error}");
    assert!(matches!(unmount(directory.path(), false), Err(MountError::NotMounted(_))));
}

/// Not a test of its own: the server that [`a_killed_servers_mount_is_removed`] starts and kills.
#[test]
fn server_for_other_tests() {
    let Some(value) = std::env::var_os(SERVER_VARIABLE) else { return };
    let (below, mnt) = value.to_str().and_then(|value| value.split_once(':')).unwrap();
    run_floor(Path::new(below), Path::new(mnt), &MountOptions::default()).unwrap();
}

#[test]
fn a_killed_servers_mount_is_removed() {
    needs_fuse!();
    let directory = tempfile::tempdir().unwrap();
    let (below, mnt) = (directory.path().join("below"), directory.path().join("mnt"));
    fs::create_dir(&below).unwrap();
    fs::create_dir(&mnt).unwrap();
    fs::write(below.join("file"), b"1").unwrap();
    let is_mounted = || mounts().unwrap().iter().any(|entry| entry.mountpoint == mnt && entry.kind == FILESYSTEM_TYPE);
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server_for_other_tests"])
        .env(SERVER_VARIABLE, format!("{}:{}", below.display(), mnt.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !is_mounted() {
        assert!(started.elapsed() < PATIENCE, "the server did not mount");
        std::thread::yield_now();
    }
    // Served as soon as it is mounted: this waits for INIT.
    let held = File::open(mnt.join("file")).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(fs::metadata(&mnt).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    assert!(is_mounted());
    let floor = Arc::new(Floor::new(&below, &mnt, &MountOptions::default()).unwrap());
    let (ready, mounted) = mpsc::channel();
    let serving = Arc::clone(&floor);
    let server = std::thread::spawn(move || serving.serve(ServeOptions::default(), || ready.send(()).unwrap()));
    mounted.recv_timeout(PATIENCE).unwrap();
    assert_eq!(fs::read(mnt.join("file")).unwrap(), b"1");
    assert_eq!(mounts().unwrap().iter().filter(|entry| entry.mountpoint == mnt).count(), 1);
    drop(held);
    floor.mount().unmount().unwrap();
    server.join().unwrap().unwrap();
    assert!(!is_mounted());
}
