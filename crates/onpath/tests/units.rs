//! The units of systemd: what they let their processes do is little, and enough. Where no systemd runs, as in tests, a process is confined here
//! as its unit says: capabilities, system calls, what it may write to, and its user.

#![allow(unsafe_code)]

use crate::common::server::{Site, binary, is_mounted, run};
use crate::common::user::ALICE;
use crate::common::{PATIENCE, process, repository, skipped, sys, tool, wait_until};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::net::UdpSocket;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr::null;

/// Points of `systemd-analyze security`, of 100, that a unit may have which needs no mount.
const EXPOSURE_MAX: &str = "30";
/// Numbers of capabilities that units name.
const CAPABILITIES: [(&str, u32); 7] = [
    ("CAP_DAC_OVERRIDE", 1),
    ("CAP_DAC_READ_SEARCH", 2),
    ("CAP_NET_ADMIN", 12),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_PERFMON", 38),
    ("CAP_BPF", 39),
];

fn packaged(name: &str) -> String {
    fs::read_to_string(repository().join("packaging/systemd").join(name)).expect("a unit")
}

/// The unit of a host, as root and as its own user.
fn hosts() -> [String; 2] {
    let unit = packaged("onpath-serve.service");
    let drop_in = packaged("onpath-serve-user.conf");
    [unit.clone(), unit + &drop_in]
}

/// What a unit says of a setting: its lines, those before an empty one taken back.
fn lines<'a>(unit: &'a str, setting: &str) -> Vec<&'a str> {
    let all: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix(setting)?.strip_prefix('=')).collect();
    let begin = all.iter().rposition(|line| line.is_empty()).map_or(0, |at| at + 1);
    all[begin..].to_vec()
}

fn stop(mut service: Child, log: &Path) {
    let told = Command::new("kill").args(["-s", "TERM"]).arg(service.id().to_string()).status();
    assert!(told.is_ok_and(|status| status.success()));
    let status = service.wait().expect("wait of our child");
    assert!(status.success(), "{status}\n{}", fs::read_to_string(log).unwrap_or_default());
}

#[test]
fn a_host_is_exposed_to_little() {
    let Some(analyze) = tool("systemd-analyze") else {
        return skipped("a_host_is_exposed_to_little", "systemd-analyze is missing");
    };
    for own_user in [false, true] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("onpath-serve.service");
        fs::write(&path, packaged("onpath-serve.service")).expect("write");
        if own_user {
            fs::create_dir(path.with_extension("service.d")).expect("mkdir");
            let drop_in = path.with_extension("service.d").join("user.conf");
            fs::write(drop_in, packaged("onpath-serve-user.conf")).expect("write");
        }
        let mut command = Command::new(&analyze);
        command.args(["security", "--offline=true", "--threshold", EXPOSURE_MAX, "--no-pager"]).arg(&path);
        let output = command.env("SYSTEMD_UNIT_PATH", dir.path()).output().expect("systemd-analyze runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("Overall exposure level"), "{said}{output:?}");
        assert_eq!(said.contains("✗ User=/DynamicUser="), !own_user, "the drop-in counts: {said}");
    }
}

/// A service with a mount namespace of its own mounts for nobody but itself.
#[test]
fn what_mounts_has_no_mount_namespace() {
    let unit = packaged("onpath@.service");
    let begins = ["Protect", "Private", "ProcSubset", "Root", "Bind", "Mount", "Temporary", "Extension", "Namespace"];
    let begins =
        begins.into_iter().chain(["Dynamic", "LoadCredential", "SetCredential", "LogNamespace", "JoinsNamespace"]);
    let begins: Vec<&str> = begins.collect();
    for line in unit.lines().filter(|line| !line.starts_with('#')) {
        let setting = line.split('=').next().unwrap_or_default();
        let makes_one = begins.iter().any(|begin| setting.starts_with(begin)) || setting.ends_with("Paths");
        assert!(!makes_one, "{line} gives the service a mount namespace of its own");
    }
    assert_eq!(lines(&unit, "NoNewPrivileges"), ["yes"]);
    assert!(hosts().iter().all(|unit| lines(unit, "ProtectSystem") == ["strict"]));
}

