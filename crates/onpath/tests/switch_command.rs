//! `onpath switch attach|detach|status`: the commands, on a device of a network namespace of this test's own.

use crate::common::net::{cannot_connect, cannot_redirect};
use crate::common::server::binary;
use crate::common::{skipped, wait_until};
use onpath_wire::ids::{InodeId, NodeId, SessionId, ShardId, TrackingEpoch};
use onpath_wire::innet::cache::{Asker, Purpose};
use onpath_wire::innet::{Fingerprint, INNET_UDP_PORT, InNet};
use std::fs;
use std::process::{Child, Command, Output, Stdio};

/// A process that keeps a network and a mount namespace.
struct Place(Child);

impl Place {
    /// With two ends of a cable and a BPF file system; or why that cannot be.
    fn new() -> Result<Place, String> {
        let mut keeper = Command::new("unshare");
        keeper.args(["--mount", "--net", "sleep", "300"]).stdin(Stdio::null());
        let place = Place(keeper.spawn().map_err(|error| format!("unshare: {error}"))?);
        let net = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let mut keeps = false;
        wait_until("the namespace is there, or cannot be", || {
            let pid = place.0.id().to_string();
            let runs = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            keeps = runs.trim() == "sleep" && net(&pid) != net("self");
            keeps || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
        });
        if !keeps {
            return Err("no namespaces can be made".to_owned());
        }
        let steps = [
            "mount -t bpf bpf /sys/fs/bpf",
            "ip link add port0 type veth peer name far0",
            "ip link set port0 up",
            "ip link set far0 up",
        ];
        for step in steps {
            let output = place.run(&step.split(' ').collect::<Vec<_>>());
            if !output.status.success() {
                return Err(format!("{step}: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
        Ok(place)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        command.args(["--mount", "--net", "--target", &self.0.id().to_string(), "--"]).args(words).env("PATH", path);
        command.output().expect("nsenter runs")
    }

    /// What `onpath switch` says: on standard output, or on the other one when it is refused.
    fn switch(&self, words: &[&str]) -> Result<String, String> {
        let output = self.run(&[&[binary(), "switch"], words].concat());
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }

    fn does(&self, words: &[&str]) -> String {
        self.switch(words).unwrap_or_else(|why| panic!("{words:?}: {why}"))
    }

    fn refused(&self, words: &[&str]) -> String {
        self.switch(words).expect_err("it should be refused")
    }

    /// Whether the device has an XDP program.
    fn is_programmed(&self) -> bool {
        String::from_utf8_lossy(&self.run(&["ip", "link", "show", "port0"]).stdout).contains("prog/xdp")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn a_switch_is_attached_shown_and_detached() {
    const TEST: &str = "a_switch_is_attached_shown_and_detached";
    if let Some(why) = cannot_connect().or_else(cannot_redirect) {
        return skipped(TEST, why);
    }
    let place = match Place::new() {
        Ok(place) => place,
        Err(why) => return skipped(TEST, &why),
    };
    let attach = ["attach", "--address", "10.9.0.1", "--cluster", "7", "port0"];
    assert!(place.refused(&["status", "port0"]).contains("no switch of onpath is attached"));
    assert!(place.refused(&["attach", "--address", "0.0.0.0", "--cluster", "7", "port0"]).contains("name an address"));
    assert!(place.refused(&[&attach[..5], &["absent"]].concat()).contains("no such network device"));
    assert!(!place.is_programmed(), "what is refused leaves nothing");

    assert!(place.does(&attach).contains("cluster 7 is attached to port0 as 10.9.0.1:4797"));
    assert!(place.is_programmed(), "it outlives the command");
    assert!(place.refused(&attach).contains("detach it first"));
    let status = place.does(&["status", "port0"]);
    assert!(
        ["10.9.0.1:4797", "cluster", "epoch", "insert_marked"].iter().all(|word| status.contains(word)),
        "{status}"
    );
    let json: serde_json::Value = serde_json::from_str(&place.does(&["status", "--json", "port0"])).expect("JSON");
    let port = &json["port0"];
    assert_eq!((port["cluster"].as_u64(), port["complete"].as_bool()), (Some(7), Some(false)), "{json}");
    assert_eq!(port["counters"]["insert_marked"].as_u64(), Some(0), "{json}");

    assert!(place.does(&["detach", "port0"]).contains("no switch is on port0"));
    assert!(!place.is_programmed());
    assert!(place.refused(&["detach", "port0"]).contains("no switch of onpath is attached"));
}

/// A frame to the switch, with a checksum of its IPv4 header.
fn frame(innet: &InNet) -> String {
    let payload = innet.bytes();
    let length = |more: usize| ((more + payload.len()) as u16).to_be_bytes();
    let mut ip = vec![0x45, 0, length(28)[0], length(28)[1], 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 7, 10, 9, 0, 1];
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    let ports = [9_000u16.to_be_bytes(), INNET_UDP_PORT.to_be_bytes(), length(8), [0, 0]];
    let link = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let bytes = [&link[..], &ip, ports.as_flattened(), &payload].concat();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Nobody gives a switch that was attached by hand epochs, routes, hosts and names: it answers nothing from its cache, and passes nothing on.
#[test]
fn a_switch_without_a_control_plane_answers_nothing() {
    const TEST: &str = "a_switch_without_a_control_plane_answers_nothing";
    const SENDER: &str = "import socket, sys\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
        s.bind(('far0', 0))\n\
        for word in sys.argv[1:]: s.send(bytes.fromhex(word))\n";
    if let Some(why) = cannot_connect().or_else(cannot_redirect) {
        return skipped(TEST, why);
    }
    let place = match Place::new() {
        Ok(place) => place,
        Err(why) => return skipped(TEST, &why),
    };
    place.does(&["attach", "--address", "10.9.0.1", "--cluster", "7", "port0"]);
    let home = NodeId::shard(ShardId(0));
    let query = InNet::query(7, TrackingEpoch(1), Fingerprint::of(InodeId::ROOT), home);
    let asker = Asker { requester: NodeId::session(SessionId(1)), uid: 0, gid: 0 };
    let read = InNet::read(7, 1, (1, &[(5, 1)]), (Purpose::Stat, 0), asker, home);
    let sent = place.run(&["python3", "-c", SENDER, &frame(&query), &frame(&read)]);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let count = |counter: &str| {
        let json: serde_json::Value = serde_json::from_str(&place.does(&["status", "--json", "port0"])).expect("JSON");
        json["port0"]["counters"][counter].as_u64().expect("a counter")
    };
    wait_until("both have come", || count("query_unknown") + count("read_other_epoch") == 2);
    assert_eq!((count("copies_unrouted"), count("copies_sent")), (2, 0));
    place.does(&["detach", "port0"]);
}
