//! `onpath dev DIR [MOUNTPOINT]`: a whole file system in one process.

use crate::background::BackgroundArgs;
use crate::cli::{CacheMode, CommitMode, TrackingForm, Writes, absolute, directory};
use crate::metrics::MetricsArgs;
use crate::mounted::{self, Event, Target, Ways};
use crate::progress::Progress;
use crate::signals;
use crate::teller::Own;
use anyhow::ensure;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use onpath_fuse::mount::{MountOptions, detach_dead};
use onpath_host::dir::read_superblock;
use onpath_host::journal::Commit;
use onpath_host::server::{CHECKPOINT_BYTES, IndexKind, PathOptions, ServerBuilder, ServerOptions, TrackingOptions};
use onpath_session::{Session, SessionIn};
use onpath_wire::ids::NodeId;
use onpath_wire::limits::COMMIT_INTERVAL_MS;
use onpath_wire::shown::Shown;
use onpath_wire::tracking::Form;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Arguments of `onpath dev`.
#[derive(Args, Debug)]
pub(crate) struct DevArgs {
    /// Where the state of the file system is; formatted if it is empty or missing.
    #[arg(env = "ONPATH_DIR")]
    dir: PathBuf,
    /// Where to mount it. Without, it only serves `onpath mount DIR MOUNTPOINT`.
    #[arg(env = "ONPATH_MOUNTPOINT")]
    mountpoint: Option<PathBuf>,
    /// Mount options as for mount(8): ro, nodev, nosuid, noexec, noatime, …; inode32: inode numbers of 32 bits.
    #[arg(short = 'o', env = "ONPATH_OPTIONS", value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Metadata shards to format DIR with, or to insist on; `onpath reshape` changes them [default: one a core].
    #[arg(long, env = "ONPATH_SHARDS")]
    shards: Option<u16>,
    /// When a change is on stable storage.
    #[arg(long, env = "ONPATH_COMMIT", value_enum, default_value = "interval")]
    commit: CommitMode,
    /// Longest time between a change and stable storage with --commit interval, milliseconds.
    #[arg(long, env = "ONPATH_COMMIT_INTERVAL_MS", default_value_t = COMMIT_INTERVAL_MS)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=60_000))]
    commit_interval_ms: u64,
    /// Who knows that a directory has pending updates: its owner, or the dirty set of a software switch in this process.
    #[arg(long, env = "ONPATH_TRACKING", value_enum, default_value = "owner")]
    tracking: TrackingForm,
    /// That switch answers what is asked for often from its cache.
    #[arg(long, env = "ONPATH_SWITCH_CACHE")]
    switch_cache: bool,
    /// Who answers writes of files.
    #[arg(long, env = "ONPATH_WRITES", value_enum, default_value = "chain")]
    writes: Writes,
    /// Journal bytes between two checkpoints; less on a small disk.
    #[arg(long, env = "ONPATH_CHECKPOINT_BYTES", default_value_t = CHECKPOINT_BYTES)]
    #[arg(value_parser = clap::value_parser!(u64).range(1 << 16..))]
    checkpoint_bytes: u64,
    /// Memory that names, inodes and listings may take, as 512M or 2G; what is more is read from the disk when it is asked for
    /// [default: no limit].
    #[arg(long, env = "ONPATH_META_MEMORY", value_parser = parse_meta_memory, value_name = "BYTES")]
    meta_memory: Option<u64>,
    /// Memory that the path node of this process may take, as 64M; 0: there is none. It leads clients without a mount through all directories
    /// of a path by one request.
    #[arg(long, env = "ONPATH_PATH_MEMORY", value_parser = parse_path_memory, value_name = "BYTES", default_value = PATH_MEMORY)]
    path_memory: u64,
    /// In what the path node keeps directories.
    #[arg(long, env = "ONPATH_PATH_INDEX", value_parser = path_index(), value_name = "INDEX", default_value = "hi")]
    path_index: IndexKind,
    /// The path node asks for all directories when it starts, as many as there is room for; else for each when somebody needs it.
    #[arg(long, env = "ONPATH_PATH_LOAD")]
    path_load: bool,
    /// Refuse a DIR that holds no file system yet, instead of formatting it.
    #[arg(long)]
    existing: bool,
    /// What this mount caches; also -o cache=….
    #[arg(long, env = "ONPATH_CACHE", value_enum, default_value = "alone")]
    cache: CacheMode,
    /// Mount in this mount namespace: a file, or the id of a process that is in it (for mount.onpath).
    #[arg(long, value_name = "NAMESPACE", requires = "mountpoint", hide = true)]
    mount_namespace: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    background: BackgroundArgs,
}

/// Least memory that may be given to names, inodes and listings, bytes.
const META_MEMORY_MIN: u64 = 1 << 20;

/// Memory of a path node unless somebody says otherwise.
pub(crate) const PATH_MEMORY: &str = "64M";
/// Least memory that may be given to a path node, bytes.
pub(crate) const PATH_MEMORY_MIN: u64 = 1 << 20;

pub(crate) fn parse_meta_memory(text: &str) -> Result<u64, String> {
    parse_bytes(text, META_MEMORY_MIN)
}

fn path_index() -> impl TypedValueParser<Value = IndexKind> {
    let words = IndexKind::ALL.map(IndexKind::word);
    PossibleValuesParser::new(words).map(|word| IndexKind::of_word(&word).expect("one of them"))
}

