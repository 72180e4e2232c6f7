//! The configuration of a cluster: one TOML file, the same on every host ([`Cluster::read`]).
//!
//! Whatever is wrong with it is told with file, line and key. The keys are described in docs/cluster.md.

use crate::dev::{PATH_MEMORY, PATH_MEMORY_MIN, parse_bytes};
use onpath_client::url::{PORT, resolve};
use onpath_host::dir::PartFormat;
use onpath_host::journal::Commit;
use onpath_host::server::{IndexKind, PathOptions};
use onpath_host::udp::Wait;
use onpath_meta::SyncPolicy;
use onpath_wire::limits::{COMMIT_INTERVAL_MS, SHARDS_MAX, SWITCHES_MAX};
use onpath_wire::secrets::Secrets;
use onpath_wire::shown::Shown;
use onpath_wire::tracking::{Form, Switches, Writes};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use thiserror::Error;
use toml::Spanned;

/// Highest number of a host.
pub(crate) const HOSTS_MAX: u16 = 250;

/// Longest name of a cluster or a host, bytes.
const NAME_BYTES_MAX: usize = 64;
/// Longest address of a host, bytes: that of a name of DNS.
const ADDRESS_BYTES_MAX: usize = 253;

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    /// It cannot be read.
    #[error("{}: {source}; `onpath cluster init` writes one", file.shown())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A value is wrong.
    #[error("{}:{line}: {key}: {why}", file.shown())]
    Value {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key, with its table.
        key: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// It says nothing about this host.
    #[error("{}: no host {asked:?}; there are: {known}", file.shown())]
    NoHost {
        /// The file.
        file: PathBuf,
        /// The name that was looked for.
        asked: String,
        /// The names that are there.
        known: String,
    },
}

/// Words of settings that have two, the usual one first.
const TRACKING: [(&str, Form); 2] = [("owner", Form::Owner), ("network", Form::Network)];
const MARKS: [(&str, bool); 2] = [("sticky", true), ("every-update", false)];
const WRITES: [(&str, Writes); 3] =
    [("chain", Writes::Chain), ("visible", Writes::Visible), ("two-phase", Writes::TwoPhase)];
const LEARNING: [(&str, bool); 2] = [("deferred", true), ("at-once", false)];
const SYNC: [(&str, SyncPolicy); 2] = [("auto", SyncPolicy::Auto), ("never", SyncPolicy::Never)];
const WAIT: [(&str, Wait); 2] = [("block", Wait::Block), ("spin", Wait::Spin)];

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    cluster: WrittenCluster,
    #[serde(default)]
    host: Vec<WrittenHost>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCluster {
    name: Spanned<String>,
    id: Spanned<String>,
    shards: Spanned<u16>,
    commit: Option<Spanned<String>>,
    commit_interval_ms: Option<Spanned<u64>>,
    tracking: Option<Spanned<String>>,
    marks: Option<Spanned<String>>,
    writes: Option<Spanned<String>>,
    learning: Option<Spanned<String>>,
    #[serde(default)]
    visibility_clear_text: bool,
    cache: Option<Spanned<String>>,
    #[serde(default)]
    cache_clear_text: bool,
    sync_directories: Option<Spanned<String>>,
    key_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenHost {
    name: Spanned<String>,
    number: Spanned<u16>,
    address: Spanned<String>,
    port: Option<Spanned<u16>>,
    directory: Option<Spanned<PathBuf>>,
    #[serde(default)]
    shards: Vec<Spanned<u16>>,
    #[serde(default)]
    data: bool,
    switch_port: Option<Spanned<u16>>,
    #[serde(default)]
    xdp: Vec<Spanned<String>>,
    meta_memory: Option<Spanned<String>>,
    #[serde(default)]
    path: bool,
    path_memory: Option<Spanned<String>>,
    path_index: Option<Spanned<String>>,
    path_load: Option<Spanned<bool>>,
    wait: Option<Spanned<String>>,
}

/// A cluster.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// What people call it.
    pub(crate) name: String,
    /// Identity of the file system.
    id: [u8; 16],
    /// Number of shards, on all hosts.
    pub(crate) shards: u16,
    /// When a change is on stable storage.
    pub(crate) commit: Commit,
    /// How directories are tracked.
    pub(crate) tracking: Form,
    /// Whether a mark covers later updates too.
    pub(crate) sticky_marks: bool,
    /// Who answers writes of files.
    pub(crate) writes: Writes,
    /// Where clients have keys, too, tables of switches show sizes and times of pending writes.
    pub(crate) visibility_clear_text: bool,
    /// Number of the host whose switch answers hot metadata from its cache.
    pub(crate) cache: Option<u16>,
    /// Where clients have keys, too, that shows names' attributes.
    pub(crate) cache_clear_text: bool,
    /// Data nodes tell homes of many files together, a little later.
    pub(crate) deferred: bool,
    /// Which directories go into *sync*.
    pub(crate) sync_directories: SyncPolicy,
    /// Where the secrets are: the key that seals messages, if they are sealed, and those of the file system.
    pub(crate) key_file: Option<PathBuf>,
    /// The hosts, by number.
    pub(crate) hosts: Vec<Host>,
}