/// Numbers of system calls, as the kernel's header has them.
fn numbers() -> Option<Vec<(String, u32)>> {
    let headers = ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"];
    let text = headers.iter().find_map(|path| fs::read_to_string(path).ok())?;
    let of = |line: &str| {
        let (name, number) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    Some(text.lines().filter_map(of).collect())
}

/// The system calls of a list, whose groups systemd knows.
fn expand(analyze: &Path, list: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for word in list.split(' ') {
        if !word.starts_with('@') {
            names.insert(word.to_owned());
            continue;
        }
        let output = Command::new(analyze).args(["syscall-filter", "--no-pager", word]).output().expect("it runs");
        assert!(output.status.success(), "{word}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let members = text.lines().filter(|line| line.starts_with(' ') && !line.trim_start().starts_with('#'));
        members.for_each(|member| names.append(&mut expand(analyze, member.trim())));
    }
    names
}

/// A filter of system calls as systemd makes it: what is not allowed ends the process, or is an error if the unit says so.
fn filter(unit: &str, analyze: &Path, numbers: &[(String, u32)]) -> Vec<libc::sock_filter> {
    let mut allowed = expand(analyze, "@default");
    for list in lines(unit, "SystemCallFilter") {
        match list.strip_prefix('~') {
            Some(list) => {
                let denied = expand(analyze, list);
                allowed.retain(|name| !denied.contains(name));
            }
            None => allowed.append(&mut expand(analyze, list)),
        }
    }
    let of = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let give = |what: u32| of(libc::BPF_RET | libc::BPF_K, 0, what);
    let mut program = vec![of(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)]; // the number comes first
    for (_, number) in numbers.iter().filter(|(name, _)| allowed.contains(name)) {
        program.push(of(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, *number));
        program.push(give(libc::SECCOMP_RET_ALLOW));
    }
    program.push(give(match lines(unit, "SystemCallErrorNumber")[..] {
        ["EPERM"] => libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        [] => libc::SECCOMP_RET_KILL_PROCESS,
        ref other => panic!("{other:?}"),
    }));
    program
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Everything is read-only for the caller but this directory.
fn read_only_but(writable: &CString) -> io::Result<()> {
    let root = c"/";
    let mount = |from: *const libc::c_char, to: *const libc::c_char, flags| {
        // SAFETY: both are text that ends in 0, or no text.
        checked(unsafe { libc::mount(from, to, null(), flags, null()) })
    };
    // SAFETY: of a process that is about to become another program.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(null(), root.as_ptr(), libc::MS_REC | libc::MS_PRIVATE)?;
    mount(writable.as_ptr(), writable.as_ptr(), libc::MS_BIND)?;
    mount(null(), root.as_ptr(), libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY)
}

/// Confines a command as a unit says. `writable`: what ReadWritePaths= would have. Not where numbers of system calls are unknown.
fn confine(unit: &str, command: &mut Command, writable: Option<&Path>, analyze: &Path) -> Option<()> {
    let program = filter(unit, analyze, &numbers()?);
    let names = lines(unit, "CapabilityBoundingSet").into_iter().flat_map(|list| list.split(' '));
    let kept = names.fold(0_u64, |kept, name| {
        let known = CAPABILITIES.iter().find(|(known, _)| *known == name);
        kept | 1 << known.unwrap_or_else(|| panic!("{name} has no number here")).1
    });
    let own_user = !lines(unit, "User").is_empty();
    let writable = writable.map(|path| CString::new(path.as_os_str().as_bytes()).expect("no NUL"));
    // SAFETY: between fork and exec only system calls are made; what they read was made before.
    unsafe {
        command.pre_exec(move || {
            writable.as_ref().map_or(Ok(()), read_only_but)?;
            for capability in (0..64).filter(|bit| kept & 1 << bit == 0) {
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0); // EINVAL beyond the last one
            }
            if own_user {
                checked(libc::setgroups(0, null()))?;
                checked(libc::setresgid(ALICE.gid, ALICE.gid, ALICE.gid))?;
                checked(libc::setresuid(ALICE.uid, ALICE.uid, ALICE.uid))?;
            }
            libc::umask(0o077);
            checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            let whole = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
            checked(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const whole))
        });
    }
    Some(())
}

/// Starts a confined command that serves, and waits until it tells that it is ready.
fn start(mut command: Command, site: &Site, log: &Path) -> Child {
    let socket = site.root().join("notify");
    let notified = UnixDatagram::bind(&socket).expect("a socket");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).expect("chmod");
    notified.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let to = fs::File::create(log).expect("a log");
    command.env("NOTIFY_SOCKET", &socket).stdin(Stdio::null()).stdout(to.try_clone().expect("dup")).stderr(to);
    let service = process::spawn(&mut command).expect("ExecStart runs");
    let mut state = [0; 64];
    let length = notified.recv(&mut state).unwrap_or_else(|error| {
        panic!("READY=1 does not come: {error}\n{}", fs::read_to_string(log).unwrap_or_default())
    });
    assert_eq!(&state[..length], b"READY=1");
    fs::remove_file(&socket).expect("unlink");
    service
}

const UNKNOWN: &str = "the numbers of system calls are not known here: libc6-dev has them";

