//! Network devices: their numbers and link addresses, and where a node is.
#![allow(unsafe_code, reason = "the kernel tells a device's link address by ioctl(2) alone")]

use crate::XdpError;
use crate::error::Doing;
use onpath_wire::shown::Shown;
use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;

/// A device that the switch is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) name: String,
    /// Its number in the kernel.
    pub(crate) number: u32,
    pub(crate) mac: [u8; 6],
}

/// Where a node is: the device by which frames reach it, and their addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Name of the device.
    pub device: String,
    /// Link address of the node, or of the router before it.
    pub mac: [u8; 6],
    /// Its address.
    pub address: SocketAddrV4,
}

impl Device {
    /// The device with this number.
    pub(crate) fn numbered(number: u32) -> Result<Device, XdpError> {
        let any = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).doing("opening a socket")?;
        let name = rustix::net::netdevice::index_to_name(&any, number);
        Device::named(&name.map_err(|_| XdpError::NoDevice(format!("number {number}")))?)
    }

    /// The device of this name in the network namespace of the caller.
    pub(crate) fn named(name: &str) -> Result<Device, XdpError> {
        // SAFETY: all bytes 0 are a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
            return Err(XdpError::NoDevice(name.to_owned()));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let any = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).doing("opening a socket")?;
        // SAFETY: both requests read the name, which ends in 0, and write into the same struct, which lives.
        let (number, mac) = unsafe {
            if libc::ioctl(any.as_raw_fd(), libc::SIOCGIFINDEX, &raw mut request) != 0 {
                return Err(XdpError::NoDevice(name.to_owned()));
            }
            let number = request.ifr_ifru.ifru_ifindex;
            if libc::ioctl(any.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) != 0 {
                return Err(io::Error::last_os_error()).doing(format!("{}: asking for its link address", name.shown()));
            }
            (number, request.ifr_ifru.ifru_hwaddr.sa_data)
        };
        let mut bytes = [0; 6];
        for (to, from) in bytes.iter_mut().zip(mac) {
            *to = from as u8;
        }
        Ok(Device { name: name.to_owned(), number: number as u32, mac: bytes })
    }
}
