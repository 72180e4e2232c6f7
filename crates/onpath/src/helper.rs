//! `mount.onpath SRC DIR -o …`: what mount(8) and fstab call for the type `onpath`. The `onpath` command takes this part when it is
//! called by such a name.
//!
//! It returns when the file system can be used, with the exit codes of mount(8); a process in the background serves it.

use crate::background::{self, Started};
use crate::cli::{LogArgs, absolute, exit_code, start_log, told, usage};
use clap::{CommandFactory, FromArgMatches, Parser};
use onpath_client::url::is_url;
use onpath_fuse::mount::{MountOptions, Namespace, OptionError, remount};
use onpath_host::dir::is_ending;
use onpath_host::stream::{ANSWER_WITHIN, request_status};
use onpath_wire::shown::{Shown, lines};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The names by which mount(8) calls it: for the types `onpath` and, as the mount table has it, `fuse.onpath`.
pub(crate) const NAMES: [&str; 2] = ["mount.onpath", "mount.fuse.onpath"];

/// Options that become options of the command that serves, and their names there.
const PASSED_ON: [(&str, &str); 4] = [
    ("commit", "--commit"),
    ("commit_interval_ms", "--commit-interval-ms"),
    ("tracking", "--tracking"),
    ("checkpoint_bytes", "--checkpoint-bytes"),
];

/// Options that the mount table shows of a FUSE mount: a remount repeats them.
const OF_THE_KERNEL: [&str; 6] = ["user_id", "group_id", "max_read", "default_permissions", "fd", "rootmode"];

const OPTIONS_HELP: &str = "Options of -o, beside those of mount(8) that are independent of the file system:

  soft                   requests to a server that is gone end with EIO; without, they wait
  inode32                inode numbers of 32 bits, of which several inodes may have the same
  cache=alone|none       what this mount caches: names and attributes while it is the only one, or neither
  default_permissions    the kernel decides about permissions as well, of . and .. too: costs requests
  serve                  serve SRC by this mount if nobody serves it: unmounting ends that for all
  commit=interval|sync   with serve: when a change is on stable storage
  commit_interval_ms=N   with serve: milliseconds between a change and stable storage
  tracking=owner|network with serve: who knows that a directory has pending updates
  checkpoint_bytes=N     with serve: journal bytes between two checkpoints
  key_file=FILE          the key of a cluster, if it has one
  log=LEVEL              what the serving process logs [default: warn]
  log_file=FILE          where to

Options beginning with x-, and _netdev, nofail, auto, noauto and defaults, are left to who reads fstab. The ONPATH_* variables of onpath-dev(1) and onpath-mount(1) count where an option is missing.

Exit codes: 0 mounted, 1 wrong use or not permitted, 2 system error, 32 the mount failed.

In fstab:

  /srv/onpath /mnt/onpath onpath _netdev,nofail,x-systemd.requires=onpath@srv-onpath.service 0 0
  onpath://10.0.0.1,10.0.0.2/ /mnt/onpath onpath _netdev,nofail 0 0";

/// Mounts an Onpath file system, for mount(8) and fstab.
#[derive(Parser, Debug)]
#[command(name = "mount.onpath", version, about, after_help = OPTIONS_HELP)]
struct Helper {
    /// The DIR of a running `onpath dev`, or with -o serve of one to be run; or onpath://HOST[:PORT][,HOST…]/ of the hosts of a cluster.
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// Where to mount it.
    #[arg(value_name = "DIR")]
    mountpoint: PathBuf,
    /// Mount options, separated by commas.
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Do everything but the mount.
    #[arg(short)]
    fake: bool,
    /// Do not write to mtab (nothing does).
    #[arg(short)]
    no_mtab: bool,
    /// Ignore options that nobody knows.
    #[arg(short)]
    sloppy: bool,
    /// Say what is done, and log more.
    #[arg(short)]
    verbose: bool,
    /// The type as mount(8) knows it.
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
    /// Mount in this mount namespace: a file, or the id of a process that is in it.
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<PathBuf>,
}

