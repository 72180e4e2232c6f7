// What kind of packet of the cache it is, or why it is dropped, as two tables: D-2 to D-8, D-11, D-44 and D-67 to D-72 for an architecture whose
// parser compares too little to check them (TNA). Included inside of its ingress; the action `is_kind` sets meta.kind.
//
// As in dirty_set/classify.p4 the first entry that matches is that of the checks which most of a packet passes. Later passes of a read come in
// with passes ≠ 0, and have a level (D-68).

    // What is too short for its header, of another structure or without an operation, and every read.
    table classify_read {
        key = {
            meta.form: ternary;
            hdr.innet.version: ternary;
            hdr.innet.cluster: ternary;
            hdr.innet.structure: ternary;
            hdr.innet.op: ternary;
            hdr.innet.flags: ternary;
            hdr.innet.shard: ternary;
            hdr.innet.result: ternary;
            meta.passes: ternary;
            hdr.read.depth: ternary;
            hdr.read.level: ternary;
            hdr.read.purpose: ternary;
            hdr.read.wants: ternary;
            hdr.levels.spare: ternary;
        }
        actions = { is_kind; }
        const entries = {
            // D-67 to D-69; behind them D-11: of what has a result only flags and shard are looked at.
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 8w0, _, _, 8w0 &&& 8w0xe0, 24w0): is_kind((bit<8>)COUNT_DROP_RESERVED);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 8w0 &&& 8w0xf8, 8w0, 8w1, 8w0 &&& 8w0xe0, 24w0): is_kind(KIND_READ);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 8w0 &&& 8w0xf8, 8w0, 8w2 &&& 8w0xfe, 8w0 &&& 8w0xe0, 24w0): is_kind(KIND_READ);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 8w0 &&& 8w0xf8, 8w0, 8w4 &&& 8w0xfe, 8w0 &&& 8w0xe0, 24w0): is_kind(KIND_READ);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 8w8 &&& 8w0xfe, 8w0, 8w1, 8w0 &&& 8w0xe0, 24w0): is_kind(KIND_READ);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 8w8 &&& 8w0xfe, 8w0, 8w2 &&& 8w0xfe, 8w0 &&& 8w0xe0, 24w0): is_kind(KIND_READ);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 8w8 &&& 8w0xfe, 8w0, 8w4 &&& 8w0xfe, 8w0 &&& 8w0xe0, 24w0): is_kind(KIND_READ);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, 16w0 &&& 16w0xff00, 8w0, _, _, _, _, _, _): is_kind(KIND_READ);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, 16w0 &&& 16w0xff00, _, _, _, _, _, _, _): is_kind(KIND_ANSWERED);
            // D-8, D-7: a spare bit counts before the shard, but only without a result.
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, _, 8w0, _, _, _, _, 8w0 &&& 8w0xe0, 24w0): is_kind((bit<8>)COUNT_DROP_SHARD);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, _, 8w0, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, 8w0, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_SHARD);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            // D-2 again, D-6, D-5, D-4, D-3.
            (_, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_READ, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_TRUNCATED);
            (_, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, OP_FILL &&& 4w0xe, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_TRUNCATED);
            (_, VERSION, CLUSTER_NUMBER, STRUCTURE_CACHE, _, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_OPERATION);
            (_, VERSION, CLUSTER_NUMBER, _, _, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_STRUCTURE);
            (_, VERSION, _, _, _, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_CLUSTER);
        }
        const default_action = is_kind((bit<8>)COUNT_DROP_VERSION);
    }

    // A fill or an invalidate, whose header is whole.
    table classify_cached {
        key = {
            hdr.innet.version: ternary;
            hdr.innet.cluster: ternary;
            hdr.innet.op: ternary;
            hdr.innet.flags: ternary;
            hdr.innet.shard: ternary;
            hdr.innet.result: ternary;
            hdr.entry.spare_0: ternary;
            hdr.entry.spare_1: ternary;
            hdr.entry.spare_2: ternary;
            hdr.entry.token: ternary;
            hdr.entry.number: ternary;
            hdr.entry.revision: ternary;
            meta.from_host: ternary;
        }
        actions = { is_kind; }
        const entries = {
            // D-70, D-71, D-72.
            (VERSION, CLUSTER_NUMBER, OP_FILL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 16w0, 32w0, 8w0, _, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            (VERSION, CLUSTER_NUMBER, OP_FILL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 16w0, 32w0, _, 32w0, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            (VERSION, CLUSTER_NUMBER, OP_FILL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 16w0, 32w0, _, _, 32w0, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            (VERSION, CLUSTER_NUMBER, OP_FILL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 16w0, 32w0, _, _, 32w0x80000000 &&& 32w0x80000000, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            // D-44.
            (VERSION, CLUSTER_NUMBER, OP_FILL, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 16w0, 32w0, _, _, _, 1w1): is_kind(KIND_FILL);
            (VERSION, CLUSTER_NUMBER, OP_INVALIDATE, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 16w0, 32w0, _, _, _, 1w1): is_kind(KIND_INVALIDATE);
            (VERSION, CLUSTER_NUMBER, OP_FILL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, 8w0, 8w0, 16w0, 32w0, _, _, _, _): is_kind((bit<8>)COUNT_DROP_STRANGER);
            // D-8, D-7, D-11, as of a read.
            (VERSION, CLUSTER_NUMBER, OP_FILL &&& 4w0xe, 8w0, _, 8w0, 8w0, 16w0, 32w0, _, _, _, _): is_kind((bit<8>)COUNT_DROP_SHARD);
            (VERSION, CLUSTER_NUMBER, OP_FILL &&& 4w0xe, 8w0, _, 8w0, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            (VERSION, CLUSTER_NUMBER, OP_FILL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, _, _, _, _, _, _, _, _): is_kind(KIND_ANSWERED);
            (VERSION, CLUSTER_NUMBER, OP_FILL &&& 4w0xe, 8w0, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_SHARD);
            (VERSION, CLUSTER_NUMBER, OP_FILL &&& 4w0xe, _, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            // D-4, D-3.
            (VERSION, _, _, _, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_CLUSTER);
        }
        const default_action = is_kind((bit<8>)COUNT_DROP_VERSION);
    }
