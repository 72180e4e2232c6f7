//! Objects and records that roles are given before they run: whatever they are, they are taken or refused.

use crate::cut::Cut;
use crate::memory::at_most;
use onpath_data::{DataConfig, DataNode};
use onpath_meta::{Shard, ShardBounds, ShardConfig, SyncPolicy};
use onpath_store::Recoverable;
use onpath_wire::ids::{ShardId, Term};
use onpath_wire::map::ClusterMap;
use onpath_wire::secrets::Secrets;
use onpath_wire::tracking::{Form, Switches, Writes};
use std::sync::LazyLock;

/// Bytes of memory that objects may take for one that they have, and tables that grow with the first of them.
const A_BYTE: usize = 1_024;
const TABLES: usize = 1 << 20;

fn map() -> ClusterMap {
    static MAP: LazyLock<ClusterMap> =
        LazyLock::new(|| ClusterMap::even(2, Secrets::of_seed(7).placement).with_data_nodes(&[0]));
    MAP.clone()
}

/// A shard without state.
pub(crate) fn shard() -> Shard {
    Shard::new(ShardConfig {
        shard: ShardId(0),
        map: map(),
        term: Term(5),
        one_journal: true,
        ends_path_nodes: true,
        writes: Writes::Visible,
        shows_files: true,
        inner: Secrets::of_seed(7).inner,
        cluster: 1,
        track_unsynced: false,
        outlived: false,
        form: Form::Owner,
        switches: Switches::ONE,
        sync: SyncPolicy::Auto,
        sticky_marks: true,
        bounds: ShardBounds::default(),
    })
}

/// Objects of a shard.
pub fn shard_objects(input: &[u8]) {
    let mut shard = shard();
    at_most(TABLES + A_BYTE * input.len(), || load(&mut shard, input));
}

/// A data node without state, over so many data files.
pub(crate) fn data_node(files: u32) -> DataNode {
    let tickets = Secrets::of_seed(7).inner.tickets();
    DataNode::new(DataConfig {
        node: 0,
        term: Term(5),
        map: map(),
        cluster: 1,
        file_blocks: 1 << 18,
        files,
        outlived: true,
        deferred: true,
        tickets,
    })
}

/// Objects of a data node.
pub fn data_objects(input: &[u8]) {
    let mut node = data_node(2);
    at_most(TABLES + A_BYTE * input.len(), || load(&mut node, input));
}

/// Gives a role objects; what the check of objects takes the role takes, too, if it is the only one of its key.
fn load(role: &mut impl Recoverable, input: &[u8]) {
    let mut check = role.object_check();
    let mut cut = Cut(input);
    while !cut.is_empty() {
        let (how, key_bytes) = (cut.byte(), cut.byte());
        let (key, value) = (cut.bytes(key_bytes.into()), cut.string());
        let range = u32::from(how >> 1) % role.ranges();
        if how & 1 == 0 {
            let checked = check(key, value);
            let loaded = role.load_object(key, value);
            assert!(checked.is_ok() || loaded.is_err(), "what is refused in a check is loaded");
        } else {
            let _refused = role.load(range, key, value);
        }
    }
}
