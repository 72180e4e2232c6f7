// The states of the parser: what frames are looked at, D-1 to D-11.
// Included inside of the parser of each architecture, whose last state before these is `parse_frame`.
//
// Every check is a state of its own, in the order of SPEC.md, and the first that fails ends in the kind that is its counter. The
// kind is written once a packet and last: a frame that ends too early stays what it was at the start, plain. Lengths are those
// that UDP states: what pads a short frame is never taken for a header.

    state parse_frame {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    // No options and no fragment; of the flags 1 says that more fragments follow.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.protocol, hdr.ipv4.flags, hdr.ipv4.fragment_offset) {
            (4w4, 4w5, IP_PROTOCOL_UDP, 3w0 &&& 3w1, 13w0): parse_udp;
            default: accept;
        }
    }

    // D-1.
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            IN_NETWORK_PORT: check_common_length;
            default: accept;
        }
    }

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
            STRUCTURE_DIRTY_SET: check_operation;
            default: drop_structure;
        }
    }

    // D-6.
    state check_operation {
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

    state is_answered { meta.kind = KIND_ANSWERED; transition accept; }
    state is_query { meta.kind = KIND_QUERY; transition accept; }
    state is_insert { meta.kind = KIND_INSERT; transition accept; }
    state is_remove { meta.kind = KIND_REMOVE; transition accept; }

    state drop_truncated { meta.kind = (bit<8>)COUNT_DROP_TRUNCATED; transition accept; }
    state drop_version { meta.kind = (bit<8>)COUNT_DROP_VERSION; transition accept; }
    state drop_cluster { meta.kind = (bit<8>)COUNT_DROP_CLUSTER; transition accept; }
    state drop_structure { meta.kind = (bit<8>)COUNT_DROP_STRUCTURE; transition accept; }
    state drop_operation { meta.kind = (bit<8>)COUNT_DROP_OPERATION; transition accept; }
    state drop_reserved { meta.kind = (bit<8>)COUNT_DROP_RESERVED; transition accept; }
    state drop_shard { meta.kind = (bit<8>)COUNT_DROP_SHARD; transition accept; }
    state drop_index { meta.kind = (bit<8>)COUNT_DROP_INDEX; transition accept; }
    state drop_tag { meta.kind = (bit<8>)COUNT_DROP_TAG; transition accept; }
