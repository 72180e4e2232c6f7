// Made by `cargo run -p onpath-dataplane --example headers`. Do not edit: rules and layout are in dataplane/SPEC.md.
#ifndef ONPATH_INNET_P4
#define ONPATH_INNET_P4

const bit<8> VERSION = 0x1;
const bit<16> UDP_PORT = 0x12bd;
const bit<32> NODE_OF_SHARD_0 = 0x1000000;
const bit<4> STRUCTURE_DIRTY_SET = 0x1;
const bit<4> OP_QUERY = 0x1;
const bit<4> OP_INSERT = 0x2;
const bit<4> OP_REMOVE = 0x3;
const bit<8> RESULT_NORMAL = 0x1;
const bit<8> RESULT_SCATTERED = 0x2;
const bit<8> RESULT_UNKNOWN = 0x3;
const bit<8> RESULT_MARKED = 0x4;
const bit<8> RESULT_FULL = 0x5;
const bit<8> RESULT_OTHER_EPOCH = 0x6;
const bit<8> RESULT_REMOVED = 0x7;

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
const bit<32> COUNT_ANSWERED = 10;
const bit<32> COUNT_DROP_STRANGER = 11;
const bit<32> COUNT_COPIES_SENT = 12;
const bit<32> COUNT_COPIES_UNROUTED = 13;
const bit<32> COUNT_QUERY_NORMAL = 14;
const bit<32> COUNT_QUERY_SCATTERED = 15;
const bit<32> COUNT_QUERY_UNKNOWN = 16;
const bit<32> COUNT_INSERT_MARKED = 17;
const bit<32> COUNT_INSERT_FULL = 18;
const bit<32> COUNT_INSERT_OTHER_EPOCH = 19;
const bit<32> COUNT_REMOVE_DONE = 20;
const bit<32> COUNT_DROP_NOT_NEWER = 21;
const bit<32> COUNT_DROP_TERM_LOWER = 22;
const bit<32> COUNT_DROP_TERM_AHEAD = 23;
const bit<32> COUNT_REMOVE_OTHER_EPOCH = 24;
const bit<32> COUNTERS = 25;

#endif
