//! PostgreSQL with its data directory on the mount: every commit that was acknowledged is there, whoever is killed.

use crate::common::server::{Mount, Site};
use crate::common::{number_from_env, process, report, skipped, sys, wait_until};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Clients that insert.
const CLIENTS: usize = 3;
/// Commits acknowledged to all clients together before the next kill.
const COMMITS: usize = 150;
/// Whom the database runs as: it refuses root.
const USER: &str = "nobody";
/// What makes the database small and its files visible soon. Everything that keeps commits stays at its default.
const SETTINGS: &str = "\
listen_addresses = ''
shared_buffers = 4MB
max_connections = 12
max_wal_size = 32MB
min_wal_size = 32MB
checkpoint_timeout = 30s
restart_after_crash = off
log_min_messages = warning
autovacuum_naptime = 5s
dynamic_shared_memory_type = mmap
";

/// The database's programs, its directory on the mount, and what it says and where its socket is, on the local disk.
struct Database {
    programs: PathBuf,
    data: PathBuf,
    local: PathBuf,
}

/// Where Debian has the programs of the newest version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions.flatten().map(|entry| entry.path().join("bin")).collect();
    found.retain(|dir| ["initdb", "postgres", "psql"].iter().all(|program| dir.join(program).is_file()));
    found.sort();
    found.pop()
}

impl Database {
    /// Makes an empty database in which pages have checksums.
    fn new(programs: PathBuf, site: &Site, mount: &Mount) -> Database {
        let (data, local) = (mount.path().join("pg"), site.root().join("pg"));
        for dir in [&data, &local] {
            fs::create_dir(dir).expect("mkdir");
            sys::chown(dir, 65534, 65534).expect("chown");
            sys::chmod(dir, 0o700).expect("chmod");
        }
        let database = Database { programs, data, local };
        let mut command = database.program("initdb");
        command.args(["-U", "test", "-A", "trust", "-k", "-E", "UTF8", "--locale=C", "-D"]).arg(&database.data);
        let output = command.output().expect("initdb starts");
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        let file = database.data.join("postgresql.conf");
        let settings = fs::read_to_string(&file).expect("its settings") + SETTINGS;
        fs::write(&file, settings).expect("its settings");
        database
    }

    /// A program of the database as its user; a line of its output is written when it is there, not when there are many.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={USER}"), "--regid=65534", "--clear-groups", "stdbuf", "-oL"]);
        command.arg(self.programs.join(name)).current_dir(&self.local).stdin(Stdio::null());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
        command
    }

    /// Starts the server and waits until it answers; it recovers first if it must.
    fn start(&self) -> Server {
        let log = File::options().create(true).append(true).open(self.local.join("log")).expect("a log file");
        let mut command = self.program("postgres");
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.local);
        command.stdout(log.try_clone().expect("dup")).stderr(log);
        let child = process::spawn(&mut command).expect("postgres starts");
        let mut server = Server { child };
        wait_until("the database answers", || {
            if let Ok(Some(status)) = server.child.try_wait() {
                panic!("postgres ended with {status}\n{}", self.said());
            }
            self.psql().args(["-c", "select 1"]).output().is_ok_and(|output| output.status.success())
        });
        server
    }

    fn said(&self) -> String {
        fs::read_to_string(self.local.join("log")).unwrap_or_default()
    }

    fn psql(&self) -> Command {
        let mut command = self.program("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "test", "-d", "postgres", "-h"]);
        command.arg(&self.local);
        command
    }

    fn ask(&self, question: &str) -> String {
        let output = self.psql().args(["-c", question]).output().expect("psql starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{question}: {error}\n{}", self.said());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// A client that inserts rows from `first` on, each its own transaction, and writes down each after its commit.
    fn client(&self, round: usize, client: usize, first: usize) -> (Child, PathBuf) {
        let script = self.local.join(format!("script{client}"));
        let lines = (first..first + 20_000).map(|n| {
            format!("insert into item values ({client}, {n}, repeat('{n} ', {}));\n\\echo {n}\n", 1 + n * 37 % 700)
        });
        fs::write(&script, lines.collect::<String>()).expect("a script");
        let done = self.local.join(format!("done{client}-{round}"));
        let output = File::create(&done).expect("a file");
        let mut command = self.psql();
        command.arg("-f").arg(script).stdout(output).stderr(Stdio::null());
        (process::spawn(&mut command).expect("psql starts"), done)
    }
}

/// A running database; killed with all its processes on drop.
struct Server {
    child: Child,
}

impl Server {
    /// kill -9 of every process of it, and waits until none has a file open on the mount.
    fn kill(&mut self) {
        let mine = |pid: &str| {
            let parent = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            parent.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&self.child.id().to_string())
        };
        let all = fs::read_dir("/proc").expect("/proc").flatten();
        let pids: Vec<String> = all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        let workers: Vec<String> = pids.into_iter().filter(|pid| mine(pid)).collect();
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in &workers {
            process::send(pid.parse().expect("a number"), libc::SIGKILL);
        }
        wait_until("the database's processes have ended", || {
            workers.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
        });
    }
}

