//! Switches that outlive the process that attached them: maps, programs and links under names in a BPF file system.

use crate::device::Device;
use crate::error::Doing;
use crate::maps::{MAPS, Maps, PROGRAMS, Programs};
use crate::{DEVICES_MAX, XdpConfig, XdpError, XdpSwitch, layout};
use aya::maps::{Map, MapData};
use aya::programs::links::{FdLink, PinnedLink};
use onpath_wire::shown::Shown;
use std::collections::BTreeMap;
use std::fs::{Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where switches are, a directory each.
pub const PINS: &str = "/sys/fs/bpf/onpath";
/// The magic number of a BPF file system.
const BPF_FS: u64 = 0xcafe_4a11;
const LINK: &str = "link-";

/// The directory of a file system's switch.
pub fn directory(pins: &Path, cluster: u32) -> PathBuf {
    pins.join(format!("cluster-{cluster}"))
}

/// Makes the directory of a switch; the one around it, which switches have in common, lies in a BPF file system and need not be there.
pub(crate) fn make(dir: &Path) -> Result<(), XdpError> {
    let home = dir.parent().unwrap_or(Path::new("/"));
    let around = home.parent().unwrap_or(Path::new("/"));
    let is_bpf = |path| rustix::fs::statfs(path).is_ok_and(|about| about.f_type as u64 == BPF_FS);
    if !is_bpf(around) {
        return Err(XdpError::NoPins(dir.to_owned()));
    }
    let new = |path: &Path| std::fs::DirBuilder::new().mode(0o700).create(path);
    match new(home) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).doing(format!("making {}", home.shown()));
        }
        _ => check(home)?,
    }
    match new(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(XdpError::Pinned(dir.to_owned())),
        made => made.doing(format!("making {}", dir.shown())),
    }
}

/// Whether nobody else can have put anything into the directory that switches have in common. From then on only its owner may look into
/// it, and the one around it, whose entries anybody may have made, keeps others from moving it.
///
/// # Errors
/// [`XdpError::Unsafe`] says why not.
fn check(home: &Path) -> Result<(), XdpError> {
    let doing = || format!("looking at {}", home.shown());
    let unlike = |path: &Path, why: String| Err(XdpError::Unsafe { path: path.to_owned(), why });
    let us = rustix::process::geteuid().as_raw();
    let of_others = |about: &Metadata| ![0, us].contains(&about.uid());
    let around = home.parent().unwrap_or(Path::new("/"));
    let about = std::fs::symlink_metadata(around).doing(doing())?;
    if of_others(&about) {
        return unlike(around, format!("belongs to uid {}", about.uid()));
    }
    if about.mode() & 0o022 != 0 && about.mode() & 0o1000 == 0 {
        return unlike(around, format!("has mode {:04o}", about.mode() & 0o7777));
    }
    let about = std::fs::symlink_metadata(home).doing(doing())?;
    if !about.is_dir() {
        return unlike(home, "is no directory".to_owned());
    }
    if of_others(&about) {
        return unlike(home, format!("belongs to uid {}", about.uid()));
    }
    match about.mode() & 0o7777 {
        mode if mode & 0o022 != 0 => unlike(home, format!("has mode {mode:04o}")),
        0o700 => Ok(()),
        _ if about.uid() == us => std::fs::set_permissions(home, Permissions::from_mode(0o700)).doing(doing()),
        _ => Ok(()),
    }
}

/// The same of the directory around that of a switch.
fn check_around(dir: &Path) -> Result<(), XdpError> {
    check(dir.parent().unwrap_or(Path::new("/")))
}

/// Takes away what `make` and pinning have left; what is not there is no error.
pub(crate) fn unmake(dir: &Path) {
    for name in MAPS.iter().chain(&PROGRAMS) {
        let _absent = std::fs::remove_file(dir.join(name));
    }
    let _others = std::fs::remove_dir(dir);
}

