//! Servers and mounts of the `onpath` binary under test.
#![allow(unsafe_code)]

use super::cluster::{Cluster, Shape};
use super::watchdog::Watchdog;
use super::{PATIENCE, Words, cannot_mount, skipped, sys, wait_until};
use onpath_client::Options;
use onpath_client::blocking::Client;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

/// The binary under test.
pub fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_onpath")
}

/// A place for one file system: its DIR, its mountpoints, and the logs of its processes.
///
/// With `ONPATH_HOSTS=N` it is a cluster: N hosts serve, and each mount is on a host of its own.
pub struct Site {
    _watchdog: Watchdog,
    /// Ends before its directory goes.
    cluster: Mutex<Option<Cluster>>,
    root: tempfile::TempDir,
    logs: AtomicUsize,
}

impl Site {
    /// A fresh site, or none where nothing can be mounted (said on standard error).
    pub fn new(test: &str) -> Option<Site> {
        // `onpath dev` reads some of them itself, and would only say that it has not started.
        Words::from_env();
        if let Some(reason) = cannot_mount() {
            skipped(test, reason);
            return None;
        }
        let root = tempfile::Builder::new().prefix("onpath-test-").tempdir().expect("a temporary directory");
        // Other users must get through to the mountpoints.
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).expect("chmod of the site");
        let cluster = Mutex::default();
        Some(Site { _watchdog: Watchdog::new(root.path()), cluster, root, logs: AtomicUsize::new(0) })
    }

    /// The directory of the site itself, on the local disk.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Where the file system keeps its state (DIR).
    pub fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// The same of every host that serves.
    pub fn states(&self) -> Vec<PathBuf> {
        match &*self.cluster.lock().expect("the cluster's lock") {
            Some(cluster) => (0..cluster.servers()).map(|host| cluster.state(host)).collect(),
            None => vec![self.state()],
        }
    }

    /// What a mount of it is called.
    pub fn source(&self) -> String {
        match &*self.cluster.lock().expect("the cluster's lock") {
            Some(cluster) => cluster.url(),
            None => self.state().display().to_string(),
        }
    }

    /// The mountpoint of that number, made if missing.
    pub fn mountpoint(&self, number: usize) -> PathBuf {
        let path = self.root.path().join(format!("mnt{number}"));
        if !is_mounted(&path) {
            std::fs::create_dir_all(&path).expect("mkdir of a mountpoint");
        }
        path
    }

    /// Starts `onpath dev STATE mnt0 ARGS…` and waits until it is mounted.
    pub fn dev(&self, args: &[&str]) -> Mount {
        self.dev_at(0, args)
    }

    /// The same at the mountpoint of that number.
    pub fn dev_at(&self, number: usize, args: &[&str]) -> Mount {
        self.start("dev", &self.state(), number, args)
    }

    /// The same on another DIR.
    pub fn dev_on(&self, state: &Path, args: &[&str]) -> Mount {
        self.start("dev", state, 0, args)
    }

    /// Starts `onpath mount STATE mntNUMBER ARGS…` beside a running `dev` and waits until it is mounted.
    pub fn mount(&self, number: usize, args: &[&str]) -> Mount {
        self.start("mount", &self.state(), number, args)
    }

    /// A client of what serves: of a cluster on a host that serves nothing.
    pub fn client(&self, options: &Options) -> Client {
        let source = self.source();
        let connect = || Client::connect(&source, options).expect("a client");
        match &*self.cluster.lock().expect("the cluster's lock") {
            Some(cluster) => cluster.net.run_on(cluster.net.hosts() - 1, connect),
            None => connect(),
        }
    }

    /// What runs the binary under test where mounts are: for a cluster on a host that serves nothing.
    pub fn beside(&self) -> Command {
        match &*self.cluster.lock().expect("the cluster's lock") {
            Some(cluster) => cluster.net.command(cluster.net.hosts() - 1, binary()),
            None => Command::new(binary()),
        }
    }

    fn start(&self, verb: &str, state: &Path, number: usize, args: &[&str]) -> Mount {
        if let Some(hosts) = hosts() {
            let OfCluster { init: of_cluster, meta_memory, mount: of_mount } = of_cluster(args);
            let mut cluster = self.cluster.lock().expect("the cluster's lock");
            let new = || {
                let shape = Shape::from_env();
                // What a test says goes before what the environment says.
                let other = shape.init.chunks(2).filter(|pair| !of_cluster.contains(&pair[0])).flatten();
                let init: Vec<&str> = of_cluster.iter().chain(other).copied().collect();
                let switches = if init.contains(&"network") { shape.switches.max(1) } else { 0 };
                let shape = Shape {
                    servers: hosts,
                    switches,
                    xdp: shape.xdp && switches > 0,
                    init: &init,
                    meta_memory,
                    ..shape
                };
                Cluster::start("ONPATH_HOSTS", self, shape).expect("hosts can be connected")
            };
            let cluster = cluster.get_or_insert_with(new);
            if verb == "dev" {
                cluster.serve_all();
            }
            // A mount without a key trusts no files unless it is told to; one of the host that serves does.
            let options =
                std::env::var("ONPATH_OPTIONS").map_or("suid,dev".to_owned(), |all| format!("{all},suid,dev"));
            return cluster.mount(self, number, &[&["-o", &options][..], &of_mount].concat());
        }
        let mountpoint = self.mountpoint(number);
        let mut command = Command::new(binary());
        command.arg(verb).arg(state).arg(&mountpoint).args(args);
        if verb == "dev" {
            std::fs::create_dir_all(state).expect("mkdir of DIR");
            command.args(shape(args));
        }
        Mount::start(command, mountpoint, self.log(verb))
    }

    /// kill -9 of what serves, and of the mount that [`Site::dev`] gave, which is of the same process if nothing crosses hosts; else all hosts
    /// with shards die. The next [`Site::dev`] starts what is missing.
    pub fn kill_server(&self, mount: &mut Mount) {
        mount.kill();
        if let Some(cluster) = &mut *self.cluster.lock().expect("the cluster's lock") {
            cluster.kill_servers();
        }
    }

    /// The process of the mount that [`Site::dev`] gave, and those of all hosts with shards if it is another one.
    pub fn server_pids(&self, mount: &Mount) -> Vec<u32> {
        let cluster = self.cluster.lock().expect("the cluster's lock");
        let hosts = cluster.iter().flat_map(|cluster| (0..cluster.servers()).map(|host| cluster.process(host).pid()));
        hosts.chain([mount.pid()]).collect()
    }

    /// A file for what another process says.
    pub fn log(&self, verb: &str) -> PathBuf {
        self.root.path().join(format!("log{}-{verb}", self.logs.fetch_add(1, Ordering::Relaxed)))
    }

    /// What `onpath status` tells now.
    pub fn status(&self) -> Status {
        match &*self.cluster.lock().expect("the cluster's lock") {
            Some(cluster) => cluster.status(),
            None => status_of(&self.state()).expect("onpath status"),
        }
    }

    /// Waits until a mount is alone once more than `before` times; how often that was.
    pub fn wait_alone(&self, before: u64) -> u64 {
        let mut now = 0;
        wait_until("a mount is alone", || {
            now = self.status().sum("shard", &["alone_given"]);
            now > before
        });
        now
    }

    /// Runs `onpath fsck STATE`, the file system being stopped, and fails the test unless it is clean. No check is of several hosts: these
    /// must stop when they are asked to. The next [`Site::dev`] starts them again.
    pub fn assert_clean(&self, when: &str) {
        match &mut *self.cluster.lock().expect("the cluster's lock") {
            Some(cluster) => cluster.stop_all(),
            None => assert_clean(&self.state(), when),
        }
    }
}