/// A host of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// What people call it.
    pub(crate) name: String,
    /// Its number, which stays: also that of its data node and its path node.
    pub(crate) number: u16,
    /// Where it is reached: an address or a name.
    pub(crate) address: String,
    /// UDP port.
    pub(crate) port: u16,
    /// Where its state is, if it has any.
    pub(crate) directory: Option<PathBuf>,
    /// Its shards, in order.
    pub(crate) shards: Vec<u16>,
    /// Whether files are spread to its data node.
    pub(crate) data: bool,
    /// UDP port of its switch, if it has the switch.
    pub(crate) switch_port: Option<u16>,
    /// Network devices in whose drivers its switch runs; with none it is a process.
    pub(crate) xdp: Vec<String>,
    /// Memory that names, inodes and listings may take, bytes.
    pub(crate) meta_memory: Option<u64>,
    /// Its path node, if it has one.
    pub(crate) path: Option<PathOptions>,
    /// How it waits for messages.
    pub(crate) wait: Wait,
}

impl Host {
    /// Address and port.
    pub(crate) fn place(&self) -> String {
        if self.address.contains(':') {
            return format!("[{}]:{}", self.address, self.port);
        }
        format!("{}:{}", self.address, self.port)
    }

    /// Whether it has shards, data or a path node.
    pub(crate) fn has_state(&self) -> bool {
        !self.shards.is_empty() || self.data || self.path.is_some()
    }

    /// Where it is reached.
    pub(crate) fn resolve(&self) -> io::Result<SocketAddr> {
        resolve(&self.address, self.port)
    }
}

impl Cluster {
    /// Whether sizes and times of pending writes go through switches although the rest is sealed.
    pub(crate) fn shows_writes_in_clear_text(&self) -> bool {
        self.visibility_clear_text && self.writes == Writes::Visible && self.tracking == Form::Network
    }

    /// Number of the switch that answers hot metadata from its cache; `sealed`: messages are sealed, but not what a switch reads.
    pub(crate) fn caches(&self, sealed: bool) -> Option<u16> {
        self.cache.filter(|_| !sealed || self.cache_clear_text)
    }

