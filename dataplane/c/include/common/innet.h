/* Made by `cargo run -p onpath-dataplane --example headers`. Do not edit: rules and layout are in dataplane/SPEC.md. */
#ifndef ONPATH_INNET_H
#define ONPATH_INNET_H

#include <linux/types.h>

#define ONPATH_VERSION 0x1
#define ONPATH_UDP_PORT 0x12bd
#define ONPATH_COMMON_BYTES 0x10
#define ONPATH_HEADER_BYTES_MAX 0x7c
#define ONPATH_DIRTY_SET_BYTES 0x28
#define ONPATH_VISIBILITY_BYTES 0x7c
#define ONPATH_INDEX_BITS 0x11
#define ONPATH_STAGES_MAX 0xa
#define ONPATH_ENTRY_BITS 0x10
#define ONPATH_VALUES 0x18
#define ONPATH_SHARDS 0x100
#define ONPATH_ROUTES_MAX 0x10000
#define ONPATH_HOSTS_MAX 0x100
#define ONPATH_TERM_MAX 0x7fffff
#define ONPATH_NODE_OF_SHARD_0 0x1000000
#define ONPATH_STRUCTURE_DIRTY_SET 0x1
#define ONPATH_STRUCTURE_VISIBILITY 0x2
#define ONPATH_STRUCTURE_CACHE 0x3
#define ONPATH_READ_BYTES 0x7c
#define ONPATH_FILL_BYTES 0x7c
#define ONPATH_INVALIDATE_BYTES 0x28
#define ONPATH_CACHE_BITS 0x10
#define ONPATH_CACHE_VALUES 0x15
#define ONPATH_LEVELS_MAX 0x9
#define ONPATH_LEVEL_BYTES 0x9
#define ONPATH_PASSES_MAX 0xa
#define ONPATH_ROOT_TOKEN 0x1
#define ONPATH_REVISION_END 0x80000000
#define ONPATH_SKETCH_ROWS 0x3
#define ONPATH_REQUESTERS_MAX 0x4000
#define ONPATH_WANTS_EXEC 0x1
#define ONPATH_WANTS_WRITE 0x2
#define ONPATH_WANTS_READ 0x4
#define ONPATH_WANTS_READS_ALL 0x8
#define ONPATH_WANTS_WRITES_ALL 0x10
#define ONPATH_WANTS_ALL 0x1f
#define ONPATH_KIND_DIRECTORY 0x4
#define ONPATH_KIND_FILE 0x8
#define ONPATH_KIND_SYMLINK 0xa
#define ONPATH_PURPOSE_LOOKUP 0x1
#define ONPATH_PURPOSE_STAT 0x2
#define ONPATH_PURPOSE_ACCESS 0x3
#define ONPATH_PURPOSE_OPEN 0x4
#define ONPATH_PURPOSE_SIZE 0x5
#define ONPATH_OP_READ 0x1
#define ONPATH_OP_FILL 0x2
#define ONPATH_OP_INVALIDATE 0x3
#define ONPATH_CACHE_RESULT_MISS 0x1
#define ONPATH_CACHE_RESULT_ANSWERED 0x2
#define ONPATH_CACHE_RESULT_DENIED 0x3
#define ONPATH_CACHE_RESULT_FILLED 0x4
#define ONPATH_CACHE_RESULT_NOT_NEWER 0x5
#define ONPATH_CACHE_RESULT_OTHER_EPOCH 0x6
#define ONPATH_CACHE_RESULT_CLEARED 0x7
#define ONPATH_CACHE_RESULT_NOT_THERE 0x8
#define ONPATH_OP_QUERY 0x1
#define ONPATH_OP_INSERT 0x2
#define ONPATH_OP_REMOVE 0x3
#define ONPATH_OP_LOOK 0x1
#define ONPATH_OP_INSTALL 0x2
#define ONPATH_OP_CLEAR 0x3
#define ONPATH_RESULT_NORMAL 0x1
#define ONPATH_RESULT_SCATTERED 0x2
#define ONPATH_RESULT_UNKNOWN 0x3
#define ONPATH_RESULT_MARKED 0x4
#define ONPATH_RESULT_FULL 0x5
#define ONPATH_RESULT_OTHER_EPOCH 0x6
#define ONPATH_RESULT_REMOVED 0x7
#define ONPATH_RESULT_NONE 0x1
#define ONPATH_RESULT_PENDING 0x2
#define ONPATH_RESULT_INSTALLED 0x4
#define ONPATH_RESULT_OLDER 0x5
#define ONPATH_RESULT_CLEARED 0x7
#define ONPATH_RESULT_KEPT 0x8