impl Drop for Site {
    /// Nothing stays mounted in a directory that goes: a look at it could wait for hosts that are gone.
    fn drop(&mut self) {
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        let mounted = table.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
        mounted.filter(|path| path.starts_with(self.root.path())).for_each(|path| _ = sys::detach(path));
    }
}

/// The arguments of a `dev`, as those of a cluster and of a mount of it.
#[derive(Default)]
struct OfCluster<'a> {
    init: Vec<&'a str>,
    meta_memory: Option<&'a str>,
    mount: Vec<&'a str>,
}

/// What is whose. How often a host writes checkpoints cannot be chosen.
fn of_cluster<'a>(args: &[&'a str]) -> OfCluster<'a> {
    let mut all = OfCluster::default();
    let mut args = args.iter().copied();
    while let Some(arg) = args.next() {
        match arg {
            "--checkpoint-bytes" => _ = args.next(),
            "--meta-memory" => all.meta_memory = args.next(),
            "--shards" | "--commit" | "--tracking" | "--writes" => {
                all.init.extend([arg].into_iter().chain(args.next()))
            }
            _ => all.mount.push(arg),
        }
    }
    all
}

/// On how many hosts file systems are served, if not on this one.
fn hosts() -> Option<usize> {
    let hosts = std::env::var("ONPATH_HOSTS").ok()?;
    Some(hosts.parse().unwrap_or_else(|_| panic!("ONPATH_HOSTS={hosts} is no number")))
}

