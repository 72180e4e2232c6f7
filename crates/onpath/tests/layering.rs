//! The shape of the code, checked: which crate may use which, what a role must not touch, how long files and functions are.

use crate::common::repository;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The layer of every crate. A crate uses only crates of lower layers; siblings never use each other.
const LAYERS: [(&str, u8); 21] = [
    ("onpath-testing", 0),
    ("onpath-index", 0),
    ("onpath-wire", 0),
    ("onpath-dataplane", 1),
    ("onpath-kernel", 1),
    ("onpath-mart", 1),
    ("onpath-store", 1),
    ("onpath-transport", 1),
    ("onpath-meta", 2),
    ("onpath-data", 2),
    ("onpath-session", 2),
    ("onpath-path", 2),
    ("onpath-controller", 2),
    ("onpath-switch", 2),
    ("onpath-dataplane-native", 2),
    ("onpath-xdp", 3),
    ("onpath-host", 3),
    ("onpath-sim", 3),
    ("onpath-client", 4),
    ("onpath-fuse", 5),
    ("onpath", 6),
];

/// Crates whose code is the same in the simulator: no clock, file, socket, thread or chance.
const PURE: [&str; 13] = [
    "crates/index",
    "crates/mart",
    "crates/wire",
    "crates/kernel",
    "crates/store",
    "crates/meta",
    "crates/data",
    "crates/path",
    "crates/controller",
    "crates/session",
    "crates/switch",
    "crates/transport",
    "dataplane/rust",
];

/// What pure code must not name. The hash maps of std are seeded at random, so their order differs from run to run.
const IMPURE: [&str; 12] = [
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time",
    "Instant::now",
    "SystemTime",
    "RandomState",
    "collections::HashMap",
    "collections::HashSet",
    "rand::",
];

/// Lines that a file may have.
const FILE_LINES_MAX: usize = 600;
/// Lines that a function should have; more are listed.
const FUNCTION_LINES_MAX: usize = 70;

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("a directory of sources").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The sources of all crates, tests included.
fn all_sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    sources(&repository().join("crates"), &mut files);
    sources(&repository().join("dataplane/rust"), &mut files);
    sources(&repository().join("dataplane/native"), &mut files);
    sources(&repository().join("dataplane/xdp"), &mut files);
    sources(&repository().join("fuzz/src"), &mut files);
    sources(&repository().join("fuzz/targets"), &mut files);
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(repository()).expect("within the repository").display().to_string()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(repository())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("no list {name}"))
}

/// Complaints about edges between crates of the workspace that the layers forbid.
fn bad_edges(metadata: &Value, layers: &BTreeMap<&str, u8>) -> Vec<String> {
    let mut bad = Vec::new();
    for package in list(metadata, "packages") {
        let from = package["name"].as_str().expect("a package has a name");
        let Some(&layer) = layers.get(from) else {
            bad.push(format!("{from} has no layer: add it to LAYERS"));
            continue;
        };
        for dependency in list(package, "dependencies") {
            let to = dependency["name"].as_str().expect("a dependency has a name");
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            if let Some(&below) = layers.get(to)
                && below >= layer
            {
                bad.push(format!("{from} (L{layer}) must not use {to} (L{below}), a {kind} dependency"));
            }
        }
    }
    bad
}

#[test]
fn crates_use_only_lower_layers() {
    let bad = bad_edges(&metadata(), &LAYERS.into());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// What brings the lock file of the fuzz targets up to date, with our versions.
const RELOCK: &str = "cp Cargo.lock fuzz/ && cargo update --workspace --offline --manifest-path fuzz/Cargo.toml";

/// A package of a lock file.
struct Locked {
    name: String,
    version: String,
    uses: BTreeSet<String>,
}

/// The packages of a lock file.
fn locked(lock: &str) -> Vec<Locked> {
    let of = |package: &str| {
        let line = |name: &str| {
            let found = package.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_matches('"').to_owned()));
            found.unwrap_or_else(|| panic!("no {name} in {package}"))
        };
        let uses = package.split_once("dependencies = [").and_then(|(_, rest)| rest.split_once(']'));
        // A version follows where the name alone says too little.
        let name = |used: &str| used.trim().trim_matches('"').split(' ').next().unwrap_or_default().to_owned();
        let uses = uses.into_iter().flat_map(|(list, _)| list.split(',')).map(name).filter(|used| !used.is_empty());
        Locked { name: line("name = "), version: line("version = "), uses: uses.collect() }
    };
    lock.split("[[package]]").skip(1).map(of).collect()
}

