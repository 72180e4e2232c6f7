// Whether a packet is listened to: D-76 to D-78, D-95, D-101, D-120. Only the first pass asks: what goes on to the next is.
#ifndef ONPATH_CACHE_ASKED_P4
#define ONPATH_CACHE_ASKED_P4

control Asking(inout headers_t hdr, inout meta_t meta, in bit<9> ingress_port) {
    action any_caller() {
        meta.may_name_any = 1;
    }
    // Ports that may name anybody.
    table trusted {
        key = { ingress_port: exact; }
        actions = { any_caller; NoAction; }
        const default_action = NoAction();
        size = 512;
    }

    action this_caller() {
        meta.may_name_this = 1;
    }
    table callers {
        key = {
            ingress_port: exact;
            hdr.read.uid: exact;
            hdr.read.gid: exact;
        }
        actions = { this_caller; NoAction; }
        const default_action = NoAction();
        size = 16384;
    }

    // Where a read may be answered to.
    action requester_at(bit<9> port) {
        meta.requester_known = 1;
        meta.requester_port = port;
    }
    table requesters {
        key = { hdr.read.requester: exact; }
        actions = { requester_at; NoAction; }
        const default_action = NoAction();
        size = ROUTES;
    }

    action asked_is(bit<2> asked) {
        meta.asked = asked;
    }
    table listened {
        key = {
            meta.kind: ternary;
            meta.passes: ternary;
            meta.epoch_differs: ternary;
            hdr.innet.epoch: ternary;
            meta.may_name_any: ternary;
            meta.may_name_this: ternary;
            hdr.read.wants: ternary;
        }
        actions = { asked_is; }
        const entries = {
            // D-76, D-95, D-101: epoch 0 is none, also where the cache has none.
            (_, 8w0, _, 16w0, _, _, _): asked_is(ASKED_OTHER_EPOCH);
            // D-77, D-78: who may name some callers has none of the bits 3 and 4.
            (KIND_READ, 8w0, 16w0, _, 1w1, _, _): asked_is(ASKED_WELL);
            (KIND_READ, 8w0, 16w0, _, _, 1w1, 8w0x00 &&& 8w0x18): asked_is(ASKED_WELL);
            (KIND_READ, 8w0, 16w0, _, _, _, _): asked_is(ASKED_BY_STRANGER);
            (_, 8w0, 16w0, _, _, _, _): asked_is(ASKED_WELL);
            (_, 8w0, _, _, _, _, _): asked_is(ASKED_OTHER_EPOCH);
        }
        const default_action = asked_is(ASKED_WELL);
    }

    apply {
        trusted.apply();
        callers.apply();
        requesters.apply();
        listened.apply();
    }
}

#endif
