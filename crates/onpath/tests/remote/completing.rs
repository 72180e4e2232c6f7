//! Completions know what is in a file system that is not mounted.

use super::shell::Shell;
use crate::common::server::{Site, binary};
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn paths_that_begin_so_are_printed() {
    let Some(site) = Site::new("remote/completing::paths_that_begin_so_are_printed") else { return };
    let mount = site.dev(&[]);
    for name in ["alpha/one", "alpha/other thing", "alpha/.hidden", "also", "line\nend", "beta"] {
        let path = mount.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("mkdir");
        fs::write(path, "").expect("a file");
    }
    let shell = Shell::at(&site);
    for (word, wanted) in [
        ("", "alpha/\nalso\nbeta\n"),
        ("/", "/alpha/\n/also\n/beta\n"),
        ("al", "alpha/\nalso\n"),
        ("/alpha/o", "/alpha/one\n/alpha/other thing\n"),
        ("alpha/.", "alpha/.hidden\n"),
        ("none", ""),
        ("missing/x", ""),
        ("also/x", ""),
    ] {
        assert_eq!(shell.text("complete-path", &[word]), wanted, "{word}");
    }
    // What is taken over means this name alone.
    for name in ["star*", "stars", "st[a]r"] {
        fs::write(mount.path().join(name), "").expect("a file");
    }
    assert_eq!(shell.text("complete-path", &["st"]), "st\\[a]r\nstar\\*\nstars\n");
    assert_eq!(shell.text("complete-path", &["star\\*"]), "star\\*\n");
    assert_eq!(shell.text("complete-path", &["--literal", "star"]), "star*\nstars\n");
    shell.ok("rm", &[shell.text("complete-path", &["star\\*"]).trim_end()]);
    assert!(mount.path().join("stars").exists() && !mount.path().join("star*").exists());
    mount.stop();
}

/// Somebody waits for it: nothing is said of what cannot be had, long before the command itself would give up.
#[test]
fn nobody_waits_long() {
    const PATIENCE: Duration = Duration::from_secs(120);
    // It takes what is sent to it, and says nothing.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let url = format!("onpath://{}/a", silent.local_addr().expect("an address"));
    let patience = PATIENCE.as_secs().to_string();
    let begin = Instant::now();
    for args in [&["complete-path", "--timeout", &patience, &url][..], &["complete-path", "plain"]] {
        let output = Command::new(binary()).args(args).env_remove("ONPATH_AT").output().expect("onpath runs");
        assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    }
    assert!(begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
    silent.set_nonblocking(true).expect("of our socket");
    assert!(silent.recv(&mut [0; 2_048]).is_ok(), "it was asked");
}

/// bash itself completes with them.
#[test]
fn bash_completes_paths() {
    let Some(site) = Site::new("remote/completing::bash_completes_paths") else { return };
    let mount = site.dev(&[]);
    fs::create_dir(mount.path().join("alpha")).expect("mkdir");
    fs::write(mount.path().join("alpha/two words"), "").expect("a file");
    fs::write(mount.path().join("alpha/star*"), "").expect("a file");
    let script = Command::new(binary()).args(["completions", "bash"]).output().expect("onpath runs").stdout;
    let script = String::from_utf8(script).expect("text");
    let state = site.state().display().to_string();
    let typed = |line: &str, words: &str| {
        format!(
            "COMP_LINE='{line}' COMP_POINT=${{#COMP_LINE}} COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=(); _onpath_or_paths onpath \"${{COMP_WORDS[COMP_CWORD]}}\" ls; printf '%s|' \"${{COMPREPLY[@]}}\"; echo\n"
        )
    };
    let ask = [
        typed(&format!("onpath ls --at {state} /al"), &format!("onpath ls --at {state} /al")),
        typed(&format!("onpath ls --at {state} alpha/t"), &format!("onpath ls --at {state} alpha/t")),
        typed(&format!("onpath rmr --at={state} al"), &format!("onpath rmr --at = {state} al")),
        format!("export ONPATH_AT={state}\n"),
        typed("onpath cat al", "onpath cat al"),
        typed("onpath rmr al", "onpath rmr al"),
        typed("onpath ls --js", "onpath ls --js"),
        typed("onpath rm alpha/s", "onpath rm alpha/s"),
        typed("onpath rm --literal alpha/s", "onpath rm --literal alpha/s"),
    ];
    let dir = Path::new(binary()).parent().expect("a directory").display().to_string();
    let path = format!("{dir}:{}", std::env::var("PATH").unwrap_or_default());
    let file = site.root().join("script");
    fs::write(&file, format!("{script}\n{}", ask.concat())).expect("a file");
    let output = Command::new("bash").arg("--norc").arg(&file).env("PATH", path).stdin(Stdio::null()).output();
    let output = output.expect("bash runs");
    let lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let wanted = ["/alpha/|", r"alpha/two\ words|", "alpha/|", "alpha/|"];
    assert_eq!(lines[..4], wanted, "{errors}");
    assert!(!lines[4].contains("alpha/") && lines[5] == "--json|", "{lines:?}\n{errors}");
    // A backslash for the shell, and one for the command.
    assert_eq!(lines[6..], [r"alpha/star\\\*|", r"alpha/star\*|"], "{errors}");
    mount.stop();
}
