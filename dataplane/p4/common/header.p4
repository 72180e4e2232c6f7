// A copy on its way out: what a switch writes, and nothing else (D-16, D-17).
#ifndef ONPATH_HEADER_P4
#define ONPATH_HEADER_P4

control Header(inout headers_t hdr, inout meta_t meta, out bit<1> unrouted) {
    // From the address to which the packet was sent, to that of the node. The checksum of UDP stays 0, that of IPv4 is made anew.
    action address_is(bit<48> mac, bit<32> ip, bit<16> udp_port) {
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = ip;
        hdr.ipv4.ttl = TTL_OF_COPIES;
        hdr.udp.src_port = hdr.udp.dst_port;
        hdr.udp.dst_port = udp_port;
        hdr.udp.checksum = 0;
        hdr.innet.destination = meta.node;
        hdr.innet.result = meta.result;
        meta.rewritten = 1;
        unrouted = 0;
    }
    action no_address() {
        unrouted = 1;
    }
    table addresses {
        key = { meta.node: exact; }
        actions = { address_is; no_address; }
        const default_action = no_address();
        size = ROUTES;
    }
    apply {
        unrouted = 0;
        addresses.apply();
    }
}

#endif
