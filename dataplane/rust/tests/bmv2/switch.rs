//! A running simple_switch: pcap files for its ports, no root and no network.
//!
//! simple_switch reads its input files by time stamps, and holds the first packet of each before it delivers one. So each packet of
//! a run has the time of its number; a packet is let go by giving the file of the one before its next packet, or its end.

use crate::cli::Cli;
use crate::frame;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// A frame that comes in by a port.
pub(crate) type Input = (u32, Vec<u8>);

pub(crate) struct Running {
    dir: tempfile::TempDir,
    child: Child,
    thrift_port: u16,
    ports: BTreeSet<u32>,
    /// All frames of this run, and how many of them were let go.
    frames: Vec<Input>,
    released: usize,
    files: BTreeMap<u32, File>,
    fences: u32,
    /// Frames that each port has given so far.
    taken: BTreeMap<u32, usize>,
    pub(crate) cli: Cli,
}

fn path(dir: &Path, port: u32, way: &str) -> PathBuf {
    dir.join(format!("port{port}_{way}.pcap"))
}

fn until<T>(what: &str, mut attempt: impl FnMut() -> Result<Option<T>, String>) -> Result<T, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        if Instant::now() > deadline {
            return Err(format!("{what}: not within {PATIENCE:?}"));
        }
        std::thread::sleep(PAUSE);
    }
}

impl Running {
    /// Starts a switch with these ports, for these frames.
    pub(crate) fn start(program: &Path, ports: &BTreeSet<u32>, inputs: &[Input]) -> Result<Running, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        // After each frame a fence to every port.
        let mut frames = vec![];
        for (number, (port, frame)) in inputs.iter().enumerate() {
            frames.push((*port, frame.clone()));
            frames.extend(ports.iter().map(|to| (*port, frame::fence(*to, number as u32))));
        }
        let files = inputs_of(dir.path(), ports, &frames)?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let thrift_port = free.map_err(|error| error.to_string())?.port();
        let log = File::create(dir.path().join("log")).map_err(|error| error.to_string())?;
        let mut command = Command::new("simple_switch");
        command.args(["--use-files", "0", "--thrift-port", &thrift_port.to_string()]);
        // The id names its sockets, which must be nobody else's.
        command.args(["--device-id", &thrift_port.to_string()]);
        for port in ports {
            command.args(["-i", &format!("{port}@port{port}")]);
        }
        command.arg(program).current_dir(dir.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(|error| error.to_string())?).stderr(log);
        let mut child = command.spawn().map_err(|error| format!("simple_switch: {error}"))?;
        let cli = until("simple_switch answers", || {
            if let Ok(Some(status)) = child.try_wait() {
                let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
                return Err(format!("simple_switch ended, {status}: {log}"));
            }
            Ok(TcpStream::connect(("127.0.0.1", thrift_port)).ok())
        })
        .and_then(|_| Cli::begin(thrift_port));
        let cli = match cli {
            Ok(cli) => cli,
            Err(why) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(why);
            }
        };
        let (ports, taken) = (ports.clone(), BTreeMap::new());
        Ok(Running { dir, child, thrift_port, ports, frames, released: 0, files, fences: 0, taken, cli })
    }

    /// Frames that were sent to see that all others are through; the switch counts them as plain.
    pub(crate) fn fences(&self) -> u64 {
        u64::from(self.fences) * self.ports.len() as u64
    }

    fn release(&mut self) -> Result<(), String> {
        let at = self.released;
        let next_of = |frames: &[Input], port: u32, from: usize| (from..frames.len()).find(|&at| frames[at].0 == port);
        let mut ready = vec![];
        match at.checked_sub(1).map(|before| self.frames[before].0) {
            None => ready.extend(self.files.keys().filter_map(|&port| next_of(&self.frames, port, 0))),
            Some(port) => match next_of(&self.frames, port, at) {
                Some(next) => ready.push(next),
                None => drop(self.files.remove(&port)),
            },
        }
        for next in ready {
            let (port, frame) = &self.frames[next];
            let file = self.files.get_mut(port).expect("a file for every port that has frames");
            frame::write_packet(file, next as u32, frame).map_err(|error| error.to_string())?;
        }
        self.released += 1;
        Ok(())
    }

    /// Lets the next frame in, and waits until all that it makes has come out: (port, frame).
    pub(crate) fn next(&mut self) -> Result<Vec<(u32, Vec<u8>)>, String> {
        for _ in 0..=self.ports.len() {
            self.release()?;
        }
        let (number, ports) = (self.fences, self.ports.clone());
        self.fences += 1;
        let mut out = vec![];
        for port in ports {
            let taken = self.taken.entry(port).or_default();
            let fence = frame::fence(port, number);
            let frames = until(&format!("what goes out by port {port}"), || {
                let frames =
                    frame::read_packets(&path(self.dir.path(), port, "out")).map_err(|error| error.to_string())?;
                let frames = frames.get(*taken..).unwrap_or_default();
                Ok(frames.iter().position(|frame| *frame == fence).map(|end| frames[..end].to_vec()))
            })?;
            *taken += frames.len() + 1;
            out.extend(frames.into_iter().map(|frame| (port, frame)));
        }
        Ok(out)
    }
}

/// The input files: of a port with frames a pipe, of another a file that is at its end.
fn inputs_of(dir: &Path, ports: &BTreeSet<u32>, frames: &[Input]) -> Result<BTreeMap<u32, File>, String> {
    let mut files = BTreeMap::new();
    for &port in ports {
        let path = path(dir, port, "in");
        let problem = |error: std::io::Error| format!("{}: {error}", path.display());
        if !frames.iter().any(|(of, _)| *of == port) {
            std::fs::write(&path, frame::pcap_header()).map_err(problem)?;
            continue;
        }
        let made = Command::new("mkfifo").arg(&path).status().map_err(|error| format!("mkfifo: {error}"))?;
        if !made.success() {
            return Err(format!("mkfifo {}: {made}", path.display()));
        }
        // For reading too, so that it does not wait for a reader.
        let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(problem)?;
        std::io::Write::write_all(&mut file, &frame::pcap_header()).map_err(problem)?;
        files.insert(port, file);
    }
    Ok(files)
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(format!("/tmp/bmv2-{}-notifications.ipc", self.thrift_port));
    }
}