    /// Reads and checks a configuration.
    pub(crate) fn read(file: &Path) -> Result<Cluster, ConfigError> {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|source| ConfigError::Read { file: file.to_owned(), source })?;
        Cluster::parse(file, &text)
    }

    /// The same of a text that `file` has, or will have.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Cluster, ConfigError> {
        let check = Check { file, text };
        let written: Written = toml::from_str(text).map_err(|error| check.syntax(&error))?;
        let cluster = check.cluster(&written)?;
        check.placement(&written, &cluster)?;
        Ok(cluster)
    }

    /// Identity of the file system.
    pub(crate) fn fsid(&self) -> u64 {
        u64::from_be_bytes(*self.id.first_chunk().expect("sixteen bytes"))
    }

    /// The host of that name, or the only one.
    pub(crate) fn host(&self, file: &Path, name: Option<&str>) -> Result<&Host, ConfigError> {
        let names = || self.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = match name {
            Some(name) => self.hosts.iter().find(|host| host.name == name),
            None => Some(&self.hosts[0]).filter(|_| self.hosts.len() == 1),
        };
        let asked = || name.unwrap_or("(none named: say --host NAME)").to_owned();
        found.ok_or_else(|| ConfigError::NoHost { file: file.to_owned(), asked: asked(), known: names() })
    }

    /// The numbers of the data nodes among which files are spread.
    pub(crate) fn data_nodes(&self) -> Vec<u16> {
        self.hosts.iter().filter(|host| host.data).map(|host| host.number).collect()
    }

    /// The switches, in the order of their hosts' numbers; of a cluster without any, one that does not exist.
    pub(crate) fn switches(&self) -> Switches {
        let switches = self.hosts.iter().filter(|host| host.switch_port.is_some());
        Switches::of(switches.map(|host| host.number)).unwrap_or_default()
    }

    /// The same with the form and the switches of another configuration: hosts that are switches and nothing else come and go.
    pub(crate) fn with_switches_of(&self, other: &Cluster) -> Cluster {
        let stays = |host: &&Host| host.has_state();
        let mut hosts: Vec<Host> = self.hosts.iter().filter(stays).cloned().collect();
        for host in &mut hosts {
            let now = other.hosts.iter().find(|now| now.number == host.number);
            host.switch_port = now.and_then(|now| now.switch_port);
        }
        let others = other.hosts.iter().filter(|host| !host.has_state() && host.switch_port.is_some());
        let new: Vec<Host> =
            others.filter(|host| hosts.iter().all(|known| known.number != host.number)).cloned().collect();
        hosts.extend(new);
        hosts.sort_by_key(|host| host.number);
        Cluster { tracking: other.tracking, cache: other.cache, hosts, ..self.clone() }
    }

    /// What the directory of a host holds, with these secrets.
    pub(crate) fn part(&self, host: &Host, secrets: Option<Secrets>) -> PartFormat {
        let host_of = |shard| Some(self.hosts.iter().find(|host| host.shards.contains(&shard))?.number);
        PartFormat {
            fsid: self.fsid(),
            secrets,
            host: host.number,
            shard_hosts: (0..self.shards).filter_map(host_of).collect(),
            data_nodes: self.data_nodes(),
        }
    }
}

