//! The sending half of a stream: a bounded queue, written by whoever has something to send.
//!
//! The sender writes at once what the socket takes; only when it takes nothing more the connection's own thread
//! goes on. So no thread is woken for a reply, and nobody ever waits for a slow reader.

use super::{FrameStart, frame_start};
use crate::sys;
use onpath_wire::ids::NodeId;
use onpath_wire::packet::Packet;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

/// Bytes that wait for a reader that does not read; more messages are lost, and repeated by their roles.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Frames given to one system call.
const FRAMES_PER_CALL: usize = 32;

struct Frame {
    start: FrameStart,
    packet: Packet,
}

impl Frame {
    fn len(&self) -> usize {
        self.start.len() + self.packet.head.len() + self.packet.bulk.len()
    }
}

/// Frames on their way into the socket.
#[derive(Default)]
struct Sending {
    frames: VecDeque<Frame>,
    /// Bytes of the first frame that are sent.
    done: usize,
}

/// The sending half of a stream.
pub(super) struct Conn {
    stream: UnixStream,
    queue: Mutex<VecDeque<Frame>>,
    queued_bytes: AtomicUsize,
    sending: Mutex<Sending>,
    /// The socket took nothing more; the connection's thread is to go on.
    blocked: Mutex<bool>,
    wake: Condvar,
    closed: AtomicBool,
    /// Messages that found the queue full or the stream closed, or that fit no frame.
    pub(super) lost: AtomicU64,
}

enum Progress {
    Empty,
    Blocked,
    Closed,
}

impl Conn {
    pub(super) fn new(stream: UnixStream) -> Conn {
        Conn {
            stream,
            queue: Mutex::default(),
            queued_bytes: AtomicUsize::new(0),
            sending: Mutex::default(),
            blocked: Mutex::new(false),
            wake: Condvar::new(),
            closed: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        }
    }

    /// Sends a message, or queues it.
    pub(super) fn send(&self, to: NodeId, packet: Packet) {
        let Some(start) = frame_start(to, &packet) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let frame = Frame { start, packet };
        let len = frame.len();
        let full = self.queued_bytes.fetch_add(len, Ordering::AcqRel) + len > QUEUE_BYTES_MAX;
        if full || self.closed.load(Ordering::Acquire) {
            self.queued_bytes.fetch_sub(len, Ordering::AcqRel);
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.queue.lock().expect("sending does not panic").push_back(frame);
        self.pump();
    }

    /// Sends what is queued unless somebody else does; whoever sends looks again afterwards.
    fn pump(&self) {
        loop {
            let Ok(mut sending) = self.sending.try_lock() else { return };
            let progress = self.send_some(&mut sending);
            if matches!(progress, Progress::Blocked) {
                *self.blocked.lock().expect("sending does not panic") = true;
                self.wake.notify_one();
            }
            drop(sending);
            let more =
                matches!(progress, Progress::Empty) && !self.queue.lock().expect("sending does not panic").is_empty();
            if !more {
                return;
            }
        }
    }

    fn send_some(&self, sending: &mut Sending) -> Progress {
        loop {
            if sending.frames.is_empty() {
                std::mem::swap(&mut sending.frames, &mut *self.queue.lock().expect("sending does not panic"));
            }
            if sending.frames.is_empty() {
                return Progress::Empty;
            }
            match self.send_once(sending) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Blocked,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.close();
                    return Progress::Closed;
                }
            }
        }
    }

    fn send_once(&self, sending: &mut Sending) -> io::Result<()> {
        let mut parts = Vec::with_capacity(3 * FRAMES_PER_CALL);
        let mut skip = sending.done;
        for frame in sending.frames.iter().take(FRAMES_PER_CALL) {
            for part in [&frame.start[..], &frame.packet.head, &frame.packet.bulk] {
                let left = &part[skip.min(part.len())..];
                skip -= part.len() - left.len();
                if !left.is_empty() {
                    parts.push(IoSlice::new(left));
                }
            }
        }
        sending.done += sys::send_at_once(&self.stream, &parts)?;
        while let Some(first) = sending.frames.front().map(Frame::len).filter(|&len| len <= sending.done) {
            sending.done -= first;
            sending.frames.pop_front();
            self.queued_bytes.fetch_sub(first, Ordering::AcqRel);
        }
        Ok(())
    }

    /// The connection's own thread: sends when the socket had been full. Returns when the stream is closed.
    pub(super) fn run(&self) {
        loop {
            let mut blocked = self.blocked.lock().expect("sending does not panic");
            while !*blocked {
                if self.closed.load(Ordering::Acquire) {
                    return;
                }
                blocked = self.wake.wait(blocked).expect("sending does not panic");
            }
            *blocked = false;
            drop(blocked);
            if self.closed.load(Ordering::Acquire) || sys::wait_writable(&self.stream).is_err() {
                return;
            }
            self.pump();
        }
    }

    /// Ends the stream for both sides; what is queued is lost.
    pub(super) fn close(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            // It may have ended already.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        drop(self.blocked.lock().expect("sending does not panic"));
        self.wake.notify_one();
    }
}