/// Whoever takes a host over gets no further: neither mounts nor files of others, and no other kernel.
#[test]
fn a_confined_host_does_nothing_else() {
    const TEST: &str = "a_confined_host_does_nothing_else";
    let (Some(site), Some(analyze)) = (Site::new(TEST), tool("systemd-analyze")) else {
        return skipped(TEST, "systemd-analyze is missing, or nothing can be mounted");
    };
    for (unit, who) in hosts().iter().zip(["root", "user"]) {
        let state = site.root().join(who);
        fs::create_dir(&state).expect("mkdir");
        if who == "user" {
            assert_eq!(sys::chown(&state, ALICE.uid, ALICE.gid), Ok(()));
        }
        for (script, allowed) in [
            ("echo x >\"$1/f\"", true),
            ("echo x >\"$1/../outside\"", false),
            ("echo x >/etc/onpath-was-here", false),
            ("mount -t tmpfs none \"$1\"", false),
            ("unshare --mount true", false),
            ("chroot / true", false),
            ("chown 65502 \"$1/f\"", false),
            ("setpriv --reuid 65502 true", false),
        ] {
            let mut command = Command::new("sh");
            command.args(["-ec", script, "sh"]).arg(&state).stdin(Stdio::null());
            let Some(()) = confine(unit, &mut command, Some(&state), &analyze) else { return skipped(TEST, UNKNOWN) };
            let output = command.output().expect("sh runs");
            assert_eq!(output.status.success(), allowed, "{who}: {script}: {output:?}");
        }
    }
}

/// A host serves within what its unit allows: as root, and as a user of its own.
#[test]
fn a_host_serves_confined() {
    const TEST: &str = "a_host_serves_confined";
    let (Some(site), Some(analyze)) = (Site::new(TEST), tool("systemd-analyze")) else {
        return skipped(TEST, "systemd-analyze is missing, or nothing can be mounted");
    };
    for (unit, who) in hosts().iter().zip(["root", "user"]) {
        let place = site.root().join(who);
        let state = place.join("state");
        [&place, &state].into_iter().for_each(|path| fs::create_dir(path).expect("mkdir"));
        let port = UdpSocket::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let (config, host) = (place.join("cluster.toml"), format!("a=127.0.0.1:{port}"));
        let init = ["cluster".as_ref(), "init".as_ref(), config.as_os_str(), host.as_ref(), "--directory".as_ref()];
        assert!(run(init.into_iter().chain([state.as_os_str()])).status.success());
        if who == "user" {
            for path in [&state, &place.join("cluster.key"), &config] {
                assert_eq!(sys::chown(path, ALICE.uid, ALICE.gid), Ok(()));
            }
        }
        assert_eq!(lines(unit, "ExecStart"), ["/usr/bin/onpath serve"]);
        let mut command = Command::new(binary());
        command.args(["serve", "--host", "a", "--config"]).arg(&config);
        let log = site.log("serve");
        let Some(()) = confine(unit, &mut command, Some(&state), &analyze) else { return skipped(TEST, UNKNOWN) };
        let service = start(command, &site, &log);
        let status = run(["cluster".as_ref(), "status".as_ref(), config.as_os_str()]);
        assert!(status.status.success(), "{status:?}");
        // A client uses it.
        let (mountpoint, url) = (site.mountpoint(0), format!("onpath://127.0.0.1:{port}/"));
        let key = place.join("cluster.client.key");
        let mount = ["mount".as_ref(), "-d".as_ref(), "--key-file".as_ref(), key.as_os_str(), url.as_ref()];
        let mounted = run(mount.into_iter().chain([mountpoint.as_os_str()]));
        assert!(mounted.status.success(), "{mounted:?}");
        fs::write(mountpoint.join("f"), "through it").expect("a file");
        assert_eq!(fs::read(mountpoint.join("f")).expect("read"), b"through it");
        assert!(run(["umount".as_ref(), mountpoint.as_os_str()]).status.success());
        let capabilities = fs::read_to_string(format!("/proc/{}/status", service.id())).expect("its status");
        let effective = if who == "user" { "0000000000000000" } else { "000000c000001000" };
        assert!(capabilities.contains(&format!("CapEff:\t{effective}")), "{capabilities}");
        stop(service, &log);
    }
}

/// What the unit of a DIR mounts, everybody sees: its process is in nobody's mount namespace but that of all.
#[test]
fn a_mount_of_the_unit_is_seen_from_outside() {
    const TEST: &str = "a_mount_of_the_unit_is_seen_from_outside";
    let (Some(site), Some(analyze)) = (Site::new(TEST), tool("systemd-analyze")) else {
        return skipped(TEST, "systemd-analyze is missing, or nothing can be mounted");
    };
    let unit = packaged("onpath@.service");
    assert_eq!(lines(&unit, "ExecStart"), ["/usr/bin/onpath dev %f"]);
    fs::create_dir(site.state()).expect("mkdir");
    let mountpoint: PathBuf = site.mountpoint(0);
    let mut command = Command::new(binary());
    command.arg("dev").arg(site.state()).env("ONPATH_MOUNTPOINT", &mountpoint);
    let log = site.log("unit");
    let Some(()) = confine(&unit, &mut command, None, &analyze) else { return skipped(TEST, UNKNOWN) };
    let service = start(command, &site, &log);
    assert!(is_mounted(&mountpoint), "{}", fs::read_to_string(&log).unwrap_or_default());
    fs::write(mountpoint.join("f"), "x").expect("a file");
    ALICE.run(|| assert_eq!(sys::stat(&mountpoint).map(drop), Ok(())));
    stop(service, &log);
    wait_until("it is gone", || !is_mounted(&mountpoint));
    site.assert_clean("after the unit");
}
