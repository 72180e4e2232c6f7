//! `onpath bench` on small numbers: what it reports, what it refuses, and that it leaves nothing behind.

mod cache;
mod model;
mod writes;

use crate::common::server::{self, Site};
use crate::common::{skipped, sys, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Runs `onpath bench posix ARGS…`; its standard output, or what it complains of.
fn posix(paths: &[&Path], args: &[&str]) -> Result<String, String> {
    let words = ["bench", "posix"].into_iter().chain(args.iter().copied()).map(OsStr::new);
    let output = server::run(words.chain(paths.iter().map(|path| path.as_os_str())));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no list {name} in {value}"))
}

fn assert_spread(spread: &Value, above: f64) {
    let number = |name: &str| spread[name].as_f64().unwrap_or_else(|| panic!("no {name} in {spread}"));
    let (min, median, max) = (number("min"), number("median"), number("max"));
    assert!(above <= min && min <= median && median <= max, "{spread}");
}

fn assert_empty(dir: &Path) {
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "something is left in {}", dir.display());
}

#[test]
fn two_directories_are_measured_and_compared() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let args = ["--processes", "1,2", "--files", "30", "--rounds", "2", "--json"];
    let report = posix(&[a.path(), b.path()], &args).expect("it runs");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["format"], 1);
    assert_eq!(list(&report, "paths").len(), 2);
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0);
    assert_eq!(report["options"]["rounds"], 2);

    // (1 unique + 2 unique + 2 shared) × (5 phases of files of two sizes + 2 of directories)
    let results = list(&report, "results");
    assert_eq!(results.len(), 2 * 3 * (2 * 5 + 2));
    for result in results {
        assert_eq!(result["operations"].as_u64().unwrap(), 30 * result["processes"].as_u64().unwrap());
        assert_spread(&result["rate"], 1.0);
        for cpu in ["machine", "processes", "workers", "servers"] {
            assert_spread(&result["cpu_us"][cpu], 0.0);
        }
        assert!(result["cpu_us"]["workers"]["min"].as_f64().unwrap() > 0.0, "{result}");
        let latency = |name: &str| result["latency_us"][name].as_f64().unwrap();
        assert!(0.0 < latency("p50") && latency("p50") <= latency("p99_9"), "{result}");
        assert!(latency("p99_9") <= latency("max"), "{result}");
    }
    let ratios = list(&report, "ratios");
    assert_eq!(ratios.len(), results.len() / 2, "the second path against the first");
    for ratio in ratios {
        assert_eq!(ratio["path"], 1);
        assert_spread(&ratio["rate"], 0.0);
        assert_spread(&ratio["cpu_processes"], 0.0);
    }
    let shared = list(&report, "shared_to_unique");
    assert_eq!(shared.len(), 2 * (2 * 5 + 2));
    assert!(shared.iter().all(|s| s["processes"] == 2 && s["against_first"].as_f64().unwrap() > 0.0));
    assert_empty(a.path());
    assert_empty(b.path());
}

/// `onpath bench programs`: every step on two directories, compared; nothing is left.
#[test]
fn programs_are_measured_and_compared() {
    for program in ["git", "rsync", "tar", "find"] {
        if crate::common::tool(program).is_none() {
            return crate::common::skipped("bench programs", &format!("{program} is not installed"));
        }
    }
    let (a, b, material) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let words = ["bench", "programs", "--files", "120", "--mib", "2", "--small", "10", "--rounds", "1", "--json"];
    let words = words.into_iter().map(OsStr::new).chain(["--material".as_ref(), material.path().as_os_str()]);
    let output = server::run(words.chain([a.path().as_os_str(), b.path().as_os_str()]));
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("O_DIRECT") {
        return crate::common::skipped("bench programs", "the local file system has no O_DIRECT");
    }
    assert!(output.status.success(), "{error}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = list(&report, "results");
    assert_eq!(results.len(), 2 * 14, "{report}");
    for result in results {
        for name in ["seconds", "wall_ratio"] {
            assert_spread(&result[name], 0.0);
        }
    }
    for dir in [&a, &b, &material] {
        assert_empty(dir.path());
    }
}

#[test]
fn chosen_phases_and_placement_are_shown_in_tables() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "--processes",
        "2",
        "--files",
        "10",
        "--sizes",
        "10",
        "--rounds",
        "1",
        "--directories",
        "unique",
        "--phases",
        "stat",
        "--nice",
        "5",
        "--cpus",
        ":0",
    ];
    let report = posix(&[dir.path()], &args).expect("it runs");
    assert!(report.contains("workers: niceness 5, on CPUs [0]"), "{report}");
    assert!(report.contains("create") && report.contains("stat") && report.contains("unlink"), "{report}");
    assert!(!report.contains("rename") && !report.contains("mkdir"), "{report}");
    assert_empty(dir.path());
}