/// Complaints about a lock file that tells of our crates as they were. Of what is optional it has what somebody has turned on.
fn stale(metadata: &Value, lock: &[Locked]) -> Vec<String> {
    let mut stale = Vec::new();
    for package in list(metadata, "packages") {
        let Some(locked) = lock.iter().find(|locked| package["name"] == *locked.name) else { continue };
        let uses = |optional: bool| {
            let uses = list(package, "dependencies").iter();
            let uses = uses.filter(|used| used["kind"] != "dev" && (optional || used["optional"] != true));
            uses.map(|used| used["name"].as_str().expect("a dependency has a name").to_owned()).collect()
        };
        let (needed, possible): (BTreeSet<String>, BTreeSet<String>) = (uses(false), uses(true));
        stale.extend(needed.difference(&locked.uses).map(|used| format!("{} lacks {used}", locked.name)));
        stale.extend(locked.uses.difference(&possible).map(|used| format!("{} uses {used} no more", locked.name)));
    }
    stale
}

/// Fuzz targets are a workspace of their own, which no crate of this one uses and whose dependencies, but for the fuzzer, have the same
/// versions: what is fuzzed is what is built. Their lock file is built from as it is.
#[test]
fn fuzz_targets_stand_apart() {
    let [ours, theirs] = ["Cargo.lock", "fuzz/Cargo.lock"].map(|path| locked(&read(&repository().join(path))));
    assert!(ours.iter().all(|package| package.name != "onpath-fuzz"));
    let versions = |of: &[Locked]| {
        let versions = of.iter().map(|package| (package.name.clone(), package.version.clone()));
        versions.collect::<BTreeSet<_>>()
    };
    let own: Vec<String> = versions(&theirs).difference(&versions(&ours)).map(|(name, _)| name.clone()).collect();
    assert_eq!(own, ["arbitrary", "jobserver", "libfuzzer-sys", "onpath-fuzz"], "versions of their own: {RELOCK}");
    assert!(theirs.iter().any(|package| package.name == "onpath-host" && package.uses.contains("onpath-wire")));
    let stale = stale(&metadata(), &theirs);
    assert!(stale.is_empty(), "fuzz/Cargo.lock is stale: {RELOCK}\n{}", stale.join("\n"));
}

/// The check itself: what a lock file lacks is shown, and what it has too much; what it may have is no matter.
#[test]
fn a_stale_lock_file_is_shown() {
    let uses =
        |name: &str, kind: Value, optional: bool| serde_json::json!({"name": name, "kind": kind, "optional": optional});
    let metadata = serde_json::json!({"packages": [
        {"name": "onpath-host", "dependencies": [
            uses("onpath-path", Value::Null, false),
            uses("onpath-wire", Value::Null, false),
            uses("cc", "build".into(), false),
            uses("libc", Value::Null, false),
            uses("tempfile", "dev".into(), false),
            uses("turned-on", Value::Null, true),
            uses("left-off", Value::Null, true),
        ]},
        {"name": "onpath-testing", "dependencies": [uses("onpath-wire", Value::Null, false)]},
        {"name": "onpath-wire", "dependencies": []},
    ]});
    let lock = "version = 4\n\n[[package]]\nname = \"onpath-host\"\nversion = \"0.1.0\"\ndependencies = [\n \"libc 0.2.1\",\n \"onpath-switch\",\n \
        \"onpath-wire\",\n \"turned-on\",\n]\n\n[[package]]\nname = \"onpath-wire\"\nversion = \"0.1.0\"\n";
    let stale = stale(&metadata, &locked(lock));
    let expected = ["onpath-host lacks cc", "onpath-host lacks onpath-path", "onpath-host uses onpath-switch no more"];
    assert_eq!(stale, expected);
}

/// The check itself: an edge to a sibling or upwards is shown, a new crate needs a layer.
#[test]
fn a_bad_edge_is_shown() {
    let package =
        |name: &str, uses: &str| serde_json::json!({"name": name, "dependencies": [{"name": uses, "kind": null}]});
    let metadata = serde_json::json!({"packages": [
        package("onpath-meta", "onpath-store"),
        package("onpath-meta", "onpath-data"),
        package("onpath-kernel", "onpath-host"),
        package("onpath-new", "onpath-wire"),
    ]});
    let bad = bad_edges(&metadata, &LAYERS.into());
    assert_eq!(
        bad,
        [
            "onpath-meta (L2) must not use onpath-data (L2), a normal dependency",
            "onpath-kernel (L1) must not use onpath-host (L3), a normal dependency",
            "onpath-new has no layer: add it to LAYERS",
        ]
    );
}

#[test]
fn roles_touch_no_clock_file_socket_thread_or_chance() {
    let mut bad = Vec::new();
    for name in PURE {
        let mut files = Vec::new();
        sources(&repository().join(name).join("src"), &mut files);
        for file in files {
            for (number, line) in read(&file).lines().enumerate() {
                let code = line.split("//").next().expect("split gives at least one");
                for word in IMPURE.iter().filter(|word| code.contains(*word)) {
                    bad.push(format!("{}:{}: {word}", shown(&file), number + 1));
                }
            }
        }
    }
    assert!(bad.is_empty(), "code of roles must be pure:\n{}", bad.join("\n"));
}