/// Checks what was written, and knows where.
struct Check<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Check<'_> {
    fn wrong(&self, span: Range<usize>, key: impl Into<String>, why: impl Into<String>) -> ConfigError {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        ConfigError::Value { file: self.file.to_owned(), line, key: key.into(), why: why.into() }
    }

    /// What the parser says, with the key of its line.
    fn syntax(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or(0..0);
        let start = self.text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[start..].lines().next().unwrap_or_default();
        let key = line.split('=').next().unwrap_or_default().trim();
        let key = if key.is_empty() { "(file)" } else { key };
        self.wrong(span, key, error.message())
    }

    fn cluster(&self, written: &Written) -> Result<Cluster, ConfigError> {
        let of = &written.cluster;
        let mut hosts = written.host.iter().map(|host| self.host(host)).collect::<Result<Vec<_>, _>>()?;
        hosts.sort_by_key(|host| host.number);
        Ok(Cluster {
            name: match of.name.as_ref() {
                name if (1..=NAME_BYTES_MAX).contains(&name.len()) => name.clone(),
                name => {
                    let why = format!("{} bytes are not possible: 1 to {NAME_BYTES_MAX}", name.len());
                    return Err(self.wrong(of.name.span(), "cluster.name", why));
                }
            },
            id: self.id(&of.id)?,
            shards: self.number(&of.shards, "cluster.shards", 1..=SHARDS_MAX)?,
            commit: self.commit(of)?,
            tracking: self.one_of(of.tracking.as_ref(), "cluster.tracking", TRACKING)?,
            sticky_marks: self.one_of(of.marks.as_ref(), "cluster.marks", MARKS)?,
            writes: self.one_of(of.writes.as_ref(), "cluster.writes", WRITES)?,
            visibility_clear_text: of.visibility_clear_text,
            cache: self.cache(of.cache.as_ref(), &hosts)?,
            cache_clear_text: of.cache_clear_text,
            deferred: self.one_of(of.learning.as_ref(), "cluster.learning", LEARNING)?,
            sync_directories: self.one_of(of.sync_directories.as_ref(), "cluster.sync_directories", SYNC)?,
            key_file: of.key_file.as_ref().map(|key| self.file.with_file_name("").join(key)),
            hosts,
        })
    }

    /// The host whose switch has the cache.
    fn cache(&self, written: Option<&Spanned<String>>, hosts: &[Host]) -> Result<Option<u16>, ConfigError> {
        let Some(written) = written.filter(|written| written.as_ref() != "off") else { return Ok(None) };
        let wrong = |why: String| self.wrong(written.span(), "cluster.cache", why);
        let name = written.as_ref().strip_prefix("switch:");
        let name = name.ok_or_else(|| wrong("it is \"off\", or \"switch:NAME\" with the name of a host".to_owned()))?;
        let host = hosts.iter().find(|host| host.name == name);
        let host = host.ok_or_else(|| wrong(format!("no host is called {name:?}")))?;
        if host.switch_port.is_none() {
            return Err(wrong(format!("host {name:?} has no switch: give it a `switch_port`")));
        }
        Ok(Some(host.number))
    }

    fn id(&self, id: &Spanned<String>) -> Result<[u8; 16], ConfigError> {
        let digits = id.as_ref();
        let parsed = u128::from_str_radix(digits, 16).ok().filter(|id| digits.len() == 32 && id >> 64 != 0);
        let why = || format!("{digits:?} is no identity: 32 hexadecimal digits, as `onpath cluster init` draws them");
        parsed.map(u128::to_be_bytes).ok_or_else(|| self.wrong(id.span(), "cluster.id", why()))
    }

    fn commit(&self, of: &WrittenCluster) -> Result<Commit, ConfigError> {
        let ms = match &of.commit_interval_ms {
            Some(ms) => self.number(ms, "cluster.commit_interval_ms", 1..=60_000)?,
            None => COMMIT_INTERVAL_MS,
        };
        self.one_of(of.commit.as_ref(), "cluster.commit", [("interval", Commit::Interval(ms)), ("sync", Commit::Sync)])
    }

    fn number<T: Copy + PartialOrd + std::fmt::Display>(
        &self,
        number: &Spanned<T>,
        key: &str,
        within: std::ops::RangeInclusive<T>,
    ) -> Result<T, ConfigError> {
        let value = *number.as_ref();
        let why = || format!("{value} is not possible: {} to {}", within.start(), within.end());
        if within.contains(&value) { Ok(value) } else { Err(self.wrong(number.span(), key, why())) }
    }

    fn host(&self, of: &WrittenHost) -> Result<Host, ConfigError> {
        let port = |port: &Option<Spanned<u16>>, key| {
            port.as_ref().map(|port| self.number(port, key, 1..=u16::MAX)).transpose()
        };
        let plain = |name: &Spanned<String>, key, bytes_max| match name.as_ref() {
            text if text.len() > bytes_max => {
                Err(self.wrong(name.span(), key, format!("{} bytes are too long: at most {bytes_max}", text.len())))
            }
            text if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) => {
                Err(self.wrong(name.span(), key, format!("{text:?} is empty or has blanks in it")))
            }
            text => Ok(text.clone()),
        };
        let mut shards: Vec<u16> = of.shards.iter().map(|shard| *shard.as_ref()).collect();
        shards.sort_unstable();
        let memory = |text: &Spanned<String>| {
            let parsed = crate::dev::parse_meta_memory(text.as_ref());
            parsed.map_err(|why| self.wrong(text.span(), "host.meta_memory", why))
        };
        let directory = of.directory.as_ref().map(|directory| match directory.as_ref() {
            path if path.is_absolute() => Ok(path.clone()),
            path => {
                let why = format!("{} does not begin with /", path.shown());
                Err(self.wrong(directory.span(), "host.directory", why))
            }
        });
        let directory = directory.transpose()?;
        if directory.is_none() && (of.data || of.path || !shards.is_empty()) {
            let why = "a host with shards, data or a path node needs a directory: add `directory = \"/…\"`";
            return Err(self.wrong(of.name.span(), "host.directory", why));
        }
        if let (Some(device), None) = (of.xdp.first(), &of.switch_port) {
            return Err(self.wrong(device.span(), "host.xdp", "only a switch has such devices: add a `switch_port`"));
        }
        Ok(Host {
            name: plain(&of.name, "host.name", NAME_BYTES_MAX)?,
            number: self.number(&of.number, "host.number", 1..=HOSTS_MAX)?,
            address: plain(&of.address, "host.address", ADDRESS_BYTES_MAX)?,
            port: port(&of.port, "host.port")?.unwrap_or(PORT),
            directory,
            shards,
            data: of.data,
            switch_port: port(&of.switch_port, "host.switch_port")?,
            xdp: of.xdp.iter().map(|device| device.as_ref().clone()).collect(),
            meta_memory: of.meta_memory.as_ref().map(memory).transpose()?,
            path: self.path(of)?,
            wait: self.one_of(of.wait.as_ref(), "host.wait", WAIT)?,
        })
    }

    /// The path node of a host, if it has one.
    fn path(&self, of: &WrittenHost) -> Result<Option<PathOptions>, ConfigError> {
        let given = [
            ("host.path_memory", of.path_memory.as_ref().map(Spanned::span)),
            ("host.path_index", of.path_index.as_ref().map(Spanned::span)),
            ("host.path_load", of.path_load.as_ref().map(Spanned::span)),
        ];
        if !of.path {
            let needless = given.into_iter().find_map(|(key, span)| Some((key, span?)));
            let why = "only a path node takes it: add `path = true`".to_owned();
            return needless.map_or(Ok(None), |(key, span)| Err(self.wrong(span, key, why)));
        }
        let memory = of.path_memory.as_ref().map_or(PATH_MEMORY, |text| text.as_ref());
        let memory = parse_bytes(memory, PATH_MEMORY_MIN).map_err(|why| {
            let text = of.path_memory.as_ref().expect("the default is a size");
            self.wrong(text.span(), "host.path_memory", why)
        })?;
        let index = of.path_index.as_ref().map_or(Ok(IndexKind::default()), |word| {
            IndexKind::of_word(word.as_ref()).ok_or_else(|| {
                let [hi, mart, art] = IndexKind::ALL.map(IndexKind::word);
                let why = format!("{:?} is not possible: {hi:?}, {mart:?} or {art:?}", word.as_ref());
                self.wrong(word.span(), "host.path_index", why)
            })
        })?;
        let loads = of.path_load.as_ref().is_some_and(|loads| *loads.as_ref());
        Ok(Some(PathOptions { memory, index, loads }))
    }

    /// What one of some words stands for, by default the first.
    fn one_of<T: Copy, const WORDS: usize>(
        &self,
        of: Option<&Spanned<String>>,
        key: &str,
        words: [(&str, T); WORDS],
    ) -> Result<T, ConfigError> {
        let Some(word) = of else { return Ok(words[0].1) };
        let found = words.iter().find(|(name, _)| name == word.as_ref());
        found.map(|(_, value)| *value).ok_or_else(|| {
            let mut names: Vec<String> = words.iter().map(|(name, _)| format!("{name:?}")).collect();
            let last = names.pop().unwrap_or_default();
            let why = format!("{:?} is not possible: {} or {last}", word.as_ref(), names.join(", "));
            self.wrong(word.span(), key, why)
        })
    }

    /// Every shard is at one host, every number and name is one host's.
    fn placement(&self, written: &Written, cluster: &Cluster) -> Result<(), ConfigError> {
        let top = written.cluster.shards.span();
        let mut at: BTreeMap<u16, &str> = BTreeMap::new();
        let (mut names, mut numbers, mut places) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for host in &written.host {
            let name = host.name.as_ref();
            if !names.insert(name) {
                return Err(self.wrong(host.name.span(), "host.name", format!("{name:?} is there twice")));
            }
            if !numbers.insert(*host.number.as_ref()) {
                let why = format!("{} is another host's number", host.number.as_ref());
                return Err(self.wrong(host.number.span(), "host.number", why));
            }
            let port = host.port.as_ref().map_or(PORT, |port| *port.as_ref());
            if !places.insert((host.address.as_ref(), port)) {
                let why = format!("port {port} there is another host's");
                return Err(self.wrong(host.address.span(), "host.address", why));
            }
            for shard in &host.shards {
                let number = *shard.as_ref();
                if number >= cluster.shards {
                    let why = format!("shard {number} of {}: they are numbered from 0", cluster.shards);
                    return Err(self.wrong(shard.span(), "host.shards", why));
                }
                if let Some(other) = at.insert(number, name) {
                    let why = format!("shard {number} is at host {other:?} already");
                    return Err(self.wrong(shard.span(), "host.shards", why));
                }
            }
        }
        if let Some(missing) = (0..cluster.shards).find(|shard| !at.contains_key(shard)) {
            return Err(self.wrong(
                top,
                "cluster.shards",
                format!("no host has shard {missing}: name it in a `shards`"),
            ));
        }
        if cluster.data_nodes().is_empty() {
            return Err(self.wrong(
                top,
                "host.data",
                "no host has `data = true`: somebody has to keep what is in files",
            ));
        }
        let switches: Vec<_> = written.host.iter().filter_map(|host| host.switch_port.as_ref()).collect();
        if let Some(more) = switches.get(SWITCHES_MAX) {
            let why = format!("{} hosts have switches: at most {SWITCHES_MAX}", switches.len());
            return Err(self.wrong(more.span(), "host.switch_port", why));
        }
        if cluster.tracking == Form::Network && switches.is_empty() {
            let why = "\"network\" needs a switch: give a host a `switch_port`";
            let span = written.cluster.tracking.as_ref().map_or(top, Spanned::span);
            return Err(self.wrong(span, "cluster.tracking", why));
        }
        self.ports(written)
    }
}

