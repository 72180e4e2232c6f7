//! Mount options: the comma-separated list of `-o`.

use onpath_wire::shown::Shown;
use std::ffi::CString;
use std::os::fd::RawFd;

use onpath_session::AccessTimes;
use rustix::mount::MountFlags;

/// Options of `mount(2)` for one mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    flags: MountFlags,
    source: String,
    default_permissions: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        // As mount(8) has it of any file system; who may not open a device is kept from it all the same.
        Self { flags: MountFlags::empty(), source: "onpath".to_owned(), default_permissions: false }
    }
}

/// An option list, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedOptions {
    /// What the kernel is told.
    pub mount: MountOptions,
    /// The caller's own options, with their values, in the order given.
    pub own: Vec<(String, Option<String>)>,
}

impl ParsedOptions {
    /// Whether one of the caller's own options is given.
    pub fn has(&self, own: &str) -> bool {
        self.own.iter().any(|(name, _)| name == own)
    }
}

/// A bad option list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// An option nobody knows.
    #[error("unknown mount option `{}`; known are {known}", option.shown())]
    Unknown {
        /// The option as given.
        option: String,
        /// The known ones.
        known: String,
    },
    /// An option that takes no value was given one.
    #[error("mount option `{}` takes no value", .0.shown())]
    NoValue(String),
}

/// What an option of mount(8) does: sets or clears bits.
const FLAGS: [(&str, MountFlags, bool); 22] = [
    ("ro", MountFlags::RDONLY, true),
    ("rw", MountFlags::RDONLY, false),
    ("nosuid", MountFlags::NOSUID, true),
    ("suid", MountFlags::NOSUID, false),
    ("nodev", MountFlags::NODEV, true),
    ("dev", MountFlags::NODEV, false),
    ("noexec", MountFlags::NOEXEC, true),
    ("exec", MountFlags::NOEXEC, false),
    ("noatime", MountFlags::NOATIME, true),
    ("atime", MountFlags::NOATIME, false),
    ("nodiratime", MountFlags::NODIRATIME, true),
    ("diratime", MountFlags::NODIRATIME, false),
    ("relatime", MountFlags::RELATIME, true),
    ("norelatime", MountFlags::RELATIME, false),
    ("strictatime", MountFlags::STRICTATIME, true),
    ("nostrictatime", MountFlags::STRICTATIME, false),
    ("sync", MountFlags::SYNCHRONOUS, true),
    ("async", MountFlags::SYNCHRONOUS, false),
    ("dirsync", MountFlags::DIRSYNC, true),
    ("lazytime", MountFlags::LAZYTIME, true),
    ("nolazytime", MountFlags::LAZYTIME, false),
    ("silent", MountFlags::SILENT, true),
];

/// The kernel decides about permissions as well, as it does for a local file system.
const DEFAULT_PERMISSIONS: &str = "default_permissions";

/// Options of fstab and mount(8) that say nothing to the file system. `allow_other` is always on: permissions are checked
/// for every user.
const IGNORED: [&str; 8] = ["defaults", "auto", "noauto", "nofail", "_netdev", "nouser", "allow_other", "loud"];

