// Routing, stage 0: where destination, shard and alternative are, who has the packet's prefix, what group it names, and whether it
// comes from a host (D-13, D-15, D-17, D-35, D-36, D-41, D-44). All are looked up before it is known which of them the packet needs: the last stage takes its pick.
#ifndef ONPATH_ROUTING_P4
#define ONPATH_ROUTING_P4

control Routing(inout headers_t hdr, inout meta_t meta, in bit<9> ingress_port) {
    // `copy` is how a second copy gets to that port: a clone session, or a group of one port.
    action destination_at(bit<9> port, bit<16> copy) {
        meta.destination_known = 1;
        meta.destination_port = port;
        meta.destination_copy = copy;
    }
    action shard_at(bit<9> port) {
        meta.shard_known = 1;
        meta.shard_port = port;
    }
    action alternative_at(bit<9> port) {
        meta.alternative_known = 1;
        meta.alternative_port = port;
    }
    action peer_at(bit<9> port, bit<48> mac, bit<32> ip, bit<16> udp_port) {
        meta.peer_known = 1;
        meta.peer_port = port;
        meta.peer_mac = mac;
        meta.peer_ip = ip;
        meta.peer_udp_port = udp_port;
    }
    action group_is(bit<16> copies) {
        meta.group_known = 1;
        meta.group_copies = copies;
    }

    action host_is() {
        meta.from_host = 1;
    }

    // A route is in `destinations`, in `alternatives` and, if its node is a shard, in `shards` (and in the egress in `addresses`).
    table destinations {
        key = { hdr.innet.destination: exact; }
        actions = { destination_at; NoAction; }
        const default_action = NoAction();
        size = 65536;
    }
    table shards {
        key = { hdr.innet.shard: exact; }
        actions = { shard_at; NoAction; }
        const default_action = NoAction();
        size = 256;
    }
    table alternatives {
        key = { hdr.dirty_set.alternative: exact; }
        actions = { alternative_at; NoAction; }
        const default_action = NoAction();
        size = 65536;
    }
    // Prefixes of other switches. No two overlap, so that priorities say nothing.
    table peers {
        key = { hdr.dirty_set.index: ternary; }
        actions = { peer_at; NoAction; }
        const default_action = NoAction();
        size = 64;
    }
    table groups {
        key = { hdr.innet.destination: exact; }
        actions = { group_is; NoAction; }
        const default_action = NoAction();
        size = 256;
    }
    // Ports by which hosts and other switches send.
    table hosts {
        key = { ingress_port: exact; }
        actions = { host_is; NoAction; }
        const default_action = NoAction();
        size = 256;
    }

    apply {
        hosts.apply();
        // D-44: what changes a register, here or where it would be handed on to.
        if (meta.from_host == 0
            && (meta.kind == KIND_INSERT || meta.kind == KIND_REMOVE || (meta.kind == KIND_ELSEWHERE && hdr.innet.op != OP_QUERY))) {
            meta.kind = (bit<8>)COUNT_DROP_STRANGER;
        }
        destinations.apply();
        shards.apply();
        alternatives.apply();
        peers.apply();
        groups.apply();
    }
}

#endif