impl Check<'_> {
    /// No port of an address is taken twice, and no network device by two switches.
    fn ports(&self, written: &Written) -> Result<(), ConfigError> {
        let port = |host: &WrittenHost| host.port.as_ref().map_or(PORT, |port| *port.as_ref());
        let mut taken: BTreeSet<_> = written.host.iter().map(|host| (host.address.as_ref(), port(host))).collect();
        for host in &written.host {
            let Some(of_switch) = &host.switch_port else { continue };
            if !taken.insert((host.address.as_ref(), *of_switch.as_ref())) {
                let why = format!("port {} there is taken already", of_switch.as_ref());
                return Err(self.wrong(of_switch.span(), "host.switch_port", why));
            }
            let mut devices = BTreeSet::new();
            if let Some(twice) = host.xdp.iter().find(|&device| !devices.insert(device.as_ref())) {
                return Err(self.wrong(twice.span(), "host.xdp", format!("{:?} is there twice", twice.as_ref())));
            }
            // What a machine sends to itself passes no network device.
            let serves = |other: &&WrittenHost| other.data || other.path || !other.shards.is_empty();
            let beside = |other: &&WrittenHost| other.address.as_ref() == host.address.as_ref();
            if let (Some(device), Some(beside)) = (host.xdp.first(), written.host.iter().filter(serves).find(beside)) {
                let why = format!(
                    "what {:?} sends from the same address passes no network device, so not this switch: move that, or leave xdp out",
                    beside.name.as_ref()
                );
                return Err(self.wrong(device.span(), "host.xdp", why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
