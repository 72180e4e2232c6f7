//! What may happen to hosts happens under load: nothing that was acknowledged is lost, every call waits and succeeds, and all clients
//! agree in the end. `ONPATH_FAILURE_SECONDS` lets faults come at random for so long;
//! `ONPATH_SEED` gives another seed.

use crate::cluster::load::{Load, Progress, Released, assert_with_or_without, prepare, until_gone};
use crate::cluster::names::Names;
use crate::cluster::registers::Registers;
use crate::common::check::done;
use crate::common::cluster::{Cluster, Shape};
use crate::common::net::Loss;
use crate::common::random::Random;
use crate::common::server::{Mount, Site};
use crate::common::{number_from_env, report, seed, skipped, sys, view};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Clients that live on; one more is killed.
const CLIENTS: usize = 2;
/// Service goes on so soon after a fault is over.
const LIMIT: Duration = Duration::from_secs(5);
/// Service goes on so soon under a fault that slows it down only.
const SLOWED: Duration = Duration::from_secs(40);
/// A clock is wrong for so long, and a little longer.
const WRONG: Duration = Duration::from_secs(3);
/// A client that was not heard of for so long is dead (`LEASE_US` of the session's coordinator), and a little more for a busy machine.
const BURIED: Duration = Duration::from_secs(16);

/// Something that happens to hosts, and is over at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// kill -9, and another start.
    Kill(usize),
    /// The same with all at once.
    KillAll,
    /// The process stands still.
    Freeze(usize),
    /// The cable is out.
    Unplug(usize),
    /// Every host and client loses so many percent of what comes to it, until everybody has gone on so.
    Lose(u32),
    /// It hears nobody, and everybody hears it.
    Deaf(usize),
    /// Nobody hears it, and it hears everybody.
    Mute(usize),
    /// The first does not hear the second.
    DeafTo(usize, usize),
    /// The cable of the first is out while the second is killed and starts again.
    UnplugAndKill(usize, usize),
    /// Everybody loses so many percent while a host is killed and starts again.
    LoseAndKill(u32, usize),
    /// The real-time clock of a host is off by so many seconds, for some seconds.
    Clock(usize, i32),
    /// Power of one host: its disk has what was synced, and nothing else.
    PowerLoss(usize),
}

impl Fault {
    /// Lets it happen for so long. When its end began: a host is started again, its cable put in; none if this system cannot do it.
    pub(crate) fn happen(self, cluster: &mut Cluster, pause: Duration, progress: &Progress) -> Option<Instant> {
        let wait = || std::thread::sleep(pause);
        let again = |cluster: &mut Cluster, hosts: &[usize]| {
            wait();
            let end = Instant::now();
            hosts.iter().for_each(|&host| cluster.serve(host));
            end
        };
        let end = match self {
            Fault::Kill(host) => {
                cluster.kill(host);
                again(cluster, &[host])
            }
            Fault::KillAll => {
                let all: Vec<usize> = (0..cluster.hosts()).collect();
                all.iter().for_each(|&host| cluster.kill(host));
                again(cluster, &all)
            }
            Fault::Freeze(host) => {
                cluster.process(host).signal(libc::SIGSTOP);
                wait();
                cluster.process(host).signal(libc::SIGCONT);
                Instant::now()
            }
            Fault::Unplug(host) => {
                cluster.net.link(host, false);
                wait();
                cluster.net.link(host, true);
                Instant::now()
            }
            Fault::Deaf(_) | Fault::Mute(_) | Fault::DeafTo(..) => {
                let loses = |host| match self {
                    Fault::Deaf(deaf) if host == deaf => Loss::All,
                    Fault::DeafTo(deaf, to) if host == deaf => Loss::Of(to),
                    Fault::Mute(mute) if host != mute => Loss::Of(mute),
                    _ => Loss::None,
                };
                if !lose(cluster, loses) {
                    return None;
                }
                wait();
                assert!(lose(cluster, |_| Loss::None));
                Instant::now()
            }
            Fault::Lose(percent) => {
                if !lose(cluster, |_| Loss::Percent(percent)) {
                    return None;
                }
                wait();
                let (begin, calls) = (Instant::now(), progress.calls());
                let took = progress.resumed(begin, SLOWED, "while datagrams are lost");
                let rate = (progress.calls() - calls) as f64 / took.as_secs_f64();
                report(&format!("{self:?}: everybody goes on within {took:.2?}, {rate:.0} calls a second"));
                assert!(lose(cluster, |_| Loss::None));
                Instant::now()
            }
            Fault::UnplugAndKill(unplugged, killed) => {
                cluster.net.link(unplugged, false);
                Fault::Kill(killed).happen(cluster, pause, progress)?;
                wait(); // it has begun, and cannot reach all that it needs
                cluster.net.link(unplugged, true);
                Instant::now()
            }
            Fault::LoseAndKill(percent, killed) => {
                if !lose(cluster, |_| Loss::Percent(percent)) {
                    return None;
                }
                Fault::Kill(killed).happen(cluster, pause, progress)?;
                wait();
                assert!(lose(cluster, |_| Loss::None));
                Instant::now()
            }
            Fault::Clock(host, seconds) => {
                let steps = |cluster: &Cluster| cluster.status().sum("udp", &["clock_steps"]);
                let before = steps(cluster);
                cluster.set_clock(host, seconds);
                std::thread::sleep(WRONG);
                wait();
                assert_eq!(steps(cluster), before + 1, "the host sees that its clock has stepped");
                cluster.set_clock(host, 0);
                Instant::now()
            }
            Fault::PowerLoss(host) => {
                cluster.lose_power(host);
                again(cluster, &[host])
            }
        };
        Some(end)
    }
}

