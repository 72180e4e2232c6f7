// What kind of packet of the visibility table it is, or why it is dropped, as one table: D-3, D-4, D-6 to D-9, D-11 and D-44 to D-46 for an
// architecture whose parser compares too little to check them (TNA). Included inside of its ingress; the action `is_kind` sets meta.kind. Its
// header is whole: what is shorter is in dirty_set/classify.p4.
//
// As there the first entry that matches is that of the checks which most of a packet passes.

    table classify_entry {
        key = {
            hdr.innet.version: ternary;
            hdr.innet.cluster: ternary;
            hdr.innet.op: ternary;
            hdr.innet.flags: ternary;
            hdr.innet.shard: ternary;
            hdr.visibility.index: ternary;
            hdr.visibility.fingerprint: ternary;
            hdr.visibility.ts: ternary;
            hdr.innet.result: ternary;
            meta.from_host: ternary;
        }
        actions = { is_kind; }
        const entries = {
            // D-45, D-46.
            (VERSION, CLUSTER_NUMBER, OP_LOOK, 8w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_ENTRIES, 32w0, _, _, _): is_kind((bit<8>)COUNT_DROP_FINGERPRINT);
            (VERSION, CLUSTER_NUMBER, OP_INSTALL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_ENTRIES, 32w0, _, _, _): is_kind((bit<8>)COUNT_DROP_FINGERPRINT);
            (VERSION, CLUSTER_NUMBER, OP_INSTALL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_ENTRIES, _, 32w0, _, _): is_kind((bit<8>)COUNT_DROP_TS);
            // D-44: what is answered already may come from anywhere (D-11).
            (VERSION, CLUSTER_NUMBER, OP_LOOK, 8w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_ENTRIES, _, _, 8w0, _): is_kind(KIND_LOOK);
            (VERSION, CLUSTER_NUMBER, OP_INSTALL, 8w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_ENTRIES, _, _, 8w0, 1w1): is_kind(KIND_INSTALL);
            (VERSION, CLUSTER_NUMBER, OP_CLEAR, 8w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_ENTRIES, _, _, 8w0, 1w1): is_kind(KIND_CLEAR);
            (VERSION, CLUSTER_NUMBER, OP_INSTALL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_ENTRIES, _, _, 8w0, _): is_kind((bit<8>)COUNT_DROP_STRANGER);
            (VERSION, CLUSTER_NUMBER, OP_LOOK, 8w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_ENTRIES, _, _, _, _): is_kind(KIND_ANSWERED);
            (VERSION, CLUSTER_NUMBER, OP_INSTALL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_ENTRIES, _, _, _, _): is_kind(KIND_ANSWERED);
            // D-9, D-8, D-7: the checks before them passed.
            (VERSION, CLUSTER_NUMBER, OP_LOOK, 8w0, 16w0 &&& 16w0xff00, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_INDEX);
            (VERSION, CLUSTER_NUMBER, OP_INSTALL &&& 4w0xe, 8w0, 16w0 &&& 16w0xff00, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_INDEX);
            (VERSION, CLUSTER_NUMBER, OP_LOOK, 8w0, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_SHARD);
            (VERSION, CLUSTER_NUMBER, OP_INSTALL &&& 4w0xe, 8w0, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_SHARD);
            (VERSION, CLUSTER_NUMBER, OP_LOOK, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            (VERSION, CLUSTER_NUMBER, OP_INSTALL &&& 4w0xe, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            // D-6, D-4, D-3.
            (VERSION, CLUSTER_NUMBER, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_OPERATION);
            (VERSION, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_CLUSTER);
        }
        const default_action = is_kind((bit<8>)COUNT_DROP_VERSION);
    }
