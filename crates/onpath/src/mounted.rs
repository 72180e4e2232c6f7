//! A client session behind a mount: the kernel's requests go in, answers go back, until it is unmounted.

use crate::background::{BackgroundArgs, Readiness};
use crate::cli::absolute;
use crate::signals;
use onpath_fuse::adapter::{
    Answers, Invalidator, Numbers, SessionDriver, SessionFilesystem, read_caller, sees_all_processes, waits_as_process,
};
use onpath_fuse::mount::{Mount, MountError, MountOptions, Namespace, ParsedOptions, refuse_below, refuse_nesting};
use onpath_fuse::serve::{ServeError, ServeOptions};
use onpath_host::node::{Effects, Node, Port};
use onpath_session::fs::FsRequest;
use onpath_session::{LostReason, Session, SessionIn, SessionOut};
use onpath_wire::shown::Shown;
use std::io::PipeWriter;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

/// What a session's outputs do to its mount.
#[derive(Clone)]
pub(crate) struct SessionEffects {
    answers: Arc<Answers>,
    /// The session itself, where it hears that nothing is cached any more.
    session: Arc<OnceLock<Driver>>,
    /// Gets the session another id, which it hears of by [`SessionIn::Anew`].
    rejoin: Arc<OnceLock<Rejoin>>,
    lost: Sender<Event>,
}

/// What to do when the session was declared dead; it must not wait.
pub(crate) type Rejoin = Box<dyn Fn() + Send + Sync>;

/// What ends a mount.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Somebody asked the process to end.
    Signal,
    /// It was unmounted.
    Unmounted,
    /// The session is over.
    Lost(LostReason),
    /// The serving process will not have the session again.
    Refused(String),
}

/// Inode numbers of 32 bits.
const INODE32: &str = "inode32";
/// Requests to a server that is gone end with EIO.
pub(crate) const SOFT: &str = "soft";
/// Options of a mount, beside those of mount(8).
pub(crate) const OPTIONS: [&str; 3] = [SOFT, INODE32, "cache"];

/// A session's outputs and where its mount hears of them.
pub(crate) fn effects(options: &ParsedOptions) -> (SessionEffects, Sender<Event>, Receiver<Event>) {
    let (sender, receiver) = channel();
    let numbers = if options.has(INODE32) { Numbers::Folded } else { Numbers::Whole };
    let effects = SessionEffects {
        answers: Arc::new(Answers::with_numbers(numbers)),
        session: Arc::default(),
        rejoin: Arc::default(),
        lost: sender.clone(),
    };
    (effects, sender, receiver)
}

impl SessionEffects {
    /// What to do when the session was declared dead; said once.
    pub(crate) fn on_expiry(&self, rejoin: Rejoin) {
        assert!(self.rejoin.set(rejoin).is_ok(), "one way to join again");
    }

    /// What hands in what the session asked for, from another thread.
    fn submitter(&self) -> impl Fn(SessionIn) + Send + 'static {
        let driver = self.session.clone();
        move |input| {
            let Driver { node, session } = driver.get().expect("set before the mount is");
            node.submit(session, input);
        }
    }

    /// The requests of the mount.
    pub(crate) fn answers(&self) -> Arc<Answers> {
        self.answers.clone()
    }
}

impl Effects<Session> for SessionEffects {
    fn perform(&self, out: SessionOut, done: &mut Vec<SessionIn>) {
        match out {
            SessionOut::Reply { unique, result } => {
                self.answers.complete(unique, result);
            }
            SessionOut::ReadCaller { ticket, question } => {
                let told = move |read| SessionIn::Caller { ticket, read };
                let submit = self.submitter();
                done.extend(ready(read_caller(question, move |read| submit(told(read)))).map(told));
            }
            SessionOut::HowItWaits { ticket, pid } => {
                let told = move |process| SessionIn::WaitsAs { ticket, process };
                let submit = self.submitter();
                done.extend(ready(waits_as_process(pid, move |process| submit(told(process)))).map(told));
            }
            SessionOut::Alone { alone, until_us } => self.answers.alone(alone, until_us),
            SessionOut::Share { upto, open } => {
                let submit = self.submitter();
                if !self.answers.share(upto, open, move || submit(SessionIn::Shared)) {
                    done.push(SessionIn::Shared);
                }
            }
            SessionOut::WriteBack { id } => {
                let submit = self.submitter();
                if !self.answers.write_back(id, move || submit(SessionIn::WrittenBack { id })) {
                    done.push(SessionIn::WrittenBack { id });
                }
            }
            SessionOut::Forget { open } => self.answers.forget(open),
            SessionOut::Invalidate { id } => self.answers.invalidate(id),
            SessionOut::Attached => tracing::debug!("the session is attached"),
            SessionOut::Expired => {
                tracing::warn!("the session was declared dead while nobody heard of it; joining again");
                self.rejoin.get().expect("set before the session can expire")();
            }
            SessionOut::Lost(reason) => {
                // The mount may be over already; then nobody listens.
                _ = self.lost.send(Event::Lost(reason));
            }
        }
    }
}

