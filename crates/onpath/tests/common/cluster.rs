//! A cluster on one machine: every host in a network namespace of its own, and namespaces for clients beside them.

use super::clock::Clocks;
use super::disk::Disk;
use super::net::{Net, cannot_redirect};
use super::server::{Mount, Process, Site, Status, binary, status_of};
use super::{Words, number_from_env, skipped, through, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a cluster is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Hosts with shards and data.
    pub servers: usize,
    /// So many hosts more are switches.
    pub switches: usize,
    /// Whether these are XDP programs on their network devices.
    pub xdp: bool,
    /// Which of the servers, by their places in order, have path nodes too.
    pub paths: &'a [usize],
    /// So many hosts more have path nodes and nothing else.
    pub path_hosts: usize,
    /// Hosts for clients.
    pub clients: usize,
    /// Further arguments of `onpath cluster init`.
    pub init: &'a [&'a str],
    /// What `meta_memory` of each server is in the configuration.
    pub meta_memory: Option<&'a str>,
    /// Bytes of the disks that the servers have, each one of its own that can lose power; 0: they share the machine's.
    pub disks: u64,
    /// Whether the real-time clock of each host can be set.
    pub clocks: bool,
    /// Tables show writes where clients have keys, too, and caches attributes.
    pub clear_text: bool,
    /// The place of the host whose switch answers hot metadata; a server has one then.
    pub cache: Option<usize>,
}

impl Default for Shape<'_> {
    fn default() -> Self {
        Shape {
            servers: 3,
            switches: 0,
            xdp: false,
            paths: &[],
            path_hosts: 0,
            clients: 2,
            init: &[],
            meta_memory: None,
            disks: 0,
            clocks: false,
            clear_text: false,
            cache: None,
        }
    }
}

impl Shape<'_> {
    /// As `ONPATH_COMMIT` and `ONPATH_TRACKING` say, and all clusters as `ONPATH_WRITES` does; the latter may be `xdp`, too. `ONPATH_SWITCHES` says how many switches there are then,
    /// and `ONPATH_SWITCH_CACHE=1` that the first one answers from its cache.
    pub fn from_env() -> Shape<'static> {
        let Words { commit, tracking, .. } = Words::from_env();
        let xdp = tracking.as_deref() == Some("xdp");
        let switch = xdp || tracking.as_deref() == Some("network");
        let sync = commit.as_deref() == Some("sync");
        let init: &[&str] = match (switch, sync) {
            (true, true) => &["--tracking", "network", "--commit", "sync"],
            (true, false) => &["--tracking", "network"],
            (false, true) => &["--commit", "sync"],
            _ => &[],
        };
        Shape {
            switches: if switch { number_from_env("ONPATH_SWITCHES", 1) } else { 0 },
            xdp,
            init,
            cache: (switch && number_from_env("ONPATH_SWITCH_CACHE", 0) > 0).then_some(Shape::default().servers),
            // With the calls of a client there are path nodes, if it asks any.
            paths: if through::options().is_some_and(|options| options.path_nodes) { &[0, 2] } else { &[] },
            ..Shape::default()
        }
    }
}

/// A running cluster.
pub struct Cluster {
    pub net: Net,
    root: PathBuf,
    config: PathBuf,
    key: Option<PathBuf>,
    hosts: usize,
    servers: usize,
    path_hosts: usize,
    clients: usize,
    running: Vec<Option<Process>>,
    /// After the processes that use them.
    disks: Vec<Disk>,
    clocks: Option<Clocks>,
    starts: usize,
}