/// Its command line.
pub(crate) fn command() -> clap::Command {
    Helper::command()
}

/// Whether the command was called by a name of the helper.
pub(crate) fn is_called(name: Option<OsString>) -> bool {
    let name = name.unwrap_or_default();
    Path::new(&name).file_name().is_some_and(|name| NAMES.iter().any(|known| name == OsStr::new(known)))
}

pub(crate) fn main() -> ExitCode {
    let args = match command().try_get_matches().and_then(|found| Helper::from_arg_matches(&found)) {
        Ok(args) => args,
        Err(error) => return usage(error),
    };
    start_log(&LogArgs::of_level("warn"));
    match mount(&args) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            eprintln!("mount.onpath: {}", told(&error));
            ExitCode::from(exit_code(&error))
        }
    }
}

/// An option list, taken apart.
struct Wanted {
    mount: MountOptions,
    /// As the serving command is given them.
    list: String,
    serve: bool,
    soft: bool,
    inode32: bool,
    cache: Option<String>,
    remount: bool,
    log: Option<String>,
    log_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    passed_on: Vec<OsString>,
}

impl Wanted {
    fn parse(options: &[String], sloppy: bool) -> anyhow::Result<Wanted> {
        let own = ["soft", "inode32", "cache", "serve", "remount", "log", "log_file", "key_file"].into_iter();
        let own: Vec<&str> = own.chain(PASSED_ON.map(|(name, _)| name)).collect();
        let mut options = options.to_vec();
        if options.iter().any(|option| option == "remount") {
            options.retain(|option| !OF_THE_KERNEL.contains(&option.split('=').next().unwrap_or_default()));
        }
        let parsed = loop {
            match MountOptions::parse(&options.join(","), &own) {
                Err(OptionError::Unknown { option, .. }) if sloppy => options.retain(|given| *given != option),
                other => break other?,
            }
        };
        let mut wanted = Wanted {
            mount: parsed.mount,
            list: String::new(),
            serve: false,
            soft: false,
            inode32: false,
            cache: None,
            remount: false,
            log: None,
            log_file: None,
            key_file: None,
            passed_on: Vec::new(),
        };
        for (name, value) in parsed.own {
            wanted.take(&name, value)?;
        }
        let of_mount = |option: &String| !own.contains(&option.split('=').next().unwrap_or_default());
        let kept = options.into_iter().filter(of_mount).chain(wanted.soft.then(|| "soft".to_owned()));
        let kept = kept.chain(wanted.inode32.then(|| "inode32".to_owned()));
        let kept = kept.chain(wanted.cache.iter().map(|mode| format!("cache={mode}")));
        wanted.list = kept.collect::<Vec<_>>().join(",");
        Ok(wanted)
    }

    fn take(&mut self, name: &str, value: Option<String>) -> Result<(), OptionError> {
        let passed_on = PASSED_ON.iter().find(|(known, _)| *known == name);
        match (name, value) {
            ("soft", None) => self.soft = true,
            ("inode32", None) => self.inode32 = true,
            ("serve", None) => self.serve = true,
            ("remount", None) => self.remount = true,
            ("soft" | "inode32" | "serve" | "remount", Some(_)) => return Err(OptionError::NoValue(name.to_owned())),
            (_, None) => return Err(OptionError::Unknown { option: name.to_owned(), known: format!("{name}=VALUE") }),
            ("cache", Some(mode)) => self.cache = Some(mode),
            ("log", Some(level)) => self.log = Some(level),
            ("log_file", Some(file)) => self.log_file = Some(file.into()),
            ("key_file", Some(file)) => self.key_file = Some(file.into()),
            (_, Some(value)) => {
                let (_, option) = passed_on.expect("only known options are set aside");
                self.passed_on.push(format!("{option}={value}").into());
            }
        }
        Ok(())
    }
}

