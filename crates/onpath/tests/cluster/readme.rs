//! The commands of the README for several hosts, as they are written there: each host and the client has network, directories and
//! processes of its own.

use crate::common::net::Net;
use crate::common::server::{Process, Site, binary};
use std::path::Path;
use std::process::Command;

/// The commands of the block of a section.
fn commands(text: &str, section: &str) -> Vec<String> {
    let start = text.find(section).unwrap_or_else(|| panic!("no section {section}")) + section.len();
    let section = text[start..].split("\n## ").next().expect("a section");
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    block.lines().map(str::to_owned).collect()
}

/// A shell on a host, with `/var/lib` and `/mnt` of its own, and `~` that all of them share.
fn shell(net: &Net, host: usize, home: &Path, script: &str) -> Command {
    let mut command = net.command(host, "unshare");
    command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    let own = "mount -t tmpfs none /var/lib; mount -t tmpfs none /mnt";
    command.args(["sh", "-ec", &format!("{own}\n{script}")]);
    let bin = Path::new(binary()).parent().expect("a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("HOME", home).env("PATH", format!("{}:{path}", bin.display()));
    command
}

#[test]
fn the_commands_of_the_readme_work() {
    let test = "cluster::the_commands_of_the_readme_work";
    let Some(site) = Site::new(test) else { return };
    let Some(net) = Net::new(test, 3) else { return };
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).expect("the README");
    let [init, serve, client @ ..] = &commands(&readme, "\n## Two hosts\n")[..] else { panic!("commands") };
    let client = client.join("\n");
    assert!((0..2).all(|host| init.contains(&net.address(host))), "{init}");
    let done = shell(&net, 0, site.root(), init).output().expect("a shell");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let _hosts = ["a", "b"].map(|name| {
        let script = serve.replace("--host a", &format!("--host {name}"));
        assert_eq!(script.contains("--host b"), name == "b");
        // In the background it lives as long as its host.
        let host = usize::from(name == "b");
        Process::start(shell(&net, host, site.root(), &format!("{script}\nsleep 600")), site.log(name), "serving")
    });
    let done = shell(&net, 2, site.root(), &client).output().expect("a shell");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    assert!(out.contains("hello") && out.contains("2 hosts"), "{out}\n{err}");
}
