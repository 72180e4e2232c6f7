// Made by `cargo run -p onpath-dataplane --example headers`. Do not edit: rules and layout are in dataplane/SPEC.md.
#ifndef ONPATH_CACHE_INNET_P4
#define ONPATH_CACHE_INNET_P4

const bit<4> STRUCTURE_CACHE = 0x3;
const bit<8> ROOT_TOKEN = 0x1;
const bit<8> PURPOSE_LOOKUP = 0x1;
const bit<8> PURPOSE_STAT = 0x2;
const bit<8> PURPOSE_ACCESS = 0x3;
const bit<8> PURPOSE_OPEN = 0x4;
const bit<8> PURPOSE_SIZE = 0x5;
const bit<4> OP_READ = 0x1;
const bit<4> OP_FILL = 0x2;
const bit<4> OP_INVALIDATE = 0x3;
const bit<8> CACHE_RESULT_MISS = 0x1;
const bit<8> CACHE_RESULT_ANSWERED = 0x2;
const bit<8> CACHE_RESULT_DENIED = 0x3;
const bit<8> CACHE_RESULT_FILLED = 0x4;
const bit<8> CACHE_RESULT_NOT_NEWER = 0x5;
const bit<8> CACHE_RESULT_OTHER_EPOCH = 0x6;
const bit<8> CACHE_RESULT_CLEARED = 0x7;
const bit<8> CACHE_RESULT_NOT_THERE = 0x8;

// The rest of a read's, before its levels.
header cache_read_t {
    bit<8> depth;
    bit<8> level;
    bit<8> purpose;
    bit<8> wants;
    bit<32> uid;
    bit<32> gid;
    bit<32> start_0;
    bit<32> start_1;
    bit<32> requester;
}

// The levels of a read: a key in two words and a token each.
header cache_levels_t {
    bit<32> key_0_0;
    bit<32> key_0_1;
    bit<8> token_0;
    bit<32> key_1_0;
    bit<32> key_1_1;
    bit<8> token_1;
    bit<32> key_2_0;
    bit<32> key_2_1;
    bit<8> token_2;
    bit<32> key_3_0;
    bit<32> key_3_1;
    bit<8> token_3;
    bit<32> key_4_0;
    bit<32> key_4_1;
    bit<8> token_4;
    bit<32> key_5_0;
    bit<32> key_5_1;
    bit<8> token_5;
    bit<32> key_6_0;
    bit<32> key_6_1;
    bit<8> token_6;
    bit<32> key_7_0;
    bit<32> key_7_1;
    bit<8> token_7;
    bit<32> key_8_0;
    bit<32> key_8_1;
    bit<8> token_8;
    bit<24> spare;
}

// The rest of an invalidate's, and of a fill's before its value.
header cache_entry_t {
    bit<8> token;
    bit<8> spare_0;
    bit<16> spare_1;
    bit<32> number;
    bit<32> revision;
    bit<32> key_0;
    bit<32> key_1;
    bit<32> spare_2;
}

// What an entry says, a word for each array.
header cache_value_t {
    bit<32> value_0;
    bit<32> value_1;
    bit<32> value_2;
    bit<32> value_3;
    bit<32> value_4;
    bit<32> value_5;
    bit<32> value_6;
    bit<32> value_7;
    bit<32> value_8;
    bit<32> value_9;
    bit<32> value_10;
    bit<32> value_11;
    bit<32> value_12;
    bit<32> value_13;
    bit<32> value_14;
    bit<32> value_15;
    bit<32> value_16;
    bit<32> value_17;
    bit<32> value_18;
    bit<32> value_19;
    bit<32> value_20;
}

const bit<32> COUNT_READ_ANSWERED = 35;
const bit<32> COUNT_READ_DENIED = 36;
const bit<32> COUNT_READ_MISSED = 37;
const bit<32> COUNT_READ_REPORTED = 38;
const bit<32> COUNT_READ_OTHER_EPOCH = 39;
const bit<32> COUNT_READ_STRANGER = 40;
const bit<32> COUNT_FILL_DONE = 41;
const bit<32> COUNT_FILL_NOT_NEWER = 42;
const bit<32> COUNT_FILL_OTHER_EPOCH = 43;
const bit<32> COUNT_FILL_NOT_THERE = 44;
const bit<32> COUNT_INVALIDATE_DONE = 45;
const bit<32> COUNT_INVALIDATE_OTHER_EPOCH = 46;
const bit<32> COUNT_INVALIDATE_NOT_THERE = 47;
const bit<32> COUNT_PASSES_RECIRCULATED = 48;

#endif
