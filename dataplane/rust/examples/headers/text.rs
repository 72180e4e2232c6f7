//! The in-network header, its constants and the counters as C and as P4, from `onpath_wire::innet` and the crate's counters.

use onpath_dataplane::Counter;
use onpath_dataplane::cache::PASSES_MAX;
use onpath_dataplane::cache::counts::ROWS;
use onpath_dataplane::cache::tables::REQUESTERS_MAX;
use onpath_dataplane::common::routing::{HOSTS_MAX, ROUTES_MAX};
use onpath_dataplane::dirty_set::registers::{SHARDS, STAGES_MAX};
use onpath_dataplane::visibility::registers::VALUES;
use onpath_wire::ids::{NodeId, ShardId, Term};
use onpath_wire::innet::cache::*;
use onpath_wire::innet::*;
use onpath_wire::inode::Kind;
use std::fmt::Write;

const MADE: &str = "Made by `cargo run -p onpath-dataplane --example headers`. Do not edit: rules and layout are in dataplane/SPEC.md.";

/// Sizes and limits that the P4 form has no use for: its tables are as large as a program declares them, its control plane keeps the limits.
const NOT_IN_P4: [&str; 12] = [
    "COMMON_BYTES",
    "HEADER_BYTES_MAX",
    "DIRTY_SET_BYTES",
    "VISIBILITY_BYTES",
    "ENTRY_BITS",
    "VALUES",
    "INDEX_BITS",
    "STAGES_MAX",
    "SHARDS",
    "ROUTES_MAX",
    "HOSTS_MAX",
    "TERM_MAX",
];

/// (path below dataplane/, text) of every file.
pub(crate) fn files() -> [(&'static str, String); 3] {
    [("c/include/common/innet.h", c()), ("p4/common/innet.p4", p4()), ("p4/cache/innet.p4", p4_of_cache())]
}

/// (name, value, bits) of the constants.
fn constants() -> Vec<(String, u64, usize)> {
    let mut all: Vec<(String, u64, usize)> = vec![
        ("VERSION".into(), INNET_VERSION.into(), 8),
        ("UDP_PORT".into(), INNET_UDP_PORT.into(), 16),
        ("COMMON_BYTES".into(), INNET_COMMON_BYTES as u64, 32),
        ("HEADER_BYTES_MAX".into(), INNET_BYTES_MAX as u64, 32),
        ("DIRTY_SET_BYTES".into(), DirtySet::BYTES as u64, 32),
        ("VISIBILITY_BYTES".into(), Visibility::BYTES as u64, 32),
        ("INDEX_BITS".into(), INDEX_BITS.into(), 32),
        ("STAGES_MAX".into(), STAGES_MAX as u64, 32),
        ("ENTRY_BITS".into(), ENTRY_BITS.into(), 32),
        ("VALUES".into(), VALUES as u64, 32),
        ("SHARDS".into(), SHARDS as u64, 32),
        ("ROUTES_MAX".into(), ROUTES_MAX as u64, 32),
        ("HOSTS_MAX".into(), HOSTS_MAX as u64, 32),
        ("TERM_MAX".into(), Term::MAX.0.into(), 32),
        ("NODE_OF_SHARD_0".into(), NodeId::shard(ShardId(0)).0.into(), 32),
    ];
    all.extend(Structure::ALL.iter().map(|&of| (format!("STRUCTURE_{}", upper(&format!("{of:?}"))), of as u64, 4)));
    all.extend(of_cache());
    all.extend(DirtySetOp::ALL.iter().map(|&op| (format!("OP_{}", upper(&format!("{op:?}"))), op as u64, 4)));
    all.extend(VisibilityOp::ALL.iter().map(|&op| (format!("OP_{}", upper(&format!("{op:?}"))), op as u64, 4)));
    all.extend(InNetResult::ALL.iter().map(|&of| (format!("RESULT_{}", upper(&format!("{of:?}"))), of as u64, 8)));
    // A result that both structures have has one number.
    for result in VisibilityResult::ALL {
        let (name, number) = (format!("RESULT_{}", upper(&format!("{result:?}"))), *result as u64);
        match all.iter().find(|known| known.0 == name) {
            Some(known) => assert_eq!(known.1, number, "{name}"),
            None => all.push((name, number, 8)),
        }
    }
    all
}

/// Those of the cache, which lie in a file of their own in P4.
fn of_cache() -> Vec<(String, u64, usize)> {
    let mut all: Vec<(String, u64, usize)> = vec![
        ("READ_BYTES".into(), Read::BYTES as u64, 32),
        ("FILL_BYTES".into(), Fill::BYTES as u64, 32),
        ("INVALIDATE_BYTES".into(), Invalidate::BYTES as u64, 32),
        ("CACHE_BITS".into(), CACHE_BITS.into(), 32),
        ("CACHE_VALUES".into(), VALUE_BYTES as u64 / 4, 32),
        ("LEVELS_MAX".into(), LEVELS_MAX as u64, 32),
        ("LEVEL_BYTES".into(), LEVEL_BYTES as u64, 32),
        ("PASSES_MAX".into(), PASSES_MAX as u64, 32),
        ("ROOT_TOKEN".into(), ROOT_TOKEN.into(), 8),
        ("REVISION_END".into(), REVISION_END.into(), 32),
        ("SKETCH_ROWS".into(), ROWS as u64, 32),
        ("REQUESTERS_MAX".into(), REQUESTERS_MAX as u64, 32),
        ("WANTS_EXEC".into(), wants::EXEC.into(), 8),
        ("WANTS_WRITE".into(), wants::WRITE.into(), 8),
        ("WANTS_READ".into(), wants::READ.into(), 8),
        ("WANTS_READS_ALL".into(), wants::READS_ALL.into(), 8),
        ("WANTS_WRITES_ALL".into(), wants::WRITES_ALL.into(), 8),
        ("WANTS_ALL".into(), wants::ALL.into(), 8),
    ];
    let kinds = [Kind::Directory, Kind::File, Kind::Symlink];
    all.extend(kinds.map(|kind| (format!("KIND_{}", upper(&format!("{kind:?}"))), kind.d_type().into(), 8)));
    all.extend(Purpose::ALL.iter().map(|&of| (format!("PURPOSE_{}", upper(&format!("{of:?}"))), of as u64, 8)));
    all.extend(CacheOp::ALL.iter().map(|&op| (format!("OP_{}", upper(&format!("{op:?}"))), op as u64, 4)));
    all.extend(
        CacheResult::ALL.iter().map(|&of| (format!("CACHE_RESULT_{}", upper(&format!("{of:?}"))), of as u64, 8)),
    );
    all
}

/// `OtherEpoch` as `OTHER_EPOCH`.
fn upper(camel: &str) -> String {
    let mut text = String::new();
    for c in camel.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_uppercase());
    }
    text
}

