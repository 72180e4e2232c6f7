//! `onpath COMMAND --at SOURCE …` as somebody types it.

use crate::common::PATIENCE;
use crate::common::cluster::Cluster;
use crate::common::server::{Site, binary};
use crate::common::user::User;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Where commands run, as whom, and on which file system.
pub(super) struct Shell<'a> {
    cluster: Option<(&'a Cluster, usize)>,
    source: OsString,
    user: Option<User>,
    directory: PathBuf,
}

/// What a command has said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) code: Option<i32>,
    pub(super) out: Vec<u8>,
    pub(super) errors: String,
}

impl<'a> Shell<'a> {
    /// On the `dev` of a site.
    pub(super) fn at(site: &Site) -> Shell<'a> {
        let directory = site.root().to_owned();
        Shell { cluster: None, source: site.state().into_os_string(), user: None, directory }
    }

    /// On the hosts of a cluster, from that one.
    pub(super) fn on(cluster: &'a Cluster, site: &Site, host: usize) -> Shell<'a> {
        let (cluster, source) = (Some((cluster, host)), cluster.url().into());
        Shell { cluster, source, user: None, directory: site.root().to_owned() }
    }

    /// The same as another user.
    pub(super) fn of(self, user: User) -> Shell<'a> {
        Shell { user: Some(user), ..self }
    }

    /// A command before it runs: `onpath VERB --at SOURCE ARGS…`.
    pub(super) fn command<S: AsRef<OsStr>>(&self, verb: &str, args: &[S]) -> Command {
        let mut all: Vec<&OsStr> = vec![verb.as_ref(), "--at".as_ref(), &self.source];
        all.extend(args.iter().map(AsRef::as_ref));
        self.plain(&all)
    }

    /// `onpath ARGS…`.
    pub(super) fn plain<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        // As root until it is where the hosts of the cluster are.
        let program = if self.user.is_some() { "setpriv" } else { "timeout" };
        let mut command = match self.cluster {
            Some((cluster, host)) => cluster.net.command(host, program),
            None => Command::new(program),
        };
        if let Some(User { uid, gid, .. }) = self.user {
            command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).args(["--clear-groups", "timeout"]);
        }
        command.args(["-k", "2"]).arg(PATIENCE.as_secs().to_string()).arg(binary()).args(args);
        command.current_dir(&self.directory).stdin(Stdio::null()).env("LC_ALL", "C").env("TZ", "UTC");
        command
    }

    /// Runs a command to its end.
    pub(super) fn run<S: AsRef<OsStr>>(&self, verb: &str, args: &[S]) -> Said {
        Said::of(self.command(verb, args).output().expect("timeout and onpath run"))
    }

    /// The same, which must succeed and say nothing of errors: what it printed.
    #[track_caller]
    pub(super) fn ok<S: AsRef<OsStr> + std::fmt::Debug>(&self, verb: &str, args: &[S]) -> Vec<u8> {
        let said = self.run(verb, args);
        assert_eq!((said.code, said.errors.as_str()), (Some(0), ""), "{verb} {args:?}");
        said.out
    }

    /// The same as text.
    #[track_caller]
    pub(super) fn text<S: AsRef<OsStr> + std::fmt::Debug>(&self, verb: &str, args: &[S]) -> String {
        String::from_utf8(self.ok(verb, args)).expect("text")
    }

    /// Runs a command that must fail with that code, and say those words.
    #[track_caller]
    pub(super) fn fails<S: AsRef<OsStr> + std::fmt::Debug>(
        &self,
        code: i32,
        verb: &str,
        args: &[S],
        words: &[&str],
    ) -> Said {
        let said = self.run(verb, args);
        assert_eq!(said.code, Some(code), "{verb} {args:?}: {said:?}");
        assert!(words.iter().all(|word| said.errors.contains(word)), "{verb} {args:?}: {said:?}");
        said
    }
}

impl Said {
    pub(super) fn of(output: Output) -> Said {
        let Output { status, stdout, stderr } = output;
        Said { code: status.code(), out: stdout, errors: String::from_utf8_lossy(&stderr).into_owned() }
    }
}