fn ready<T>(answer: Poll<T>) -> Option<T> {
    match answer {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[derive(Clone)]
struct Driver {
    node: Arc<Node>,
    session: Port<Session>,
}

impl SessionDriver for Driver {
    fn submit(&self, request: FsRequest) {
        self.node.submit(&self.session, SessionIn::Fs(request));
    }
}

/// What a mount says that runs in a pid namespace of its own.
const BLIND: &str = "this process does not see the processes outside its pid namespace: for them supplementary groups and \
    capabilities count as missing, root's too, and deadlocks of their locks are not found; run it with the host's pids (--pid=host)";

/// Where a mount shall be.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) mountpoint: PathBuf,
    /// The mount namespace in which that is looked for; none for that of this process.
    namespace: Option<Namespace>,
}

impl Target {
    pub(crate) fn new(mountpoint: &Path, namespace: Option<&Path>) -> anyhow::Result<Target> {
        let namespace = namespace.map(Namespace::open).transpose()?;
        Ok(Target { mountpoint: absolute(mountpoint)?, namespace })
    }

    /// What can be said against it before anything is done. `dir`: where the server keeps its state, if that is on this host.
    pub(crate) fn check(&self, source: &str, dir: Option<&Path>, background: &BackgroundArgs) -> anyhow::Result<()> {
        // Of another namespace the paths mean something else, and its mounts hide nothing here.
        if self.namespace.is_none() {
            dir.map_or(Ok(()), |dir| refuse_nesting(dir, &self.mountpoint))?;
            let below = |log| refuse_below(&absolute(log)?, &self.mountpoint).map_err(anyhow::Error::from);
            background.log_file().map_or(Ok(()), below)?;
        }
        background.check()?;
        Ok(Mount::check(self.namespace.as_ref(), &self.mountpoint, source)?)
    }
}

/// Mounts the session and serves it until a signal, an unmount, or the end of the session.
pub(crate) fn serve(
    target: Target,
    options: &MountOptions,
    node: &Arc<Node>,
    session: &Port<Session>,
    effects: SessionEffects,
    events: (Sender<Event>, Receiver<Event>),
    ways: Ways<'_>,
) -> anyhow::Result<()> {
    let Target { mountpoint, namespace } = target;
    let mount = Arc::new(Mount::within(namespace, &mountpoint, options)?);
    let (sender, receiver) = events;
    signals::forward(sender.clone(), Event::Signal)?;
    let Ways { ready, is_lost, ending } = ways;
    let driver = Driver { node: node.clone(), session: session.clone() };
    assert!(effects.session.set(driver.clone()).is_ok(), "one mount a session");
    effects.answers.attach(Invalidator::start(mount.transport(), Box::new(mount.covered()))?);
    let _orphaned =
        is_lost.map(|is_lost| answer_alone(is_lost, driver.clone(), effects.answers.clone())).transpose()?;
    let _changes = watch(&mount, options, driver.clone())?;
    if !sees_all_processes() {
        eprintln!("onpath: {BLIND}");
    }
    let mut filesystem = SessionFilesystem::new(driver, effects.answers);
    if options.default_permissions() {
        filesystem = filesystem.with_default_permissions();
    }
    let reader = {
        let mount = mount.clone();
        std::thread::Builder::new().name("fuse-reader-0".into()).spawn(move || -> Result<(), ServeError> {
            let mounted = || ready.announce(&format!("onpath: mounted on {}", mountpoint.shown()));
            let result = mount.serve(&filesystem, ServeOptions::default(), mounted);
            _ = sender.send(Event::Unmounted); // the main thread may have ended first
            result
        })?
    };
    let over = wait(&mount, &receiver)?;
    ending();
    if let Over::Unmounted = over {
        reader.join().expect("the reader does not panic")?;
    }
    node.submit(session, SessionIn::Shutdown);
    // The session says that it has left, so that its opens and locks are gone before the process is.
    while !matches!(receiver.recv_timeout(std::time::Duration::from_secs(2)), Ok(Event::Lost(_)) | Err(_)) {}
    Ok(())
}

/// What a mount has to do with others: who waits for it, and the server of its file system.
pub(crate) struct Ways<'a> {
    /// How it is told that it can be used.
    pub(crate) ready: Readiness,
    /// Whether the server is gone, if it is another process.
    pub(crate) is_lost: Option<Box<dyn Fn() -> bool + Send>>,
    /// To be called when the mount is over, before all that takes time.
    pub(crate) ending: Box<dyn FnOnce() + 'a>,
}

/// How often it is looked whether the server is gone, and how long it is waited for then with what umount(8) asks.
const ORPHANED: Duration = Duration::from_millis(500);

