//! `onpath mount DIR MOUNTPOINT`: a further mount of a file system that `onpath dev` serves.

use crate::background::BackgroundArgs;
use crate::cli::{CacheMode, absolute};
use crate::mounted::{self, Event, SessionEffects};
use clap::Args;
use onpath_fuse::mount::MountOptions;
use onpath_host::journal::Commit;
use onpath_host::node::{HostHooks, Node, NodeBuilder, Port};
use onpath_host::stream::{Attached, ClientHooks, StreamClient, StreamError};
use onpath_session::{Session, SessionConfig, SessionIn};
use onpath_wire::ids::NodeId;
use onpath_wire::map::ClusterMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Arguments of `onpath mount`.
#[derive(Args, Debug)]
pub(crate) struct MountArgs {
    /// The DIR of the running `onpath dev`.
    #[arg(env = "ONPATH_DIR")]
    dir: PathBuf,
    /// Where to mount it.
    #[arg(env = "ONPATH_MOUNTPOINT")]
    mountpoint: PathBuf,
    /// Mount options as for mount(8), and soft: requests to a server that is gone end with EIO.
    #[arg(short = 'o', env = "ONPATH_OPTIONS", value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// What this mount caches; also -o cache=….
    #[arg(long, env = "ONPATH_CACHE", value_enum, default_value = "alone")]
    cache: CacheMode,
    #[command(flatten)]
    background: BackgroundArgs,
}

pub(crate) fn run(args: MountArgs) -> anyhow::Result<()> {
    let Some(ready) = args.background.begin()? else { return Ok(()) };
    let options = MountOptions::parse(&args.options.join(","), &["soft", "cache"])?;
    let dir = absolute(&args.dir)?;
    let client = StreamClient::connect(&dir)?;
    let welcome = client.welcome;
    let map = ClusterMap::even(welcome.shards);
    let session = Session::new(SessionConfig {
        session: welcome.session,
        cluster: welcome.fsid as u32,
        map: map.clone(),
        soft: options.own.iter().any(|(name, _)| name == "soft"),
        access_times: options.mount.access_times(),
        in_halves: welcome.sync,
        caches: args.cache.chosen(&options)?,
    });
    let (effects, sender, receiver) = mounted::effects();
    let mut builder = NodeBuilder::new();
    let port = builder.add(NodeId::session(welcome.session), session, effects.clone());
    // This process has no records: whether a reply may leave is decided where they are.
    let node = builder.start(Commit::Interval(1), None, Arc::new(NoJournal));
    let hooks = Hooks { session: port.clone(), map, over: sender.clone() };
    let stream = client.start(&node, hooks)?;
    let stream = Arc::new(stream);
    let told = tell(&stream, &effects)?;
    let mountpoint = absolute(&args.mountpoint)?;
    let served = mounted::serve(
        &mountpoint,
        &options.mount.with_source(&dir.to_string_lossy()),
        &node,
        &port,
        effects,
        (sender, receiver),
        ready,
    );
    drop(told);
    stream.stop();
    node.close()?;
    served
}

/// How often the server is told what this mount does.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Tells the server what this mount does, until the sender that is returned is dropped.
fn tell(stream: &Arc<Attached>, effects: &SessionEffects) -> io::Result<Sender<()>> {
    let (over, ended) = channel();
    let (stream, answers) = (stream.clone(), effects.answers());
    std::thread::Builder::new().name("teller".into()).spawn(move || {
        while ended.recv_timeout(TOLD_EVERY) == Err(RecvTimeoutError::Timeout) {
            stream.tell(&answers.meter().counters());
        }
    })?;
    Ok(over)
}

struct NoJournal;

impl HostHooks for NoJournal {
    fn flush_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn space(&self, _full: bool) {}
    fn failed(&self, why: &str) {
        unreachable!("there is no journal to fail: {why}");
    }
}

struct Hooks {
    session: Port<Session>,
    map: ClusterMap,
    over: Sender<Event>,
}

impl ClientHooks for Hooks {
    fn reset(&self, node: &Node) {
        let peers = self.map.all().map(NodeId::shard).chain([NodeId::data(0)]);
        peers.for_each(|peer| node.submit(&self.session, SessionIn::PeerReset(peer)));
    }

    fn refused(&self, _node: &Node, why: &StreamError) {
        // The mount may be over already; then nobody listens.
        _ = self.over.send(Event::Refused(why.to_string()));
    }
}