/// (line, name, lines) of every function, found by the indentation that rustfmt gives its last brace.
fn functions(text: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let Some((before, after)) = line.split_once("fn ") else { continue };
        let modifiers = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "extern", "\"C\""];
        if !before.split_whitespace().all(|word| modifiers.contains(&word)) {
            continue;
        }
        let indentation = line.len() - line.trim_start().len();
        let last = format!("{}}}", " ".repeat(indentation));
        let opened = lines[number..].iter().position(|line| line.ends_with('{'));
        let ended = lines[number..].iter().position(|line| line.ends_with(';'));
        if ended < opened && ended.is_some() || line.ends_with('}') {
            continue; // a declaration, or a body of one line
        }
        let Some(length) = lines[number..].iter().position(|line| *line == last) else { continue };
        let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        found.push((number + 1, name, length + 1));
    }
    found
}

#[test]
fn files_and_functions_have_a_readable_size() {
    let files = all_sources();
    assert!(files.len() > 100, "only {} files found", files.len());
    let (mut long_files, mut long_functions) = (Vec::new(), Vec::new());
    for file in files {
        let text = read(&file);
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            long_files.push(format!("{}: {lines} lines", shown(&file)));
        }
        let long = functions(&text).into_iter().filter(|(_, _, lines)| *lines > FUNCTION_LINES_MAX);
        long_functions.extend(long.map(|(at, name, lines)| format!("{}:{at}: {name}: {lines} lines", shown(&file))));
    }
    if !long_functions.is_empty() {
        // Past libtest, which hides what a test prints that passes.
        let listed = long_functions.join("\n");
        let _ = writeln!(std::io::stderr(), "functions of more than {FUNCTION_LINES_MAX} lines:\n{listed}");
    }
    assert!(long_files.is_empty(), "files of more than {FILE_LINES_MAX} lines:\n{}", long_files.join("\n"));
}

/// Names go to terminals by `crates/wire/src/shown.rs`: what std makes of a path is the path, whatever a terminal does with it.
#[test]
fn names_are_shown_in_one_way() {
    let ours = |file: &&PathBuf| !["/tests/", "/tests.rs", "/build.rs"].iter().any(|tests| shown(file).contains(tests));
    let mut raw = Vec::new();
    for file in all_sources().iter().filter(ours) {
        let text = read(file);
        // Modules of tests come last in a file.
        let code = text.split("#[cfg(test)]\nmod ").next().expect("split gives at least one");
        let lines = code.lines().enumerate().filter(|(_, line)| line.contains(".display()"));
        raw.extend(lines.map(|(number, _)| format!("{}:{}", shown(file), number + 1)));
    }
    assert!(raw.is_empty(), "write `.shown()` for `.display()`:\n{}", raw.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<String> =
        all_sources().iter().filter(|file| !read(file).starts_with("//!")).map(|file| shown(file)).collect();
    assert!(silent.is_empty(), "no opening comment:\n{}", silent.join("\n"));
}

/// `cargo test` leaves the suites out: each is named in scripts/test.
#[test]
fn every_suite_is_run() {
    let script = read(&repository().join("scripts/test"));
    let named: Vec<&str> = script
        .lines()
        .filter(|line| ["working=(", "waiting=(", "    suites \"\" "].iter().any(|begin| line.starts_with(begin)))
        .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect();
    let main = read(&repository().join("crates/onpath/tests/main.rs"));
    let suites = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let left_out: Vec<&str> = suites.filter(|suite| *suite != "common" && !named.contains(suite)).collect();
    assert!(left_out.is_empty(), "suites that scripts/test does not name: {left_out:?}");
}

/// A field of what is stored has a type of `crates/wire/src/disk`, or one of its list of types that are stored as they are sent: ids, names
/// and the like, never a message or a part of one (`crates/wire/src/disk/mod.rs`).
#[test]
fn what_is_sent_is_not_stored() {
    const MESSAGES: [&str; 10] =
        ["acl", "attr", "caller", "data", "header", "packet", "peer", "reply", "report", "request"];
    let wire = repository().join("crates/wire/src");
    let codec = read(&wire.join("disk/codec.rs"));
    let lists = codec.split("as_sent!(").skip(1).filter_map(|rest| rest.split_once(");")).map(|(list, _)| list);
    let listed: Vec<&str> =
        lists.flat_map(|list| list.split(',')).map(str::trim).filter(|name| !name.is_empty()).collect();
    assert!(listed.contains(&"InodeId") && listed.contains(&"Kind"), "the list of types is not found: {listed:?}");
    for module in MESSAGES {
        let text = read(&wire.join(module).with_extension("rs"));
        let defines =
            |name: &&&str| ["struct", "enum"].iter().any(|kind| text.contains(&format!("pub {kind} {name} ")));
        assert_eq!(listed.iter().find(defines), None, "{module}.rs has a type that is stored");
    }
    let elsewhere = |path: &PathBuf| !path.starts_with(wire.join("disk")) && !path.ends_with("tests/layering.rs");
    for path in all_sources().into_iter().filter(elsewhere) {
        assert!(!read(&path).contains("Stored for "), "{} says how something is stored", shown(&path));
    }
}