impl Cluster {
    /// Starts all hosts; none where namespaces or disks cannot be made.
    pub fn start(test: &str, site: &Site, shape: Shape) -> Option<Cluster> {
        let switched = shape.servers + shape.switches;
        let hosts = switched + shape.path_hosts;
        if let Some(why) = cannot_redirect().filter(|_| shape.xdp) {
            skipped(test, why);
            return None;
        }
        let net = Net::new(test, hosts + shape.clients)?;
        let root = site.root().to_owned();
        let clocks = match shape.clocks.then(|| Clocks::new(&root, hosts)).transpose() {
            Ok(clocks) => clocks,
            Err(why) => {
                skipped(test, &why);
                return None;
            }
        };
        let disks = (0..shape.servers).filter(|_| shape.disks > 0).map(|host| {
            let root = root.join(format!("host-{}", name(host)));
            std::fs::create_dir(&root).expect("a directory");
            Disk::new(&root, shape.disks).map_err(|why| skipped(test, &why)).ok()
        });
        let disks = disks.collect::<Option<Vec<Disk>>>()?;
        let config = root.join("cluster.toml");
        let place = |host: usize| format!("{}={}", name(host), net.address(host));
        let mut words: Vec<String> = ["cluster", "init"].map(str::to_owned).into();
        words.push(config.display().to_string());
        words.extend((0..shape.servers).map(place));
        words.extend(["--directory".to_owned(), root.join("DIR").display().to_string()]);
        words.extend((shape.servers..switched).flat_map(|host| ["--switch".to_owned(), place(host)]));
        words.extend(shape.init.iter().map(|&word| word.to_owned()));
        words.extend((!shape.init.contains(&"--key-file")).then(|| "--no-key".to_owned()));
        let output = super::server::run(words.iter().map(AsRef::as_ref));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // Hosts on one machine need directories of their own.
        let mut text = std::fs::read_to_string(&config).expect("the configuration");
        for host in 0..shape.servers {
            let own = format!("\"{}\"", state(&root, &disks, host).display());
            text = text.replacen(&format!("\"{}\"", root.join("DIR").display()), &own, 1);
        }
        for &host in shape.paths {
            let has_data = "data = true\n";
            let (at, _) = text.match_indices(has_data).nth(host).expect("a server");
            text.insert_str(at + has_data.len(), "path = true\n");
        }
        for host in switched..hosts {
            let (name, number, address) = (name(host), host + 1, net.address(host));
            let directory = state(&root, &disks, host);
            text.push_str(&format!("\n[[host]]\nname = {name:?}\nnumber = {number}\naddress = {address:?}\n"));
            text.push_str(&format!("directory = {directory:?}\npath = true\n"));
        }
        if let Some(writes) = Words::from_env().writes.filter(|_| !text.contains("\nwrites = ")) {
            text = text.replacen("\ntracking = ", &format!("\nwrites = {writes:?}\ntracking = "), 1);
        }
        if shape.clear_text {
            let both = "\nvisibility_clear_text = true\ncache_clear_text = true\ntracking = ";
            text = text.replacen("\ntracking = ", both, 1);
        }
        if let Some(host) = shape.cache.filter(|host| *host < switched) {
            text = text.replacen("\ntracking = ", &format!("\ncache = \"switch:{}\"\ntracking = ", name(host)), 1);
            let has_data = "data = true\n";
            if let Some((at, _)) = text.match_indices(has_data).nth(host).filter(|_| host < shape.servers) {
                text.insert_str(at + has_data.len(), "switch_port = 4797\n");
            }
        }
        if let Some(memory) = shape.meta_memory {
            text = text.replace("data = true\n", &format!("data = true\nmeta_memory = \"{memory}\"\n"));
        }
        if shape.xdp {
            text = text.replace("switch_port = 4797\n", "switch_port = 4797\nxdp = [\"eth0\"]\n");
            (shape.servers..switched).for_each(|host| net.take_redirected(host));
        }
        std::fs::write(&config, text).expect("the configuration is written");
        let key = shape.init.iter().position(|&word| word == "--key-file").map(|at| shape.init[at + 1].into());
        let (servers, path_hosts, clients) = (shape.servers, shape.path_hosts, shape.clients);
        let running = (0..hosts).map(|_| None).collect();
        let mut cluster =
            Cluster { net, root, config, key, hosts, servers, path_hosts, clients, running, disks, clocks, starts: 0 };
        cluster.serve_all();
        Some(cluster)
    }

    /// Starts all hosts that do not run.
    pub fn serve_all(&mut self) {
        for host in 0..self.hosts {
            if self.running[host].is_none() {
                self.serve(host);
            }
        }
    }

    /// Starts a host that does not run.
    pub fn serve(&mut self, host: usize) {
        assert!(self.running[host].is_none(), "{} runs", name(host));
        self.running[host] = Some(self.serve_as(&name(host), host));
    }

    /// Starts a host that does not run, with further arguments.
    pub fn serve_with(&mut self, host: usize, args: &[&str]) {
        assert!(self.running[host].is_none(), "{} runs", name(host));
        let (mut command, log) = self.serving(&name(host), host);
        command.args(args);
        self.running[host] = Some(Process::start(command, log, "serving"));
    }

    /// Starts a host that must end by itself; what it says.
    pub fn refused(&mut self, host: usize) -> String {
        self.refused_with(host, &[])
    }

    /// The same with further arguments.
    pub fn refused_with(&mut self, host: usize, args: &[&str]) -> String {
        assert!(self.running[host].is_none(), "{} runs", name(host));
        let (mut command, log) = self.serving(&name(host), host);
        command.args(args);
        Process::fails(command, log)
    }

    /// Starts what the configuration calls so in a namespace.
    pub fn serve_as(&mut self, name: &str, namespace: usize) -> Process {
        let (command, log) = self.serving(name, namespace);
        Process::start(command, log, "serving")
    }

