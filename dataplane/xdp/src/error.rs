//! What can go wrong, and what to do about it.

use onpath_dataplane::{ConfigError, ControlError, Port};
use onpath_wire::shown::Shown;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why the switch could not do what was asked.
#[derive(Debug, Error)]
pub enum XdpError {
    /// The build had no clang.
    #[error("this onpath was built without clang and so without its XDP program: install clang and build it again")]
    NoProgram,
    /// No privilege.
    #[error("{doing}: not permitted: be root, or have CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")]
    NotPermitted {
        /// What was tried.
        doing: String,
    },
    /// A kernel without BPF.
    #[error("this kernel has no bpf(2): it was built without CONFIG_BPF_SYSCALL; use a switch in user space")]
    NoBpf,
    /// No such device in this network namespace.
    #[error("{}: no such network device here (`ip link` lists them)", .0.shown())]
    NoDevice(String),
    /// Too many devices.
    #[error("no room for device {device}: a switch has at most {max}", device = .0.shown(), max = crate::DEVICES_MAX)]
    Devices(String),
    /// The driver has no native XDP.
    #[error(
        "{}: its driver has no native XDP, which the copies of a mark need; use another device or a \
         switch in user space",
        .0.shown()
    )]
    NoNativeMode(String),
    /// Another program is attached.
    #[error(
        "{device}: it has an XDP program already (`ip link show dev {device}`); take it off with `ip link set dev {device} xdp off`",
        device = .0.shown()
    )]
    Busy(String),
    /// Frames may be too large.
    #[error(
        "{device}: its MTU, or that of the other end of a veth, is too large for XDP: make it 3,498 bytes or less (`ip link set dev {device} mtu 1500`)",
        device = .0.shown()
    )]
    Mtu(String),
    /// The pins have nowhere to be.
    #[error("{} is not on a BPF file system: mount one (`mount -t bpf -o mode=0700 bpf /sys/fs/bpf`)", .0.shown())]
    NoPins(PathBuf),
    /// Others may have made it, or what is in it.
    #[error(
        "{} {why}: others may remove the switches in it, or have put some there; as root, remove it if nothing of yours is in it, and mount the BPF file system with `-o mode=0700`",
        path.shown()
    )]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A switch is there already.
    #[error("{}: a switch is there already: detach it first", .0.shown())]
    Pinned(PathBuf),
    /// Nothing is attached.
    #[error("{}: no switch of onpath is attached to it", .0.shown())]
    NotAttached(String),
    /// A port that no [`crate::Way`] was given for.
    #[error("port {port} has no address: give its way first", port = .0.0)]
    NoWay(Port),
    /// A command that tells the time.
    #[error("the switch in the kernel has a clock of its own")]
    OwnClock,
    /// The control plane refuses the command.
    #[error(transparent)]
    Refused(#[from] ControlError),
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Anything else that the kernel says.
    #[error("{doing}: {source}")]
    Kernel {
        /// What was tried.
        doing: String,
        /// What the kernel said.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// The error number at the bottom of an error.
fn number(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(number) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(number);
        }
        next = error.source();
    }
    None
}

/// The error for what was being done.
pub(crate) fn doing(doing: impl Into<String>) -> impl FnOnce(Box<dyn Error + Send + Sync>) -> XdpError {
    let doing = doing.into();
    move |source| match number(source.as_ref()) {
        Some(libc::EPERM) => XdpError::NotPermitted { doing },
        Some(libc::ENOSYS) => XdpError::NoBpf,
        _ => XdpError::Kernel { doing, source },
    }
}

/// The error for attaching to a device.
pub(crate) fn attaching(device: &str, source: Box<dyn Error + Send + Sync>) -> XdpError {
    let device = device.to_owned();
    match number(source.as_ref()) {
        Some(libc::EOPNOTSUPP) => XdpError::NoNativeMode(device),
        Some(libc::EBUSY | libc::EEXIST) => XdpError::Busy(device),
        Some(libc::ERANGE | libc::EMSGSIZE) => XdpError::Mtu(device),
        Some(libc::ENODEV) => XdpError::NoDevice(device),
        _ => doing(format!("{}: attaching the XDP program", device.shown()))(source),
    }
}

/// Says what was being done when something failed.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, XdpError>;
}

impl<T, E: Error + Send + Sync + 'static> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, XdpError> {
        self.map_err(|error| doing(what)(Box::new(error)))
    }
}
