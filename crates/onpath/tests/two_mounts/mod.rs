//! Two mounts of one file system: what one did is what the other sees, locks exclude across them, and either may die.

mod alone;
mod atime;
mod death;
mod default_permissions;
mod hammer;
mod handles;
mod lease;
mod locks;
mod mapped;
mod mtimes;
mod nameless;
mod opened;
mod pairs;
mod protected;
mod ranges;
mod status;
mod unasked;
mod xattrs;

use crate::common::server::{Mount, Site};
use crate::common::sys;

/// A file system with two mounts.
struct Pair {
    site: Site,
    mounts: [Mount; 2],
}

impl Pair {
    /// None where nothing can be mounted.
    fn new(test: &str, args: &[&str]) -> Option<Pair> {
        let site = Site::new(test)?;
        sys::umask(0);
        let first = site.dev(args);
        let second = site.mount(1, &[]);
        Some(Pair { site, mounts: [first, second] })
    }

    /// The same, the second mount with `-o`.
    fn with_options(test: &str, options: &str) -> Option<Pair> {
        let site = Site::new(test)?;
        let first = site.dev(&[]);
        let second = site.mount(1, &["-o", options]);
        Some(Pair { site, mounts: [first, second] })
    }

    /// The same, permissions being the kernel's as well on both.
    fn with_default_permissions(test: &str) -> Option<Pair> {
        const OPTION: [&str; 2] = ["-o", "default_permissions"];
        let site = Site::new(test)?;
        sys::umask(0);
        let first = site.dev(&OPTION);
        let second = site.mount(1, &OPTION);
        Some(Pair { site, mounts: [first, second] })
    }

    /// A path on both mounts.
    fn both(&self, name: &str) -> [std::path::PathBuf; 2] {
        self.mounts.each_ref().map(|mount| mount.path().join(name))
    }

    /// Ends both and checks what is left.
    fn stop(self, when: &str) {
        let [first, second] = self.mounts;
        second.stop();
        first.stop();
        self.site.assert_clean(when);
    }
}
