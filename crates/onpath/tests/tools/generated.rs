//! Completions and manual pages.

use crate::tools::{onpath, said, text};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn completions_of_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = onpath(&["completions", shell]);
        assert!(output.status.success() && said(&output).contains("umount"), "{shell}: {}", said(&output));
    }
    let refused = onpath(&["completions", "command.com"]);
    assert!(!refused.status.success() && said(&refused).contains("bash"), "{}", said(&refused));
}

/// bash itself completes with them.
#[test]
fn bash_completes() {
    let script = String::from_utf8(onpath(&["completions", "bash"]).stdout).expect("text");
    let ask = r#"
        COMP_WORDS=(onpath um) COMP_CWORD=1; _onpath onpath um onpath; echo "${COMPREPLY[@]}"
        COMP_WORDS=(onpath dev --com) COMP_CWORD=2; _onpath onpath --com dev; echo "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash")
        .args(["--norc", "-s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash runs");
    let mut input = bash.stdin.take().expect("piped");
    input.write_all(format!("{script}\n{ask}\n").as_bytes()).expect("bash reads");
    drop(input);
    let output = bash.wait_with_output().expect("bash ends");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(lines.lines().collect::<Vec<_>>(), ["umount", "--commit --commit-interval-ms"], "{}", said(&output));
}

#[test]
fn manual_pages() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let pages = dir.path().join("man");
    let output = onpath(&["man", text(&pages)]);
    assert!(output.status.success(), "{}", said(&output));
    for name in ["onpath.1", "onpath-dev.1", "onpath-import.1", "onpath-bench-posix.1", "mount.onpath.8"] {
        let page = fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(".TH") && page.contains("SYNOPSIS"), "{name}");
    }
    let helper = fs::read_to_string(pages.join("mount.onpath.8")).expect("the page");
    assert!(helper.contains("x\\-systemd.requires") && helper.contains("commit_interval_ms"), "{helper}");
    // man(1), where it is, finds nothing wrong with them.
    if let Some(man) = crate::common::tool("man") {
        let output = Command::new(man)
            .args(["--warnings", "-l", "-Tutf8"])
            .arg(pages.join("mount.onpath.8"))
            .env("MANPAGER", "cat")
            .output()
            .expect("man runs");
        assert!(output.status.success(), "{}", said(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("onpath"), "{}", said(&output));
    }
    let refused = onpath(&["man", "/proc/pages"]);
    assert!(!refused.status.success() && said(&refused).contains("/proc/pages"), "{}", said(&refused));
}

#[test]
fn the_help_groups_the_commands() {
    let help = said(&onpath(&["--help"]));
    for group in ["Admin:\n  cluster", "Inspect:\n  status", "Service:\n  dev", "Tool:\n  import"] {
        assert!(help.contains(group), "{group}: {help}");
    }
    assert!(help.contains("umount      Unmounts it") && help.contains("--log-json"), "{help}");
}
