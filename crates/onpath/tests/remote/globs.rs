//! Patterns in paths, which the command expands as a shell would on a mount.

use super::shell::Shell;
use crate::common::server::Site;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

const NAMES: [&[u8]; 10] =
    [b"a1", b"a2", b"b1", b".hidden", b"\xff\xfe", b"line\nend", b"star*", b"[x]", b"dir/a1", b"other/a1"];

#[test]
fn patterns_are_those_of_a_shell() {
    let Some(site) = Site::new("remote/globs::patterns_are_those_of_a_shell") else { return };
    let mount = site.dev(&[]);
    for name in NAMES.map(OsStr::from_bytes) {
        let path = mount.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("mkdir");
        fs::write(path, name.as_bytes()).expect("a file");
    }
    let shell = Shell::at(&site);
    let patterns = [
        "a*", "*", "?1", "[ab]1", "[!a]1", ".h*", "*/a1", "*/", "line*", "star\\*", "none*", "d*r/?1", "\\[x]",
        "d\\i*/a1",
    ];
    for pattern in patterns {
        let script = format!("printf '%s\\0' {pattern}");
        let printed = Command::new("bash").args(["-c", &script]).current_dir(mount.path()).env("LC_ALL", "C").output();
        let printed = printed.expect("bash runs").stdout;
        let wanted: Vec<&[u8]> = printed.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
        let said = shell.run("ls", &["-d", "-1", pattern]);
        if wanted == [pattern.as_bytes()] {
            assert!(said.code == Some(2) && said.errors.contains("No such file"), "{pattern}: {said:?}");
            continue;
        }
        let wanted: Vec<u8> = wanted.iter().flat_map(|name| [name, &b"\n"[..]].concat()).collect();
        assert_eq!(String::from_utf8_lossy(&said.out), String::from_utf8_lossy(&wanted), "{pattern}");
    }
    // Names with such bytes are meant where that is said.
    assert_eq!(shell.ok("cat", &["--literal", "star*", "[x]"]), b"star*[x]");
    shell.ok("rm", &["--literal", "star*"]);
    assert!(mount.path().join("a1").exists() && !mount.path().join("star*").exists());
    // A backslash says the same of one byte, also of names that are yet to be made, and is itself beside no pattern.
    for (word, name) in [("new\\*", "new*"), ("a\\?\\\\", "a?\\"), ("back\\slash", "back\\slash"), ("two\\**", "two**")]
    {
        shell.ok("touch", &[word]);
        assert!(mount.path().join(name).exists(), "{word}");
        shell.ok("mv", &["a1", word]);
        shell.ok("mv", &["--literal", name, "a1"]);
    }
    shell.ok("mkdir", &["--literal", "m*", "m1"]);
    shell.ok("ln", &["--literal", "a1", "m*"]);
    shell.ok("rmr", &["--literal", "m*"]);
    assert!(mount.path().join("m1").exists() && !mount.path().join("m*").exists());
    // What is no text.
    let odd = OsString::from(OsStr::from_bytes(b"\xff*"));
    assert_eq!(shell.ok("cat", &[odd]), b"\xff\xfe");
    shell.ok("rm", &["a*", "*/a1"]);
    assert!(mount.path().join("b1").exists() && !mount.path().join("dir/a1").exists());
    mount.stop();
}
