// The states of the parser that are the dirty set's: D-2, D-6 to D-11, and what kind of packet it is. Included behind common/parser.p4.

    // D-6.
    state check_dirty_set {
        transition select(hdr.innet.op) {
            OP_QUERY: check_length;
            OP_INSERT: check_length;
            OP_REMOVE: check_length;
            default: drop_operation;
        }
    }

    // D-2 again: a payload of less than 40 is a length of 24 to 47.
    state check_length {
        transition select(hdr.udp.length) {
            16w0x0018 &&& 16w0xfff8: drop_truncated;
            16w0x0020 &&& 16w0xfff0: drop_truncated;
            default: check_flags;
        }
    }

    // D-7.
    state check_flags {
        packet.extract(hdr.dirty_set);
        transition select(hdr.innet.flags) {
            8w0: check_spare;
            default: drop_reserved;
        }
    }

    state check_spare {
        transition select(hdr.dirty_set.spare_0, hdr.dirty_set.spare_1) {
            (32w0, 32w0): check_shard;
            default: drop_reserved;
        }
    }

    // D-8.
    state check_shard {
        transition select(hdr.innet.shard) {
            16w0 &&& 16w0xff00: check_index;
            default: drop_shard;
        }
    }

    // D-9.
    state check_index {
        transition select(hdr.dirty_set.index) {
            32w0 &&& BEYOND_SETS: check_tag;
            default: drop_index;
        }
    }

    // D-10.
    state check_tag {
        transition select(hdr.dirty_set.tag) {
            32w0: drop_tag;
            default: check_answered;
        }
    }

    // D-11.
    state check_answered {
        transition select(hdr.innet.result) {
            8w0: check_kind;
            default: is_answered;
        }
    }

    state check_kind {
        transition select(hdr.innet.op) {
            OP_QUERY: is_query;
            OP_INSERT: is_insert;
            default: is_remove;
        }
    }

    state is_query { meta.kind = KIND_QUERY; transition accept; }
    state is_insert { meta.kind = KIND_INSERT; transition accept; }
    state is_remove { meta.kind = KIND_REMOVE; transition accept; }
    state drop_tag { meta.kind = (bit<8>)COUNT_DROP_TAG; transition accept; }
