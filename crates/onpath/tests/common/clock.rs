//! Real-time clocks of processes, each of which can be wrong: libfaketime between the process and its C library. What does not go backwards
//! (CLOCK_MONOTONIC) stays right.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// One clock a host.
pub struct Clocks {
    library: PathBuf,
    root: PathBuf,
}

impl Clocks {
    /// So many clocks that are right; or why there are none. Their files are below `root`.
    pub fn new(root: &Path, hosts: usize) -> Result<Clocks, String> {
        let library = library().ok_or("libfaketime is not installed")?;
        let clocks = Clocks { library, root: root.to_owned() };
        (0..hosts).for_each(|host| clocks.set(host, 0));
        clocks.assert_settable();
        Ok(clocks)
    }

    fn file(&self, host: usize) -> PathBuf {
        self.root.join(format!("clock-{host}"))
    }

    /// From now on the clock of a host is off by so many seconds.
    pub fn set(&self, host: usize, seconds: i32) {
        let new = self.root.join(format!("clock-{host}-new"));
        std::fs::write(&new, format!("{seconds:+}\n")).expect("write of a clock");
        std::fs::rename(new, self.file(host)).expect("rename of a clock");
    }

    /// Lets a process have the clock of a host.
    pub fn wear(&self, command: &mut Command, host: usize) {
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", self.file(host));
        for flag in ["FAKETIME_NO_CACHE", "DONT_FAKE_MONOTONIC", "FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"] {
            command.env(flag, "1");
        }
    }

    /// A clock that stayed right would let every test pass.
    fn assert_settable(&self) {
        for seconds in [1_000, -1_000, 0] {
            self.set(0, seconds);
            let mut date = Command::new("date");
            self.wear(date.arg("+%s"), 0);
            let told = String::from_utf8(date.output().expect("date runs").stdout).expect("text");
            let told: i64 = told.trim().parse().unwrap_or_else(|_| panic!("date says {told:?}"));
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
            assert!((told - now - i64::from(seconds)).abs() < 100, "a clock {seconds} s off tells {told} at {now}");
        }
    }
}

/// Where Debian and others have it.
fn library() -> Option<PathBuf> {
    let places = std::fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let files = places.chain(["/usr/lib".into()]).map(|place| place.join("faketime/libfaketimeMT.so.1"));
    files.into_iter().find(|file| file.is_file())
}
