// The states of the parser that are the cache's: D-2, D-6 to D-8, D-11, D-67 to D-72, and what kind of packet it is. Included behind
// visibility/parser.p4.

    // D-6.
    state check_cache {
        transition select(hdr.innet.op) {
            OP_READ: check_read_length;
            OP_FILL: check_fill_length;
            OP_INVALIDATE: check_invalidate_length;
            default: drop_operation;
        }
    }

    // D-2 again: a payload of less than 124 is a length of 24 to 131, one of less than 40 of 24 to 47.
    state check_read_length {
        transition select(hdr.udp.length) {
            16w0x0018 &&& 16w0xfff8: drop_truncated;
            16w0x0020 &&& 16w0xffe0: drop_truncated;
            16w0x0040 &&& 16w0xffc0: drop_truncated;
            16w0x0080 &&& 16w0xfffc: drop_truncated;
            default: check_read_flags;
        }
    }

    state check_fill_length {
        transition select(hdr.udp.length) {
            16w0x0018 &&& 16w0xfff8: drop_truncated;
            16w0x0020 &&& 16w0xffe0: drop_truncated;
            16w0x0040 &&& 16w0xffc0: drop_truncated;
            16w0x0080 &&& 16w0xfffc: drop_truncated;
            default: take_fill;
        }
    }

    state check_invalidate_length {
        transition select(hdr.udp.length) {
            16w0x0018 &&& 16w0xfff8: drop_truncated;
            16w0x0020 &&& 16w0xfff0: drop_truncated;
            default: take_invalidate;
        }
    }

    // D-7. Of what has a result only flags and shard are looked at.
    state check_read_flags {
        packet.extract(hdr.read);
        packet.extract(hdr.levels);
        transition select(hdr.innet.flags) {
            8w0: check_read_result;
            default: drop_reserved;
        }
    }

    state check_read_result {
        transition select(hdr.innet.result) {
            8w0: check_read_spare;
            default: check_answered_shard;
        }
    }

    state check_read_spare {
        transition select(hdr.read.wants, hdr.levels.spare) {
            (8w0 &&& 8w0xe0, 24w0): check_read_shard;
            default: drop_reserved;
        }
    }

    // D-8, D-11.
    state check_answered_shard {
        transition select(hdr.innet.shard) {
            16w0 &&& 16w0xff00: is_answered;
            default: drop_shard;
        }
    }

    state check_read_shard {
        transition select(hdr.innet.shard) {
            16w0 &&& 16w0xff00: check_depth;
            default: drop_shard;
        }
    }

    // D-67: from 1 to 9.
    state check_depth {
        transition select(hdr.read.depth) {
            8w1: check_pass;
            8w2 &&& 8w0xfe: check_pass;
            8w4 &&& 8w0xfc: check_pass;
            8w8 &&& 8w0xfe: check_pass;
            default: drop_reserved;
        }
    }

    // What the program sends on to itself has passed the rest.
    state check_pass {
        transition select(meta.passes) {
            8w0: check_level;
            default: is_read;
        }
    }

    // D-68.
    state check_level {
        transition select(hdr.read.level) {
            8w0: check_purpose;
            default: drop_reserved;
        }
    }

    // D-69: from 1 to 5.
    state check_purpose {
        transition select(hdr.read.purpose) {
            8w1: is_read;
            8w2 &&& 8w0xfe: is_read;
            8w4 &&& 8w0xfe: is_read;
            default: drop_reserved;
        }
    }

    state take_fill {
        packet.extract(hdr.entry);
        packet.extract(hdr.value);
        transition check_cached_flags;
    }

    state take_invalidate {
        packet.extract(hdr.entry);
        transition check_cached_flags;
    }

    // D-7, as of a read.
    state check_cached_flags {
        transition select(hdr.innet.flags) {
            8w0: check_cached_result;
            default: drop_reserved;
        }
    }

    state check_cached_result {
        transition select(hdr.innet.result) {
            8w0: check_cached_spare;
            default: check_answered_shard;
        }
    }

    state check_cached_spare {
        transition select(hdr.entry.spare_0, hdr.entry.spare_1, hdr.entry.spare_2) {
            (8w0, 16w0, 32w0): check_cached_shard;
            default: drop_reserved;
        }
    }

    // D-8.
    state check_cached_shard {
        transition select(hdr.innet.shard) {
            16w0 &&& 16w0xff00: check_token;
            default: drop_shard;
        }
    }

    // D-70.
    state check_token {
        transition select(hdr.entry.token) {
            8w0: drop_reserved;
            default: check_number;
        }
    }

    // D-71.
    state check_number {
        transition select(hdr.entry.number) {
            32w0: drop_reserved;
            default: check_revision;
        }
    }

    // D-72.
    state check_revision {
        transition select(hdr.entry.revision) {
            32w0: drop_reserved;
            32w0 &&& 32w0x80000000: check_cached_kind;
            default: drop_reserved;
        }
    }

    state check_cached_kind {
        transition select(hdr.innet.op) {
            OP_FILL: is_fill;
            default: is_invalidate;
        }
    }

    state is_read { meta.kind = KIND_READ; transition accept; }
    state is_fill { meta.kind = KIND_FILL; transition accept; }
    state is_invalidate { meta.kind = KIND_INVALIDATE; transition accept; }