/// What `onpath status DIR` tells now, if somebody serves it.
pub fn status_of(state: &Path) -> Option<Status> {
    let output = run(["status".as_ref(), "--counters".as_ref(), "--json".as_ref(), state.as_os_str()]);
    output.status.success().then(|| Status(serde_json::from_slice(&output.stdout).expect("JSON")))
}

/// The counters of all roles.
pub struct Status(serde_json::Value);

impl Status {
    /// That of several processes, each of whose roles is called after it, too.
    pub fn together(all: impl IntoIterator<Item = (String, Status)>) -> Status {
        let roles = all.into_iter().flat_map(|(process, Status(roles))| match roles {
            serde_json::Value::Object(roles) => {
                roles.into_iter().map(move |(role, counters)| (format!("{role}@{process}"), counters))
            }
            other => panic!("roles: {other}"),
        });
        Status(roles.collect())
    }

    /// Operations of these kinds of the mount of the process, and of all that have told it what they do.
    pub fn operations(&self, kinds: &[&str]) -> u64 {
        self.sum("mount", kinds) + self.sum("told", kinds)
    }

    /// The names of all roles, each with those of its counters.
    pub fn names(&self) -> Vec<(String, Vec<String>)> {
        let names = |counters: &serde_json::Value| counters.as_object().expect("counters").keys().cloned().collect();
        let roles = self.0.as_object().expect("roles").iter();
        roles.map(|(role, counters)| (role.clone(), names(counters))).collect()
    }

    /// The sum of these counters over all roles whose names begin so.
    pub fn sum(&self, roles: &str, counters: &[&str]) -> u64 {
        let all = self.0.as_object().expect("roles");
        let mine = all.iter().filter(|(role, _)| role.starts_with(roles));
        mine.flat_map(|(_, role)| counters.iter().filter_map(|counter| role[*counter].as_u64())).sum()
    }
}

/// `ONPATH_SHARDS` and `ONPATH_COMMIT` choose where a test does not.
fn shape(args: &[&str]) -> Vec<OsString> {
    [("ONPATH_SHARDS", "--shards"), ("ONPATH_COMMIT", "--commit")]
        .into_iter()
        .filter(|(_, option)| !args.iter().any(|arg| arg.starts_with(option)))
        .filter_map(|(variable, option)| Some([option.into(), std::env::var_os(variable)?]))
        .flatten()
        .collect()
}

/// Runs `onpath fsck DIR` and fails the test unless it is clean.
pub fn assert_clean(state: &Path, when: &str) {
    let output = run(["fsck".as_ref(), state.as_os_str()]);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "fsck {when}: {}\n{said}", output.status);
}

/// Runs `onpath ARGS…` to its end (killed after [`PATIENCE`]) and gives what it said.
pub fn run<'a>(args: impl IntoIterator<Item = &'a OsStr>) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "2"]).arg(PATIENCE.as_secs().to_string()).arg(binary()).args(args).stdin(Stdio::null());
    command.output().expect("timeout and onpath run")
}

/// A running `onpath` that serves; killed on drop.
pub struct Process {
    child: Child,
    log: PathBuf,
    command: String,
}

impl Process {
    /// Starts a command, and waits until it says `ready`.
    pub fn start(command: Command, log: PathBuf, ready: &str) -> Process {
        let mut process = Process::spawn(command, log);
        process.wait_for(|process| process.said().contains(ready));
        process
    }

    fn spawn(mut command: Command, log: PathBuf) -> Process {
        let output = std::fs::File::options().create(true).append(true).open(&log).expect("a log file");
        command.stdin(Stdio::null());
        command.stdout(output.try_clone().expect("dup of the log")).stderr(output);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let child = spawn_watched(command).expect("onpath starts");
        Process { child, log, command: format!("onpath {}", words.join(" ")) }
    }