#[test]
fn what_belongs_to_others_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let precious = dir.path().join("onpath-bench").join("precious");
    std::fs::create_dir_all(&precious).unwrap();
    let error = posix(&[dir.path()], &["--files", "1"]).unwrap_err();
    assert!(error.contains("not an empty directory") && error.contains("--subdir"), "{error}");
    assert!(precious.is_dir());
    posix(&[dir.path()], &["--files", "1", "--rounds", "1", "--subdir", "other"]).expect("another name");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn wrong_use_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let cases: [(&Path, &[&str], &str); 6] = [
        (&missing, &[], "cannot use"),
        (dir.path(), &["--processes", "0"], "--processes"),
        (dir.path(), &["--subdir", "a/b"], "plain name"),
        (dir.path(), &["--cpus", "3"], "SERVERS:WORKERS"),
        (dir.path(), &["--processes", "2,2"], "asked for twice"),
        (dir.path(), &["--server-pid", "4294967295", "--files", "1"], "is gone"),
    ];
    for (path, args, expected) in cases {
        let error = posix(&[path], args).unwrap_err();
        assert!(error.contains(expected), "{args:?}: {error}");
    }
    assert_empty(dir.path());
}

/// A running `onpath bench floor`.
struct Floor {
    child: Child,
    said: BufReader<ChildStdout>,
    mountpoint: PathBuf,
}

impl Floor {
    fn start(shown: &Path, mountpoint: PathBuf) -> Floor {
        let mut command = Command::new(server::binary());
        command.args(["bench", "floor"]).arg(shown).arg(&mountpoint).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("onpath starts");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let mut floor = Floor { child, said, mountpoint };
        let mut line = String::new();
        floor.said.read_line(&mut line).expect("a line of the floor");
        assert!(line.contains("floor mounted on"), "{line:?}");
        floor
    }

    fn stop(mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).expect("a signal to our child");
        wait_until("the floor ends after SIGINT", || self.child.try_wait().expect("wait of our child").is_some());
        assert!(self.child.wait().expect("wait of our child").success());
        assert!(!server::is_mounted(&self.mountpoint), "it left its mount");
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        while server::is_mounted(&self.mountpoint) && sys::detach(&self.mountpoint).is_ok() {}
    }
}

/// Whether this kernel tells which processes hold a FUSE connection (6.17 and later).
fn kernel_tells_servers() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(17))
}

#[test]
fn writes_beside_a_mapping_are_measured() {
    let Some(_) = Site::new("bench mapped") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/bench-mapped");
    let args = ["--rounds", "1", "--writes", "20", "--binary"];
    let output = match Command::new(script).args(args).arg(server::binary()).output() {
        Err(error) => return skipped("bench mapped", &error.to_string()),
        Ok(output) if output.status.code() == Some(127) => return skipped("bench mapped", "needs Python 3"),
        Ok(output) => output,
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().filter(|line| line.contains("of closed")).count(), 4, "{said}");
}

#[test]
fn the_floor_mounts_shows_its_directory_and_unmounts() {
    let Some(site) = Site::new("bench floor") else { return };
    let shown = site.root().join("shown");
    std::fs::create_dir(&shown).unwrap();
    std::fs::write(shown.join("below"), "text").unwrap();
    let mountpoint = site.mountpoint(0);
    let floor = Floor::start(&shown, mountpoint.clone());
    assert_eq!(std::fs::read_to_string(mountpoint.join("below")).unwrap(), "text");
    let args = ["--processes", "2", "--files", "20", "--rounds", "1", "--json"];
    let report = posix(&[&mountpoint], &args).expect("it runs");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let path = &list(&report, "paths")[0];
    assert_eq!(path["filesystem"], "fuse.onpath");
    let expected = if kernel_tells_servers() { vec![floor.child.id()] } else { vec![] };
    assert_eq!(path["servers"], Value::from(expected), "the server is found by its connection");
    floor.stop();
    assert_eq!(std::fs::read_dir(&shown).unwrap().count(), 1, "only what was there before");
}