fn c() -> String {
    let mut text =
        format!("/* {MADE} */\n#ifndef ONPATH_INNET_H\n#define ONPATH_INNET_H\n\n#include <linux/types.h>\n\n");
    for (name, value, _) in constants() {
        let _ = writeln!(text, "#define ONPATH_{name} {value:#x}");
    }
    text += "\n/* In network byte order; the same fields lie at the same bytes in every target. */\n";
    text += &c_struct("common", Common::FIELDS, "COMMON_BYTES");
    text += "\n/* The header of the dirty set. */\n";
    text += &c_struct("dirty_set", DirtySet::FIELDS, "DIRTY_SET_BYTES");
    text += "\n/* The header of the visibility table. */\n";
    text += &c_struct("visibility", Visibility::FIELDS, "VISIBILITY_BYTES");
    text += "\n/* The header of a read of the cache. */\n";
    text += &c_struct("read", Read::FIELDS, "READ_BYTES");
    text += "\n/* The header of a fill; that of an invalidate ends before the value. */\n";
    text += &c_struct("fill", Fill::FIELDS, "FILL_BYTES");
    text += "\n/* What an entry of the cache says. */\n";
    text += &c_struct("value", EntryValue::FIELDS, "CACHE_VALUES * 4");
    text +=
        "\n/* A header of any structure: `code` says which. */\nunion onpath_innet {\n\tstruct onpath_common common;\n";
    text += "\tstruct onpath_dirty_set dirty_set;\n\tstruct onpath_visibility visibility;\n\tstruct onpath_read read;\n\tstruct onpath_fill fill;\n";
    text += "\t__u8 bytes[ONPATH_HEADER_BYTES_MAX];\n};\n\nenum onpath_counter {\n";
    for counter in Counter::ALL {
        let _ = writeln!(text, "\tONPATH_{},", counter.name().to_uppercase());
    }
    text += "\tONPATH_COUNTERS\n};\n\n#define ONPATH_COUNTER_NAMES { \\\n";
    for counter in Counter::ALL {
        let _ = writeln!(text, "\t\"{}\", \\", counter.name());
    }
    text + "}\n\n#endif\n"
}

/// A struct with these fields, and that they lie where they should.
fn c_struct(name: &str, fields: &[InNetField], bytes: &str) -> String {
    let mut text = format!("struct onpath_{name} {{\n");
    for field in fields {
        let (of, words) = match field.bytes {
            1 => ("__u8", String::new()),
            2 => ("__be16", String::new()),
            4 => ("__be32", String::new()),
            longer => ("__be32", format!("[{}]", longer / 4)),
        };
        let _ = writeln!(text, "\t{of} {}{words};", field.name);
    }
    text += "};\n\n";
    for field in fields {
        let (of, at) = (field.name, field.at);
        let _ = writeln!(text, "_Static_assert(__builtin_offsetof(struct onpath_{name}, {of}) == {at}, \"{of}\");");
    }
    let _ = writeln!(text, "_Static_assert(sizeof(struct onpath_{name}) == ONPATH_{bytes}, \"size\");");
    text
}

