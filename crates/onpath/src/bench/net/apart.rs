//! A network namespace for the host with the switch: its messages pass a device, which can have the switch in its kernel.

use anyhow::Context;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Command;
use std::str::FromStr;

/// Any port: nothing is sent.
const PORT: u16 = 9;

/// `NETNS,ADDRESS,DEVICE`: a network namespace that `ip netns` has named, its address, and the device there by which it is reached.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Apart {
    namespace: String,
    address: Ipv4Addr,
    device: String,
}

impl FromStr for Apart {
    type Err = String;

    fn from_str(words: &str) -> Result<Apart, String> {
        let [namespace, address, device] = words.split(',').collect::<Vec<_>>()[..] else {
            return Err("write NETNS,ADDRESS,DEVICE, as in onpath-switch,10.77.0.2,eth0".into());
        };
        if namespace.is_empty() || namespace.contains('/') {
            return Err(format!("{namespace:?} is no name of a network namespace: see `ip netns`"));
        }
        if device.is_empty() {
            return Err("the device of the switch has no name".into());
        }
        let address = address.parse().map_err(|_| format!("{address:?} is no IPv4 address"))?;
        Ok(Apart { namespace: namespace.into(), address, device: device.into() })
    }
}

impl Apart {
    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    pub(super) fn device(&self) -> &str {
        &self.device
    }

    /// The address that it is sent to from.
    pub(super) fn seen_from(&self) -> anyhow::Result<Ipv4Addr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let cannot = || format!("no way to {}: is the device up that leads to {}?", self.address, self.namespace);
        socket.connect((self.address, PORT)).with_context(cannot)?;
        match socket.local_addr()?.ip() {
            IpAddr::V4(own) => Ok(own),
            IpAddr::V6(_) => unreachable!("the socket has an IPv4 address"),
        }
    }

    /// What runs this program there. The file system stays that of this process: it asks for counters there.
    pub(super) fn command(&self) -> anyhow::Result<Command> {
        let mut command = Command::new("nsenter");
        let program = std::env::current_exe().context("the path of this program")?;
        command.arg(format!("--net=/run/netns/{}", self.namespace)).arg("--").arg(program);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_all_of_it() {
        let apart: Apart = "sw,10.0.0.2,eth0".parse().unwrap();
        assert_eq!((apart.address(), apart.device()), (Ipv4Addr::new(10, 0, 0, 2), "eth0"));
        for wrong in
            ["", "sw", "sw,10.0.0.2", "../sw,10.0.0.2,eth0", ",10.0.0.2,eth0", "sw,10.0.0,eth0", "sw,10.0.0.2,"]
        {
            assert!(wrong.parse::<Apart>().is_err(), "{wrong}");
        }
    }
}
