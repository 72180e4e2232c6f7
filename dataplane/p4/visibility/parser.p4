// The states of the parser that are the visibility table's: D-2, D-6 to D-9, D-11, D-45, D-46, and what kind of packet it is. Included behind
// dirty_set/parser.p4.

    // D-6.
    state check_visibility {
        transition select(hdr.innet.op) {
            OP_LOOK: check_entry_length;
            OP_INSTALL: check_entry_length;
            OP_CLEAR: check_entry_length;
            default: drop_operation;
        }
    }

    // D-2 again: a payload of less than 124 is a length of 24 to 131.
    state check_entry_length {
        transition select(hdr.udp.length) {
            16w0x0018 &&& 16w0xfff8: drop_truncated;
            16w0x0020 &&& 16w0xffe0: drop_truncated;
            16w0x0040 &&& 16w0xffc0: drop_truncated;
            16w0x0080 &&& 16w0xfffc: drop_truncated;
            default: check_entry_flags;
        }
    }

    // D-7.
    state check_entry_flags {
        packet.extract(hdr.visibility);
        transition select(hdr.innet.flags) {
            8w0: check_home;
            default: drop_reserved;
        }
    }

    // D-8.
    state check_home {
        transition select(hdr.innet.shard) {
            16w0 &&& 16w0xff00: check_entry;
            default: drop_shard;
        }
    }

    // D-9.
    state check_entry {
        transition select(hdr.visibility.index) {
            32w0 &&& BEYOND_ENTRIES: check_fingerprint;
            default: drop_index;
        }
    }

    // D-45.
    state check_fingerprint {
        transition select(hdr.visibility.fingerprint) {
            32w0: drop_fingerprint;
            default: check_entry_op;
        }
    }

    // D-46: a look has no position.
    state check_entry_op {
        transition select(hdr.innet.op) {
            OP_LOOK: check_entry_answered;
            default: check_ts;
        }
    }

    state check_ts {
        transition select(hdr.visibility.ts) {
            32w0: drop_ts;
            default: check_entry_answered;
        }
    }

    // D-11.
    state check_entry_answered {
        transition select(hdr.innet.result) {
            8w0: check_entry_kind;
            default: is_answered;
        }
    }

    state check_entry_kind {
        transition select(hdr.innet.op) {
            OP_LOOK: is_look;
            OP_INSTALL: is_install;
            default: is_clear;
        }
    }

    state is_look { meta.kind = KIND_LOOK; transition accept; }
    state is_install { meta.kind = KIND_INSTALL; transition accept; }
    state is_clear { meta.kind = KIND_CLEAR; transition accept; }
    state drop_fingerprint { meta.kind = (bit<8>)COUNT_DROP_FINGERPRINT; transition accept; }
    state drop_ts { meta.kind = (bit<8>)COUNT_DROP_TS; transition accept; }
