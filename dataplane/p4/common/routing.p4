// Routing, stage 0: where destination and shard are, and whether the packet comes from a host (D-17, D-41, D-44). All are looked up
// before it is known which of them the packet needs: the last stage takes its pick.
#ifndef ONPATH_ROUTING_P4
#define ONPATH_ROUTING_P4

control Routing(inout headers_t hdr, inout meta_t meta, in bit<9> ingress_port) {
    // `copy` is how a second copy gets to that port: a clone session, or a group of one port.
    action destination_at(bit<9> port, bit<16> copy) {
        meta.destination_known = 1;
        meta.destination_port = port;
        meta.destination_copy = copy;
    }
#ifndef CACHE_ALONE
    action shard_at(bit<9> port) {
        meta.shard_known = 1;
        meta.shard_port = port;
    }
#endif
#ifndef HOSTS_IN_PARSER
    action host_is() {
        meta.from_host = 1;
    }
#endif

    // A route is in `destinations` and, if its node is a shard, in `shards` (and in the egress in `addresses`).
    table destinations {
        key = { hdr.innet.destination: exact; }
        actions = { destination_at; NoAction; }
        const default_action = NoAction();
        size = ROUTES;
    }
#ifndef CACHE_ALONE
    table shards {
        key = { hdr.innet.shard: exact; }
        actions = { shard_at; NoAction; }
        const default_action = NoAction();
        size = 256;
    }
#endif
#ifndef HOSTS_IN_PARSER
    // Ports by which hosts send.
    table hosts {
        key = { ingress_port: exact; }
        actions = { host_is; NoAction; }
        const default_action = NoAction();
        size = 256;
    }
#endif

    apply {
#ifndef HOSTS_IN_PARSER
        hosts.apply();
        // D-44: what changes a register.
        if (meta.from_host == 0 && (meta.kind == KIND_INSERT || meta.kind == KIND_REMOVE || meta.kind == KIND_INSTALL || meta.kind == KIND_CLEAR)) {
            meta.kind = (bit<8>)COUNT_DROP_STRANGER;
        }
#ifdef WITH_CACHE
        if (meta.from_host == 0 && (meta.kind == KIND_FILL || meta.kind == KIND_INVALIDATE)) {
            meta.kind = (bit<8>)COUNT_DROP_STRANGER;
        }
#endif
#endif
        destinations.apply();
#ifndef CACHE_ALONE
        shards.apply();
#endif
    }
}

#endif