impl Server {
    /// A fast shutdown; every page must then have the checksum that it was written with.
    fn stop(mut self, database: &Database) {
        process::send(self.child.id() as i32, libc::SIGINT);
        let mut status = None;
        wait_until("the database ends", || {
            status = self.child.try_wait().expect("wait of our child");
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "postgres ended with {status:?}\n{}", database.said());
        let output = database.program("pg_checksums").args(["--check", "-D"]).arg(&database.data).output();
        let output = output.expect("pg_checksums starts");
        assert!(output.status.success(), "pg_checksums: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a round does to those who serve.
#[derive(Clone, Copy, Debug)]
enum Victim {
    FileSystem,
    Database,
    Both,
}

/// What the clients were told, by client.
type Acknowledged = Vec<Option<usize>>;

/// Lets the clients work until enough was acknowledged, kills, and gives the last row that each was told of.
fn load_and_kill(
    database: &Database,
    server: &mut Server,
    (site, mount): (&Site, &mut Mount),
    (round, victim): (usize, Victim),
    next: &[usize],
) -> Acknowledged {
    let mut clients: Vec<(Child, PathBuf)> =
        next.iter().enumerate().map(|(n, first)| database.client(round, n, *first)).collect();
    let lines = |path: &Path| fs::read_to_string(path).unwrap_or_default().matches('\n').count();
    wait_until("enough commits are acknowledged", || {
        clients.iter().map(|(_, done)| lines(done)).sum::<usize>() >= COMMITS
            || clients.iter_mut().any(|(client, _)| matches!(client.try_wait(), Ok(Some(_))))
    });
    if !matches!(victim, Victim::Database) {
        site.kill_server(mount);
    }
    if matches!(victim, Victim::FileSystem) {
        // The database finds out by itself, and its clients by it.
        wait_until("the clients fail", || {
            clients.iter_mut().all(|(client, _)| matches!(client.try_wait(), Ok(Some(_))))
        });
    }
    server.kill();
    let told = clients.into_iter().map(|(mut client, done)| {
        let status = client.wait().expect("wait");
        assert!(!status.success(), "a client ended before the kill: {}", database.said());
        let text = fs::read_to_string(done).expect("what the client wrote");
        text.split_inclusive('\n').rfind(|line| line.ends_with('\n')).map(|line| line.trim().parse().expect("a number"))
    });
    told.collect()
}

/// Every row that a client was told of is there and whole, and at most one more; gives each client's next one.
fn check(database: &Database, next: &[usize], told: &Acknowledged, when: &str) -> Vec<usize> {
    let wrong = database.ask("select count(*) from item where text <> repeat(n || ' ', 1 + n * 37 % 700)");
    assert_eq!(wrong, "0", "{when}: rows with other bytes");
    if database.ask("select count(*) from pg_available_extensions where name = 'amcheck'") == "1" {
        database.ask("create extension if not exists amcheck");
        database.ask("select bt_index_check('item_pkey', true)");
        assert_eq!(database.ask("select count(*) from verify_heapam('item')"), "0", "{when}: damage of the table");
    }
    let client = |(client, (next, told)): (usize, (&usize, &Option<usize>))| {
        let rows: usize =
            database.ask(&format!("select count(*) from item where client = {client}")).parse().expect("a number");
        let last = database.ask(&format!("select coalesce(max(n) + 1, 0) from item where client = {client}"));
        assert_eq!(last, rows.to_string(), "{when}: a row of client {client} is missing among {rows}");
        let acknowledged = told.map_or(*next, |n| n + 1);
        let possible = acknowledged..=acknowledged + 1;
        assert!(
            possible.contains(&rows),
            "{when}: client {client} was told of {acknowledged} rows, and {rows} are there"
        );
        rows
    };
    next.iter().zip(told).enumerate().map(client).collect()
}

#[test]
fn commits_survive_kill_9() {
    let test = "PostgreSQL on the mount";
    let Some(programs) = programs() else { return skipped(test, "no PostgreSQL is installed") };
    if !crate::programs::installed(test, &["setpriv", "stdbuf"]) {
        return;
    }
    let Some(site) = Site::new(test) else { return };
    let args = ["--checkpoint-bytes", "2000000"];
    let mut mount = site.dev(&args);
    let database = Database::new(programs, &site, &mount);
    let mut server = database.start();
    database.ask("create table item (client int, n int, text text, primary key (client, n))");
    let mut next = vec![0; CLIENTS];
    let rounds = number_from_env("ONPATH_DATABASE_ROUNDS", 3);
    for round in 0..rounds {
        let victim = [Victim::FileSystem, Victim::Database, Victim::Both][round % 3];
        let when = format!("round {round}, kill -9 of {victim:?}");
        let told = load_and_kill(&database, &mut server, (&site, &mut mount), (round, victim), &next);
        if !matches!(victim, Victim::Database) {
            mount = site.dev(&args);
        }
        server = database.start();
        next = check(&database, &next, &told, &when);
    }
    report(&format!("PostgreSQL: {rounds} kills, {} commits", next.iter().sum::<usize>()));
    server.stop(&database);
    mount.stop();
    site.assert_clean("after PostgreSQL");
}