/* In network byte order; the same fields lie at the same bytes in every target. */
struct onpath_common {
	__u8 code;
	__u8 result;
	__be16 epoch;
	__u8 version;
	__u8 flags;
	__be16 shard;
	__be32 cluster;
	__be32 destination;
};

_Static_assert(__builtin_offsetof(struct onpath_common, code) == 0, "code");
_Static_assert(__builtin_offsetof(struct onpath_common, result) == 1, "result");
_Static_assert(__builtin_offsetof(struct onpath_common, epoch) == 2, "epoch");
_Static_assert(__builtin_offsetof(struct onpath_common, version) == 4, "version");
_Static_assert(__builtin_offsetof(struct onpath_common, flags) == 5, "flags");
_Static_assert(__builtin_offsetof(struct onpath_common, shard) == 6, "shard");
_Static_assert(__builtin_offsetof(struct onpath_common, cluster) == 8, "cluster");
_Static_assert(__builtin_offsetof(struct onpath_common, destination) == 12, "destination");
_Static_assert(sizeof(struct onpath_common) == ONPATH_COMMON_BYTES, "size");

/* The header of the dirty set. */
struct onpath_dirty_set {
	__u8 code;
	__u8 result;
	__be16 epoch;
	__u8 version;
	__u8 flags;
	__be16 shard;
	__be32 cluster;
	__be32 destination;
	__be32 index;
	__be32 tag;
	__be32 term;
	__be32 sequence;
	__be32 spare_0;
	__be32 spare_1;
};

_Static_assert(__builtin_offsetof(struct onpath_dirty_set, code) == 0, "code");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, result) == 1, "result");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, epoch) == 2, "epoch");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, version) == 4, "version");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, flags) == 5, "flags");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, shard) == 6, "shard");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, cluster) == 8, "cluster");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, destination) == 12, "destination");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, index) == 16, "index");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, tag) == 20, "tag");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, term) == 24, "term");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, sequence) == 28, "sequence");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, spare_0) == 32, "spare_0");
_Static_assert(__builtin_offsetof(struct onpath_dirty_set, spare_1) == 36, "spare_1");
_Static_assert(sizeof(struct onpath_dirty_set) == ONPATH_DIRTY_SET_BYTES, "size");

/* The header of the visibility table. */
struct onpath_visibility {
	__u8 code;
	__u8 result;
	__be16 epoch;
	__u8 version;
	__u8 flags;
	__be16 shard;
	__be32 cluster;
	__be32 destination;
	__be32 index;
	__be32 fingerprint;
	__be32 ts;
	__be32 metadata[24];
};

_Static_assert(__builtin_offsetof(struct onpath_visibility, code) == 0, "code");
_Static_assert(__builtin_offsetof(struct onpath_visibility, result) == 1, "result");
_Static_assert(__builtin_offsetof(struct onpath_visibility, epoch) == 2, "epoch");
_Static_assert(__builtin_offsetof(struct onpath_visibility, version) == 4, "version");
_Static_assert(__builtin_offsetof(struct onpath_visibility, flags) == 5, "flags");
_Static_assert(__builtin_offsetof(struct onpath_visibility, shard) == 6, "shard");
_Static_assert(__builtin_offsetof(struct onpath_visibility, cluster) == 8, "cluster");
_Static_assert(__builtin_offsetof(struct onpath_visibility, destination) == 12, "destination");
_Static_assert(__builtin_offsetof(struct onpath_visibility, index) == 16, "index");
_Static_assert(__builtin_offsetof(struct onpath_visibility, fingerprint) == 20, "fingerprint");
_Static_assert(__builtin_offsetof(struct onpath_visibility, ts) == 24, "ts");
_Static_assert(__builtin_offsetof(struct onpath_visibility, metadata) == 28, "metadata");
_Static_assert(sizeof(struct onpath_visibility) == ONPATH_VISIBILITY_BYTES, "size");

/* The header of a read of the cache. */
struct onpath_read {
	__u8 code;
	__u8 result;
	__be16 epoch;
	__u8 version;
	__u8 flags;
	__be16 shard;
	__be32 cluster;
	__be32 destination;
	__u8 depth;
	__u8 level;
	__u8 purpose;
	__u8 wants;
	__be32 uid;
	__be32 gid;
	__be32 start[2];
	__be32 requester;
	__be32 levels[21];
};

