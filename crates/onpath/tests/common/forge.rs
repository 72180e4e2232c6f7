//! Datagrams that are overheard, and such as no process of the system has sent.

use super::net::Net;
use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};

/// Sends these datagrams from a host that says to be another one, to a port of a third one; port 0 is any.
pub fn send_as(net: &Net, host: usize, from: (usize, u16), to: (usize, u16), payloads: &[Vec<u8>]) {
    const SENDER: &str = "import socket, struct, sys\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)\n\
        address = [socket.inet_aton(word) for word in (sys.argv[1], sys.argv[3])]\n\
        ports = int(sys.argv[2]) or 40000, int(sys.argv[4])\n\
        for line in sys.stdin.read().split():\n\
        \x20 b = bytes.fromhex(line)\n\
        \x20 ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 28 + len(b), 0, 0, 64, 17, 0, *address)\n\
        \x20 s.sendto(ip + struct.pack('!4H', *ports, 8 + len(b), 0) + b, (sys.argv[3], 0))\n";
    let lines: Vec<String> = payloads.iter().map(|bytes| hex(bytes)).collect();
    let mut command = net.command(host, "python3");
    command.args(["-c", SENDER, &net.address(from.0), &from.1.to_string()]);
    command.args([&net.address(to.0), &to.1.to_string()]);
    let input = tempfile::tempfile().expect("a file");
    input.write_all_at(lines.join("\n").as_bytes(), 0).expect("write");
    let done = command.stdin(input).output().expect("python3");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Who listens on a host for the first datagram, of those that come or go, that has these bytes at these places.
pub struct Listener(Child);

impl Listener {
    pub fn new(net: &Net, host: usize, parts: &[(usize, &[u8])]) -> Listener {
        // Of a socket for one protocol alone Linux does not tell what goes.
        const LISTENER: &str = "import socket, sys\n\
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\n\
            s.settimeout(60)\n\
            parts = [(int(at), bytes.fromhex(of)) for at, of in (word.split(':') for word in sys.argv[1:])]\n\
            while True:\n\
            \x20 f = s.recv(65535)\n\
            \x20 if f[12:14] != b'\\x08\\0': continue\n\
            \x20 f = f[14:]\n\
            \x20 udp = f[(f[0] & 15) * 4:]\n\
            \x20 if f[9] == 17 and all(udp[8 + at:8 + at + len(of)] == of for at, of in parts): break\n\
            print(int.from_bytes(udp[:2], 'big'), udp[8:int.from_bytes(udp[4:6], 'big')].hex())\n";
        let mut command = net.command(host, "python3");
        command.args(["-c", LISTENER]).args(parts.iter().map(|(at, bytes)| format!("{at}:{}", hex(bytes))));
        Listener(command.stdout(Stdio::piped()).spawn().expect("python3"))
    }

    /// Whether it has heard one.
    pub fn has_heard(&mut self) -> bool {
        self.0.try_wait().expect("python3").is_some()
    }

    /// The port by which it was sent, and what was in it.
    pub fn heard(mut self) -> (u16, Vec<u8>) {
        let mut said = String::new();
        let output = self.0.stdout.as_mut().expect("it is piped");
        std::io::Read::read_to_string(output, &mut said).expect("words");
        let (port, hex) = said.trim().split_once(' ').expect("a datagram");
        let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits"));
        (port.parse().expect("a port"), bytes.collect())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
