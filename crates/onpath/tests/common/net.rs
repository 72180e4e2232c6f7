//! Hosts on one machine: network namespaces on a bridge, each with an interface of its own.

use super::{skipped, tool};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Namespaces that are connected, and gone when this is dropped. None of their traffic leaves them.
pub struct Net {
    prefix: String,
    hosts: usize,
}

/// Why there can be no namespaces here, if so.
pub fn cannot_connect() -> Option<&'static str> {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    WHY.get_or_init(|| {
        for needed in ["ip", "nsenter"] {
            if program(needed).is_none() {
                return Some(format!("{needed} is not installed"));
            }
        }
        let name = format!("onpath-{}-try", std::process::id());
        let ip = |verb| run(Command::new(program("ip").expect("just seen")).args(["netns", verb, &name]));
        let made = ip("add");
        _ = ip("del");
        made.err().map(|why| format!("no network namespace can be made: {why}"))
    })
    .as_deref()
}

/// Why no XDP program can be between hosts here, if so.
pub fn cannot_redirect() -> Option<&'static str> {
    let missing = ["clang", "ethtool"].iter().find(|needed| program(needed).is_none());
    missing.map(|needed| match *needed {
        "clang" => "clang is not installed, so the build has no XDP program",
        _ => "ethtool is not installed",
    })
}