/// The fields of a header behind the common ones; one that is longer than a register in words.
fn p4_fields(all: &[InNetField]) -> String {
    p4_words(&all[Common::FIELDS.len()..])
}

fn p4_words(fields: &[InNetField]) -> String {
    let mut text = String::new();
    for field in fields {
        match field.bytes {
            bytes @ 0..=4 => _ = writeln!(text, "    bit<{}> {};", 8 * bytes, field.name),
            bytes => (0..bytes / 4).for_each(|word| _ = writeln!(text, "    bit<32> {}_{word};", field.name)),
        }
    }
    text
}

fn p4() -> String {
    let mut text = format!("// {MADE}\n#ifndef ONPATH_INNET_P4\n#define ONPATH_INNET_P4\n\n");
    let of_cache = of_cache();
    let known = |name: &String| {
        name != "STRUCTURE_CACHE" && !NOT_IN_P4.contains(&name.as_str()) && of_cache.iter().all(|(of, ..)| of != name)
    };
    for (name, value, bits) in constants().into_iter().filter(|(name, ..)| known(name)) {
        let _ = writeln!(text, "const bit<{bits}> {name} = {value:#x};");
    }
    text += "\n// What the headers of all structures share.\nheader innet_t {\n";
    for field in Common::FIELDS {
        match field.name {
            "code" => text += "    bit<4> structure;\n    bit<4> op;\n",
            name => {
                let _ = writeln!(text, "    bit<{}> {name};", 8 * field.bytes);
            }
        }
    }
    text += "}\n\n// The rest of the dirty set's.\nheader dirty_set_t {\n";
    text += &p4_fields(DirtySet::FIELDS);
    text += "}\n\n// The rest of the visibility table's.\nheader visibility_t {\n";
    text += &p4_fields(Visibility::FIELDS);
    text += "}\n\n";
    for (number, counter) in Counter::ALL.iter().enumerate().filter(|(_, counter)| !counter.is_of_cache()) {
        let _ = writeln!(text, "const bit<32> COUNT_{} = {number};", counter.name().to_uppercase());
    }
    let _ = writeln!(text, "const bit<32> COUNTERS = {};", Counter::ALL.len());
    text + "\n#endif\n"
}

/// What a program that has the cache needs besides. Sizes are not in it, nor kinds of inodes, which are bits of a word there.
fn p4_of_cache() -> String {
    let mut text = format!("// {MADE}\n#ifndef ONPATH_CACHE_INNET_P4\n#define ONPATH_CACHE_INNET_P4\n\n");
    let _ = writeln!(text, "const bit<4> STRUCTURE_CACHE = {:#x};", Structure::Cache as u8);
    let known =
        |name: &str| name == "ROOT_TOKEN" || ["PURPOSE_", "OP_", "CACHE_RESULT_"].iter().any(|of| name.starts_with(of));
    for (name, value, bits) in of_cache().into_iter().filter(|(name, ..)| known(name)) {
        let _ = writeln!(text, "const bit<{bits}> {name} = {value:#x};");
    }
    // Levels and value take each other's place, so they are headers of their own.
    let own = |all: &'static [InNetField]| all.split_last().expect("a header has fields");
    let ((_, read), (value, fill)) = (own(Read::FIELDS), own(Fill::FIELDS));
    text += "\n// The rest of a read's, before its levels.\nheader cache_read_t {\n";
    text += &p4_fields(read);
    text += "}\n\n// The levels of a read: a key in two words and a token each.\nheader cache_levels_t {\n";
    for level in 0..LEVELS_MAX {
        let _ = writeln!(text, "    bit<32> key_{level}_0;\n    bit<32> key_{level}_1;\n    bit<8> token_{level};");
    }
    let _ = writeln!(text, "    bit<{}> spare;", 8 * (VALUE_BYTES - LEVELS_MAX * LEVEL_BYTES));
    text += "}\n\n// The rest of an invalidate's, and of a fill's before its value.\nheader cache_entry_t {\n";
    text += &p4_fields(fill);
    text += "}\n\n// What an entry says, a word for each array.\nheader cache_value_t {\n";
    text += &p4_words(std::slice::from_ref(value));
    text += "}\n\n";
    for (number, counter) in Counter::ALL.iter().enumerate().filter(|(_, counter)| counter.is_of_cache()) {
        let _ = writeln!(text, "const bit<32> COUNT_{} = {number};", counter.name().to_uppercase());
    }
    text + "\n#endif\n"
}