/// Every host and client loses this from now on; false if this system cannot do it.
fn lose(cluster: &Cluster, loses: impl Fn(usize) -> Loss) -> bool {
    (0..cluster.net.hosts()).all(|host| cluster.net.lose(host, loses(host)))
}

/// What shall happen: each of `faults` once, or for `ONPATH_FAILURE_SECONDS` any of them.
fn course(faults: &[Fault], random: &mut Random, begin: Instant, n: usize) -> Option<Fault> {
    let seconds = number_from_env("ONPATH_FAILURE_SECONDS", 0) as u64;
    match seconds {
        0 => faults.get(n).copied(),
        _ => (begin.elapsed() < Duration::from_secs(seconds)).then(|| *random.of(faults)),
    }
}

/// Lets all of it happen under load; then everything is compared, and once more after all hosts were stopped and started.
pub(crate) fn endure(test: &str, shape: Shape, faults: &[Fault]) {
    let Some(site) = Site::new(test) else { return };
    let shape = Shape { clients: CLIENTS + 1, ..shape };
    let Some(mut cluster) = Cluster::start(test, &site, shape) else { return };
    let mounts: Vec<Mount> = (0..CLIENTS).map(|client| cluster.mount(&site, client, &[])).collect();
    let tops: Vec<PathBuf> = mounts.iter().map(|mount| mount.path().to_owned()).collect();
    prepare(&tops[0]);
    let (registers, names) = (Registers::new(&tops[0]), Names::new(&tops[0]));
    let (mut random, progress) = (Random::new(seed(test)), Progress::default());
    let expected = std::thread::scope(|scope| {
        let _released = Released(&tops);
        let end = progress.at_end();
        let load = Load::start(scope, &tops, (&progress, &registers, &names), Random::new(random.next()));
        let (begin, mut slowest) = (Instant::now(), Duration::ZERO);
        progress.resumed(Instant::now(), LIMIT, "before any fault");
        let mut n = 0;
        while let Some(fault) = course(faults, &mut random, begin, n) {
            let what = format!("{test}: {fault:?}");
            progress.longest();
            let pause = Duration::from_millis(300 + random.below(1700) as u64);
            let Some(end) = fault.happen(&mut cluster, pause, &progress) else {
                skipped(&what, "iptables cannot lose datagrams here");
                n += 1;
                continue;
            };
            let resumed = progress.resumed(end, LIMIT, &what);
            slowest = slowest.max(resumed);
            let longest = progress.longest();
            report(&format!("{what} for {pause:?}: resumed after {resumed:.2?}, longest call {longest}"));
            n += 1;
        }
        report(&format!("{test}: {n} faults, {} calls, slowest resumption {slowest:.2?}", progress.calls()));
        drop(end);
        load.join()
    });
    let [writes, reads] = registers.judge();
    let calls = names.judge(&tops);
    report(&format!(
        "{test}: {writes} writes and {reads} reads of registers have an order, and {calls} calls on shared names"
    ));
    let before = expected.assert_there(&tops, test);
    for host in 0..cluster.hosts() {
        cluster.stop_host(host);
    }
    (0..cluster.hosts()).for_each(|host| cluster.serve(host));
    let after = expected.assert_there(&tops, "after a restart of all");
    view::assert_same("after a restart of all", &before, &after);
    mounts.into_iter().for_each(Mount::stop);
    cluster.stop();
}

