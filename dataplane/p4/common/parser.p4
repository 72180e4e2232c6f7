// The states of the parser that all structures share: what frames are looked at, D-1 to D-5.
// Included inside of the parser of each architecture, whose last state before these is `parse_frame`; with it the states of each
// structure, of which the first is `check_` and its name.
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
            STRUCTURE_DIRTY_SET: check_dirty_set;
            default: drop_structure;
        }
    }

    state is_answered { meta.kind = KIND_ANSWERED; transition accept; }

    state drop_truncated { meta.kind = (bit<8>)COUNT_DROP_TRUNCATED; transition accept; }
    state drop_version { meta.kind = (bit<8>)COUNT_DROP_VERSION; transition accept; }
    state drop_cluster { meta.kind = (bit<8>)COUNT_DROP_CLUSTER; transition accept; }
    state drop_structure { meta.kind = (bit<8>)COUNT_DROP_STRUCTURE; transition accept; }