/// Whether a command line can be understood.
#[cfg(feature = "fuzzing")]
pub(crate) fn understands(words: Vec<OsString>) -> bool {
    Helper::try_parse_from(words).is_ok_and(|args| Wanted::parse(&args.options, args.sloppy).is_ok())
}

fn mount(args: &Helper) -> anyhow::Result<i32> {
    let wanted = Wanted::parse(&args.options, args.sloppy)?;
    if wanted.remount {
        if !args.fake {
            // Nothing of another namespace is executed: it is entered by a thread that mounts, and by nobody else.
            let namespace = args.namespace.as_deref().map(Namespace::open).transpose()?;
            remount(namespace.as_ref(), &absolute(&args.mountpoint)?, &wanted.mount)?;
        }
        return Ok(0);
    }
    let mountpoint = absolute(&args.mountpoint)?;
    let command = if is_url(&args.source) {
        anyhow::ensure!(!wanted.serve, "-o serve: {} is served by its hosts", args.source.shown());
        of_hosts(args, &wanted, &mountpoint)?
    } else {
        serving(args, &wanted, &absolute(&args.source)?, &mountpoint)?
    };
    if args.verbose || args.fake {
        let words: Vec<_> = command.iter().map(|word| word.shown().to_string()).collect();
        eprintln!("mount.onpath: {}onpath {}", if args.fake { "would run " } else { "" }, words.join(" "));
    }
    if args.fake {
        return Ok(0);
    }
    match background::start(&command)? {
        Started::Ready(line) => {
            if args.verbose {
                eprintln!("{}", lines(&line));
            }
            Ok(0)
        }
        Started::Ended(code) => Ok(code),
    }
}

/// The command that mounts a file system of other hosts.
fn of_hosts(args: &Helper, wanted: &Wanted, mountpoint: &Path) -> anyhow::Result<Vec<OsString>> {
    let mut command: Vec<OsString> = vec!["mount".into(), args.source.clone().into(), mountpoint.into()];
    if let Some(file) = &wanted.key_file {
        command.extend(["--key-file".into(), absolute(file)?.into()]);
    }
    with_logs(args, wanted, command)
}

/// The command that serves the mount.
fn serving(args: &Helper, wanted: &Wanted, source: &Path, mountpoint: &Path) -> anyhow::Result<Vec<OsString>> {
    let server = request_status(source, ANSWER_WITHIN);
    // One that is ending answers still.
    let serves = server.is_ok() && !is_ending(source);
    let verb = if wanted.serve && !serves { "dev" } else { "mount" };
    let mut command: Vec<OsString> = vec![verb.into(), source.into(), mountpoint.into()];
    match (verb, server) {
        ("dev", _) => {
            command.push("--existing".into());
            command.extend(wanted.passed_on.iter().cloned());
        }
        (_, Err(error)) if !args.fake => {
            eprintln!("mount.onpath: to have this mount serve it, add -o serve");
            return Err(error.into());
        }
        _ => {}
    }
    with_logs(args, wanted, command)
}

/// A command with the options of its mount, and where and what it logs.
fn with_logs(args: &Helper, wanted: &Wanted, mut command: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    if let Some(namespace) = &args.namespace {
        let is_id = namespace.to_str().is_some_and(|text| text.parse::<u32>().is_ok());
        let namespace = if is_id { namespace.clone() } else { absolute(namespace)? };
        command.extend(["--mount-namespace".into(), namespace.into()]);
    }
    if !wanted.list.is_empty() {
        command.extend(["-o".into(), wanted.list.clone().into()]);
    }
    if let Some(file) = &wanted.log_file {
        command.extend(["--log-file".into(), absolute(file)?.into()]);
    }
    let level = match &wanted.log {
        Some(level) => Some(level.as_str()),
        None if args.verbose => Some("info"),
        None if std::env::var_os("ONPATH_LOG").is_none() => Some("warn"),
        None => None,
    };
    command.extend(level.into_iter().flat_map(|level| ["--log".into(), level.into()]));
    Ok(command)
}
