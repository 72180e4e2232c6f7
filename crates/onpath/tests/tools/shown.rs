//! What names of others do to a terminal: nothing. Every command that prints a name runs on a terminal and in a pipe; where it is read by a
//! program, a name is what it is.

use crate::common::server::{Process, Site, binary};
use crate::common::{process, sys, terminal, wait_until};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names as somebody chooses them for whom root will look at them.
const NAMES: [&[u8]; 8] = [
    b"\x1b[2J\x1b]0;title\x07",
    b"line\nonpath: forged",
    b"\rback\x08\x7f",
    b"\xff\xfe\x1b[31m",
    "\u{9b}31m".as_bytes(),
    "\u{202e}txt.exe".as_bytes(),
    b"--\x1b[7mreverse",
    b"two words",
];
/// In every path.
const HOSTILE: &str = "top\x1b[2J\nonpath: forged\r\x07";

fn words(args: &[&str]) -> Vec<OsString> {
    args.iter().map(OsString::from).collect()
}

/// What `onpath ARGS…` writes to its output and to its errors, each a terminal.
fn on_terminal(args: &[OsString]) -> Vec<u8> {
    let (mut ours, theirs) = terminal::pair();
    let copy = || theirs.try_clone().expect("dup of the terminal");
    let mut command = Command::new("timeout");
    command.args(["--foreground", "-k", "2", "60", binary()]).args(args).env("TERM", "xterm");
    command.stdin(Stdio::null()).stdout(copy()).stderr(copy());
    let mut child = process::spawn(&mut command).expect("timeout runs");
    drop((command, theirs));
    let mut shown = Vec::new();
    // It ends with EIO when nobody has the other side any more.
    _ = ours.read_to_end(&mut shown);
    child.wait().expect("wait of our child");
    // The terminal itself makes two of a line's end.
    let text = String::from_utf8_lossy(&shown).replace("\r\n", "\n");
    assert!(!text.contains("panicked"), "{args:?}: {text}");
    text.into_bytes()
}

/// The same as two pipes get it.
fn in_pipes(args: &[OsString]) -> (Vec<u8>, Vec<u8>) {
    let output = crate::common::server::run(args.iter().map(OsString::as_os_str));
    (output.stdout, output.stderr)
}

#[track_caller]
fn assert_harmless(what: &[OsString], shown: &[u8]) {
    let text = String::from_utf8_lossy(shown);
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t' || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!text.chars().any(obeyed), "{what:?}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("onpath: forged")), "{what:?}: a name is a line: {text:?}");
}

/// Runs it both ways; what a terminal shows is harmless, and so is what is wrong. Standard output in a pipe.
#[track_caller]
fn assert_shown(args: &[OsString]) -> Vec<u8> {
    assert_harmless(args, &on_terminal(args));
    let (output, errors) = in_pipes(args);
    assert_harmless(args, &errors);
    output
}

/// A tree with all of the names, as directories and as files.
fn plant(top: &Path) {
    for name in NAMES.map(OsStr::from_bytes) {
        fs::create_dir_all(top.join(name)).expect("mkdir");
        NAMES
            .map(OsStr::from_bytes)
            .iter()
            .for_each(|name_| fs::write(top.join(name).join(name_), "x").expect("a file"));
    }
}

/// Mountpoints that are left to nobody. The table of mounts has such paths in escapes.
struct Detached(Vec<PathBuf>);

impl Drop for Detached {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| while sys::detach(path).is_ok() {});
    }
}

/// `onpath find` and `onpath du` are lists: quoted where somebody looks at them, as they are in a pipe, and with -0 everywhere.
#[test]
fn lists_are_quoted_on_a_terminal_and_raw_in_a_pipe() {
    let place = tempfile::tempdir().expect("a temporary directory");
    plant(place.path());
    let path = |name: &[u8]| [place.path().as_os_str().as_bytes(), b"/", name].concat();
    let at = |args: &[&str]| [words(args), vec![place.path().into()]].concat();

    let find = at(&["find"]);
    let piped = assert_shown(&find);
    let shown = String::from_utf8(on_terminal(&find)).expect("quoted names are text");
    for name in NAMES {
        let whole = [path(name), b"\n".to_vec()].concat();
        assert!(piped.windows(whole.len()).any(|bytes| bytes == whole), "{name:?} is not as it is in a pipe");
    }
    assert_eq!(shown.lines().count(), 1 + NAMES.len() + NAMES.len() * NAMES.len(), "each name is a line");
    let place_shown = place.path().to_str().expect("text");
    assert!(shown.contains(&format!("'{place_shown}/two words'")), "{shown}");
    assert!(shown.contains(&format!(r"$'{place_shown}/line\nonpath: forged'")), "{shown}");
    let raw = on_terminal(&at(&["find", "-0"]));
    assert!(raw.contains(&0x1b) && raw.contains(&0), "-0 is for programs");

    let du = at(&["du", "--depth", "9"]);
    let piped = assert_shown(&du);
    for name in NAMES {
        let begin = [path(name), b": ".to_vec()].concat();
        assert!(piped.windows(begin.len()).any(|bytes| bytes == begin), "{name:?} is not as it is in a pipe");
    }
}

