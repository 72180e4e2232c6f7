//! What is compared with: a bare echo between two processes, with messages as long and the same waiting.

use super::packets::{BYTES_MAX, MANY, Packets, receive_together, send_apart};
use super::place::{Child, bind_to};
use crate::cli::WaitMode;
use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::bench) enum Way {
    /// One a system call.
    One,
    /// Several a system call: sendmmsg and recvmmsg.
    Many,
    /// Several packed for the way through the kernel: GSO and GRO.
    Packed,
}

/// Arguments of `onpath bench echo`, the other process.
#[derive(Args, Debug)]
pub(crate) struct EchoArgs {
    #[arg(long, value_enum)]
    way: Way,
    #[arg(long, value_enum)]
    wait: WaitMode,
    /// Bytes of a request.
    #[arg(long)]
    request: usize,
    /// Bytes of a reply.
    #[arg(long)]
    reply: usize,
}

/// The other process: answers until it is killed.
pub(crate) fn serve(args: &EchoArgs) -> anyhow::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    prepare(&socket, args.wait, args.way, args.reply)?;
    println!("onpath: echo at {}", socket.local_addr()?);
    let mut packets = Packets::new();
    let mut bytes = vec![0; MANY * BYTES_MAX];
    loop {
        match args.way {
            Way::One => {
                let (_, from) = again(|| socket.recv_from(&mut bytes))?;
                again(|| socket.send_to(&bytes[..args.reply], from))?;
            }
            Way::Many => {
                let got = again(|| packets.receive(&socket, true))?;
                again(|| packets.send(&socket, got, args.reply, true))?;
            }
            Way::Packed => {
                let (got, from) = again(|| socket.recv_from(&mut bytes))?;
                let messages = got.div_ceil(args.request);
                again(|| socket.send_to(&bytes[..messages * args.reply], from))?;
            }
        }
    }
}

fn prepare(socket: &UdpSocket, wait: WaitMode, way: Way, sent: usize) -> io::Result<()> {
    socket.set_nonblocking(wait == WaitMode::Spin)?;
    if way == Way::Packed {
        receive_together(socket)?;
        send_apart(socket, sent)?;
    }
    Ok(())
}

/// Repeats a call until it does not say that it would have to wait.
fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut begin = None;
    for turn in 1_u32.. {
        match call() {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            result => return result,
        }
        // Now and then: has the other one gone?
        if turn.is_multiple_of(1 << 16) && begin.get_or_insert_with(Instant::now).elapsed() > 2 * PATIENCE {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    Err(ErrorKind::TimedOut.into())
}

/// An echo to be asked.
pub(in crate::bench) struct Echo {
    _child: Child,
    socket: UdpSocket,
    /// Of the other process.
    address: SocketAddr,
    way: Way,
    request: usize,
    reply: usize,
}

impl Echo {
    /// Starts the other process on one CPU; this thread goes on on the other.
    pub(in crate::bench) fn start(
        way: Way,
        wait: WaitMode,
        (request, reply): (usize, usize),
        (server, client): (usize, usize),
    ) -> anyhow::Result<Echo> {
        ensure!(request.max(reply) <= BYTES_MAX, "messages of {request} and {reply} bytes are too long for an echo");
        bind_to(server)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["bench", "echo", "--way", word(way), "--wait", wait.word()]);
        command.args(["--request", &request.to_string(), "--reply", &reply.to_string()]);
        let (child, line) = Child::start(command, "echo at ")?;
        let address = line.rsplit(' ').next().unwrap_or_default();
        let address: SocketAddr = address.parse().with_context(|| line.clone())?;
        bind_to(client)?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        if way != Way::One {
            socket.connect(address)?;
        }
        socket.set_read_timeout(Some(PATIENCE))?;
        prepare(&socket, wait, way, request)?;
        Ok(Echo { _child: child, socket, address, way, request, reply })
    }

    /// One after the other: how long each took, ns.
    pub(in crate::bench) fn latencies(&self, count: usize) -> anyhow::Result<Vec<u32>> {
        let mut bytes = [0; BYTES_MAX];
        let mut all = Vec::with_capacity(count);
        let mut begin = Instant::now();
        for _ in 0..count {
            // A socket for many, as an endpoint's is.
            again(|| self.socket.send_to(&bytes[..self.request], self.address))?;
            let (got, _) = again(|| self.socket.recv_from(&mut bytes))?;
            ensure!(got == self.reply, "a reply of {got} bytes");
            let end = Instant::now();
            all.push((end - begin).as_nanos() as u32);
            begin = end;
        }
        Ok(all)
    }

    /// `window` at a time: answers a second.
    pub(in crate::bench) fn rate(&self, count: usize, window: usize) -> anyhow::Result<f64> {
        let mut packets = Packets::new();
        let mut bytes = vec![0; MANY * BYTES_MAX];
        let send = |packets: &mut Packets, messages: usize| match self.way {
            Way::One => (0..messages).try_for_each(|_| {
                let request = packets.request(self.request);
                self.socket.send_to(request, self.address).map(drop)
            }),
            Way::Many => packets.send(&self.socket, messages, self.request, false),
            Way::Packed => self.socket.send(&[0; MANY * BYTES_MAX][..messages * self.request]).map(drop),
        };
        let begin = Instant::now();
        let (mut sent, mut answered) = (window.min(count), 0);
        again(|| send(&mut packets, sent))?;
        while answered < count {
            let got = match self.way {
                Way::One => again(|| self.socket.recv(&mut bytes)).map(|_| 1)?,
                Way::Many => again(|| packets.receive(&self.socket, false))?,
                Way::Packed => again(|| self.socket.recv(&mut bytes))?.div_ceil(self.reply),
            };
            answered += got;
            let more = got.min(count - sent);
            if more > 0 {
                sent += more;
                again(|| send(&mut packets, more))?;
            }
        }
        Ok(count as f64 / begin.elapsed().as_secs_f64())
    }
}

fn word(way: Way) -> &'static str {
    match way {
        Way::One => "one",
        Way::Many => "many",
        Way::Packed => "packed",
    }
}
