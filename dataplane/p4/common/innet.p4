// Made by `cargo run -p onpath-dataplane --example headers`. Do not edit: rules and layout are in dataplane/SPEC.md.
#ifndef ONPATH_INNET_P4
#define ONPATH_INNET_P4

const bit<8> VERSION = 0x1;
const bit<16> UDP_PORT = 0x12bd;
const bit<32> NODE_OF_SHARD_0 = 0x1000000;
const bit<4> STRUCTURE_DIRTY_SET = 0x1;
const bit<4> STRUCTURE_VISIBILITY = 0x2;
const bit<4> OP_QUERY = 0x1;
const bit<4> OP_INSERT = 0x2;
const bit<4> OP_REMOVE = 0x3;
const bit<4> OP_LOOK = 0x1;
const bit<4> OP_INSTALL = 0x2;
const bit<4> OP_CLEAR = 0x3;
const bit<8> RESULT_NORMAL = 0x1;
const bit<8> RESULT_SCATTERED = 0x2;
const bit<8> RESULT_UNKNOWN = 0x3;
const bit<8> RESULT_MARKED = 0x4;
const bit<8> RESULT_FULL = 0x5;
const bit<8> RESULT_OTHER_EPOCH = 0x6;
const bit<8> RESULT_REMOVED = 0x7;
const bit<8> RESULT_NONE = 0x1;
const bit<8> RESULT_PENDING = 0x2;
const bit<8> RESULT_INSTALLED = 0x4;
const bit<8> RESULT_OLDER = 0x5;
const bit<8> RESULT_CLEARED = 0x7;
const bit<8> RESULT_KEPT = 0x8;

// What the headers of all structures share.
header innet_t {
    bit<4> structure;
    bit<4> op;
    bit<8> result;
    bit<16> epoch;
    bit<8> version;
    bit<8> flags;
    bit<16> shard;
    bit<32> cluster;
    bit<32> destination;
}

// The rest of the dirty set's.
header dirty_set_t {
    bit<32> index;
    bit<32> tag;
    bit<32> term;
    bit<32> sequence;
    bit<32> spare_0;
    bit<32> spare_1;
}

// The rest of the visibility table's.
header visibility_t {
    bit<32> index;
    bit<32> fingerprint;
    bit<32> ts;
    bit<32> metadata_0;
    bit<32> metadata_1;
    bit<32> metadata_2;
    bit<32> metadata_3;
    bit<32> metadata_4;
    bit<32> metadata_5;
    bit<32> metadata_6;
    bit<32> metadata_7;
    bit<32> metadata_8;
    bit<32> metadata_9;
    bit<32> metadata_10;
    bit<32> metadata_11;
    bit<32> metadata_12;
    bit<32> metadata_13;
    bit<32> metadata_14;
    bit<32> metadata_15;
    bit<32> metadata_16;
    bit<32> metadata_17;
    bit<32> metadata_18;
    bit<32> metadata_19;
    bit<32> metadata_20;
    bit<32> metadata_21;
    bit<32> metadata_22;
    bit<32> metadata_23;
}

const bit<32> COUNT_PLAIN = 0;
const bit<32> COUNT_DROP_TRUNCATED = 1;
const bit<32> COUNT_DROP_VERSION = 2;
const bit<32> COUNT_DROP_CLUSTER = 3;
const bit<32> COUNT_DROP_STRUCTURE = 4;
const bit<32> COUNT_DROP_OPERATION = 5;
const bit<32> COUNT_DROP_RESERVED = 6;
const bit<32> COUNT_DROP_SHARD = 7;
const bit<32> COUNT_DROP_INDEX = 8;
const bit<32> COUNT_DROP_TAG = 9;
const bit<32> COUNT_DROP_FINGERPRINT = 10;
const bit<32> COUNT_DROP_TS = 11;
const bit<32> COUNT_ANSWERED = 12;
const bit<32> COUNT_DROP_STRANGER = 13;
const bit<32> COUNT_COPIES_SENT = 14;
const bit<32> COUNT_COPIES_UNROUTED = 15;
const bit<32> COUNT_QUERY_NORMAL = 16;
const bit<32> COUNT_QUERY_SCATTERED = 17;
const bit<32> COUNT_QUERY_UNKNOWN = 18;
const bit<32> COUNT_INSERT_MARKED = 19;
const bit<32> COUNT_INSERT_FULL = 20;
const bit<32> COUNT_INSERT_OTHER_EPOCH = 21;
const bit<32> COUNT_REMOVE_DONE = 22;
const bit<32> COUNT_DROP_NOT_NEWER = 23;
const bit<32> COUNT_DROP_TERM_LOWER = 24;
const bit<32> COUNT_DROP_TERM_AHEAD = 25;
const bit<32> COUNT_REMOVE_OTHER_EPOCH = 26;
const bit<32> COUNT_INSTALL_DONE = 27;
const bit<32> COUNT_INSTALL_OLDER = 28;
const bit<32> COUNT_INSTALL_OTHER_EPOCH = 29;
const bit<32> COUNT_LOOK_PENDING = 30;
const bit<32> COUNT_LOOK_NONE = 31;
const bit<32> COUNT_LOOK_UNKNOWN = 32;
const bit<32> COUNT_CLEAR_DONE = 33;
const bit<32> COUNT_CLEAR_KEPT = 34;
const bit<32> COUNTERS = 49;

#endif