/// The switches below `pins` that are attached to a device: their directories.
///
/// # Errors
/// A directory that cannot be read, for other reasons than that it is not there, or that others may have put something into.
pub fn attached_to(pins: &Path, device: &str) -> Result<Vec<PathBuf>, XdpError> {
    let doing = || format!("reading {}", pins.shown());
    let entries = match std::fs::read_dir(pins) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        other => other.doing(doing())?,
    };
    check(pins)?;
    let mut found = vec![];
    for entry in entries {
        let dir = entry.doing(doing())?.path();
        if dir.join(format!("{LINK}{device}")).exists() {
            found.push(dir);
        }
    }
    Ok(found)
}

/// Takes the program off a device; without devices the switch is gone, with all that it knew.
///
/// # Errors
/// No link of that device in `dir`; a directory around it that others may have put something into.
pub fn detach(dir: &Path, device: &str) -> Result<(), XdpError> {
    let path = dir.join(format!("{LINK}{device}"));
    check_around(dir)?;
    if !path.exists() {
        return Err(XdpError::NotAttached(device.to_owned()));
    }
    let link = PinnedLink::from_pin(&path).doing(format!("opening {}", path.shown()))?;
    // What holds it is dropped, and with it the link.
    drop(link.unpin().doing(format!("removing {}", path.shown()))?);
    if links(dir)?.is_empty() {
        unmake(dir);
    }
    Ok(())
}

/// Names of the devices whose links are pinned.
fn links(dir: &Path) -> Result<Vec<String>, XdpError> {
    let mut names = vec![];
    for entry in std::fs::read_dir(dir).doing(format!("reading {}", dir.shown()))? {
        let name = entry.doing(format!("reading {}", dir.shown()))?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_prefix(LINK)).map(str::to_owned));
    }
    Ok(names)
}

impl XdpSwitch {
    /// As [`XdpSwitch::attach`], and it stays when this process ends: `dir`, which must not be there, is on a BPF file system.
    ///
    /// # Errors
    /// What the kernel or a device does not allow; then nothing is attached or left in `dir`.
    pub fn attach_pinned(config: XdpConfig, devices: &[&str], dir: &Path) -> Result<XdpSwitch, XdpError> {
        make(dir)?;
        let made = XdpSwitch::load_with(config, Some(dir), false).and_then(|mut switch| {
            for device in devices {
                switch.attach_device(device)?;
            }
            switch.pin_links(dir)?;
            Ok(switch)
        });
        if made.is_err() {
            for name in links(dir).unwrap_or_default() {
                let _gone = detach(dir, &name);
            }
            unmake(dir);
        }
        made
    }

    fn pin_links(&mut self, dir: &Path) -> Result<(), XdpError> {
        for (name, link) in self.links.drain(..) {
            let link: FdLink = link.try_into().doing(format!("{}: a link that outlives this process", name.shown()))?;
            link.pin(dir.join(format!("{LINK}{name}"))).doing(format!("{}: pinning its link", name.shown()))?;
        }
        Ok(())
    }

    /// The switch that was pinned in this directory. Ways are to be given anew before routes are.
    ///
    /// # Errors
    /// No switch there, or one that others may have put there.
    pub fn open(dir: &Path) -> Result<XdpSwitch, XdpError> {
        check_around(dir)?;
        let maps = Maps::from(|name| {
            let what = || format!("opening {}", dir.join(name).shown());
            Map::from_map_data(MapData::from_pin(dir.join(name)).doing(what())?).doing(what())
        })?;
        let programs = Programs::pinned(dir)?;
        let (program, address) = layout::config_of(&maps.settings.get(&0, 0).doing("reading the settings")?);
        let mut devices = vec![];
        for place in 0..DEVICES_MAX as u32 {
            let Ok(value) = maps.devices.get(place, 0) else { break };
            devices.push(Device::numbered(value.if_index)?);
        }
        let config = XdpConfig { program, address };
        Ok(XdpSwitch { config, maps, programs, devices, links: vec![], ways: BTreeMap::new() })
    }
}
