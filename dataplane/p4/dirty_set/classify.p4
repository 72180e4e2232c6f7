// What kind of packet it is, or why it is dropped, as one table: D-2 to D-11 and D-44 for an architecture whose parser compares too little
// to check them (TNA). Included inside of its ingress; the action `is_kind` sets meta.kind.
//
// The first entry that matches is that of the checks which most of a packet passes; what it does not pass is the counter. A check that
// asks for something other than 0 stands before those that pass it.

    table classify {
        key = {
            meta.form: ternary;
            hdr.innet.version: ternary;
            hdr.innet.cluster: ternary;
            hdr.innet.structure: ternary;
            hdr.innet.op: ternary;
            hdr.innet.flags: ternary;
            hdr.dirty_set.spare_0: ternary;
            hdr.dirty_set.spare_1: ternary;
            hdr.innet.shard: ternary;
            hdr.dirty_set.index: ternary;
            hdr.dirty_set.tag: ternary;
            hdr.innet.result: ternary;
            meta.from_host: ternary;
        }
        actions = { is_kind; }
        const entries = {
            // D-10.
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_QUERY, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_SETS, 32w0, _, _): is_kind((bit<8>)COUNT_DROP_TAG);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_INSERT &&& 4w0xe, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_SETS, 32w0, _, _): is_kind((bit<8>)COUNT_DROP_TAG);
            // D-44: what is answered already may come from anywhere (D-11).
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_QUERY, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_SETS, _, 8w0, _): is_kind(KIND_QUERY);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_INSERT, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_SETS, _, 8w0, 1w1): is_kind(KIND_INSERT);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_REMOVE, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_SETS, _, 8w0, 1w1): is_kind(KIND_REMOVE);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_INSERT &&& 4w0xe, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_SETS, _, 8w0, _): is_kind((bit<8>)COUNT_DROP_STRANGER);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_QUERY, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_SETS, _, _, _): is_kind(KIND_ANSWERED);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_INSERT &&& 4w0xe, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_SETS, _, _, _): is_kind(KIND_ANSWERED);
            // D-9, D-8, D-7: the checks before them passed.
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_QUERY, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, _, _, _, _): is_kind((bit<8>)COUNT_DROP_INDEX);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_INSERT &&& 4w0xe, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, _, _, _, _): is_kind((bit<8>)COUNT_DROP_INDEX);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_QUERY, 8w0, 32w0, 32w0, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_SHARD);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_INSERT &&& 4w0xe, 8w0, 32w0, 32w0, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_SHARD);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_QUERY, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_INSERT &&& 4w0xe, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_RESERVED);
            // D-2 again, D-6, D-5, D-4, D-3.
            (_, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_QUERY, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_TRUNCATED);
            (_, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_INSERT &&& 4w0xe, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_TRUNCATED);
            (_, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_OPERATION);
            // Of the visibility table what is too short for its header: the rest is in visibility/classify.p4.
            (_, VERSION, CLUSTER_NUMBER, STRUCTURE_VISIBILITY, OP_LOOK, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_TRUNCATED);
            (_, VERSION, CLUSTER_NUMBER, STRUCTURE_VISIBILITY, OP_INSTALL &&& 4w0xe, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_TRUNCATED);
            (_, VERSION, CLUSTER_NUMBER, STRUCTURE_VISIBILITY, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_OPERATION);
            (_, VERSION, CLUSTER_NUMBER, _, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_STRUCTURE);
            (_, VERSION, _, _, _, _, _, _, _, _, _, _, _): is_kind((bit<8>)COUNT_DROP_CLUSTER);
        }
        const default_action = is_kind((bit<8>)COUNT_DROP_VERSION);
    }
