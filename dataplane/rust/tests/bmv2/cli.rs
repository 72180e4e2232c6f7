//! A session of simple_switch_CLI: one command, one answer.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const PROMPT: &str = "RuntimeCmd: ";
const PATIENCE: Duration = Duration::from_secs(60);
/// How an answer begins a line that says that the command was not carried out.
const COMPLAINTS: [&str; 4] = ["Error", "Invalid", "***", "Could not"];

pub(crate) struct Cli {
    child: Child,
    stdin: ChildStdin,
    output: Receiver<Vec<u8>>,
}

impl Cli {
    /// Begins a session with the switch of this Thrift port.
    pub(crate) fn begin(thrift_port: u16) -> Result<Cli, String> {
        let mut command = Command::new("simple_switch_CLI");
        command.args(["--thrift-port", &thrift_port.to_string()]).env("PYTHONUNBUFFERED", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("simple_switch_CLI: {error}"))?;
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let (mut stdout, mut buffer) = (stdout, [0; 65_536]);
            while let Ok(read @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut cli = Cli { child, stdin, output };
        cli.until_prompt()?;
        Ok(cli)
    }

    fn until_prompt(&mut self) -> Result<String, String> {
        let (deadline, mut said) = (Instant::now() + PATIENCE, vec![]);
        loop {
            if let Some(answer) = said.strip_suffix(PROMPT.as_bytes()) {
                return Ok(String::from_utf8_lossy(answer).into_owned());
            }
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => said.extend(bytes),
                Err(RecvTimeoutError::Timeout) => return Err(format!("no prompt; {}", String::from_utf8_lossy(&said))),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("it ended: {}", String::from_utf8_lossy(&said)));
                }
            }
        }
    }

    /// The answer to a command; an error if it complains.
    pub(crate) fn ask(&mut self, command: &str) -> Result<String, String> {
        writeln!(self.stdin, "{command}").map_err(|error| format!("{command}: {error}"))?;
        let answer = self.until_prompt().map_err(|why| format!("{command}: {why}"))?;
        match answer.lines().find(|line| COMPLAINTS.iter().any(|complaint| line.starts_with(complaint))) {
            Some(complaint) => Err(format!("{command}: {complaint}")),
            None => Ok(answer),
        }
    }

    /// The number that stands after these words in the answer.
    pub(crate) fn ask_number(&mut self, command: &str, after: &str) -> Result<u64, String> {
        let answer = self.ask(command)?;
        let rest = answer.rsplit_once(after).map(|(_, rest)| rest.trim_start());
        let digits: Option<String> = rest.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
        digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| format!("{command}: no number in {answer:?}"))
    }
}

impl Drop for Cli {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