/// Each failure names its path; where a pattern of a shell gives names that look like options, what is said of them names them too.
#[test]
fn failures_name_paths_without_harm() {
    let place = tempfile::tempdir().expect("a temporary directory");
    for name in NAMES.map(OsStr::from_bytes) {
        let missing: OsString = place.path().join(name).into();
        for command in [
            &["du"][..],
            &["find"],
            &["df"],
            &["rmr"],
            &["chmod", "-R", "700"],
            &["chown", "0"],
            &["fsck"],
            &["status"],
            &["inspect"],
            &["top", "--once"],
            &["umount"],
            &["cluster", "status"],
            &["serve", "--config"],
            &["reshape", "--shards", "3"],
            &["import", "/"],
            &["export", "/"],
            &["mount", "/nowhere"],
            &["find", "/", "--user"],
            &["find", "--quiet", "/nowhere", "--larger"],
            &["bench", "tree"],
            &["switch", "status"],
        ] {
            assert_shown(&[words(command), vec![missing.clone()]].concat());
            assert_shown(&[words(command), vec![name.to_owned()]].concat());
        }
        assert_shown(&[name.to_owned()]);
        let url = [b"onpath://", name.as_bytes(), b"/"].concat();
        assert_shown(&[words(&["mount"]), vec![OsStr::from_bytes(&url).to_owned(), "/nowhere".into()]].concat());
        let option = [words(&["mount", "-o"]), vec![name.to_owned()], words(&["/nowhere", "/nowhere"])].concat();
        assert_shown(&option);
        assert_shown(&[words(&["format"]), vec![place.path().join(name).join("below").into()]].concat());
    }
}

/// Commands about a file system whose DIR and mountpoint are called so, and whose users call their programs as they like.
#[test]
fn a_file_system_with_hostile_paths() {
    let Some(site) = Site::new("a file system with hostile paths") else { return };
    let place = site.root().join(HOSTILE);
    let (state, mountpoint, second) = (place.join("state"), place.join("mnt"), place.join("second"));
    [&state, &mountpoint, &second].into_iter().for_each(|path| fs::create_dir_all(path).expect("mkdir"));
    let _detached = Detached(vec![second.clone(), mountpoint.clone()]);
    let mut command = Command::new(binary());
    command.arg("dev").arg(&state).arg(&mountpoint);
    let mount = Process::start(command, site.log("dev"), "mounted on");
    let tree = mountpoint.join("tree");
    fs::create_dir(&tree).expect("mkdir");
    plant(&tree);
    assert_harmless(&words(&["dev"]), mount.said().as_bytes());
    let of = |args: &[&str], path: &Path| assert_shown(&[words(args), vec![path.into()]].concat());
    for command in
        [&["status"][..], &["status", "--counters"], &["top", "--once"], &["fsck"], &["reshape", "--shards", "9"]]
    {
        of(command, &state);
    }
    for command in [&["df"][..], &["inspect"], &["status"], &["chmod", "-R", "u+w"], &["du"]] {
        of(command, &mountpoint);
    }
    of(&["df"], Path::new("/"));
    assert_shown(&words(&["df"]));
    // A copy out, into which something is in the way of each name.
    let out = site.root().join("out");
    fs::create_dir(&out).expect("mkdir");
    for name in NAMES.map(OsStr::from_bytes) {
        fs::write(out.join(name), "in the way").expect("a file");
    }
    let copy = [words(&["export"]), vec![tree.clone().into(), out.clone().into()]].concat();
    let (_, errors) = in_pipes(&copy);
    assert!(String::from_utf8_lossy(&errors).contains("something else has its name"), "{errors:?}");
    assert_shown(&copy);
    // A mount that is read-only refuses each name.
    let mounted = [words(&["mount", "-d", "-o", "ro"]), vec![state.clone().into(), second.clone().into()]].concat();
    assert_harmless(&mounted, &on_terminal(&mounted));
    assert_shown(&[words(&["mount"]), vec![state.into(), second.clone().into()]].concat());
    of(&["rmr"], &second.join("tree"));
    // Whoever keeps it busy chooses the name of the program.
    let program = site.root().join(OsStr::from_bytes(b"a\x1b[2J\n\xff"));
    process::copy_program("/bin/sleep", &program);
    let mut user = process::spawn(Command::new(&program).arg("60").current_dir(&second)).expect("sleep");
    wait_until("it runs", || {
        fs::read(format!("/proc/{}/comm", user.id())).is_ok_and(|comm| comm.starts_with(b"a\x1b"))
    });
    let busy = [words(&["umount"]), vec![second.clone().into()]].concat();
    let (_, errors) = in_pipes(&busy);
    assert!(
        String::from_utf8_lossy(&errors).contains(r"used by $'a\x1B[2J\n\xFF'"),
        "{:?}",
        String::from_utf8_lossy(&errors)
    );
    assert_shown(&busy);
    user.kill().and_then(|()| user.wait().map(drop)).expect("kill of our child");
    wait_until("nobody uses it any more", || in_pipes(&busy).1.is_empty());
    mount.stop();
}