#[test]
fn a_floor_that_cannot_be_is_refused() {
    let Some(site) = Site::new("bench floor, wrong use") else { return };
    let inside = site.root().join("shown").join("mnt");
    std::fs::create_dir_all(&inside).unwrap();
    let shown = inside.parent().unwrap();
    let words = ["bench", "floor"].map(OsStr::new).into_iter().chain([shown.as_os_str(), inside.as_os_str()]);
    let output = server::run(words);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("choose another"), "{said}");
}

fn tree(path: &Path, args: &[&str]) -> Result<Vec<Value>, String> {
    let words = ["bench", "tree", "--json"].into_iter().chain(args.iter().copied()).map(OsStr::new);
    let output = server::run(words.chain([path.as_os_str()]));
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

/// Directories of some files each, and one of all; what is made is seen, and removed.
#[test]
fn a_tree_and_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["--files", "250", "--fan", "100"], &["--files", "250", "--fan", "0"]] {
        let shown = tree(dir.path(), args).expect("it runs");
        let phases: Vec<&str> = shown.iter().map(|phase| phase["phase"].as_str().expect("a phase")).collect();
        assert_eq!(phases, ["create", "stat", "absent", "list", "remove"]);
        for phase in &shown {
            assert_eq!(phase["files"], 250);
            assert!(phase["per_second"].as_f64().expect("a rate") > 0.0, "{phase}");
            assert_eq!(list(phase, "parts").len(), if phase["phase"] == "list" { 0 } else { 10 });
        }
        assert!(shown[3]["first_entry_us"].is_u64());
        assert_empty(dir.path());
    }
}

#[test]
fn trees_that_are_there_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let args = |phases| ["--files", "20", "--phases", phases];
    tree(dir.path(), &args("create")).expect("it runs");
    assert!(tree(dir.path(), &args("create")).unwrap_err().contains("--subdir"));
    assert!(tree(dir.path(), &["--files", "21", "--phases", "list"]).unwrap_err().contains("20 files are listed"));
    tree(dir.path(), &args("stat,list,remove")).expect("it runs");
    assert!(tree(dir.path(), &args("stat")).unwrap_err().contains("onpath-bench-tree"));
    assert!(tree(&dir.path().join("missing"), &args("create")).unwrap_err().contains("cannot use"));
}

/// `onpath bench net`: servers and echoes in processes of their own, every case compared with an echo of the same length.
#[test]
fn requests_over_udp_are_compared_with_an_echo() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["bench", "net", "--operations", "100", "--rounds", "2", "--window", "16", "--json", "--dir"];
    let one_cpu = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
    let waits: &[&str] = if one_cpu { &["--waits", "block"] } else { &[] };
    let words = words.map(OsStr::new).into_iter().chain([dir.path().as_os_str()]);
    let output = server::run(words.chain(waits.iter().map(OsStr::new)));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let waits = list(&report, "placement").len();
    let (latencies, throughput) = (list(&report, "latencies"), list(&report, "throughput"));
    // The switch has no CPU of its own to look at its socket again and again.
    assert_eq!((latencies.len(), throughput.len()), (2 * waits + 3, 2 * waits), "{report}");
    for one in latencies {
        for name in ["us", "echo_us", "ratio"] {
            assert_spread(&one[name], 0.0);
            assert!(one[name]["min"].as_f64().unwrap() > 0.0, "{one}");
        }
        // Headers of the transport and of the message.
        assert!(one["request_bytes"].as_u64().unwrap() > 112 && one["reply_bytes"].as_u64().unwrap() > 112, "{one}");
    }
    for one in throughput {
        for name in ["rate", "echo_many", "echo_packed", "ratio_many"] {
            assert_spread(&one[name], 0.0);
            assert!(one[name]["min"].as_f64().unwrap() > 0.0, "{one}");
        }
        assert!(one["datagrams"]["min"].as_f64().unwrap() > 0.0, "{one}");
    }
    assert_empty(dir.path());
}

