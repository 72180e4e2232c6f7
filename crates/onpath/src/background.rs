//! A file system that is served by a process in the background: the command returns once it can be used.
//!
//! The command starts itself again with the variable `ONPATH_DETACHED` and reads the other's standard output until that says it is ready; if it ends before,
//! its exit code is the command's. A service manager that asked for it (`NOTIFY_SOCKET`) is told too.

use crate::cli::{absolute, say};
use crate::progress::Progress;
use anyhow::Context;
use clap::Args;
use onpath_wire::shown::Shown;
use rustix::fs::{Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What every line begins with that says a process is ready.
const READY: &str = "onpath: ";
/// Set in the environment of a process in the background.
const DETACHED: &str = "ONPATH_DETACHED";

/// Whether a command that serves waits in the foreground.
#[derive(Args, Clone, Debug)]
pub(crate) struct BackgroundArgs {
    /// Return once the file system can be used; a process in the background serves it.
    #[arg(short = 'd', long, env = "ONPATH_BACKGROUND")]
    background: bool,
    /// Where to log once the file system can be used. In the background, without this: to the journal of systemd if standard error is
    /// that, else, as root, to a file in /var/log/onpath that is called after what is served.
    #[arg(long, env = "ONPATH_LOG_FILE", value_name = "FILE")]
    log_file: Option<PathBuf>,
}

/// How a process that serves says that it can be used.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    detached: bool,
    log_file: Option<PathBuf>,
    subject: PathBuf,
}

impl BackgroundArgs {
    /// Where to log, if that is said.
    pub(crate) fn log_file(&self) -> Option<&Path> {
        self.log_file.as_deref()
    }

    /// Whether the log can be written.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.log_file.as_deref().map_or(Ok(()), |path| open_log(&absolute(path)?).map(drop))
    }

    /// What to announce with, in the process that serves; none in one that has started another for that.
    /// `subject`: what is served, after which the log is called where none is named. The progress of the start is shown by the process that
    /// serves, to whom this one's standard error belongs until it is ready.
    pub(crate) fn begin(&self, subject: &Path, progress: &Progress) -> anyhow::Result<Option<Readiness>> {
        self.check()?;
        let log_file = self.log_file.as_deref().map(absolute).transpose()?;
        let detached = std::env::var_os(DETACHED).is_some();
        if detached {
            // A session of its own: no terminal, no Ctrl-C meant for others. Fails only if it has one already.
            _ = rustix::process::setsid();
        } else if self.background {
            progress.hand_over();
            let args: Vec<OsString> = std::env::args_os().skip(1).collect();
            match start(&args)? {
                Started::Ready(line) => say(&line),
                Started::Ended(code) => std::process::exit(code),
            }
            return Ok(None);
        }
        Ok(Some(Readiness { detached, log_file, subject: subject.to_owned() }))
    }
}

/// What became of a process that was to serve in the background.
pub(crate) enum Started {
    /// It serves, and says so in these words.
    Ready(String),
    /// It has ended with this exit code; its standard error, which is ours, says why.
    Ended(i32),
}

/// Starts `onpath ARGS…` and waits until it serves.
pub(crate) fn start(args: &[OsString]) -> anyhow::Result<Started> {
    let mut child = Command::new("/proc/self/exe")
        .args(args)
        .env(DETACHED, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a process in the background")?;
    let output = child.stdout.take().expect("it is piped");
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot hear from the process in the background")?;
        if line.starts_with(READY) {
            return Ok(Started::Ready(line));
        }
    }
    let status = child.wait().context("cannot wait for the process in the background")?;
    Ok(Started::Ended(status.code().unwrap_or(2)))
}

impl Readiness {
    /// Says that the file system can be used, then lets go of the caller's files. From here on logs go where they were asked to.
    pub(crate) fn announce(&self, line: &str) {
        if self.detached {
            // Nobody may listen any more; the file system can be used all the same.
            _ = writeln!(std::io::stdout(), "{line}");
        } else {
            say(line);
        }
        if let Err(error) = notify("READY=1") {
            tracing::warn!(%error, "the service manager cannot be told");
        }
        if let Err(error) = self.let_go() {
            tracing::warn!(%error, "logs go on to where they went");
        }
    }

    fn let_go(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.log_file {
            rustix::stdio::dup2_stderr(open_log(path)?)?;
        }
        if !self.detached {
            return Ok(());
        }
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdout(&null)?;
        if self.log_file.is_none() && !logs_to_journal() {
            match default_log(&self.subject) {
                Ok(file) => rustix::stdio::dup2_stderr(file)?,
                Err(error) => {
                    tracing::warn!(%error, "no log can be kept in {LOGS}: name one by --log-file");
                    rustix::stdio::dup2_stderr(&null)?;
                }
            }
        }
        Ok(rustix::process::chdir("/")?)
    }
}

fn open_log(path: &Path) -> anyhow::Result<File> {
    let file = File::options().append(true).create(true).open(path);
    file.with_context(|| format!("cannot log to {}: name a file that can be written", path.shown()))
}

/// Where processes in the background log that were not told where to.
const LOGS: &str = "/var/log/onpath";
/// A log that is longer is put aside when the next process begins to write to it.
const LOG_BYTES_MAX: u64 = 1 << 20;
/// The log that was chosen for this process.
static DEFAULT_LOG: OnceLock<PathBuf> = OnceLock::new();

/// The log of what is served: why it ends must be found although nobody has asked for a log.
fn default_log(subject: &Path) -> std::io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(LOGS)?;
    let path = Path::new(LOGS).join(log_name(subject));
    if std::fs::metadata(&path).is_ok_and(|about| about.len() > LOG_BYTES_MAX) {
        std::fs::rename(&path, path.with_extension("log.1"))?;
    }
    let file = File::options().append(true).create(true).mode(0o600).open(&path)?;
    DEFAULT_LOG.get_or_init(|| path);
    Ok(file)
}

/// `/mnt/onpath` is logged in `mnt-onpath.log`.
fn log_name(subject: &Path) -> OsString {
    let names = subject.iter().filter(|name| *name != "/").collect::<Vec<_>>();
    let name = names.join(OsStr::new("-"));
    let kept = &name.as_bytes()[name.len().saturating_sub(LOG_NAME_BYTES_MAX)..];
    let mut name = OsStr::from_bytes(kept).to_owned();
    name.push(".log");
    name
}

/// Bytes of a subject that the name of its log has, from its end.
const LOG_NAME_BYTES_MAX: usize = 200;

/// Removes the log that was chosen for this process if there is nothing in it: it has ended as it was asked to.
pub(crate) fn forget_empty_log() {
    let empty = |path: &&PathBuf| std::fs::metadata(path).is_ok_and(|about| about.len() == 0);
    if let Some(path) = DEFAULT_LOG.get().filter(empty) {
        _ = std::fs::remove_file(path); // an empty file does no harm
    }
}

/// Whether standard error is the journal of systemd, which says by this variable what device and inode it gave.
fn logs_to_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let stderr = rustix::fs::fstat(rustix::stdio::stderr());
    stderr.is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Tells the service manager, if one asked to be told (sd_notify(3)).
fn notify(state: &str) -> std::io::Result<()> {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_called_after_what_is_served() {
        assert_eq!(log_name(Path::new("/mnt/onpath")), "mnt-onpath.log");
        assert_eq!(log_name(Path::new("a")), "a.log");
        assert_eq!(log_name(Path::new("/")), ".log");
        assert_eq!(log_name(&Path::new("/").join("x".repeat(300))).len(), LOG_NAME_BYTES_MAX + 4);
    }
}
