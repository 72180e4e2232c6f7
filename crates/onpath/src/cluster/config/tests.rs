//! Configurations, right and wrong.

use super::*;

const GOOD: &str = r#"[cluster]
name = "c"
id = "0123456789abcdef0123456789abcdef"
shards = 2
commit = "sync"
tracking = "network"

[[host]]
name = "a"
number = 1
address = "10.0.0.1"
directory = "/a"
shards = [1]
data = true
meta_memory = "64M"

[[host]]
name = "b"
number = 3
address = "::1"
port = 99
directory = "/b"
shards = [0]
switch_port = 4797
"#;

/// A host that has a path node, and no directory.
const PATH_ONLY: &str = "switch_port = 4797\n[[host]]\nname = \"p\"\nnumber = 9\naddress = \"10.0.0.9\"\npath = true";
/// Hosts before the switch of the last one.
const NINE: &str = "NINE";

fn nine() -> String {
    let switch = |n: u16| {
        format!(
            "\n[[host]]\nname = \"s{n}\"\nnumber = {}\naddress = \"10.1.0.{n}\"\nport = 1\nswitch_port = 2\n",
            10 + n
        )
    };
    format!(
        "shards = [0]\n{}\n[[host]]\nname = \"t\"\nnumber = 50\naddress = \"10.1.1.1\"",
        (0..9).map(switch).collect::<String>()
    )
}

fn parse(text: &str) -> Result<Cluster, ConfigError> {
    Cluster::parse(Path::new("/c.toml"), text)
}

#[test]
fn a_configuration_is_read() {
    let cluster = parse(GOOD).unwrap();
    assert_eq!((cluster.name.as_str(), cluster.shards, cluster.fsid()), ("c", 2, 0x0123_4567_89ab_cdef));
    assert_eq!((cluster.commit, cluster.tracking), (Commit::Sync, Form::Network));
    assert_eq!((cluster.sticky_marks, cluster.sync_directories), (true, SyncPolicy::Auto));
    let other =
        parse(&GOOD.replace("commit", "marks = \"every-update\"\nsync_directories = \"never\"\ncommit")).unwrap();
    assert_eq!((other.sticky_marks, other.sync_directories), (false, SyncPolicy::Never));
    let [a, b] = &cluster.hosts[..] else { panic!("{cluster:?}") };
    assert_eq!((a.place().as_str(), a.meta_memory, a.switch_port), ("10.0.0.1:4796", Some(64 << 20), None));
    assert_eq!((b.place().as_str(), b.number, b.switch_port), ("[::1]:99", 3, Some(4797)));
    assert_eq!((a.path, b.path), (None, None));
    let mart = "path = true\npath_memory = \"2M\"\npath_index = \"mart\"\npath_load = true";
    for (written, memory, index, loads) in
        [("path = true", 64 << 20, IndexKind::Hi, false), (mart, 2 << 20, IndexKind::Mart, true)]
    {
        let with = parse(&GOOD.replace("port = 99", written)).unwrap();
        assert_eq!((with.hosts[0].path, with.hosts[1].path), (None, Some(PathOptions { memory, index, loads })));
    }
    let part = cluster.part(a, None);
    assert_eq!((part.host, part.shard_hosts, part.data_nodes), (1, vec![3, 1], vec![1]));
    assert!(cluster.host(Path::new("/c"), Some("b")).is_ok());
    let error = cluster.host(Path::new("/c"), None).unwrap_err().to_string();
    assert!(error.contains("--host NAME") && error.contains("a, b"), "{error}");
}