/// A program that may be in a directory of the system's own.
fn program(name: &str) -> Option<PathBuf> {
    let of_system = ["/usr/sbin", "/sbin"].map(|dir| PathBuf::from(dir).join(name));
    tool(name).or_else(|| of_system.into_iter().find(|path| path.is_file()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

impl Net {
    /// So many hosts; none where that cannot be (said on standard error).
    pub fn new(test: &str, hosts: usize) -> Option<Net> {
        static NETS: AtomicUsize = AtomicUsize::new(0);
        if let Some(why) = cannot_connect() {
            skipped(test, why);
            return None;
        }
        let net =
            Net { prefix: format!("onpath-{}-{}", std::process::id(), NETS.fetch_add(1, Ordering::Relaxed)), hosts };
        net.ip(&["netns", "add", &net.bridge()]);
        net.ip(&["-n", &net.bridge(), "link", "add", "br0", "type", "bridge"]);
        net.ip(&["-n", &net.bridge(), "link", "set", "br0", "up"]);
        for host in 0..hosts {
            let (name, port) = (net.name(host), format!("h{host}"));
            net.ip(&["netns", "add", &name]);
            net.ip(&[
                "-n",
                &name,
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                &port,
                "netns",
                &net.bridge(),
            ]);
            net.ip(&["-n", &net.bridge(), "link", "set", &port, "master", "br0", "up"]);
            net.ip(&["-n", &name, "addr", "add", &format!("{}/24", net.address(host)), "dev", "eth0"]);
            net.ip(&["-n", &name, "link", "set", "eth0", "up"]);
            net.ip(&["-n", &name, "link", "set", "lo", "up"]);
        }
        Some(net)
    }

    fn ip(&self, args: &[&str]) {
        let done = run(Command::new(program("ip").expect("it was there")).args(args));
        done.unwrap_or_else(|why| panic!("ip {}: {why}", args.join(" ")));
    }

    fn bridge(&self) -> String {
        format!("{}-sw", self.prefix)
    }

    /// The network namespace of a host.
    pub fn name(&self, host: usize) -> String {
        assert!(host < self.hosts, "host {host} of {}", self.hosts);
        format!("{}-{host}", self.prefix)
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// The address of a host.
    pub fn address(&self, host: usize) -> String {
        format!("10.77.0.{}", host + 1)
    }

    /// What runs `program` on a host.
    pub fn command(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name(host))).arg("--").arg(program);
        command
    }

    /// Runs the closure in a thread that is on a host, and so are the threads that it begins.
    pub fn run_on<T: Send>(&self, host: usize, job: impl FnOnce() -> T + Send) -> T {
        let namespace = std::fs::File::open(format!("/run/netns/{}", self.name(host))).expect("the namespace is there");
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                super::sys::enter_network(&namespace).expect("setns");
                job()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Takes the cable of a host out, or puts it in again.
    pub fn link(&self, host: usize, up: bool) {
        let state = if up { "up" } else { "down" };
        self.ip(&["-n", &self.bridge(), "link", "set", &format!("h{host}"), state]);
    }

    /// The cables of all hosts take packets of so many bytes from now on.
    pub fn narrow(&self, mtu: u32) {
        for host in 0..self.hosts {
            self.ip(&["-n", &self.name(host), "link", "set", "eth0", "mtu", &mtu.to_string()]);
        }
    }

    /// From now on hosts reach each other through a router, which they believe that it takes what their cables take.
    pub fn route(&self) {
        let (router, at) = (self.bridge(), "10.77.1.1");
        self.ip(&["-n", &router, "addr", "add", &format!("{at}/32"), "dev", "br0"]);
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{router}")).args(["--", "sh", "-c"]);
        // It must not tell hosts that there is a shorter way.
        command.arg(
            "echo 1 > /proc/sys/net/ipv4/ip_forward; \
             for way in all br0; do echo 0 > /proc/sys/net/ipv4/conf/$way/send_redirects; done",
        );
        run(&mut command).unwrap_or_else(|why| panic!("forwarding: {why}"));
        for host in 0..self.hosts {
            let (name, address) = (self.name(host), self.address(host));
            self.ip(&["-n", &router, "route", "replace", &address, "dev", "br0"]);
            self.ip(&["-n", &name, "route", "add", at, "dev", "eth0"]);
            for other in (0..self.hosts).filter(|&other| other != host) {
                self.ip(&["-n", &name, "route", "add", &self.address(other), "via", at, "src", &address]);
            }
        }
    }

    /// The router's ways to all hosts take packets of so many bytes from now on.
    pub fn narrow_router(&self, mtu: u32) {
        for host in 0..self.hosts {
            let (address, mtu) = (self.address(host), mtu.to_string());
            self.ip(&["-n", &self.bridge(), "route", "replace", &address, "dev", "br0", "mtu", "lock", &mtu]);
        }
    }

    /// Lets the other end of a host's cable take what an XDP program there sends.
    pub fn take_redirected(&self, host: usize) {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.bridge())).arg("--");
        command.arg(program("ethtool").expect("it is there")).args(["-K", &format!("h{host}"), "gro", "on"]);
        run(&mut command).unwrap_or_else(|why| panic!("ethtool: {why}"));
    }

    /// From now on a host loses this of the UDP datagrams that come to it; false where the system cannot do that.
    pub fn lose(&self, host: usize, loss: Loss) -> bool {
        let of = |args: &[&str]| run(self.command(host, "iptables").args(args)).is_ok();
        let drop = |of_which: &[&str]| of(&[&["-A", "INPUT", "-p", "udp"], of_which, &["-j", "DROP"]].concat());
        of(&["-F", "INPUT"])
            && match loss {
                Loss::None => true,
                Loss::Percent(percent) => {
                    let chance = format!("{}", f64::from(percent) / 100.0);
                    drop(&["-m", "statistic", "--mode", "random", "--probability", &chance])
                }
                Loss::All => drop(&[]),
                Loss::Of(other) => drop(&["-s", &self.address(other)]),
            }
    }
}

/// What a host loses of that which comes to it.
#[derive(Clone, Copy, Debug)]
pub enum Loss {
    None,
    /// Any, so many of a hundred.
    Percent(u32),
    All,
    /// All of another host.
    Of(usize),
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in (0..self.hosts).map(|host| self.name(host)).chain([self.bridge()]) {
            _ = run(Command::new(program("ip").expect("it was there")).args(["netns", "del", &name]));
        }
    }
}
