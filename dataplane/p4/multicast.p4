// Replication, in the egress: whom a copy is for (D-23, D-35). The replication engine makes the copies; the number that it gives
// each (rid) names the member.
#ifndef ONPATH_MULTICAST_P4
#define ONPATH_MULTICAST_P4

control Multicast(inout meta_t meta, in bit<16> rid) {
    action member_is(bit<32> node) {
        meta.node = node;
    }
    table members {
        key = { rid: exact; }
        actions = { member_is; NoAction; }
        const default_action = NoAction();
        size = 65536;
    }
    apply {
        if (meta.deliver == DELIVER_GROUP) {
            members.apply();
        }
    }
}

#endif
