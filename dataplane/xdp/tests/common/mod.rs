//! Hosts and switches as network namespaces with veth links between them.
#![allow(dead_code, reason = "every test binary uses its own part of this module")]

pub(crate) mod frame;

use onpath_dataplane::Port;
use onpath_xdp::{Way, XdpConfig, XdpError, XdpSwitch};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long a test waits for a packet that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Address of the switch.
pub(crate) const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 254);

/// Says something on the real standard error that should be seen although the test passes.
pub(crate) fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// What `ip` says; an error is the reason why that cannot be tried.
pub(crate) fn ip(arguments: &str) -> Result<String, String> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = Command::new("ip").args(arguments.split(' ')).env("PATH", path).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// A network namespace, gone when this is dropped.
pub(crate) struct Namespace {
    pub(crate) name: String,
}

impl Namespace {
    pub(crate) fn new(role: &str) -> Result<Namespace, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("onpath-{}-{number}-{role}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let namespace = Namespace { name };
        namespace.ip("link set dev lo up")?;
        Ok(namespace)
    }

    pub(crate) fn ip(&self, arguments: &str) -> Result<String, String> {
        ip(&format!("-n {} {arguments}", self.name))
    }

    /// Does something within it.
    pub(crate) fn within<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        let entered = || {
            let file = File::open(format!("/run/netns/{}", self.name)).expect("a namespace");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may enter");
            what()
        };
        std::thread::scope(|scope| scope.spawn(entered).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _gone = ip(&format!("netns del {}", self.name));
    }
}

/// A host: a namespace whose device `eth0` has a cable to the switch.
pub(crate) struct Host {
    pub(crate) at: Namespace,
    pub(crate) address: Ipv4Addr,
    pub(crate) mac: [u8; 6],
    /// Its cable's name at the switch.
    pub(crate) cable: String,
}

impl Host {
    /// A UDP socket of this host.
    pub(crate) fn socket(&self, port: u16) -> UdpSocket {
        let address = SocketAddrV4::new(self.address, port);
        let socket = self.at.within(|| UdpSocket::bind(address)).expect("a free port");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket
    }

    /// The way to a port of this host.
    pub(crate) fn way(&self, port: u16) -> Way {
        Way { device: self.cable.clone(), mac: self.mac, address: SocketAddrV4::new(self.address, port) }
    }
}

pub(crate) fn mac_of(text: &str) -> [u8; 6] {
    let word = text.split("link/ether ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a link address");
    let bytes: Vec<u8> = word.split(':').map(|digits| u8::from_str_radix(digits, 16).expect("hexadecimal")).collect();
    *bytes.first_chunk().expect("six bytes")
}

/// A switch and hosts, each on a cable of its own.
pub(crate) struct Network {
    pub(crate) switch: Namespace,
    pub(crate) hosts: Vec<Host>,
}

impl Network {
    /// An error is the reason why that cannot be tried.
    pub(crate) fn of(hosts: usize) -> Result<Network, String> {
        let switch = Namespace::new("switch")?;
        switch.ip(&format!("addr add {SWITCH}/32 dev lo"))?;
        let mut network = Network { switch, hosts: vec![] };
        for number in 0..hosts {
            let host = network.host(number)?;
            network.hosts.push(host);
        }
        Ok(network)
    }

    fn host(&self, number: usize) -> Result<Host, String> {
        let (at, cable) = (Namespace::new("host")?, format!("port{number}"));
        let (switch, host) = (&self.switch.name, &at.name);
        self.switch.ip(&format!("link add {cable} type veth peer name eth0 netns {host}"))?;
        // Copies reach the end of a veth only if it polls, which it does with an XDP program or with GRO.
        at.within(|| gro::on("eth0")).map_err(|error| format!("GRO of eth0: {error}"))?;
        self.switch.ip(&format!("link set dev {cable} up"))?;
        let address = Ipv4Addr::new(10, 9, 0, number as u8 + 1);
        at.ip(&format!("addr add {address}/24 dev eth0"))?;
        at.ip("link set dev eth0 up")?;
        let at_switch = mac_of(&self.switch.ip(&format!("link show dev {cable}"))?);
        let at_switch = at_switch.map(|byte| format!("{byte:02x}")).join(":");
        at.ip(&format!("neigh replace {SWITCH} lladdr {at_switch} dev eth0 nud permanent"))?;
        let mac = mac_of(&at.ip("link show dev eth0")?);
        assert_ne!(*switch, at.name);
        Ok(Host { at, address, mac, cable })
    }

    /// Attaches a switch to all cables.
    pub(crate) fn attach(&self, config: XdpConfig) -> Result<XdpSwitch, XdpError> {
        let cables: Vec<&str> = self.hosts.iter().map(|host| host.cable.as_str()).collect();
        self.switch.within(|| XdpSwitch::attach(config, &cables))
    }
}

/// A network and its switch, or the reason why there can be none.
pub(crate) fn network(hosts: usize, config: XdpConfig) -> Result<(Network, XdpSwitch), String> {
    let network = Network::of(hosts)?;
    match network.attach(config) {
        Ok(switch) => Ok((network, switch)),
        Err(error @ (XdpError::NoProgram | XdpError::NotPermitted { .. } | XdpError::NoBpf)) => Err(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

/// Numbers a way as a port and routes a node by it.
pub(crate) fn route(switch: &mut XdpSwitch, node: u32, way: Way) {
    switch.set_way(Port(node), way).expect("a device of the switch");
    switch.control(&onpath_dataplane::Command::Route { node, port: Port(node) }).expect("a route");
}

/// Keeps this thread on one processor.
pub(crate) fn pin_to(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor % std::thread::available_parallelism().map_or(1, usize::from));
    rustix::thread::sched_setaffinity(None, &set).expect("a processor");
}

/// Within a mount namespace of its own with a BPF file system at /mnt; the reason why there can be none.
pub(crate) fn with_pins(network: &Network, what: impl FnOnce(&Path) + Send) -> Result<(), String> {
    network.switch.within(|| {
        // SAFETY: this thread ends with this function and shares nothing that depends on its mounts.
        #[allow(unsafe_code, reason = "a thread leaves the file system context of its process")]
        unsafe {
            rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS | rustix::thread::UnshareFlags::FS)
        }
        .map_err(|error| format!("unshare: {error}"))?;
        let mount = |arguments: &[&str]| {
            let status = Command::new("mount").args(arguments).status().map_err(|error| error.to_string())?;
            if status.success() { Ok(()) } else { Err(format!("mount {arguments:?}: {status}")) }
        };
        mount(&["--make-rprivate", "/"])?;
        mount(&["-t", "bpf", "bpf", "/mnt"])?;
        what(Path::new("/mnt"));
        Ok(())
    })
}

mod gro {
    //! Generic receive offload by ioctl(2): `ethtool` is not everywhere.
    #![allow(unsafe_code, reason = "ioctl(2)")]

    use std::os::fd::AsRawFd;

    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    const ETHTOOL_SGRO: u32 = 0x2c;

    pub(crate) fn on(device: &str) -> std::io::Result<()> {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        let mut value = [ETHTOOL_SGRO, 1];
        // SAFETY: all bytes 0 are a valid ifreq, the name ends in 0, and the value lives as long as the call.
        let done = unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
            libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request)
        };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }
}