/// `--binary A --binary B`: the same benchmark by two builds, figure by figure; here with a key.
#[test]
fn two_builds_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "bench",
        "net",
        "--operations",
        "100",
        "--rounds",
        "2",
        "--waits",
        "block",
        "--cases",
        "getattr",
        "--key",
        "--json",
    ];
    let builds = ["--binary", server::binary(), "--binary", server::binary(), "--dir"];
    let words = words.into_iter().chain(builds).map(OsStr::new).chain([dir.path().as_os_str()]);
    let output = server::run(words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let figures = list(&report, "figures");
    let latency = figures.iter().find(|one| one["name"].as_str().is_some_and(|name| name.ends_with(" us")));
    let latency = latency.unwrap_or_else(|| panic!("no latency in {report}"));
    for name in ["first", "second", "ratio"] {
        assert_spread(&latency[name], f64::MIN_POSITIVE);
    }
    assert_empty(dir.path());
    let alone = server::run(["bench", "net", "--binary", "/bin/true"].map(OsStr::new));
    assert!(String::from_utf8_lossy(&alone.stderr).contains("give it twice"), "{alone:?}");
}

/// One shard has the directory and its names, so that no switch is asked.
#[test]
fn creates_that_need_no_mark_are_not_compared() {
    let output = server::run(["bench", "net", "--shards", "1", "--cases", "create-marked"].map(OsStr::new));
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--shards 2"), "{output:?}");
}

fn forms(dir: &Path, args: &[&str]) -> Result<Value, String> {
    let words = ["bench", "forms", "--json", "--dir"].map(OsStr::new).into_iter().chain([dir.as_os_str()]);
    let output = server::run(words.chain(args.iter().map(OsStr::new)));
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// `onpath bench forms`: every form is asked for everything, and the switch had as much room as it was to have.
#[test]
fn forms_of_tracking_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = ["owner", "sticky", "sticky-50", "every-update", "every-update-100"];
    let args = ["--operations", "240", "--rounds", "2", "--directories", "8", "--window", "8", "--forms"];
    let report = forms(dir.path(), &[&args[..], &[wanted.join(",").as_str()]].concat()).expect("it runs");

    // Of the creates that need a mark: for how many the switch took one, and for how many it had no room. Marks are sent again where the
    // answer is late.
    let marks = list(&report, "marks");
    let expected = [
        ("owner", 0, 0.0..=0.0, 0.0..=0.0),
        ("sticky", 0, 0.0..=0.5, 0.0..=0.0),
        ("sticky-50", 4, 0.0..=0.5, 0.3..=2.0),
        ("every-update", 0, 0.95..=4.0, 0.0..=0.0),
        ("every-update-100", 8, 0.0..=0.0, 0.95..=4.0),
    ];
    assert_eq!(marks.len(), expected.len());
    for (marks, (form, overflowing, marked, full)) in marks.iter().zip(expected) {
        assert_eq!((marks["form"].as_str(), marks["overflowing"].as_u64()), (Some(form), Some(overflowing)));
        for (name, within) in [("marked", marked), ("full", full)] {
            assert_spread(&marks[name], 0.0);
            assert!(within.contains(&marks[name]["median"].as_f64().unwrap()), "{name}, not {within:?}: {marks}");
        }
        assert_spread(&marks["overtaken"], 0.0);
    }
    let results = list(&report, "results");
    assert_eq!(results.len(), 8 * wanted.len(), "{report}");
    for result in results {
        for name in ["median_us", "mean_us", "p99_us", "rate", "median_ratio", "mean_ratio", "rate_ratio"] {
            assert_spread(&result[name], 0.0);
            assert!(result[name]["min"].as_f64().unwrap() > 0.0, "{result}");
        }
        if result["form"] == "owner" {
            let ratio = &result["rate_ratio"];
            assert_eq!((ratio["min"].as_f64(), ratio["max"].as_f64()), (Some(1.0), Some(1.0)), "it is the first");
        }
    }
    assert_empty(dir.path());
}

