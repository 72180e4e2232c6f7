//! The documents are true: their links lead somewhere, the code and the tests they name exist, their commands work.
//!
//! Conventions: `` `crates/x/src/y.rs::name` `` names an item of that file, `` `posix/chmod::name` `` a test of crates/onpath/tests/posix/
//! (any directory or file of crates/onpath/tests). A block of kind `sh` holds commands whose form is checked, a block of kind `console` a
//! session that is run: lines that begin with `$ ` are commands, the others what they print, `…` standing for anything.

mod citations;

use crate::common::{cannot_mount, repository, server, skipped};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

struct Document {
    path: PathBuf,
    text: String,
}

/// A fenced block.
struct Block<'a> {
    kind: &'a str,
    /// Number of its first line.
    at: usize,
    lines: Vec<&'a str>,
}

/// What is in a directory, in order.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// The documents of the repository, those of docs/ at any depth.
fn documents() -> Vec<Document> {
    let root = repository();
    let mut paths: Vec<PathBuf> = [root.clone(), root.join("dataplane")].iter().flat_map(|dir| entries(dir)).collect();
    let mut dirs = vec![root.join("docs")];
    while let Some(dir) = dirs.pop() {
        let (below, files): (Vec<_>, Vec<_>) = entries(&dir).into_iter().partition(|path| path.is_dir());
        dirs.extend(below);
        paths.extend(files);
    }
    paths.retain(|path| path.extension() == Some(OsStr::new("md")));
    let read = |path: PathBuf| Document { text: std::fs::read_to_string(&path).expect("text"), path };
    let all: Vec<Document> = paths.into_iter().map(read).collect();
    assert!(all.len() >= 16, "only {} documents found", all.len());
    all
}

