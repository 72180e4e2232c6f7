//! The secrets of a cluster: which hosts do not serve together, and what stays when the key changes.

use crate::common::server::{Process, Site, binary, run};
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two hosts of one cluster on this machine, each with a configuration and a key file of its own.
struct Hosts {
    root: PathBuf,
}

const NAMES: [&str; 2] = ["a", "b"];

impl Hosts {
    fn new(site: &Site, more: &[&str]) -> Hosts {
        let root = site.root().to_owned();
        let sockets = NAMES.map(|_| UdpSocket::bind(("127.0.0.1", 0)).expect("a port"));
        let places: Vec<String> = NAMES
            .iter()
            .zip(&sockets)
            .map(|(name, socket)| format!("{name}={}", socket.local_addr().expect("an address")))
            .collect();
        let (config, dir) = (root.join("c.toml").display().to_string(), root.join("DIR").display().to_string());
        let words = ["cluster", "init", &config, &places[0], &places[1], "--directory", &dir];
        let made = run(words.iter().chain(more).map(AsRef::as_ref));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let hosts = Hosts { root };
        let text = fs::read_to_string(&config).expect("the configuration");
        for name in NAMES {
            let own = NAMES.iter().fold(text.replace("\"c.key\"", &format!("\"{name}.key\"")), |text, host| {
                text.replacen(&format!("\"{dir}\""), &format!("\"{}\"", hosts.dir(host).display()), 1)
            });
            fs::write(hosts.root.join(format!("{name}.toml")), own).expect("a configuration");
            fs::copy(hosts.root.join("c.key"), hosts.key(name)).expect("a key file");
        }
        hosts
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.root.join(format!("state-{name}"))
    }

    fn key(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.key"))
    }

    /// Replaces the value of a line of the key file of a host.
    fn change(&self, name: &str, line: &str, value: &str) {
        let text = fs::read_to_string(self.key(name)).expect("the key file");
        let before = value_of(&text, line);
        fs::write(self.key(name), text.replace(&before, value)).expect("write");
    }

    fn serve(&self, name: &str) -> (Command, PathBuf) {
        let mut command = Command::new(binary());
        command.args(["serve", "--host", name, "--config"]).arg(self.root.join(format!("{name}.toml")));
        // What a start of before has said is not said again.
        let log = self.root.join(format!("{name}.log"));
        _ = fs::remove_file(&log);
        (command, log)
    }

    fn start(&self, name: &str) -> Process {
        let (command, log) = self.serve(name);
        Process::start(command, log, "serving")
    }

    fn fails(&self, name: &str) -> String {
        let (command, log) = self.serve(name);
        Process::fails(command, log)
    }
}

fn value_of(text: &str, line: &str) -> String {
    let found = text.lines().find_map(|found| found.strip_prefix(&format!("{line} = ")));
    found.unwrap_or_else(|| panic!("no line {line}: {text}")).to_owned()
}

fn bytes_of(digits: &str) -> Vec<u8> {
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("digits"))
        .collect()
}

const OTHER: &str = "00112233445566778899aabbccddeeff";

/// A host that is new, and was given another key file, gives up; one that the others know goes on.
#[test]
fn hosts_with_different_secrets_do_not_serve_together() {
    for line in ["placement", "inner"] {
        let Some(site) = Site::new("cluster::hosts_with_different_secrets_do_not_serve_together") else { return };
        let hosts = Hosts::new(&site, &["--no-key"]);
        let (a, b) = (hosts.start("a"), hosts.start("b"));
        crate::common::wait_until("both know each other", || {
            NAMES.iter().all(|name| {
                let known = fs::read_to_string(hosts.dir(name).join("hosts")).unwrap_or_default();
                known.lines().next().is_some_and(|first| first.ends_with(" known"))
            })
        });
        b.stop();
        fs::remove_dir_all(hosts.dir("b")).expect("the directory is lost");
        hosts.change("b", line, OTHER);
        let said = hosts.fails("b");
        assert!(
            said.contains("a has other secrets than b") && said.contains("copy the key file of a"),
            "{line}: {said}"
        );
        a.stop();
    }
}

/// A directory knows its secrets: it does not serve with those of another cluster, and does without the lines.
#[test]
fn a_directory_keeps_its_secrets_when_the_key_changes() {
    let Some(site) = Site::new("cluster::a_directory_keeps_its_secrets_when_the_key_changes") else { return };
    let hosts = Hosts::new(&site, &[]);
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    let text = fs::read_to_string(hosts.key("a")).expect("the key file");
    let secrets = [value_of(&text, "placement"), value_of(&text, "inner")].map(|digits| bytes_of(&digits)).concat();
    let kept = || {
        let superblock = hosts.dir("a").join("superblock");
        assert_eq!(mode(&superblock), 0o600);
        let bytes = fs::read(superblock).expect("the superblock");
        bytes.windows(secrets.len()).any(|window| window == secrets)
    };
    hosts.start("a").stop();
    assert!(kept());
    // The key is another one from now on.
    hosts.change("a", "key", &"5a".repeat(32));
    hosts.start("a").stop();
    assert!(kept());
    // The file has nothing but a key.
    fs::write(hosts.key("a"), "a5".repeat(32)).expect("write");
    hosts.start("a").stop();
    assert!(kept());
    // With that no directory is formatted.
    fs::copy(hosts.key("a"), hosts.key("b")).expect("a key file");
    let said = hosts.fails("b");
    assert!(said.contains("no lines `placement = …` and `inner = …`"), "{said}");
    assert!(!hosts.dir("b").join("superblock").exists());
    // Those of another cluster are refused, and so is half a pair.
    for line in ["placement", "inner"] {
        fs::write(hosts.key("a"), &text).expect("write");
        hosts.change("a", line, OTHER);
        let said = hosts.fails("a");
        assert!(said.contains("formatted with other secrets"), "{line}: {said}");
    }
    let half: String = text.lines().filter(|line| !line.starts_with("inner")).map(|line| format!("{line}\n")).collect();
    fs::write(hosts.key("a"), half).expect("write");
    let said = hosts.fails("a");
    assert!(said.contains("one is missing"), "{said}");
    assert!(kept());
}