/// Directories are tracked by their owners. The first host has the coordinator.
#[test]
fn hosts_under_load() {
    let faults = [
        Fault::Kill(1),
        Fault::Unplug(2),
        Fault::Kill(0),
        Fault::Freeze(0),
        Fault::Freeze(2),
        Fault::Unplug(0),
        Fault::KillAll,
    ];
    endure("failures::hosts_under_load", Shape::default(), &faults);
}

const NETWORK: Shape = Shape {
    clear_text: false,
    cache: None,
    paths: &[],
    path_hosts: 0,
    servers: 3,
    switches: 1,
    xdp: false,
    clients: 2,
    init: &["--tracking", "network"],
    meta_memory: None,
    disks: 0,
    clocks: false,
};

/// Directories are tracked by a switch, the last host: it is that which fails.
#[test]
fn switch_under_load() {
    let switch = NETWORK.servers;
    let faults =
        [Fault::Kill(switch), Fault::Unplug(switch), Fault::Freeze(switch), Fault::Lose(10), Fault::Kill(switch)];
    endure("failures::switch_under_load", NETWORK, &faults);
}

/// The same of a switch in the kernel, whose control plane is a process of the host.
#[test]
fn switch_in_the_kernel_under_load() {
    let switch = NETWORK.servers;
    let faults = [Fault::Kill(switch), Fault::Unplug(switch), Fault::Lose(5), Fault::Freeze(switch), Fault::Kill(0)];
    endure("failures::switch_in_the_kernel_under_load", Shape { xdp: true, ..NETWORK }, &faults);
}

/// Two switches, the last hosts: each of them fails, while the other one has everything.
#[test]
fn one_of_two_switches_under_load() {
    let [first, second] = [NETWORK.servers, NETWORK.servers + 1];
    let faults = [
        Fault::Kill(first),
        Fault::Unplug(second),
        Fault::Kill(second),
        Fault::Freeze(first),
        Fault::Lose(5),
        Fault::Kill(first),
    ];
    endure("failures::one_of_two_switches_under_load", Shape { switches: 2, ..NETWORK }, &faults);
}

/// The same while servers fail.
#[test]
fn hosts_and_switch_under_load() {
    let faults = [Fault::Kill(2), Fault::Kill(0), Fault::Unplug(1), Fault::Kill(NETWORK.servers), Fault::KillAll];
    endure("failures::hosts_and_switch_under_load", NETWORK, &faults);
}

/// A host starts while another one cannot be reached, or while datagrams are lost.
#[test]
fn two_faults_at_a_time() {
    let switch = NETWORK.servers;
    let faults = [
        Fault::UnplugAndKill(1, 0),
        Fault::UnplugAndKill(0, 2),
        Fault::UnplugAndKill(switch, 1),
        Fault::UnplugAndKill(2, switch),
        Fault::LoseAndKill(5, 0),
        Fault::LoseAndKill(5, switch),
    ];
    endure("failures::two_faults_at_a_time", NETWORK, &faults);
}