impl MountOptions {
    /// Takes an option list apart. `own` are the names of options the caller itself understands.
    pub fn parse(list: &str, own: &[&str]) -> Result<ParsedOptions, OptionError> {
        let mut parsed = ParsedOptions::default();
        for option in list.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            if own.contains(&name) {
                parsed.own.push((name.to_owned(), value.map(str::to_owned)));
            } else if name.starts_with("x-") || name == "comment" {
                // For other readers of fstab.
            } else if let Some((_, flag, on)) = FLAGS.iter().find(|(known, ..)| *known == name) {
                no_value(name, value)?;
                parsed.mount.flags.set(*flag, *on);
            } else if name == DEFAULT_PERMISSIONS {
                no_value(name, value)?;
                parsed.mount.default_permissions = true;
            } else if IGNORED.contains(&name) {
                no_value(name, value)?;
            } else {
                let known = FLAGS.iter().map(|(name, ..)| *name).chain([DEFAULT_PERMISSIONS]);
                let known = known.chain(IGNORED).chain(own.iter().copied());
                let known = known.collect::<Vec<_>>().join(", ");
                return Err(OptionError::Unknown { option: option.to_owned(), known });
            }
        }
        Ok(parsed)
    }

    /// Sets what the mount table shows as mounted.
    #[must_use]
    pub fn with_source(mut self, source: &str) -> Self {
        self.source = source.replace('\0', "");
        self
    }

    /// Mounted read-only.
    pub fn is_read_only(&self) -> bool {
        self.flags.contains(MountFlags::RDONLY)
    }

    /// Whether the kernel decides about permissions as well.
    pub fn default_permissions(&self) -> bool {
        self.default_permissions
    }

    /// Whose access times reading moves. The kernel leaves them to the server.
    pub fn access_times(&self) -> AccessTimes {
        let has = |flags| self.flags.intersects(flags);
        AccessTimes {
            never: has(MountFlags::NOATIME | MountFlags::RDONLY),
            not_of_directories: has(MountFlags::NODIRATIME),
            always: has(MountFlags::STRICTATIME),
        }
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn flags(&self) -> MountFlags {
        self.flags
    }

    /// The file system's part of the options: nothing the kernel does not know, or it refuses them all.
    pub(super) fn mount_data(&self, device: RawFd) -> CString {
        let text = format!("fd={device},rootmode=40000,user_id=0,group_id=0,allow_other");
        CString::new(text).unwrap_or_default()
    }
}

fn no_value(name: &str, value: Option<&str>) -> Result<(), OptionError> {
    match value {
        Some(_) => Err(OptionError::NoValue(name.to_owned())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_opposite_options_counts() {
        let parsed = MountOptions::parse("ro,nosuid,rw,noatime,,_netdev,x-systemd.requires=net", &[]).unwrap();
        assert_eq!(parsed.mount.flags, MountFlags::NOSUID | MountFlags::NOATIME);
    }

    #[test]
    fn devices_are_opened_unless_nodev_is_said() {
        for (list, flags) in
            [("", MountFlags::empty()), ("nodev", MountFlags::NODEV), ("nodev,dev", MountFlags::empty())]
        {
            assert_eq!(MountOptions::parse(list, &[]).unwrap().mount.flags, flags, "{list}");
        }
    }

    #[test]
    fn access_times_are_the_sessions_business() {
        let times = |list| MountOptions::parse(list, &[]).unwrap().mount.access_times();
        assert_eq!(times("relatime"), AccessTimes::default());
        assert!(times("noatime").never && times("ro").never && !times("noatime,atime").never);
        assert!(times("nodiratime").not_of_directories && times("strictatime").always);
    }

    #[test]
    fn permissions_are_the_servers_alone_unless_said() {
        let kernels = |list| MountOptions::parse(list, &[]).unwrap().mount.default_permissions();
        assert!(!kernels("") && kernels("ro,default_permissions"));
        let error = MountOptions::parse("default_permissions=0", &[]).unwrap_err();
        assert_eq!(error, OptionError::NoValue("default_permissions".to_owned()));
    }

    #[test]
    fn own_options_are_set_aside() {
        let parsed = MountOptions::parse("soft,ro,readers=2", &["soft", "readers"]).unwrap();
        assert!(parsed.mount.is_read_only());
        assert_eq!(parsed.own, [("soft".to_owned(), None), ("readers".to_owned(), Some("2".to_owned()))]);
    }

    #[test]
    fn unknown_options_are_named() {
        let error = MountOptions::parse("default_permission", &["soft"]).unwrap_err();
        assert!(error.to_string().starts_with("unknown mount option `default_permission`; known are ro, rw"));
        assert_eq!(MountOptions::parse("ro=1", &[]).unwrap_err(), OptionError::NoValue("ro".to_owned()));
    }
}