#[test]
fn what_is_wrong_is_told_with_line_and_key() {
    for (from, to, line, key, why) in [
        ("shards = 2", "shards = 0", 4, "cluster.shards", "1 to 256"),
        ("shards = 2", "shards = 3", 4, "cluster.shards", "no host has shard 2"),
        ("shards = 2", "shards = \"2\"", 4, "shards", "invalid type"),
        ("shards = 2", "shards =", 4, "shards", ""),
        ("name = \"c\"", "name = \"\"", 2, "cluster.name", "1 to 64"),
        ("\"10.0.0.1\"", "\"\"", 11, "host.address", "empty"),
        ("id = \"0", "id = \"", 3, "cluster.id", "32 hexadecimal digits"),
        ("\"sync\"", "\"now\"", 5, "cluster.commit", "\"interval\" or \"sync\""),
        ("\"network\"", "\"x\"", 6, "cluster.tracking", "\"owner\" or \"network\""),
        ("tracking", "marks = \"x\"\ntracking", 6, "cluster.marks", "\"sticky\" or \"every-update\""),
        ("tracking", "sync_directories = \"\"\ntracking", 6, "cluster.sync_directories", "\"auto\" or \"never\""),
        ("switch_port = 4797", "", 6, "cluster.tracking", "needs a switch"),
        ("tracking", "cache = \"b\"\ntracking", 6, "cluster.cache", "\"switch:NAME\""),
        ("tracking", "cache = \"switch:c\"\ntracking", 6, "cluster.cache", "no host is called \"c\""),
        ("tracking", "cache = \"switch:a\"\ntracking", 6, "cluster.cache", "has no switch"),
        ("name = \"c\"\n", "name = \"c\"\ncommit_interval_ms = 0\n", 3, "cluster.commit_interval_ms", "1 to 60000"),
        ("number = 3", "number = 1", 19, "host.number", "another host's"),
        ("number = 3", "number = 0", 19, "host.number", "1 to 250"),
        ("name = \"b\"", "name = \"a\"", 18, "host.name", "twice"),
        ("name = \"b\"", "name = \"b c\"", 18, "host.name", "blanks"),
        ("shards = [0]", "shards = [1]", 23, "host.shards", "at host \"a\" already"),
        ("shards = [0]", "shards = [0, 7]", 23, "host.shards", "shard 7 of 2"),
        ("directory = \"/b\"\n", "", 18, "host.directory", "needs a directory"),
        ("directory = \"/b\"", "directory = \"b\"", 22, "host.directory", "does not begin with /"),
        ("data = true\n", "", 4, "host.data", "somebody has to keep"),
        ("meta_memory = \"64M\"", "meta_memory = \"64X\"", 15, "host.meta_memory", "unknown unit"),
        ("port = 99", "path_memory = \"64M\"", 21, "host.path_memory", "add `path = true`"),
        ("port = 99", "path_load = true", 21, "host.path_load", "add `path = true`"),
        ("port = 99", "path_index = \"hi\"", 21, "host.path_index", "add `path = true`"),
        ("port = 99", "path = true\npath_index = \"b\"", 22, "host.path_index", "\"hi\", \"mart\" or \"art\""),
        ("port = 99", "path = true\npath_memory = \"0\"", 22, "host.path_memory", "at least 1048576 bytes"),
        ("port = 99", "path = 1", 21, "path", "invalid type"),
        ("switch_port = 4797", PATH_ONLY, 26, "host.directory", "a path node needs a directory"),
        ("port = 99", "wait = \"x\"", 21, "host.wait", "\"block\" or \"spin\""),
        ("port = 99", "port = 0", 21, "host.port", "1 to 65535"),
        ("shards = [1]", "shards = [1]\nxdp = [\"eth0\"]", 14, "host.xdp", "only a switch"),
        ("port = 99", "prot = 99", 21, "prot", "unknown field"),
        ("\"::1\"\nport = 99", "\"10.0.0.1\"", 20, "host.address", "another host's"),
        ("4797", "99", 24, "host.switch_port", "port 99 there is taken"),
        ("4797", "4797\nxdp = [\"e\", \"e\"]", 25, "host.xdp", "\"e\" is there twice"),
        (
            "4797",
            "4797\nxdp = [\"e\"]",
            25,
            "host.xdp",
            "what \"b\" sends from the same address passes no network device",
        ),
        ("shards = [0]", NINE, 86, "host.switch_port", "10 hosts have switches: at most 8"),
    ] {
        let text = GOOD.replace(from, &to.replace(NINE, &nine()));
        assert_ne!(text, GOOD, "{from}");
        let error = parse(&text).map(|_| to).unwrap_err();
        let ConfigError::Value { line: found_line, key: found_key, why: found_why, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((*found_line, found_key.as_str()), (line, key), "{error}");
        assert!(found_why.contains(why), "{error}");
    }
    let error = Cluster::read(Path::new("/nowhere/c.toml")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/c.toml") && error.contains("onpath cluster init"), "{error}");
}