_Static_assert(__builtin_offsetof(struct onpath_read, code) == 0, "code");
_Static_assert(__builtin_offsetof(struct onpath_read, result) == 1, "result");
_Static_assert(__builtin_offsetof(struct onpath_read, epoch) == 2, "epoch");
_Static_assert(__builtin_offsetof(struct onpath_read, version) == 4, "version");
_Static_assert(__builtin_offsetof(struct onpath_read, flags) == 5, "flags");
_Static_assert(__builtin_offsetof(struct onpath_read, shard) == 6, "shard");
_Static_assert(__builtin_offsetof(struct onpath_read, cluster) == 8, "cluster");
_Static_assert(__builtin_offsetof(struct onpath_read, destination) == 12, "destination");
_Static_assert(__builtin_offsetof(struct onpath_read, depth) == 16, "depth");
_Static_assert(__builtin_offsetof(struct onpath_read, level) == 17, "level");
_Static_assert(__builtin_offsetof(struct onpath_read, purpose) == 18, "purpose");
_Static_assert(__builtin_offsetof(struct onpath_read, wants) == 19, "wants");
_Static_assert(__builtin_offsetof(struct onpath_read, uid) == 20, "uid");
_Static_assert(__builtin_offsetof(struct onpath_read, gid) == 24, "gid");
_Static_assert(__builtin_offsetof(struct onpath_read, start) == 28, "start");
_Static_assert(__builtin_offsetof(struct onpath_read, requester) == 36, "requester");
_Static_assert(__builtin_offsetof(struct onpath_read, levels) == 40, "levels");
_Static_assert(sizeof(struct onpath_read) == ONPATH_READ_BYTES, "size");

/* The header of a fill; that of an invalidate ends before the value. */
struct onpath_fill {
	__u8 code;
	__u8 result;
	__be16 epoch;
	__u8 version;
	__u8 flags;
	__be16 shard;
	__be32 cluster;
	__be32 destination;
	__u8 token;
	__u8 spare_0;
	__be16 spare_1;
	__be32 number;
	__be32 revision;
	__be32 key[2];
	__be32 spare_2;
	__be32 value[21];
};

_Static_assert(__builtin_offsetof(struct onpath_fill, code) == 0, "code");
_Static_assert(__builtin_offsetof(struct onpath_fill, result) == 1, "result");
_Static_assert(__builtin_offsetof(struct onpath_fill, epoch) == 2, "epoch");
_Static_assert(__builtin_offsetof(struct onpath_fill, version) == 4, "version");
_Static_assert(__builtin_offsetof(struct onpath_fill, flags) == 5, "flags");
_Static_assert(__builtin_offsetof(struct onpath_fill, shard) == 6, "shard");
_Static_assert(__builtin_offsetof(struct onpath_fill, cluster) == 8, "cluster");
_Static_assert(__builtin_offsetof(struct onpath_fill, destination) == 12, "destination");
_Static_assert(__builtin_offsetof(struct onpath_fill, token) == 16, "token");
_Static_assert(__builtin_offsetof(struct onpath_fill, spare_0) == 17, "spare_0");
_Static_assert(__builtin_offsetof(struct onpath_fill, spare_1) == 18, "spare_1");
_Static_assert(__builtin_offsetof(struct onpath_fill, number) == 20, "number");
_Static_assert(__builtin_offsetof(struct onpath_fill, revision) == 24, "revision");
_Static_assert(__builtin_offsetof(struct onpath_fill, key) == 28, "key");
_Static_assert(__builtin_offsetof(struct onpath_fill, spare_2) == 36, "spare_2");
_Static_assert(__builtin_offsetof(struct onpath_fill, value) == 40, "value");
_Static_assert(sizeof(struct onpath_fill) == ONPATH_FILL_BYTES, "size");

/* What an entry of the cache says. */
struct onpath_value {
	__be32 parent[2];
	__be32 id[2];
	__u8 kind;
	__u8 flags;
	__be16 mode;
	__be32 uid;
	__be32 gid;
	__be32 nlink;
	__be32 size[2];
	__be32 mtime[2];
	__be32 ctime[2];
	__be32 atime[2];
	__be32 blocks_or_rdev[2];
	__be32 generation[2];
	__be32 cut;
};

_Static_assert(__builtin_offsetof(struct onpath_value, parent) == 0, "parent");
_Static_assert(__builtin_offsetof(struct onpath_value, id) == 8, "id");
_Static_assert(__builtin_offsetof(struct onpath_value, kind) == 16, "kind");
_Static_assert(__builtin_offsetof(struct onpath_value, flags) == 17, "flags");
_Static_assert(__builtin_offsetof(struct onpath_value, mode) == 18, "mode");
_Static_assert(__builtin_offsetof(struct onpath_value, uid) == 20, "uid");
_Static_assert(__builtin_offsetof(struct onpath_value, gid) == 24, "gid");
_Static_assert(__builtin_offsetof(struct onpath_value, nlink) == 28, "nlink");
_Static_assert(__builtin_offsetof(struct onpath_value, size) == 32, "size");
_Static_assert(__builtin_offsetof(struct onpath_value, mtime) == 40, "mtime");
_Static_assert(__builtin_offsetof(struct onpath_value, ctime) == 48, "ctime");
_Static_assert(__builtin_offsetof(struct onpath_value, atime) == 56, "atime");
_Static_assert(__builtin_offsetof(struct onpath_value, blocks_or_rdev) == 64, "blocks_or_rdev");
_Static_assert(__builtin_offsetof(struct onpath_value, generation) == 72, "generation");
_Static_assert(__builtin_offsetof(struct onpath_value, cut) == 80, "cut");
_Static_assert(sizeof(struct onpath_value) == ONPATH_CACHE_VALUES * 4, "size");

