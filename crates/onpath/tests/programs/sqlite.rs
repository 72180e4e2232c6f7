//! SQLite: several processes write one database, in WAL mode on one mount and with the rollback journal on two; in WAL mode two are one too many.

use crate::common::server::{Mount, Site};
use crate::common::tool;
use crate::common::{process, skipped};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Processes that write.
const WRITERS: usize = 4;
/// Transactions of each, two statements a transaction.
const TRANSACTIONS: usize = 60;

/// Adds rows and counts them in one more row, which only works if transactions do not overlap.
const WRITER: &str = r#"
import sqlite3, sys
path, writer, transactions, synchronous = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
db = sqlite3.connect(path, timeout=60, isolation_level=None)
db.execute(f"pragma synchronous={synchronous}")
for i in range(transactions):
    db.execute("begin immediate")
    db.execute("insert into item values (?, ?, ?)", (writer, i, f"{writer}:{i}:" + "x" * (i * 37 % 3000)))
    (n,) = db.execute("select n from total").fetchone()
    db.execute("update total set n = ?", (n + 1,))
    if i % 7 == 3:
        db.execute("delete from item where writer = ? and number = ?", (writer, i))
        db.execute("insert into item values (?, ?, ?)", (writer, i, "again"))
    db.execute("commit")
"#;

const PREPARE: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
mode = db.execute(f"pragma journal_mode={sys.argv[2]}").fetchone()[0]
assert mode == sys.argv[2], mode
db.execute("create table item (writer, number, text, primary key (writer, number))")
db.execute("create table total (n)")
db.execute("insert into total values (0)")
"#;

const CHECK: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
one = lambda q: db.execute(q).fetchone()[0]
print(one("pragma integrity_check"), one("select count(*) from item"), one("select n from total"),
      one("select count(distinct writer * 1000000 + number) from item"))
"#;

fn python(script: &str, words: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg("-c").arg(script).args(words);
    command
}

fn run(script: &str, words: &[&str]) -> String {
    let output = python(script, words).output().expect("python3 runs");
    assert!(output.status.success(), "python3 {words:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn has_sqlite(test: &str) -> bool {
    let there =
        tool("python3").is_some() && python("import sqlite3", &[]).output().is_ok_and(|output| output.status.success());
    if !there {
        skipped(test, "python3 with its sqlite3 module is not installed");
    }
    there
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

/// All writers at once; writer n uses the n-th mount, in turn.
fn write(mounts: &[&Mount], synchronous: &str) {
    let start = |n: usize| {
        let path = mounts[n % mounts.len()].path().join("db");
        let words = [text(&path), &n.to_string(), &TRANSACTIONS.to_string(), synchronous].map(str::to_owned);
        process::spawn(&mut python(WRITER, &words.each_ref().map(String::as_str))).expect("python3 starts")
    };
    let writers: Vec<Child> = (0..WRITERS).map(start).collect();
    for mut writer in writers {
        let status = writer.wait().expect("wait");
        assert!(status.success(), "a writer failed: {status}");
    }
}

fn assert_complete(mount: &Mount) {
    let rows = WRITERS * TRANSACTIONS;
    let found = run(CHECK, &[text(&mount.path().join("db"))]);
    assert_eq!(found.trim(), format!("ok {rows} {rows} {rows}"), "integrity, rows, total, keys");
}

#[test]
fn wal_on_one_mount_while_another_is_attached() {
    if !has_sqlite("SQLite in WAL mode") {
        return;
    }
    let Some(site) = Site::new("SQLite in WAL mode") else { return };
    let first = site.dev(&[]);
    let second = site.mount(1, &[]);
    run(PREPARE, &[text(&first.path().join("db")), "wal"]);
    write(&[&first], "normal");
    assert_complete(&first);
    second.stop();
    assert_complete(&first);
    first.stop();
    site.assert_clean("after SQLite");
}

/// In WAL mode SQLite shares memory through a mapped file, which two mounts do not: the mount that comes second says so.
#[test]
fn wal_on_two_mounts_is_noticed() {
    if !has_sqlite("SQLite in WAL mode on two mounts") {
        return;
    }
    let Some(site) = Site::new("SQLite in WAL mode on two mounts") else { return };
    let first = site.dev(&[]);
    let second = site.mount(1, &[]);
    const NOTICE: &str = "written through a shared mapping while another mount has it open";
    run(PREPARE, &[text(&first.path().join("db")), "wal"]);
    write(&[&first], "normal");
    assert!(!first.said().contains(NOTICE), "one mount has nothing to notice: {}", first.said());
    let words = |mount: &Mount, n: &str| [text(&mount.path().join("db")), n, "5", "normal"].map(str::to_owned);
    // The first one keeps the database open, so that its index in memory is that of before.
    let mut keeper = python(&format!("{WRITER}\nprint('open', flush=True); sys.stdin.read()"), &[]);
    keeper.args(words(&first, "100")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut keeper = process::spawn(&mut keeper).expect("python3 starts");
    let mut open = [0; 4];
    std::io::Read::read_exact(keeper.stdout.as_mut().expect("a pipe"), &mut open).expect("it writes");
    // Whether it says an error or loses rows: both happen.
    let output = python(WRITER, &words(&second, "101").each_ref().map(String::as_str)).output().expect("python3 runs");
    crate::common::wait_until("the mount says it", || second.said().contains(NOTICE));
    assert_eq!(second.said().matches(NOTICE).count(), 1, "once a file: {output:?}");
    drop(keeper.stdin.take());
    keeper.wait().expect("wait");
    second.stop();
    first.stop();
}

#[test]
fn rollback_journal_on_two_mounts() {
    if !has_sqlite("SQLite on two mounts") {
        return;
    }
    let Some(site) = Site::new("SQLite on two mounts") else { return };
    let first = site.dev(&[]);
    let second = site.mount(1, &[]);
    run(PREPARE, &[text(&second.path().join("db")), "delete"]);
    write(&[&first, &second], "full");
    assert_complete(&first);
    assert_complete(&second);
    second.stop();
    first.stop();
    site.assert_clean("after SQLite");
}

#[test]
fn both_journals_on_the_only_mount() {
    if !has_sqlite("SQLite alone") {
        return;
    }
    let Some(site) = Site::new("SQLite alone") else { return };
    for mode in ["wal", "delete", "persist"] {
        let mount = site.dev(&[]);
        run(PREPARE, &[text(&mount.path().join("db")), mode]);
        write(&[&mount], "normal");
        assert_complete(&mount);
        mount.stop();
        let again = site.dev(&[]);
        assert_complete(&again);
        std::fs::remove_file(again.path().join("db")).expect("unlink");
        again.stop();
    }
}
