// The states of the parser before the in-network header: what frames are looked at (D-1). Included inside of the parser of each
// architecture, which goes on with the state `check_common_length`.

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