    /// A command that serves, and where it logs.
    fn serving(&mut self, name: &str, namespace: usize) -> (Command, PathBuf) {
        let mut command = self.net.command(namespace, binary());
        command.args(["serve", "--host", name, "--config"]).arg(&self.config);
        if let Some(clocks) = &self.clocks {
            clocks.wear(&mut command, namespace);
        }
        self.starts += 1;
        (command, self.root.join(format!("log-serve-{name}-{}", self.starts)))
    }

    /// Lets all hosts that run read the configuration again.
    pub fn reload(&self) {
        self.running.iter().flatten().for_each(|process| process.signal(libc::SIGHUP));
    }

    /// kill -9 of a host's process.
    pub fn kill(&mut self, host: usize) {
        self.running[host].take().expect("it runs").kill();
    }

    /// kill -9 of the processes of all hosts with shards.
    pub fn kill_servers(&mut self) {
        (0..self.servers).for_each(|host| self.kill(host));
    }

    /// Waits until what a host has recorded by now is on its stable storage: disks that others use too may take their time.
    pub fn wait_until_flushed(&self, host: usize) {
        let journal = |counter| status_of(&self.state(host)).expect("onpath status").sum("journal", &[counter]);
        let recorded = journal("appended_lsn");
        wait_until("a journal is flushed", || journal("durable_lsn") >= recorded);
    }

    /// A host, which has a disk of its own, loses power: everything that was not on stable storage is gone.
    pub fn lose_power(&mut self, host: usize) {
        // A disk that goes first would be an I/O error that clients hear of.
        self.kill(host);
        self.forget(host);
    }

    /// What a killed host had not on stable storage is gone.
    pub fn forget(&self, host: usize) {
        self.disks[host].lose_power();
        self.disks[host].start_again();
        // Of the file `boot` the first line says in which boot DIR was in use.
        let boot = self.state(host).join("boot");
        let noted = std::fs::read_to_string(&boot).expect("read of the boot id");
        let rest: Vec<&str> = noted.lines().skip(1).collect();
        std::fs::write(&boot, format!("boot {}\n{}\n", self.starts, rest.join("\n"))).expect("write of the boot id");
    }

    /// From now on the real-time clock of a host is off by so many seconds.
    pub fn set_clock(&self, host: usize, seconds: i32) {
        self.clocks.as_ref().expect("the clocks can be set").set(host, seconds);
    }

    /// Lets a host stop as a service manager would.
    pub fn stop_host(&mut self, host: usize) {
        self.running[host].take().expect("it runs").stop();
    }

    /// The process of a host.
    pub fn process(&self, host: usize) -> &Process {
        self.running[host].as_ref().expect("it runs")
    }

    /// Hosts with shards and data: the first ones.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// All hosts, with those of switches.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// The directory of a host.
    pub fn state(&self, host: usize) -> PathBuf {
        state(&self.root, &self.disks, host)
    }

    /// What `onpath status` tells on all hosts that run.
    pub fn status(&self) -> Status {
        let with_directories = (0..self.servers).chain(self.hosts - self.path_hosts..self.hosts);
        let running = with_directories.filter(|&host| self.running[host].is_some());
        let of = |host| (name(host), status_of(&self.state(host)).expect("onpath status"));
        Status::together(running.map(of))
    }

    /// What clients call it.
    pub fn url(&self) -> String {
        let places: Vec<String> = (0..self.servers).map(|host| self.net.address(host)).collect();
        format!("onpath://{}/", places.join(","))
    }

    /// Mounts it on a client's host; several mounts share one if there are more than hosts.
    pub fn mount(&self, site: &Site, client: usize, args: &[&str]) -> Mount {
        let mut command = self.net.command(self.hosts + client % self.clients, binary());
        command.args(["mount", &self.url()]).arg(site.mountpoint(client)).args(args);
        if let Some(key) = &self.key {
            command.arg("--key-file").arg(key);
        }
        Mount::start(command, site.mountpoint(client), site.log("mount"))
    }

    /// Stops all hosts, for good.
    pub fn stop(mut self) {
        self.stop_all();
    }

    /// Stops all hosts that run.
    pub fn stop_all(&mut self) {
        for process in &mut self.running {
            process.take().into_iter().for_each(Process::stop);
        }
    }

    /// The configuration.
    pub fn config(&self) -> &Path {
        &self.config
    }
}

fn state(root: &Path, disks: &[Disk], host: usize) -> PathBuf {
    disks.get(host).map_or_else(|| root.join(format!("state-{}", name(host))), |disk| disk.path().join("state"))
}

/// What a host is called.
pub fn name(host: usize) -> String {
    format!("n{host}")
}