impl Document {
    fn name(&self) -> String {
        self.path.strip_prefix(repository()).expect("within the repository").display().to_string()
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for (number, line) in self.text.lines().enumerate() {
            match (line.strip_prefix("```"), open.as_mut()) {
                (Some(kind), None) => open = Some(Block { kind, at: number + 2, lines: Vec::new() }),
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => block.lines.push(line),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", self.name());
        blocks
    }

    /// The lines outside blocks, numbered from 1.
    fn prose(&self) -> Vec<(usize, &str)> {
        let mut inside = false;
        let mut prose = Vec::new();
        for (number, line) in self.text.lines().enumerate() {
            if line.starts_with("```") {
                inside = !inside;
            } else if !inside {
                prose.push((number + 1, line));
            }
        }
        prose
    }

    /// (line, text between backquotes) of the prose.
    fn quoted(&self) -> Vec<(usize, &str)> {
        let mut quoted = Vec::new();
        for (number, line) in self.prose() {
            quoted.extend(line.split('`').skip(1).step_by(2).map(|word| (number, word)));
        }
        quoted
    }
}

/// Whether the text defines an item of that name.
fn defines(text: &str, name: &str) -> bool {
    let name = name.strip_suffix("()").unwrap_or(name);
    ["fn", "struct", "enum", "trait", "const", "type", "mod", "static", "macro_rules!"].iter().any(|kind| {
        text.match_indices(&format!("{kind} {name}")).any(|(at, found)| {
            !text[at + found.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_')
        })
    })
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let dir = document.path.parent().expect("a file has a directory");
        for (number, line) in document.prose() {
            for rest in line.split("](").skip(1) {
                let target = rest.split(')').next().expect("split gives at least one");
                let path = target.split('#').next().expect("split gives at least one");
                let outside = target.contains("://");
                if !outside && !path.is_empty() && !dir.join(path).exists() {
                    broken.push(format!("{}:{number}: {target}", document.name()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn named_code_exists() {
    let mut missing = Vec::new();
    for document in documents() {
        for (number, word) in document.quoted() {
            let in_repository = ["crates/", "dataplane/", "docs/", "fuzz/", "scripts/", ".ci/"]
                .iter()
                .any(|prefix| word.starts_with(prefix));
            if !in_repository || word.contains([' ', '*', '{', '<']) || named_test(word).is_some() {
                continue;
            }
            let (file, item) = word.split_once("::").map_or((word, None), |(file, item)| (file, Some(item)));
            let path = repository().join(file);
            let found = match item {
                None => path.exists(),
                Some(item) => std::fs::read_to_string(path).is_ok_and(|text| defines(&text, item)),
            };
            if !found {
                missing.push(format!("{}:{number}: {word}", document.name()));
            }
        }
    }
    assert!(missing.is_empty(), "code that is named but not there:\n{}", missing.join("\n"));
}

/// The test that `dir/module::name` or `file::name` stands for, if the word has that form: its file and its name.
fn named_test(word: &str) -> Option<(PathBuf, &str)> {
    let (module, name) = word.split_once("::")?;
    let plain = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || more.contains(c))
    };
    if !plain(module, "_/") || !plain(name, "_") || name.contains('/') {
        return None;
    }
    let tests = repository().join("crates/onpath/tests");
    let sim = repository().join("crates/sim/tests");
    let top = module.split('/').next().expect("split gives at least one");
    let dir = [tests, sim].into_iter().find(|dir| dir.join(top).is_dir() || dir.join(format!("{top}.rs")).is_file())?;
    let file = dir.join(format!("{module}.rs"));
    Some((if file.is_file() { file } else { dir.join(module).join("mod.rs") }, name))
}

fn is_test(file: &Path, name: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(file) else { return false };
    let lines: Vec<&str> = text.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.trim_start().trim_start_matches("pub(crate) ").starts_with(&format!("fn {name}(")));
    at.is_some_and(|at| lines[at.saturating_sub(3)..at].iter().any(|line| line.trim() == "#[test]"))
}

#[test]
fn named_tests_exist() {
    let mut missing = Vec::new();
    for document in documents() {
        for (number, word) in document.quoted() {
            if named_test(word).is_some_and(|(file, name)| !is_test(&file, name)) {
                missing.push(format!("{}:{number}: {word}", document.name()));
            }
        }
    }
    assert!(missing.is_empty(), "tests that are named but not there:\n{}", missing.join("\n"));
}

/// In the part of docs/semantics.md above its deviations each item of a list names a test.
#[test]
fn every_promise_names_its_test() {
    let document = documents().into_iter().find(|document| document.name() == "docs/semantics.md").expect("it exists");
    let promises = document.text.split("\n## Deviations").next().expect("split gives at least one");
    let mut bare = Vec::new();
    let mut count = 0;
    for item in promises.split("\n- ").skip(1) {
        let item = item.split("\n\n").next().expect("split gives at least one");
        count += 1;
        if !item.split('`').skip(1).step_by(2).any(|word| named_test(word).is_some()) {
            bare.push(item.lines().next().unwrap_or_default().to_owned());
        }
    }
    assert!(count >= 30, "only {count} promises");
    assert!(bare.is_empty(), "promises without a test:\n{}", bare.join("\n"));
}

/// What is wrong with a call of cargo: packages, tests and benchmarks that it names exist, and what it runs is understood.
fn complaint_of_cargo(command: &str, options: &[&str]) -> Option<String> {
    if !["bench", "build", "clippy", "fmt", "run", "test"].contains(&command) {
        return Some(format!("nobody checks cargo {command}"));
    }
    let (options, run) = options.split_at(options.iter().position(|word| *word == "--").unwrap_or(options.len()));
    let after = |names: &[&str]| options.iter().position(|word| names.contains(word)).map(|at| options[at + 1]);
    let dir = match after(&["-p", "--package"]) {
        Some("onpath-dataplane") => repository().join("dataplane/rust"),
        Some("onpath-dataplane-native") => repository().join("dataplane/native"),
        Some("onpath-xdp") => repository().join("dataplane/xdp"),
        Some(package) => repository().join("crates").join(package.trim_start_matches("onpath-")),
        None => repository(),
    };
    let there = |kind: &str, name: Option<&str>| {
        name.is_none_or(|name| {
            dir.join(kind).join(name).is_dir() || dir.join(kind).join(format!("{name}.rs")).is_file()
        })
    };
    let example = after(&["--example"]);
    let suites = |name: &str| {
        // A target that the manifest names; words for its tests name modules of it.
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
        let filters = run.iter().filter_map(|word| word.split_once("::")).map(|(suite, _)| suite);
        manifest.contains(&format!("[[test]]\nname = \"{name}\""))
            && filters.into_iter().all(|suite| there("tests", Some(suite)))
    };
    let test = after(&["--test"]);
    let found = (there("tests", test) || test.is_some_and(suites))
        && there("benches", after(&["--bench"]))
        && there("examples", example);
    match (dir.is_dir() && found, run) {
        (false, _) => Some("no such package, test, benchmark or example".to_owned()),
        (true, ["--", args @ ..]) if command == "run" && example.is_none() => {
            complaint(&["onpath", &args.join(" ")].join(" "))
        }
        _ => None,
    }
}

/// What is wrong with a command of a document, if anything.
fn complaint(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let root = repository();
    match words.as_slice() {
        ["onpath", args @ ..] => {
            // Options and arguments are parsed before --help is reached.
            let args = args.iter().map(|word| if *word == "…" { "/" } else { *word });
            let output = server::run(args.chain(["--help"]).map(OsStr::new));
            (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
        }
        ["just", recipe, ..] => {
            let justfile = std::fs::read_to_string(root.join("justfile")).expect("a justfile");
            let found =
                justfile.lines().any(|line| line.strip_prefix(recipe).is_some_and(|rest| rest.starts_with([':', ' '])));
            (!found).then(|| "no such recipe".to_owned())
        }
        ["cargo", command, options @ ..] => complaint_of_cargo(command, options),
        [variable, ..] if variable.starts_with("ONPATH_") => {
            let (name, _) = variable.split_once('=')?;
            let rest = command.trim_start().trim_start_matches(variable);
            if read_by_tests(name) { complaint(rest) } else { Some(format!("no test reads {name}")) }
        }
        [script, ..] if script.starts_with("scripts/") => {
            (!root.join(script).is_file()).then(|| "no such script".to_owned())
        }
        _ => Some("neither onpath, just, cargo bench, cargo test nor a script: nobody checks it".to_owned()),
    }
}

/// Commands of the system in the README.
const RUN: [&str; 3] = ["apt install ./onpath_*.deb", "mkdir -p /mnt/onpath", "echo hello > /mnt/onpath/file"];

#[test]
fn commands_are_understood() {
    let mut wrong = Vec::new();
    for document in documents() {
        for block in document.blocks() {
            assert!(
                ["sh", "console", "text", "rust"].contains(&block.kind),
                "{}:{}: a block of kind {:?}",
                document.name(),
                block.at,
                block.kind
            );
            if block.kind != "sh" {
                continue;
            }
            for (number, line) in block.lines.iter().enumerate() {
                let command = line.split(" # ").next().expect("split gives at least one").trim();
                // Those of the README are run as they are (package::the_start_of_the_readme_works, cluster::readme).
                let is_run = document.name() == "README.md" && RUN.iter().any(|word| command.starts_with(word));
                if command.is_empty() || is_run {
                    continue;
                }
                if let Some(complaint) = complaint(command) {
                    wrong.push(format!("{}:{}: {command}: {complaint}", document.name(), block.at + number));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "commands that do not work:\n{}", wrong.join("\n"));
}

/// Whether a test asks for this variable.
fn read_by_tests(variable: &str) -> bool {
    let files = |dir: &Path| {
        let entries = std::fs::read_dir(dir).expect("a directory of tests");
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
    };
    let tests = ["crates/onpath/tests", "crates/sim/tests", "dataplane/rust/tests", "dataplane/native/tests"];
    let mut paths: Vec<_> = tests.iter().flat_map(|dir| files(&repository().join(dir))).collect();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(files(&path));
        } else if std::fs::read_to_string(&path).is_ok_and(|text| text.contains(&format!("\"{variable}\""))) {
            return true;
        }
    }
    false
}

/// The commands of the justfile's recipes, with the defaults of their parameters, and the lines they are in.
fn recipes(justfile: &str) -> Vec<(usize, String)> {
    let mut commands = Vec::new();
    let mut defaults: Vec<(&str, &str)> = Vec::new();
    for (number, line) in justfile.lines().enumerate() {
        let Some(body) = line.strip_prefix("    ") else {
            let head = line.split(':').next().expect("split gives at least one");
            let parameters = head.split_whitespace().skip(1).map(|word| word.trim_start_matches('*'));
            defaults = parameters.map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
            continue;
        };
        let mut command = body.trim_start_matches('@').to_owned();
        for (name, default) in &defaults {
            command = command.replace(&format!("{{{{ {name} }}}}"), default.trim_matches('"'));
        }
        commands.push((number + 1, command));
    }
    commands
}

#[test]
fn recipes_are_understood() {
    let justfile = std::fs::read_to_string(repository().join("justfile")).expect("a justfile");
    let commands = recipes(&justfile);
    assert!(commands.len() >= 8, "only {} commands of recipes", commands.len());
    let mut wrong = Vec::new();
    for (number, command) in commands.iter().filter(|(_, command)| command != "just --list --unsorted") {
        if let Some(complaint) = complaint(command) {
            wrong.push(format!("justfile:{number}: {command}: {complaint}"));
        }
    }
    assert!(wrong.is_empty(), "commands that do not work:\n{}", wrong.join("\n"));
}

/// Below the title each document says for whom it is, and what they can do afterwards; the README what Onpath is.
#[test]
fn documents_say_for_whom_they_are() {
    let silent = documents().into_iter().filter(|document| {
        let first = document.text.lines().skip(1).find(|line| !line.is_empty()).unwrap_or_default();
        let name = document.name();
        !first.starts_with("For who ") && name != "README.md" && !name.starts_with("dataplane/")
    });
    let silent: Vec<String> = silent.map(|document| document.name()).collect();
    assert!(silent.is_empty(), "documents that do not begin with \"For who …\": {silent:?}");
}

/// The README counts what the suite of semantics and the table of teeth have.
#[test]
fn the_readme_counts_right() {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).expect(name);
    let posix = entries(&repository().join("crates/onpath/tests/posix"));
    let tests: usize = posix
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("a source").lines().filter(|line| *line == "#[test]").count())
        .sum();
    let teeth = read("docs/internals/teeth.md");
    // Of rules of paths the table says whether path nodes, sessions or homes break them; of all others nobody else than homes can.
    let bug = |row: &str| {
        let cells: Vec<&str> = row.split(" | ").collect();
        (cells[1].to_owned(), if row.starts_with("| P-") { cells[2].to_owned() } else { "home".to_owned() })
    };
    let rows = teeth.lines().filter(|line| line.starts_with("| R-") || line.starts_with("| P-"));
    let planted: std::collections::BTreeSet<_> = rows.map(bug).collect();
    let (readme, planted) = (read("README.md"), planted.len());
    assert!(readme.contains(&format!("**More than {}** tests of POSIX", tests / 100 * 100)), "{tests} tests");
    assert!(readme.contains(&format!("**{planted} of {planted}** planted bugs")), "{planted} planted bugs");
}

/// The two set-up commands of the README are what continuous integration and a user run.
#[test]
fn continuous_integration_runs_the_command_of_the_readme() {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).expect(name);
    assert!(read(".ci/run").lines().any(|line| line == "exec scripts/test"), ".ci/run runs something else");
    for command in ["\nscripts/run-dev ", "\nscripts/test\n"] {
        assert!(read("README.md").contains(command), "README.md does not show {command:?}");
    }
}

/// A shell whose output is read line by line; what it started is killed on drop.
struct Shell {
    child: Child,
    output: std::sync::mpsc::Receiver<String>,
    home: tempfile::TempDir,
}

impl Shell {
    fn start() -> Shell {
        let home = tempfile::Builder::new().prefix("onpath-docs-").tempdir().expect("a temporary directory");
        let binaries = Path::new(server::binary()).parent().expect("the binary is in a directory").to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([binaries].into_iter().chain(std::env::split_paths(&path))).expect("a PATH");
        let (read, write) = std::io::pipe().expect("a pipe");
        let mut child = Command::new("bash")
            .env("HOME", home.path())
            .env("PATH", path)
            .stdin(Stdio::piped())
            .stdout(write.try_clone().expect("dup of the pipe"))
            .stderr(write)
            .spawn()
            .expect("bash runs");
        // Other tests of this process may have set another one.
        writeln!(child.stdin.as_mut().expect("it is piped"), "umask 022").expect("bash reads");
        let (sender, output) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(read).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Shell { child, output, home }
    }

    fn line(&self) -> Option<String> {
        self.output.recv_timeout(crate::common::PATIENCE).ok()
    }

    /// Runs a command; gives what is wrong with what it printed. One in the background is waited for until it printed as much.
    fn run(&mut self, command: &str, wanted: &[&str]) -> Option<String> {
        const END: &str = "--end of the command--";
        let background = command.ends_with('&');
        let end = if background { String::new() } else { format!("\necho '{END}' $?") };
        let stdin = self.child.stdin.as_mut().expect("piped");
        writeln!(stdin, "{command}{end}").expect("bash reads");
        let mut said = Vec::new();
        while !background || said.len() < wanted.len() {
            match self.line() {
                None => return Some(format!("{command}: no answer after {said:?}")),
                Some(line) if line == format!("{END} 0") => break,
                Some(line) if line.starts_with(END) => return Some(format!("{command}: failed: {said:?}")),
                Some(line) => said.push(line),
            }
        }
        // What bash says of jobs that were killed.
        said.retain(|line| !(line.starts_with("bash: line ") && line.contains("Killed")));
        let fits = said.len() == wanted.len() && said.iter().zip(wanted).all(|(said, wanted)| fits(said, wanted));
        (!fits).then(|| format!("{command}: printed {said:?} instead of {wanted:?}"))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(stdin) = self.child.stdin.as_mut() {
            let _ = writeln!(stdin, "kill -9 $(jobs -p) 2>/dev/null; exit");
        }
        let _ = self.child.wait();
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        for mountpoint in table.lines().filter_map(|line| line.split(' ').nth(4)) {
            if Path::new(mountpoint).starts_with(self.home.path()) {
                let _ = crate::common::sys::detach(mountpoint);
            }
        }
    }
}

/// Whether a line fits a pattern in which `…` stands for anything.
fn fits(line: &str, pattern: &str) -> bool {
    let mut rest = line;
    for (number, piece) in pattern.split('…').enumerate() {
        match rest.find(piece) {
            Some(at) if at == 0 || number > 0 => rest = &rest[at + piece.len()..],
            _ => return false,
        }
    }
    rest.is_empty() || pattern.ends_with('…')
}

#[test]
fn sessions_go_as_shown() {
    if let Some(reason) = cannot_mount() {
        return skipped("docs::sessions_go_as_shown", reason);
    }
    let documents = documents();
    let mut sessions = 0;
    for document in &documents {
        for block in document.blocks().iter().filter(|block| block.kind == "console") {
            sessions += 1;
            let mut shell = Shell::start();
            let mut lines = block.lines.as_slice();
            while let [first, rest @ ..] = lines {
                let command = first.strip_prefix("$ ").expect("a session begins with a command");
                let printed = rest.iter().position(|line| line.starts_with("$ ")).unwrap_or(rest.len());
                let complaint = shell.run(command, &rest[..printed]);
                assert!(complaint.is_none(), "{}:{}: {}", document.name(), block.at, complaint.unwrap_or_default());
                lines = &rest[printed..];
            }
        }
    }
    assert!(sessions > 0, "no document shows a session");
}