/// The switch stands still for so long that the hosts go on without it: that is no measurement of the form, which is measured again.
#[test]
fn a_form_that_was_interrupted_is_measured_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(server::binary());
    command.args(["bench", "forms", "--operations", "2000", "--rounds", "1", "--directories", "8", "--window", "8"]);
    command.args(["--forms", "every-update", "--json", "--dir"]).arg(dir.path()).stdin(Stdio::null());
    let bench = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("onpath starts");
    let state = |host: &str| {
        let measured = std::fs::read_dir(dir.path()).expect("a directory").next()?.expect("an entry");
        server::status_of(&measured.path().join(host))
    };
    wait_until("the switch takes marks", || {
        state("h0").is_some_and(|status| status.sum("shard-0", &["marks_acknowledged"]) > 0)
    });
    let switch = served_by(bench.id(), "s");
    let epoch = || state("h0").expect("a host").sum("shard-0", &["tracking_epoch"]);
    let before = epoch();
    kill_process(switch, Signal::STOP).expect("a signal to a server");
    wait_until("the hosts go on without the switch", || epoch() != before);
    kill_process(switch, Signal::CONT).expect("a signal to a server");
    let output = bench.wait_with_output().expect("wait of our child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("again: the hosts have taken the switch for lost"), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(list(&report, "marks")[0]["marked"]["min"].as_f64().unwrap() >= 0.95, "{report}");
}

/// The process that serves a host for this one.
fn served_by(parent: u32, host: &str) -> Pid {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("its children");
    let serves = |pid: &i32| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.contains(&format!("\0serve\0--host\0{host}\0"))
    };
    let pid = children.split_whitespace().map(|pid| pid.parse::<i32>().expect("a number")).find(serves);
    pid.and_then(Pid::from_raw).unwrap_or_else(|| panic!("{host} is not served"))
}

#[test]
fn forms_that_are_none_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (wanted, why) in
        [("owner,stick", "owner, sticky or every-update"), ("sticky-101", "0 to 100"), ("owner,owner", "twice")]
    {
        let error = forms(dir.path(), &["--forms", wanted]).unwrap_err();
        assert!(error.contains(why), "{wanted}: {error}");
    }
    assert_empty(dir.path());
}

/// Runs `onpath bench index ARGS…`.
fn index(args: &[&str]) -> Result<Value, String> {
    let output = server::run(["bench", "index", "--json"].iter().chain(args).map(OsStr::new));
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// `onpath bench index`: every index is asked for the same, and finds each directory where it is.
#[test]
fn indexes_of_a_path_node_are_compared() {
    let indexes = ["hi", "hi-small-pages", "mart", "art"];
    let args = ["--directories", "3000", "--lookups", "300", "--rounds", "2", "--kind", "annoy"];
    let report = index(&args).expect("it runs");
    let namespace = &report["namespace"];
    assert!((10.5..12.5).contains(&namespace["mean_depth"].as_f64().unwrap()), "{namespace}");
    let results = list(&report, "results");
    let of = |what: &str| results.iter().filter(move |result| result["what"] == what).collect::<Vec<_>>();
    // Depths 4, 8 and 12, uniform and hot, alone and eight at once.
    assert_eq!(of("lookup").len(), 12 * indexes.len(), "{report}");
    for (what, unit) in
        [("load-sorted", "M/s"), ("load-shuffled", "M/s"), ("bytes", "B"), ("lookup", "ns"), ("as", "ns")]
    {
        for result in of(what) {
            assert_eq!(result["unit"], unit);
            assert_spread(&result["value"], 0.0);
            assert!(result["value"]["min"].as_f64().unwrap() > 0.0, "{result}");
            let ratio = &result["ratio"];
            assert_spread(ratio, 0.0);
            assert!(result["index"] != "hi" || ratio["min"] == 1.0 && ratio["max"] == 1.0, "it is the first: {result}");
        }
    }
    // Tries have reachability bits, and those are as many as the tree has: nearly all owners are let through, and few others.
    for result in of("speculated") {
        let share = result["value"]["median"].as_f64().unwrap();
        let expected = match (result["index"].as_str().unwrap(), result["who"].as_str().unwrap()) {
            ("hi" | "hi-small-pages", _) => 0.0..=0.0,
            (_, "owner") => 0.9..=1.0,
            (_, "member") => 0.2..=0.5,
            _ => 0.0..=0.2,
        };
        assert!(expected.contains(&share), "{result}");
    }
    for what in ["rename", "chmod"] {
        let sizes = of(what).iter().map(|result| result["size"].as_u64().unwrap()).collect::<Vec<_>>();
        assert!(sizes.iter().any(|size| (5..=20).contains(size)) && sizes.iter().any(|size| *size > 49), "{sizes:?}");
    }
}

/// The directories of a tree, once and as often as it takes.
#[test]
fn indexes_are_filled_with_a_tree_and_its_copies() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..30 {
        std::fs::create_dir_all(dir.path().join(format!("a/b{}/c{number}/with-a-long-name", number % 5))).unwrap();
    }
    std::fs::write(dir.path().join("a/file"), "no directory").unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("a/link")).unwrap();
    let tree = dir.path().to_str().expect("a name in UTF-8");
    let args = ["--tree", tree, "--lookups", "200", "--rounds", "1", "--indexes", "mart,hi"];
    let count = |report: &Value| report["namespace"]["directories"].as_u64().unwrap();
    let once = index(&args).expect("it runs");
    assert_eq!(count(&once), 1 + 1 + 5 + 30 + 30, "{once}");
    let often = index(&[&args[..], &["--directories", "1000"]].concat()).expect("it runs");
    assert!((1_000..1_500).contains(&count(&often)), "{often}");
    let depths = list(&often, "results").iter().filter(|result| result["what"] == "lookup" && result["depth"] == 8);
    assert!(depths.count() > 0, "copies lie four levels deeper");
}