    fn wait_for(&mut self, ready: impl Fn(&Process) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !ready(self) {
            if let Some(status) = self.child.try_wait().expect("wait of our child") {
                panic!("{}: ended before it was ready: {status}\n{}", self.command, self.said());
            }
            assert!(Instant::now() < deadline, "{}: not ready in {PATIENCE:?}\n{}", self.command, self.said());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything the process wrote to its outputs.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ctrl-C: must exit with 0.
    pub fn stop(mut self) {
        self.signal(libc::SIGINT);
        self.ends();
    }

    /// Must exit with 0, as it was asked to.
    fn ends(&mut self) {
        let mut status = None;
        wait_until("the process ends after SIGINT", || {
            status = self.child.try_wait().expect("wait of our child");
            status.is_some()
        });
        let status: ExitStatus = status.expect("just seen");
        assert!(status.success(), "{} after SIGINT: {status}\n{}", self.command, self.said());
        self.assert_no_panic();
    }

    /// Runs a command that would serve and must end by itself, with an error; what it said.
    pub fn fails(command: Command, log: PathBuf) -> String {
        let mut process = Process::spawn(command, log);
        let mut status = None;
        wait_until("the process ends by itself", || {
            status = process.child.try_wait().expect("wait of our child");
            status.is_some()
        });
        let status: ExitStatus = status.expect("just seen");
        // 32: it could not start; 1: it had begun to serve.
        assert!(matches!(status.code(), Some(1 | 32)), "{}: {status}\n{}", process.command, process.said());
        process.assert_no_panic();
        process.said()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.child.kill().expect("kill of our child");
        self.child.wait().expect("wait of our child");
        self.assert_no_panic();
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: signals a child of our own that was not reaped yet.
        unsafe { libc::kill(self.child.id() as i32, signal) };
        if signal == libc::SIGSTOP {
            // A thread on another processor goes on for a moment.
            wait_until("a stopped process stands still", || self.stands_still());
        }
    }

    fn stands_still(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("its threads");
        let stats = threads.map(|thread| std::fs::read_to_string(thread.expect("a thread").path().join("stat")));
        stats.flatten().all(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
    }

    fn assert_no_panic(&self) {
        let said = self.said();
        assert!(!said.contains("panicked"), "{}: panicked\n{said}", self.command);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            super::report(&format!("--- {} said:\n{}", self.command, tail(&self.said())));
        }
    }
}

/// A running `onpath dev` or `onpath mount`; killed and detached on drop.
pub struct Mount {
    process: Process,
    mountpoint: PathBuf,
}

impl Mount {
    /// Starts a command that mounts, and waits until it has.
    pub fn start(command: Command, mountpoint: PathBuf, log: PathBuf) -> Mount {
        let mut mount = Mount { process: Process::spawn(command, log), mountpoint };
        let mountpoint = mount.mountpoint.clone();
        // What a killed server left counts as mounted too, so the process must also say so itself.
        mount.process.wait_for(|process| is_mounted(&mountpoint) && process.said().contains("mounted on"));
        // The first request waits until the mount has answered the kernel's INIT.
        sys::stat(&mount.mountpoint)
            .unwrap_or_else(|errno| panic!("{}: stat: errno {errno}\n{}", mount.process.command, mount.said()));
        mount
    }

    /// The mounted directory.
    pub fn path(&self) -> &Path {
        &self.mountpoint
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Everything the process wrote to its outputs.
    pub fn said(&self) -> String {
        self.process.said()
    }

    /// Ctrl-C: must unmount and exit with 0.
    pub fn stop(self) {
        self.signal(libc::SIGINT);
        self.ends();
    }

    /// Must unmount and exit with 0, as it was asked to.
    pub fn ends(mut self) {
        self.process.ends();
        assert!(!is_mounted(&self.mountpoint), "{}: exited but left its mount", self.process.command);
    }

    /// kill -9; the dead mount stays, as it would for a user.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.process.child.kill();
        let _ = self.process.child.wait();
        // A later server may have mounted at the same place: only what is dead goes. Of its root the kernel may have the attributes.
        let dead = || is_mounted(&self.mountpoint) && sys::statvfs(&self.mountpoint).is_err();
        while dead() && sys::detach(&self.mountpoint).is_ok() {}
    }
}

pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// Whether something of ours is mounted there, read from the mount table: a dead mount must not be touched.
pub fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    table.lines().any(|line| {
        let mut fields = line.split(' ');
        fields.nth(4).map(Path::new) == Some(path)
            && line.split(" - ").nth(1).is_some_and(|kind| kind.starts_with("fuse"))
    })
}

type Job = (Command, mpsc::Sender<io::Result<Child>>);

/// Spawns a process that gets SIGINT when this one dies, so that no server outlives its tests. The kernel sends that when the *thread*
/// that forked ends, hence one thread for all, which lives as long as the process.
fn spawn_watched(mut command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();
    // SAFETY: prctl is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT);
            Ok(())
        })
    };
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, reply) in jobs {
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let (reply, answer) = mpsc::channel();
    spawner.lock().expect("the spawner's lock").send((command, reply)).expect("the spawner lives");
    answer.recv().expect("the spawner answers")
}