/// Datagrams come through in one direction only.
#[test]
fn partitions_in_one_direction() {
    let switch = NETWORK.servers;
    let faults = [
        Fault::Deaf(0),
        Fault::Mute(1),
        Fault::DeafTo(0, 2),
        Fault::DeafTo(2, 0),
        Fault::Deaf(switch),
        Fault::Mute(switch),
        Fault::DeafTo(1, switch),
        Fault::DeafTo(switch, 0),
    ];
    endure("failures::partitions_in_one_direction", NETWORK, &faults);
}

/// Datagrams are lost between all: few, some, many.
#[test]
fn losses_under_load() {
    endure("failures::losses_under_load", Shape::default(), &[1, 5, 10].map(Fault::Lose));
}

/// A host's clock goes ten seconds ahead, or ten back, and is right again.
#[test]
fn clocks_under_load() {
    let faults = [Fault::Clock(1, 10), Fault::Clock(2, -10), Fault::Clock(0, -10), Fault::Clock(0, 10)];
    endure("failures::clocks_under_load", Shape { clocks: true, ..Shape::default() }, &faults);
}

/// Each server has a disk of its own, and loses power alone: with *sync* what was answered is there, although the others live on.
#[test]
fn power_under_load() {
    let shape = Shape { init: &["--commit", "sync"], disks: 300 << 20, ..Shape::default() };
    endure("failures::power_under_load", shape, &[0, 1, 2].map(Fault::PowerLoss));
}

/// A client is killed: what it had done stays, the call under way is done or not, its lock ends with its session, and nobody else
/// waits meanwhile.
#[test]
fn a_client_under_load() {
    const TEST: &str = "failures::a_client_under_load";
    let Some(site) = Site::new(TEST) else { return };
    let shape = Shape { clients: CLIENTS + 1, ..Shape::default() };
    let Some(cluster) = Cluster::start(TEST, &site, shape) else { return };
    let mounts: Vec<Mount> = (0..CLIENTS).map(|client| cluster.mount(&site, client, &[])).collect();
    let tops: Vec<PathBuf> = mounts.iter().map(|mount| mount.path().to_owned()).collect();
    prepare(&tops[0]);
    let (registers, names) = (Registers::new(&tops[0]), Names::new(&tops[0]));
    std::fs::write(tops[0].join("locked"), "").expect("a file");
    let lock = |top: &PathBuf, kind: i32| {
        let fd = done("open", sys::open(top.join("locked"), libc::O_RDWR, 0));
        (sys::lock(&fd, kind, libc::F_WRLCK, 0, 0), fd)
    };
    let (mut random, progress) = (Random::new(seed(TEST)), Progress::default());
    let expected = std::thread::scope(|scope| {
        let _released = Released(&tops);
        let end = progress.at_end();
        let load = Load::start(scope, &tops, (&progress, &registers, &names), Random::new(random.next()));
        let mut victim = cluster.mount(&site, CLIENTS, &[]);
        let victims = victim.path().to_owned();
        let (locked, its) = lock(&victims, libc::F_OFD_SETLK);
        done("a lock", locked);
        let own = scope.spawn({
            let (victims, random) = (victims.clone(), Random::new(random.next()));
            move || until_gone(&victims, CLIENTS, random)
        });
        std::thread::sleep(Duration::from_millis(500));
        progress.longest();
        let killed = Instant::now();
        victim.kill();
        let resumed = progress.resumed(killed, LIMIT, "a client is killed");
        let (model, op) = own.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        drop((its, victim));
        let (again, _lock) = lock(&tops[1], libc::F_OFD_SETLKW);
        done("the lock of the dead", again);
        let freed = killed.elapsed();
        assert!(freed < BURIED, "the lock of a dead client lasts {freed:?}");
        let longest = progress.longest();
        report(&format!("{TEST}: others resumed after {resumed:.2?}, lock after {freed:.2?}, longest call {longest}"));
        drop(end);
        let expected = load.join();
        assert_with_or_without(&tops[1], &model, &op);
        let victim = cluster.mount(&site, CLIENTS, &[]);
        assert_with_or_without(victim.path(), &model, &op);
        victim.stop();
        expected
    });
    registers.judge();
    names.judge(&tops);
    expected.assert_there(&tops, TEST);
    mounts.into_iter().for_each(Mount::stop);
    cluster.stop();
}
