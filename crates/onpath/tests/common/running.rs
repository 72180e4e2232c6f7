//! Commands that go on while a test looks at what they say: on a terminal of their own, or into a log.

use super::process;
use super::server::binary;
use super::{PATIENCE, terminal, wait_until};
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a server that creeps goes on at a time.
const MOMENT: Duration = Duration::from_millis(5);
/// How long a killed command that waits for a server that stands still is waited for.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// Where standard error goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// To a terminal.
    Terminal,
    /// To a pipe, as to a file or the journal of systemd.
    Log,
}

/// What a stream has said so far.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    /// Listens until the end; a terminal whose other side is closed ends with an error.
    fn listen(&self, mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<()> {
        let heard = self.0.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut bytes) {
                heard.lock().expect("a list does not panic").extend_from_slice(&bytes[..read]);
            }
        })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("a list does not panic")).into_owned()
    }
}

/// A running `onpath`; killed on drop.
pub struct Running {
    child: Child,
    words: String,
    output: Heard,
    error: Heard,
    listeners: Vec<std::thread::JoinHandle<()>>,
}

/// How a command has ended, and what it has said.
pub struct Ended {
    pub status: ExitStatus,
    pub output: String,
    pub error: String,
}

impl Running {
    /// Starts `onpath ARGS…`.
    pub fn start(on: On, args: &[&str]) -> Running {
        let mut command = Command::new(binary());
        command.args(args);
        Running::of(on, command)
    }

    /// Starts a command.
    pub fn of(on: On, mut command: Command) -> Running {
        command.env("TERM", "xterm").stdin(Stdio::null()).stdout(Stdio::piped());
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let (words, output, error) = (words.join(" "), Heard::default(), Heard::default());
        let mut listeners = Vec::new();
        match on {
            On::Terminal => {
                let (ours, theirs) = terminal::pair();
                command.stderr(theirs);
                listeners.push(error.listen(ours));
            }
            On::Log => _ = command.stderr(Stdio::piped()),
        }
        let mut child = process::spawn(&mut command).expect("onpath starts");
        listeners.push(output.listen(child.stdout.take().expect("it is piped")));
        listeners.extend(child.stderr.take().map(|stream| error.listen(stream)));
        Running { child, words, output, error, listeners }
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// What it has said on standard error so far.
    pub fn error(&self) -> String {
        self.error.text()
    }

    /// What it has said on standard output so far.
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// Waits until it says that on standard error.
    #[track_caller]
    pub fn wait_for(&self, what: &str) {
        wait_until(&format!("onpath {} says {what:?}", self.words), || self.error().contains(what));
    }

    /// Waits until it ends by itself.
    #[track_caller]
    pub fn ends(mut self) -> Ended {
        let mut status = None;
        wait_until(&format!("onpath {} ends", self.words), || {
            status = self.child.try_wait().expect("wait of our child");
            status.is_some()
        });
        wait_until("all that it said is heard", || self.listeners.iter().all(|listener| listener.is_finished()));
        Ended { status: status.expect("just seen"), output: self.output(), error: self.error() }
    }

    /// Ends as it must, with 0.
    #[track_caller]
    pub fn succeeds(self) -> Ended {
        let words = self.words.clone();
        let ended = self.ends();
        assert!(ended.status.success(), "onpath {words}: {}\n{}\n{}", ended.status, ended.output, ended.error);
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // What it waits for may go on only when a test that has failed lets it.
        let deadline = Instant::now() + GONE_WITHIN;
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        if std::thread::panicking() {
            super::report(&format!("--- onpath {} said:\n{}", self.words, super::server::tail(&self.error())));
        }
    }
}

/// A process that stands still until this is dropped: whoever asks it for something waits.
pub struct StandsStill(i32);

impl StandsStill {
    pub fn new(pid: u32) -> StandsStill {
        process::send(pid.cast_signed(), libc::SIGSTOP);
        StandsStill(pid.cast_signed())
    }

    /// It goes on for a moment now and then, until a command whose bar is drawn says that.
    pub fn creeps_until(&self, running: &Running, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !running.error().contains(what) {
            assert!(Instant::now() < deadline, "onpath {} should say {what:?}", running.words);
            process::send(self.0, libc::SIGCONT);
            std::thread::sleep(MOMENT);
            process::send(self.0, libc::SIGSTOP);
            let before = running.error().len();
            wait_until("the bar is drawn again", || running.error().len() > before);
        }
    }
}

impl Drop for StandsStill {
    fn drop(&mut self) {
        process::send(self.0, libc::SIGCONT);
    }
}
