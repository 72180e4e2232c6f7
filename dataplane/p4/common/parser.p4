// The checks that all structures share as states of a parser: D-2 to D-5. Included behind common/frame.p4 by an architecture whose parser
// has room for them; with it the states of each structure, of which the first is `check_` and its name.
//
// Every check is a state of its own, in the order of SPEC.md, and the first that fails ends in the kind that is its counter. The
// kind is written once a packet and last: a frame that ends too early stays what it was at the start, plain. Lengths are those
// that UDP states: what pads a short frame is never taken for a header.

    // D-2: UDP's own header has 8 bytes, so a payload of less than 16 is a length below 24. A length below 8 is none: plain.
    state check_common_length {
        transition select(hdr.udp.length) {
            16w0x0000 &&& 16w0xfff8: accept;
            16w0x0008 &&& 16w0xfff8: drop_truncated;
            16w0x0010 &&& 16w0xfff8: drop_truncated;
            default: check_version;
        }
    }

    // D-3.
    state check_version {
        packet.extract(hdr.innet);
        transition select(hdr.innet.version) {
            VERSION: check_cluster;
            default: drop_version;
        }
    }

    // D-4.
    state check_cluster {
        transition select(hdr.innet.cluster) {
            CLUSTER_NUMBER: check_structure;
            default: drop_cluster;
        }
    }

    // D-5.
    state check_structure {
        transition select(hdr.innet.structure) {
            STRUCTURE_DIRTY_SET: check_dirty_set;
            STRUCTURE_VISIBILITY: check_visibility;
#ifdef WITH_CACHE
            STRUCTURE_CACHE: check_cache;
#endif
            default: drop_structure;
        }
    }

    state is_answered { meta.kind = KIND_ANSWERED; transition accept; }

    state drop_truncated { meta.kind = (bit<8>)COUNT_DROP_TRUNCATED; transition accept; }
    state drop_version { meta.kind = (bit<8>)COUNT_DROP_VERSION; transition accept; }
    state drop_cluster { meta.kind = (bit<8>)COUNT_DROP_CLUSTER; transition accept; }
    state drop_structure { meta.kind = (bit<8>)COUNT_DROP_STRUCTURE; transition accept; }
    state drop_operation { meta.kind = (bit<8>)COUNT_DROP_OPERATION; transition accept; }
    state drop_reserved { meta.kind = (bit<8>)COUNT_DROP_RESERVED; transition accept; }
    state drop_shard { meta.kind = (bit<8>)COUNT_DROP_SHARD; transition accept; }
    state drop_index { meta.kind = (bit<8>)COUNT_DROP_INDEX; transition accept; }