/* A header of any structure: `code` says which. */
union onpath_innet {
	struct onpath_common common;
	struct onpath_dirty_set dirty_set;
	struct onpath_visibility visibility;
	struct onpath_read read;
	struct onpath_fill fill;
	__u8 bytes[ONPATH_HEADER_BYTES_MAX];
};

enum onpath_counter {
	ONPATH_PLAIN,
	ONPATH_DROP_TRUNCATED,
	ONPATH_DROP_VERSION,
	ONPATH_DROP_CLUSTER,
	ONPATH_DROP_STRUCTURE,
	ONPATH_DROP_OPERATION,
	ONPATH_DROP_RESERVED,
	ONPATH_DROP_SHARD,
	ONPATH_DROP_INDEX,
	ONPATH_DROP_TAG,
	ONPATH_DROP_FINGERPRINT,
	ONPATH_DROP_TS,
	ONPATH_ANSWERED,
	ONPATH_DROP_STRANGER,
	ONPATH_COPIES_SENT,
	ONPATH_COPIES_UNROUTED,
	ONPATH_QUERY_NORMAL,
	ONPATH_QUERY_SCATTERED,
	ONPATH_QUERY_UNKNOWN,
	ONPATH_INSERT_MARKED,
	ONPATH_INSERT_FULL,
	ONPATH_INSERT_OTHER_EPOCH,
	ONPATH_REMOVE_DONE,
	ONPATH_DROP_NOT_NEWER,
	ONPATH_DROP_TERM_LOWER,
	ONPATH_DROP_TERM_AHEAD,
	ONPATH_REMOVE_OTHER_EPOCH,
	ONPATH_INSTALL_DONE,
	ONPATH_INSTALL_OLDER,
	ONPATH_INSTALL_OTHER_EPOCH,
	ONPATH_LOOK_PENDING,
	ONPATH_LOOK_NONE,
	ONPATH_LOOK_UNKNOWN,
	ONPATH_CLEAR_DONE,
	ONPATH_CLEAR_KEPT,
	ONPATH_READ_ANSWERED,
	ONPATH_READ_DENIED,
	ONPATH_READ_MISSED,
	ONPATH_READ_REPORTED,
	ONPATH_READ_OTHER_EPOCH,
	ONPATH_READ_STRANGER,
	ONPATH_FILL_DONE,
	ONPATH_FILL_NOT_NEWER,
	ONPATH_FILL_OTHER_EPOCH,
	ONPATH_FILL_NOT_THERE,
	ONPATH_INVALIDATE_DONE,
	ONPATH_INVALIDATE_OTHER_EPOCH,
	ONPATH_INVALIDATE_NOT_THERE,
	ONPATH_PASSES_RECIRCULATED,
	ONPATH_COUNTERS
};

#define ONPATH_COUNTER_NAMES { \
	"plain", \
	"drop_truncated", \
	"drop_version", \
	"drop_cluster", \
	"drop_structure", \
	"drop_operation", \
	"drop_reserved", \
	"drop_shard", \
	"drop_index", \
	"drop_tag", \
	"drop_fingerprint", \
	"drop_ts", \
	"answered", \
	"drop_stranger", \
	"copies_sent", \
	"copies_unrouted", \
	"query_normal", \
	"query_scattered", \
	"query_unknown", \
	"insert_marked", \
	"insert_full", \
	"insert_other_epoch", \
	"remove_done", \
	"drop_not_newer", \
	"drop_term_lower", \
	"drop_term_ahead", \
	"remove_other_epoch", \
	"install_done", \
	"install_older", \
	"install_other_epoch", \
	"look_pending", \
	"look_none", \
	"look_unknown", \
	"clear_done", \
	"clear_kept", \
	"read_answered", \
	"read_denied", \
	"read_missed", \
	"read_reported", \
	"read_other_epoch", \
	"read_stranger", \
	"fill_done", \
	"fill_not_newer", \
	"fill_other_epoch", \
	"fill_not_there", \
	"invalidate_done", \
	"invalidate_other_epoch", \
	"invalidate_not_there", \
	"passes_recirculated", \
}

#endif