/// While the server is gone, answers what umount(8) asks before it unmounts; until the sender is dropped.
fn answer_alone(
    is_lost: impl Fn() -> bool + Send + 'static,
    driver: Driver,
    answers: Arc<Answers>,
) -> std::io::Result<Sender<()>> {
    let (over, ended) = channel::<()>();
    std::thread::Builder::new().name("orphaned".into()).spawn(move || {
        while ended.recv_timeout(ORPHANED) == Err(RecvTimeoutError::Timeout) {
            if is_lost() {
                answers.answer_alone(ORPHANED, &driver);
            }
        }
    })?;
    Ok(over)
}

/// Tells the session by which options the mount goes when they change; until what is given back is dropped.
fn watch(mount: &Mount, options: &MountOptions, driver: Driver) -> anyhow::Result<PipeWriter> {
    let (mut changes, ends) = mount.changes(options.access_times())?;
    std::thread::Builder::new().name("mount-options".into()).spawn(move || {
        loop {
            match changes.wait() {
                Ok(Some(times)) => driver.node.submit(&driver.session, SessionIn::AccessTimes(times)),
                Ok(None) => return,
                Err(error) => {
                    return tracing::warn!(%error, "the mount goes on by the options that it has, whatever is remounted");
                }
            }
        }
    })?;
    Ok(ends)
}

/// How a mount has ended.
pub(crate) enum Over {
    Unmounted,
    /// Another mount namespace still has it: nobody there is answered any more when the process ends.
    Held,
}

/// Waits until the mount is over, and ends it when a signal asks for that: once nobody uses it, or at the second signal.
pub(crate) fn wait(mount: &Mount, events: &Receiver<Event>) -> anyhow::Result<Over> {
    let mut leaving = None::<Leaving>;
    loop {
        let users = leaving.as_ref().filter(|leaving| leaving.is_gone(ENDED_WITHIN)).map(|_| mount.users_elsewhere());
        let late = leaving.as_ref().is_some_and(|leaving| leaving.is_gone(ENDED_LATE));
        if let Some(users) = users.filter(|users| late || !users.0.is_empty()) {
            eprintln!(
                "onpath: another mount namespace still has it ({users}); who uses it there gets ENOTCONN from now on"
            );
            mount.abort_elsewhere();
            let ended = events.recv_timeout(ABORTED_WITHIN);
            return Ok(if matches!(ended, Ok(Event::Unmounted)) { Over::Unmounted } else { Over::Held });
        }
        let pause = leaving.as_ref().map_or(Duration::MAX, Leaving::pause);
        match events.recv_timeout(pause) {
            Ok(Event::Unmounted) => return Ok(Over::Unmounted),
            Ok(Event::Lost(LostReason::Detached)) => {}
            Ok(Event::Lost(reason)) => {
                mount.abort()?;
                anyhow::bail!(reason);
            }
            Ok(Event::Refused(why)) => {
                mount.abort()?;
                anyhow::bail!(why);
            }
            Ok(Event::Signal) if leaving.is_some() => {
                mount.detach()?;
                eprintln!("onpath: detached although somebody uses it; it ends with its last user");
            }
            Ok(Event::Signal) => leaving.insert(Leaving::default()).try_unmount(mount)?,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(leaving) = &mut leaving {
                    leaving.try_unmount(mount)?;
                }
            }
            Err(error @ RecvTimeoutError::Disconnected) => return Err(error.into()),
        }
    }
}

/// An unmount that is tried until the last user has left.
#[derive(Default)]
struct Leaving {
    tried: u32,
    /// Since when it is not mounted here any more.
    gone: Option<Instant>,
}

/// How soon the kernel ends a file system that no mount namespace has any more.
const ENDED_WITHIN: Duration = Duration::from_secs(1);
/// The same on a machine that does much else; whoever has it still is nowhere to be seen.
const ENDED_LATE: Duration = Duration::from_secs(10);
/// And one whose connection was aborted.
const ABORTED_WITHIN: Duration = Duration::from_secs(2);

impl Leaving {
    /// Tries of the first second. The kernel answers close(2) before it lets go of the file, so that a mount may be busy for a moment
    /// although nobody uses it: until then nothing is said, and the tries are close together.
    const SILENT_TRIES: u32 = 50;

    fn pause(&self) -> Duration {
        Duration::from_millis(if self.tried < Self::SILENT_TRIES { 20 } else { 500 })
    }

    /// Whether it is not mounted here any more since so long.
    fn is_gone(&self, since: Duration) -> bool {
        self.gone.is_some_and(|gone| gone.elapsed() >= since)
    }

    fn try_unmount(&mut self, mount: &Mount) -> Result<(), MountError> {
        self.tried = self.tried.saturating_add(1);
        match mount.unmount() {
            Err(busy @ MountError::Busy { .. }) => {
                if self.tried == Self::SILENT_TRIES {
                    eprintln!(
                        "onpath: {busy}; it ends when nobody uses it any more, or interrupt again to detach it at once"
                    );
                }
                Ok(())
            }
            Ok(()) => {
                self.gone.get_or_insert_with(Instant::now);
                Ok(())
            }
            result => result,
        }
    }
}
