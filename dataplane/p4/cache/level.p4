// Which name a pass looks up, and what is fixed about the pass before that: D-79, D-91, D-97, D-102, D-106.
#ifndef ONPATH_CACHE_LEVEL_P4
#define ONPATH_CACHE_LEVEL_P4

control Level(inout headers_t hdr, inout meta_t meta) {
    // D-79: no name has key 0.
    action of_root() {
        meta.key_0 = 0;
        meta.key_1 = 0;
        meta.token = ROOT_TOKEN;
    }
    // A state that is filled by a revision is twice that.
    action of_entry() {
        meta.key_0 = hdr.entry.key_0;
        meta.key_1 = hdr.entry.key_1;
        meta.token = hdr.entry.token;
        meta.reaches = hdr.entry.revision << 1;
    }
    // Token 0 has no name.
    action of_none() {
        meta.token = 0;
    }
    action of_level_0() {
        meta.key_0 = hdr.levels.key_0_0;
        meta.key_1 = hdr.levels.key_0_1;
        meta.token = hdr.levels.token_0;
    }
    action of_level_1() {
        meta.key_0 = hdr.levels.key_1_0;
        meta.key_1 = hdr.levels.key_1_1;
        meta.token = hdr.levels.token_1;
    }
    action of_level_2() {
        meta.key_0 = hdr.levels.key_2_0;
        meta.key_1 = hdr.levels.key_2_1;
        meta.token = hdr.levels.token_2;
    }
    action of_level_3() {
        meta.key_0 = hdr.levels.key_3_0;
        meta.key_1 = hdr.levels.key_3_1;
        meta.token = hdr.levels.token_3;
    }
    action of_level_4() {
        meta.key_0 = hdr.levels.key_4_0;
        meta.key_1 = hdr.levels.key_4_1;
        meta.token = hdr.levels.token_4;
    }
    action of_level_5() {
        meta.key_0 = hdr.levels.key_5_0;
        meta.key_1 = hdr.levels.key_5_1;
        meta.token = hdr.levels.token_5;
    }
    action of_level_6() {
        meta.key_0 = hdr.levels.key_6_0;
        meta.key_1 = hdr.levels.key_6_1;
        meta.token = hdr.levels.token_6;
    }
    action of_level_7() {
        meta.key_0 = hdr.levels.key_7_0;
        meta.key_1 = hdr.levels.key_7_1;
        meta.token = hdr.levels.token_7;
    }
    action of_level_8() {
        meta.key_0 = hdr.levels.key_8_0;
        meta.key_1 = hdr.levels.key_8_1;
        meta.token = hdr.levels.token_8;
    }
    table level_of {
        key = {
            hdr.innet.op: ternary;
            hdr.read.start_0: ternary;
            hdr.read.start_1: ternary;
            hdr.read.level: ternary;
        }
        actions = {
            of_root;
            of_entry;
            of_none;
            of_level_0;
            of_level_1;
            of_level_2;
            of_level_3;
            of_level_4;
            of_level_5;
            of_level_6;
            of_level_7;
            of_level_8;
        }
        const entries = {
            (OP_FILL &&& 4w0xe, _, _, _): of_entry();
            (_, 32w0, 32w0, _): of_root();
            (_, _, _, 8w0): of_level_0();
            (_, _, _, 8w1): of_level_1();
            (_, _, _, 8w2): of_level_2();
            (_, _, _, 8w3): of_level_3();
            (_, _, _, 8w4): of_level_4();
            (_, _, _, 8w5): of_level_5();
            (_, _, _, 8w6): of_level_6();
            (_, _, _, 8w7): of_level_7();
            (_, _, _, 8w8): of_level_8();
        }
        const default_action = of_none();
    }

    // Whether this pass is that of the root's own entry, or of the last level.
    action is_root() {
        meta.root = 1;
        meta.last = 0;
    }
    action is_last() {
        meta.root = 0;
        meta.last = 1;
    }
    action is_above() {
        meta.root = 0;
        meta.last = 0;
    }
    table place_of {
        key = {
            hdr.read.start_0: ternary;
            hdr.read.start_1: ternary;
            hdr.read.level: ternary;
            hdr.read.depth: ternary;
        }
        actions = { is_root; is_last; is_above; }
        const entries = {
            (32w0, 32w0, _, _): is_root();
            (_, _, 8w0, 8w1): is_last();
            (_, _, 8w1, 8w2): is_last();
            (_, _, 8w2, 8w3): is_last();
            (_, _, 8w3, 8w4): is_last();
            (_, _, 8w4, 8w5): is_last();
            (_, _, 8w5, 8w6): is_last();
            (_, _, 8w6, 8w7): is_last();
            (_, _, 8w7, 8w8): is_last();
            (_, _, 8w8, 8w9): is_last();
        }
        const default_action = is_above();
    }

    // D-106: a miss is counted by the key of the last level.
    action ends_at_1() {
        meta.counted_0 = hdr.levels.key_0_0;
        meta.counted_1 = hdr.levels.key_0_1;
    }
    action ends_at_2() {
        meta.counted_0 = hdr.levels.key_1_0;
        meta.counted_1 = hdr.levels.key_1_1;
    }
    action ends_at_3() {
        meta.counted_0 = hdr.levels.key_2_0;
        meta.counted_1 = hdr.levels.key_2_1;
    }
    action ends_at_4() {
        meta.counted_0 = hdr.levels.key_3_0;
        meta.counted_1 = hdr.levels.key_3_1;
    }
    action ends_at_5() {
        meta.counted_0 = hdr.levels.key_4_0;
        meta.counted_1 = hdr.levels.key_4_1;
    }
    action ends_at_6() {
        meta.counted_0 = hdr.levels.key_5_0;
        meta.counted_1 = hdr.levels.key_5_1;
    }
    action ends_at_7() {
        meta.counted_0 = hdr.levels.key_6_0;
        meta.counted_1 = hdr.levels.key_6_1;
    }
    action ends_at_8() {
        meta.counted_0 = hdr.levels.key_7_0;
        meta.counted_1 = hdr.levels.key_7_1;
    }
    action ends_at_9() {
        meta.counted_0 = hdr.levels.key_8_0;
        meta.counted_1 = hdr.levels.key_8_1;
    }
    action ends_nowhere() {
    }
    table end_of {
        key = { hdr.read.depth: ternary; }
        actions = {
            ends_nowhere;
            ends_at_1;
            ends_at_2;
            ends_at_3;
            ends_at_4;
            ends_at_5;
            ends_at_6;
            ends_at_7;
            ends_at_8;
            ends_at_9;
        }
        const entries = {
            (8w1): ends_at_1();
            (8w2): ends_at_2();
            (8w3): ends_at_3();
            (8w4): ends_at_4();
            (8w5): ends_at_5();
            (8w6): ends_at_6();
            (8w7): ends_at_7();
            (8w8): ends_at_8();
            (8w9): ends_at_9();
        }
        const default_action = ends_nowhere();
    }

    apply {
        level_of.apply();
        place_of.apply();
        end_of.apply();
    }
}

#endif