#[test]
fn indexes_that_are_none_are_refused() {
    assert!(index(&["--indexes", "hi,mart,hi"]).unwrap_err().contains("asked for twice"));
    assert!(index(&["--indexes", "btree"]).unwrap_err().contains("btree"));
    assert!(index(&["--tree", "/missing/tree"]).unwrap_err().contains("/missing/tree"));
    assert!(index(&["--directories", "10"]).unwrap_err().contains("10"));
}

/// What each client does is counted for the same operations, so that the cost of its key can be told.
#[test]
fn clients_with_keys_and_without_are_compared() {
    let dir = tempfile::tempdir().expect("a directory");
    let words = ["bench", "keys", "--operations", "100", "--rounds", "1", "--json", "--dir"].map(OsStr::new);
    let output = server::run(words.into_iter().chain([dir.path().as_os_str()]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = list(&report, "rows");
    assert_eq!(rows.len(), 3 * 3, "{report}");
    for row in rows {
        ["servers_us", "client_us"].iter().for_each(|of| assert_spread(&row[*of], 0.0));
    }
    assert_empty(dir.path());
}

/// One request to any depth, so that no number grows with it but that of the walk by names.
#[test]
fn paths_of_several_depths_are_looked_at() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["bench", "paths", "--depths", "2,6", "--operations", "60", "--rounds", "2", "--json"];
    for over in ["socket", "udp"] {
        let place = ["--over".as_ref(), over.as_ref(), "--dir".as_ref(), dir.path().as_os_str()];
        let output = server::run(args.iter().map(OsStr::new).chain(place));
        assert!(output.status.success(), "{over}: {}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let rows = list(&report, "rows");
        let ways: Vec<_> = rows.iter().map(|row| (row["depth"].as_u64(), row["way"].as_str())).collect();
        let words = ["open file", "name by name", "path node, cold", "path node, warm", "client's cache"].map(Some);
        assert_eq!(ways, [2, 6].map(|depth| words.map(|word| (Some(depth), word))).concat());
        for row in rows {
            for spread in ["us", "beside_an_open_file", "beside_name_by_name", "beside_the_first_depth"] {
                assert_spread(&row[spread], 0.0);
            }
            // CPU times tell some milliseconds apart.
            let [all, before_shards] = ["cpu_us", "cpu_before_shards_us"].map(|name| row[name]["median"].as_f64());
            assert!(before_shards <= all && before_shards >= Some(0.0), "{row}");
        }
        assert_empty(dir.path());
    }
    let refused = server::run(["bench", "paths", "--depths", "1"].map(OsStr::new));
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("2..=200"));
}
