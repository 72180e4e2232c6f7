//! `onpath mkdir [-p] [-m MODE] PATH…`

use super::name::joined;
use super::{AtArgs, Target, Work, is};
use crate::tree::ModeChange;
use clap::Args;
use onpath_client::{Caller, Error};
use rustix::io::Errno;
use std::ffi::OsString;

/// Arguments of `onpath mkdir`.
#[derive(Args, Debug)]
pub(crate) struct MkdirArgs {
    #[arg(help = paths!("Directories to make"), required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    /// Make missing directories above, too; it is no failure if a PATH is a directory already.
    #[arg(short, long)]
    parents: bool,
    /// Permission bits, as chmod takes them, whatever the umask is.
    #[arg(short, long, value_name = "MODE", allow_hyphen_values = true)]
    mode: Option<ModeChange>,
    #[command(flatten)]
    at: AtArgs,
}

pub(crate) fn run(args: MkdirArgs) -> anyhow::Result<()> {
    let mut work = args.at.begin();
    for target in work.targets(&args.paths)? {
        let made = if args.parents { make_all(&work, &args, &target) } else { make(&work, &args, &target) };
        work.told(made);
    }
    work.end()
}

fn make(work: &Work, args: &MkdirArgs, target: &Target) -> Result<(), Error> {
    let Some(mode) = &args.mode else {
        return target.client.mkdir(&work.me, &target.path, 0o777).map(drop);
    };
    let bits = mode.apply(0o777 & !work.me.umask, true);
    let exactly = Caller { umask: 0, ..work.me.clone() };
    let made = target.client.mkdir(&exactly, &target.path, bits)?;
    match made.permissions & 0o7777 == bits {
        true => Ok(()),
        // setuid and setgid are not mkdir's to give.
        false => target.client.chmod(&work.me, &target.path, bits),
    }
}

/// The path and what is missing above it. Those above can be written and searched by their owner, whatever the umask is.
fn make_all(work: &Work, args: &MkdirArgs, target: &Target) -> Result<(), Error> {
    let above = Caller { umask: work.me.umask & !0o300, ..work.me.clone() };
    let names: Vec<&[u8]> = target.path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    let mut path: Vec<u8> = if target.path.starts_with(b"/") { b"/".to_vec() } else { Vec::new() };
    for (at, name) in names.iter().enumerate() {
        path = joined(&path, name);
        let made = match at + 1 == names.len() {
            true => make(work, args, &target.with_path(path.clone())),
            false => target.client.mkdir(&above, &path, 0o777).map(drop),
        };
        match made {
            Ok(()) => {}
            // A link to a directory is one.
            Err(error) if is_there(&error) && target.with_path(path.clone()).is_dir(&work.me) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Errors of a mkdir where the name may be there all the same: one above may not be written, or the file system not changed.
fn is_there(error: &Error) -> bool {
    [Errno::EXIST, Errno::ACCESS, Errno::PERM, Errno::ROFS].iter().any(|errno| is(error, *errno))
}
