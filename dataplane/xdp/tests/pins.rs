//! A switch that outlives whoever attached it, in a BPF file system of this test's own.

mod common;

use common::{Network, SWITCH, route, with_pins};
use onpath_dataplane::{Command, Config, Port, Tracking};
use onpath_testing::skipped;
use onpath_xdp::{XdpConfig, XdpError, XdpSwitch, pins};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;

#[test]
fn a_pinned_switch_stays_until_it_is_detached() {
    const TEST: &str = "a_pinned_switch_stays_until_it_is_detached";
    let config = XdpConfig { program: Config::whole(7), address: SWITCH };
    if let Err(why) = common::network(1, config) {
        return skipped(TEST, &why);
    }
    let network = Network::of(2).expect("a network as before");
    let tried = with_pins(&network, |at| {
        let dir = pins::directory(&at.join("onpath"), 7);
        let refused = XdpSwitch::attach_pinned(config, &["port0", "absent"], &dir);
        assert!(matches!(refused, Err(XdpError::NoDevice(name)) if name == "absent"));
        assert!(!dir.exists(), "nothing is left");
        drop(XdpSwitch::attach_pinned(config, &["port0", "port1"], &dir).expect("attached"));
        assert!(matches!(XdpSwitch::attach_pinned(config, &["port0"], &dir), Err(XdpError::Pinned(_))));
        assert!(matches!(XdpSwitch::attach(config, &["port0"]), Err(XdpError::Busy(_))));
        let mut switch = XdpSwitch::open(&dir).expect("it is there");
        assert_eq!((switch.config(), switch.devices().collect::<Vec<_>>()), (&config, vec!["port0", "port1"]));
        route(&mut switch, 5, network.hosts[1].way(9000));
        switch.control(&Command::Epoch(9)).expect("an epoch");
        drop(switch);
        let other = XdpSwitch::open(&dir).expect("it is there");
        assert_eq!(other.tracking().expect("a register"), Tracking { epoch: 9, complete: false });
        assert_eq!(pins::attached_to(&at.join("onpath"), "port1").expect("a directory"), std::slice::from_ref(&dir));
        pins::detach(&dir, "port0").expect("attached");
        assert!(matches!(pins::detach(&dir, "port0"), Err(XdpError::NotAttached(_))));
        pins::detach(&dir, "port1").expect("attached");
        assert!(!dir.exists(), "nothing is left");
        drop(other);
        drop(XdpSwitch::attach(config, &["port0", "port1"]).expect("both are free"));
    });
    if let Err(why) = tried {
        skipped(TEST, &why);
    }
}

/// Anybody may make directories in a BPF file system that is mounted as the kernel does by itself (mode 1777): one that is there before
/// ours, whose maker could remove the pins and put others there, is not used; ours nobody else looks into.
#[test]
fn a_directory_of_others_is_refused() {
    const TEST: &str = "a_directory_of_others_is_refused";
    let config = XdpConfig { program: Config::whole(7), address: SWITCH };
    if let Err(why) = common::network(1, config) {
        return skipped(TEST, &why);
    }
    let network = Network::of(1).expect("a network as before");
    let tried = with_pins(&network, |at| {
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o7777;
        assert_eq!(mode(at), 0o1777, "as the kernel mounts it");
        let home = at.join("onpath");
        let dir = pins::directory(&home, 7);
        let somebody = |words: &[&str]| {
            let mut command = std::process::Command::new(words[0]);
            command.args(&words[1..]).arg(&home).uid(65_501).gid(65_501).status().expect("it runs").success()
        };
        let refused = |words: &str| {
            let attached = XdpSwitch::attach_pinned(config, &["port0"], &dir).map(drop);
            let looked = pins::attached_to(&home, "port0").map(drop);
            for result in [attached, looked, XdpSwitch::open(&dir).map(drop), pins::detach(&dir, "port0")] {
                let error = result.expect_err("others may have made it");
                assert!(matches!(&error, XdpError::Unsafe { .. }) && error.to_string().contains(words), "{error}");
            }
            assert!(!dir.exists(), "nothing is put there");
        };
        assert!(somebody(&["mkdir"]), "anybody may");
        refused("belongs to uid 65501");
        fs::remove_dir(&home).expect("empty");
        fs::create_dir(&home).expect("mkdir");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).expect("chmod");
        refused("has mode 0777");
        // What root alone could write to is closed, and used.
        fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).expect("chmod");
        drop(XdpSwitch::attach_pinned(config, &["port0"], &dir).expect("attached"));
        assert_eq!((mode(&home), mode(&dir)), (0o700, 0o700));
        assert!(!somebody(&["ls"]), "only root looks into it");
        pins::detach(&dir, "port0").expect("attached");
        fs::set_permissions(at, fs::Permissions::from_mode(0o777)).expect("chmod");
        refused("has mode 0777");
    });
    if let Err(why) = tried {
        skipped(TEST, &why);
    }
}

#[test]
fn errors_say_what_to_do() {
    const TEST: &str = "errors_say_what_to_do";
    let config = XdpConfig { program: Config::whole(7), address: SWITCH };
    let (network, mut switch) = match common::network(1, config) {
        Ok(both) => both,
        Err(why) => return skipped(TEST, &why),
    };
    let not_there = std::env::temp_dir().join("onpath-no-pins");
    let told = |error: XdpError, words: &str| assert!(error.to_string().contains(words), "{error}");
    let pinned = network.switch.within(|| XdpSwitch::attach_pinned(config, &["port0"], &not_there));
    told(pinned.err().expect("no BPF file system"), "mount -t bpf");
    let attach = |device: &'static str| {
        network.switch.within(move || XdpSwitch::attach(config, &[device]).err().expect("refused"))
    };
    told(attach("absent"), "no such network device");
    told(attach("port0"), "xdp off");
    told(attach("lo"), "native XDP");
    network.switch.ip("link add big type veth peer name large").expect("a veth");
    network.switch.ip("link set dev large mtu 9000").expect("an MTU");
    told(attach("big"), "MTU");
    let command = Command::Route { node: 5, port: Port(77) };
    told(switch.control(&command).expect_err("no way"), "give its way first");
}