fn parse_path_memory(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { parse_bytes(text, PATH_MEMORY_MIN) }
}

/// A number of bytes with an optional unit K, M, G or T (powers of 1024).
pub(crate) fn parse_bytes(text: &str, least: u64) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" | "k" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        unit => return Err(format!("unknown unit {unit:?}: use K, M, G or T, as in 512M")),
    };
    let number: u64 = digits.parse().map_err(|_| "not a number of bytes, such as 512M".to_owned())?;
    let bytes = number.checked_mul(1 << shift).ok_or("too many bytes")?;
    if bytes < least {
        return Err(format!("at least {least} bytes are needed"));
    }
    Ok(bytes)
}

impl DevArgs {
    /// How the file system shall be run.
    fn server(&self) -> ServerOptions {
        let commit = match self.commit {
            CommitMode::Interval => Commit::Interval(self.commit_interval_ms),
            CommitMode::Sync => Commit::Sync,
        };
        let form = match self.tracking {
            TrackingForm::Owner => Form::Owner,
            TrackingForm::Network => Form::Network,
        };
        let path = PathOptions { memory: self.path_memory, index: self.path_index, loads: self.path_load };
        ServerOptions {
            shards: self.shards,
            secrets: None,
            commit,
            checkpoint_bytes: self.checkpoint_bytes,
            memory_bytes: self.meta_memory,
            path: (self.path_memory > 0).then_some(path),
            tracking: TrackingOptions { form, ..TrackingOptions::default() },
            writes: self.writes.into(),
            deferred: true,
        }
    }
}

pub(crate) fn run(args: DevArgs) -> anyhow::Result<()> {
    let parsed = MountOptions::parse(&args.options.join(","), &mounted::OPTIONS)?;
    if args.switch_cache {
        ensure!(matches!(args.tracking, TrackingForm::Network), "--switch-cache needs a switch: --tracking network");
    }
    let caches = args.cache.chosen(&parsed)?;
    let progress = Arc::new(Progress::of_server("starting"));
    let dir = directory(&args.dir)?;
    let target = args.mountpoint.as_deref().map(|at| Target::new(at, args.mount_namespace.as_deref())).transpose()?;
    if let Some(target) = &target {
        target.check(&dir.to_string_lossy(), Some(&dir), &args.background)?;
    }
    let subject = target.as_ref().map_or(&dir, |target| &target.mountpoint);
    let Some(ready) = args.background.begin(subject, &progress)? else { return Ok(()) };
    let metrics = args.metrics.bind()?;
    let options = args.server();
    if args.existing {
        read_superblock(&dir)?;
    }
    let mut server = ServerBuilder::open(&dir, options, progress.clone())?;
    if args.switch_cache {
        server.add_controller();
    }
    let Some(target) = target else {
        let (sender, receiver) = channel();
        signals::forward(sender, Event::Signal)?;
        let server = server.start()?;
        progress.finish();
        metrics.serve(&server.node, "dev")?;
        detach_dead_mounts(&dir, None)?;
        ready.announce(&format!("onpath: serving {}", args.dir.shown()));
        receiver.recv()?;
        return Ok(server.stop()?);
    };
    let (effects, sender, receiver) = mounted::effects(&parsed);
    let mut config = server.session(parsed.has(mounted::SOFT))?;
    config.access_times = parsed.mount.access_times();
    // The kernel would decide about the second half, an open of a file whose mode need not let its creator write.
    config.in_halves &= !parsed.mount.default_permissions();
    config.caches = caches;
    let id = config.session.id();
    let session = server.builder.add(NodeId::session(id), Session::new(config), effects.clone());
    let server = server.start()?;
    progress.finish();
    effects.on_expiry(Box::new({
        let (node, session) = (Arc::downgrade(&server.node), session.clone());
        let sessions = server.sessions.clone().expect("a whole file system has the coordinator");
        let over = sender.clone();
        move || match (sessions.next_resident(), node.upgrade()) {
            (Ok(number), Some(node)) => {
                node.rename(&session, number.id());
                node.submit(&session, SessionIn::Anew { session: number });
            }
            (Err(why), _) => _ = over.send(Event::Refused(why)),
            (_, None) => {}
        }
    }));
    detach_dead_mounts(&dir, Some(&target.mountpoint))?;
    let own = Own::new(&target.mountpoint, effects.answers())?;
    server.node.mounts().have_own(id, Box::new(move || own.report(false)));
    metrics.serve(&server.node, "dev")?;
    let served = mounted::serve(
        target,
        &parsed.mount.with_source(&dir.to_string_lossy()),
        &server.node,
        &session,
        effects,
        (sender, receiver),
        Ways { ready, is_lost: None, ending: Box::new(|| server.ending()) },
    );
    server.stop()?;
    served
}

/// Mounts that an earlier process for DIR left elsewhere when it was killed are of no use to anybody. Looking at one that lives waits for
/// its process, so this is done beside the serving.
fn detach_dead_mounts(dir: &Path, mountpoint: Option<&Path>) -> anyhow::Result<()> {
    let source = dir.to_string_lossy().into_owned();
    let mountpoint = mountpoint.map(absolute).transpose()?;
    std::thread::Builder::new().name("dead-mounts".into()).spawn(move || {
        if let Err(error) = detach_dead(&source, mountpoint.as_deref()) {
            tracing::warn!(%error, "a mount whose server is gone stays");
        }
    })?;
    Ok(())
}
