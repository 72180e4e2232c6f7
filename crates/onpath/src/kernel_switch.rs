//! The switch of a host as an XDP program on its network devices, driven by the process that serves.
//!
//! A node is reached by the link address that the kernel knows of it (/proc/net/arp): it has just greeted. One behind a router is reached
//! by the router's.

use anyhow::Context;
use onpath_dataplane::{Command, Config, Port};
use onpath_host::member::KernelSwitch;
use onpath_switch::Elsewhere;
use onpath_wire::ids::NodeId;
use onpath_xdp::{Way, XdpConfig, XdpSwitch};
use std::collections::HashMap;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// A switch in the kernel; gone with this process.
pub(crate) struct InKernel {
    switch: XdpSwitch,
    /// Where nodes were reached last.
    ways: HashMap<NodeId, Way>,
}

impl InKernel {
    /// Attaches the program to devices, with a cache if it `caches`.
    pub(crate) fn attach(
        cluster: u32,
        (address, port): (SocketAddr, u16),
        devices: &[String],
        caches: bool,
    ) -> anyhow::Result<InKernel> {
        let SocketAddr::V4(address) = address else {
            anyhow::bail!("xdp: the switch needs an IPv4 address, not {}", address.ip());
        };
        let whole = Config::whole(cluster);
        let program = Config { udp_port: port, cache_bits: if caches { whole.cache_bits } else { 0 }, ..whole };
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        let switch = XdpSwitch::attach(XdpConfig { program, address: *address.ip() }, &devices);
        Ok(InKernel { switch: switch.context("xdp")?, ways: HashMap::new() })
    }

    /// Routes nodes by a way. If they are a host's its frames come in by that way (D-44), and no longer by the former one.
    fn set(&mut self, roles: &[NodeId], way: &Way) -> anyhow::Result<()> {
        let host = roles.iter().find(|role| role.as_shard().is_some()).map(|role| Port(role.0));
        if let Some(port) = host {
            self.switch.control(&Command::Unhost { port })?;
        }
        for &NodeId(node) in roles {
            self.switch.set_way(Port(node), way.clone())?;
            self.switch.control(&Command::Route { node, port: Port(node) })?;
        }
        if let Some(port) = host {
            self.switch.control(&Command::Host { port })?;
        }
        self.ways.extend(roles.iter().map(|&role| (role, way.clone())));
        Ok(())
    }
}

/// What a failure of the control plane is worth: a line of the log. The packets that it concerns are lost, and their senders see that.
fn logged<T, E: Display>(result: Result<T, E>) -> Option<T> {
    result.map_err(|error| tracing::warn!(%error, "the switch in the kernel")).ok()
}

impl Elsewhere for InKernel {
    fn control(&mut self, command: &Command) -> bool {
        let done = self.switch.control(command);
        match command {
            // Who asks for it looks at the answer, and asks again.
            Command::Cache(_) => done.inspect_err(|error| tracing::debug!(%error, "the cache of the switch")).is_ok(),
            _ => logged(done).is_some(),
        }
    }

    fn tracking(&self) -> Option<(u16, bool)> {
        logged(self.switch.tracking()).map(|tracking| (tracking.epoch, tracking.complete))
    }

    fn visibility(&self) -> Option<(u16, bool)> {
        logged(self.switch.visibility()).map(|tracking| (tracking.epoch, tracking.complete))
    }

    fn cache(&self) -> Option<(u16, u32)> {
        logged(self.switch.cache_epoch())
    }

    fn hits(&self, index: u32) -> u32 {
        logged(self.switch.hits(index)).unwrap_or(0)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        logged(self.switch.counters()).unwrap_or_default()
    }
}

impl KernelSwitch for InKernel {
    fn reach(&mut self, roles: &[NodeId], place: SocketAddr) {
        let SocketAddr::V4(place) = place else { return };
        let neighbours = std::fs::read_to_string("/proc/net/arp").unwrap_or_default();
        let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
        match way(place, &neighbours, &routes) {
            Some(way) if roles.iter().all(|role| self.ways.get(role) == Some(&way)) => {}
            Some(way) => _ = logged(self.set(roles, &way)),
            None => tracing::debug!(%place, "the kernel does not know the link address yet"),
        }
    }
}

/// The way to a place by what the kernel says of its neighbours and routes.
fn way(place: SocketAddrV4, neighbours: &str, routes: &str) -> Option<Way> {
    let direct = neighbour(neighbours, *place.ip());
    let (device, mac) = direct.or_else(|| neighbour(neighbours, default_router(routes)?))?;
    Some(Way { device, mac, address: place })
}

/// Device and link address of a neighbour: columns 6 and 4 of /proc/net/arp, whose third says whether they are known.
fn neighbour(table: &str, ip: Ipv4Addr) -> Option<(String, [u8; 6])> {
    const COMPLETE: u32 = 2;
    table.lines().skip(1).find_map(|line| {
        let [address, _, flags, mac, _, device] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
        if address.parse() != Ok(ip) || flags & COMPLETE == 0 {
            return None;
        }
        let bytes: Option<Vec<u8>> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        Some((device.to_owned(), bytes?.try_into().ok()?))
    })
}

/// The router of the default route: column 3 of /proc/net/route, in hexadecimal as the machine has it in memory.
fn default_router(table: &str) -> Option<Ipv4Addr> {
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let router = u32::from_str_radix(columns.get(2)?, 16).ok()?;
        (*columns.get(1)? == "00000000" && router != 0).then(|| Ipv4Addr::from(router.to_ne_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_found_in_the_tables_of_the_kernel() {
        let neighbours = "IP address       HW type     Flags       HW address            Mask     Device\n\
            10.0.0.7         0x1         0x2         02:00:00:00:00:07     *        eth0\n\
            10.0.0.8         0x1         0x0         00:00:00:00:00:00     *        eth0\n\
            10.0.0.1         0x1         0x2         02:00:00:00:00:01     *        eth1\n";
        let router = u32::from_ne_bytes([10, 0, 0, 1]);
        let routes =
            format!("Iface Destination Gateway Flags\neth1 0000000A 00000000 0001\neth1 00000000 {router:08X} 0003\n");
        let to = |last| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), 99);
        let found = way(to(7), neighbours, &routes).unwrap();
        assert_eq!((found.device.as_str(), found.mac, found.address), ("eth0", [2, 0, 0, 0, 0, 7], to(7)));
        let found = way(to(8), neighbours, &routes).unwrap();
        assert_eq!((found.device.as_str(), found.mac[5]), ("eth1", 1), "by the router");
        assert_eq!(way(to(8), neighbours, ""), None);
        assert_eq!(way(to(7), "IP address\nrubbish\n", &routes), None);
    }
}
