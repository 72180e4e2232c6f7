// The cache of the in-network program (dataplane/SPEC.md) for the Tofino Native Architecture: a second program, for a pipe of its own.
//
//   p4c --target tofino --arch tna -o onpath_cache.tofino dataplane/p4/tna_cache.p4
//
// It has no room beside the arrays of tna.p4. What differs from v1model is told in README.md. Ingress, 12 stages:
//
//   0       what kind of packet it is, the pass, the lease, routes, who may name anybody
//   1 to 2  names; how epochs differ, who may name this caller; then whether the packet is listened to
//   3       the stamp
//   4 to 9  the value, four arrays each; beside them what differs (6), class and fit (7), permission (8)
//   9       the outcome, which counts and sets the way of the packet
//
// Nothing has compiled this form: README.md.
#include <core.p4>
#include <tna.p4>

#define WITH_CACHE
#define CACHE_ALONE
#define HOSTS_IN_PARSER
#define HOST_PORTS 64
// Larger tables of routes leave the names no room.
#ifndef ROUTES
#define ROUTES 4096
#endif
// The port by which the pipe of this program sends to itself: 68 of the first, 196 of the second, 324, 452.
#ifndef RECIRCULATION
#define RECIRCULATION 68
#endif
const bit<9> AGAIN_PORT = RECIRCULATION;

#include "common/headers.p4"

// What selects a register is a slice, which cannot be empty.
#if CACHE_BITS < 1
#error "two entries at least"
#endif
typedef bit<CACHE_BITS> cached_t;

// What a copy takes along from ingress to egress, before the frame.
header bridge_t {
    bit<8> deliver;
    bit<8> result;
    bit<16> index;
    bit<32> counted_0;
    bit<32> counted_1;
}

// Of two copies of a miss the second.
const bit<8> DELIVER_REPORT = 8;

// What the copy of a miss takes along from egress to egress: DELIVER_REPORT, where a bridge has who it is for.
header mirrored_t {
    bit<8> deliver;
}

struct tna_headers_t {
    bridge_t bridge;
    mirrored_t mirrored;
    headers_t of_frame;
}

struct egress_meta_t {
    meta_t of_copy;
    MirrorId_t session;
    bit<8> mirrored;
    bit<16> threshold;
    // How far each counter is above the threshold.
    bit<16> above_0;
    bit<16> above_1;
    bit<16> above_2;
}

struct lease_t {
    bit<32> until;
    bit<32> epoch;
}

struct stamp_t {
    bit<32> number;
    bit<32> state;
}

// Stage 0: the lease (D-73 to D-76). A tick of the clock is 2^16 ns. The upper half of the epoch's register is 0.
control Lease(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_from_parser_t ig_prsr_md) {
    Register<lease_t, bit<1>>(1, { 0, 0 }) lease;
    RegisterAction<lease_t, bit<1>, bit<32>>(lease) look = {
        void apply(inout lease_t now, out bit<32> epoch) {
            epoch = 0;
            if ((int<32>)(now.until - ig_prsr_md.global_tstamp[47:16]) > 0) {
                epoch = now.epoch;
            } else {
                now.epoch = 0;
            }
        }
    };
    bit<32> present;
    apply {
        present = look.execute(0);
        meta.epoch_differs = present[15:0] ^ hdr.innet.epoch;
    }
}

// Stage 3: the stamp of an entry, one double-width action. Its two comparisons are of n and of s.
control Stamp(inout meta_t meta) {
    Register<stamp_t, cached_t>(CACHED, { 0, 0 }) stamps;
    RegisterAction<stamp_t, cached_t, bit<32>>(stamps) stamp_read = {
        void apply(inout stamp_t stamp, out bit<32> state) {
            state = 0;
            if (stamp.number == meta.number) {
                state = stamp.state;
            }
        }
    };
    RegisterAction<stamp_t, cached_t, bit<1>>(stamps) stamp_fill = {
        void apply(inout stamp_t stamp, out bit<1> takes) {
            takes = 0;
            if (stamp.number == meta.number && stamp.state < meta.reaches) {
                stamp.state = meta.reaches;
                takes = 1;
            }
        }
    };
    RegisterAction<stamp_t, cached_t, bit<1>>(stamps) stamp_invalidate = {
        void apply(inout stamp_t stamp, out bit<1> clears) {
            clears = 0;
            if (stamp.number == meta.number) {
                clears = 1;
            }
            if (stamp.number == meta.number && stamp.state < meta.reaches) {
                stamp.state = meta.reaches;
            }
        }
    };

    action read() {
        meta.state = stamp_read.execute(meta.index[CACHE_BITS - 1:0]);
    }
    // An action gives one value: a fill that does not take effect is taken for one whose entry was there.
    action fill() {
        meta.its = 1;
        meta.done = stamp_fill.execute(meta.index[CACHE_BITS - 1:0]);
    }
    action invalidate() {
        meta.done = stamp_invalidate.execute(meta.index[CACHE_BITS - 1:0]);
    }
    action nothing() {
    }

#include "cache/stamp.p4"

    apply {
        at_stamp.apply();
    }
}

// Stages 4 to 9: one array of a value.
control CachedArray(in bit<16> index, inout bit<32> word, in bit<8> kind, in bit<32> state, in bit<1> done) {
    Register<bit<32>, cached_t>(CACHED, 0) values;
    RegisterAction<bit<32>, cached_t, bit<32>>(values) value_read = {
        void apply(inout bit<32> value, out bit<32> found) {
            found = value;
        }
    };
    RegisterAction<bit<32>, cached_t, bit<32>>(values) value_write = {
        void apply(inout bit<32> value) {
            value = word;
        }
    };

    action read() {
        word = value_read.execute(index[CACHE_BITS - 1:0]);
    }
    action write() {
        value_write.execute(index[CACHE_BITS - 1:0]);
    }
    action nothing() {
    }

#include "cache/value.p4"

    apply {
        at_cached.apply();
    }
}

#include "common/routing.p4"
#include "cache/cache.p4"
#include "common/header.p4"

// The parser selects on port, structure, operation and length only: it has no room to compare more.
parser Frames(packet_in packet, out headers_t hdr, inout meta_t meta) {
    state start {
        transition parse_frame;
    }

#include "common/frame.p4"

    // D-2: UDP's own header has 8 bytes; the common part ends at 24, that of an invalidate at 48, that of a read and a fill at 132. A
    // length below 8 is none: plain.
    state check_common_length {
        transition select(hdr.udp.length) {
            16w0x0000 &&& 16w0xfff8: accept;
            16w0x0008 &&& 16w0xfff8: drop_truncated;
            16w0x0010 &&& 16w0xfff8: drop_truncated;
            default: parse_common;
        }
    }
    state drop_truncated {
        meta.kind = (bit<8>)COUNT_DROP_TRUNCATED;
        transition accept;
    }
    state parse_common {
        packet.extract(hdr.innet);
        meta.form = FORM_COMMON;
        transition select(hdr.innet.structure, hdr.innet.op, hdr.udp.length) {
            (_, _, 16w0x0018 &&& 16w0xfff8): accept;
            (_, _, 16w0x0020 &&& 16w0xfff0): accept;
            (STRUCTURE_CACHE, OP_INVALIDATE, _): parse_invalidate;
            (_, _, 16w0x0030 &&& 16w0xfff0): accept;
            (_, _, 16w0x0040 &&& 16w0xffc0): accept;
            (_, _, 16w0x0080 &&& 16w0xfffc): accept;
            (STRUCTURE_CACHE, OP_READ, _): parse_read;
            (STRUCTURE_CACHE, OP_FILL, _): parse_fill;
            default: accept;
        }
    }
    state parse_read {
        packet.extract(hdr.read);
        packet.extract(hdr.levels);
        meta.form = FORM_WHOLE;
        transition accept;
    }
    state parse_fill {
        packet.extract(hdr.entry);
        packet.extract(hdr.value);
        meta.form = FORM_WHOLE;
        transition accept;
    }
    state parse_invalidate {
        packet.extract(hdr.entry);
        meta.form = FORM_WHOLE;
        transition accept;
    }
}

parser IngressParser(packet_in packet,
                     out tna_headers_t hdr,
                     out meta_t meta,
                     out ingress_intrinsic_metadata_t ig_intr_md) {
    value_set<bit<9>>(HOST_PORTS) host_ports;
    Frames() frames;
    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        meta.kind = KIND_PLAIN;
        meta.form = FORM_NONE;
        meta.passes = 0;
        meta.from_host = 0;
        meta.found = 0;
        meta.may_name_any = 0;
        meta.may_name_this = 0;
        meta.epoch_differs = 0;
        meta.state = 0;
        meta.its = 0;
        meta.done = 0;
        meta.passed = LEVEL_UNKNOWN;
        // What has no route goes where it does not come from: the egress counts and drops it (D-17).
        meta.destination_port = AGAIN_PORT;
        meta.requester_port = AGAIN_PORT;
        transition select(ig_intr_md.ingress_port) {
            AGAIN_PORT: is_again;
            host_ports: is_host;
            default: parse_all;
        }
    }
    state is_again {
        meta.passes = 1;
        transition parse_all;
    }
    // D-44.
    state is_host {
        meta.from_host = 1;
        transition parse_all;
    }
    state parse_all {
        frames.apply(packet, hdr.of_frame, meta);
        transition accept;
    }
}

control Ingress(inout tna_headers_t all,
                inout meta_t meta,
                in ingress_intrinsic_metadata_t ig_intr_md,
                in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    Counter<bit<64>, bit<8>>(COUNTERS, CounterType_t.PACKETS) packets;

    Routing() routing;
    Lease() lease;
    Cache() cache;

#define hdr all.of_frame

    action pass(bit<32> count) {
        packets.count((bit<8>)count);
    }
    action discard(bit<32> count) {
        packets.count((bit<8>)count);
        ig_dprsr_md.drop_ctl = 1;
    }
    action route(bit<32> count) {
        packets.count((bit<8>)count);
        all.bridge.deliver = DELIVER_DESTINATION;
        all.bridge.result = hdr.innet.result;
        ig_tm_md.ucast_egress_port = meta.destination_port;
    }
    action to_destination(bit<8> result, bit<32> count) {
        packets.count((bit<8>)count);
        all.bridge.deliver = DELIVER_DESTINATION;
        all.bridge.result = result;
        ig_tm_md.ucast_egress_port = meta.destination_port;
    }
    action not_asked(bit<32> count) {
        packets.count((bit<8>)count);
        all.bridge.deliver = DELIVER_DESTINATION;
        all.bridge.result = CACHE_RESULT_MISS;
        ig_tm_md.ucast_egress_port = meta.destination_port;
        hdr.value.setInvalid();
    }
    // The egress counts it.
    action missed() {
        all.bridge.deliver = DELIVER_MISSED;
        all.bridge.result = CACHE_RESULT_MISS;
        ig_tm_md.ucast_egress_port = meta.destination_port;
        hdr.value.setInvalid();
    }
    // D-16: a copy's destination is its node, which is the requester then.
    action answered() {
        packets.count((bit<8>)COUNT_READ_ANSWERED);
        all.bridge.deliver = DELIVER_REQUESTER;
        all.bridge.result = CACHE_RESULT_ANSWERED;
        ig_tm_md.ucast_egress_port = meta.requester_port;
        hdr.innet.destination = hdr.read.requester;
        hdr.levels.setInvalid();
    }
    action denied() {
        packets.count((bit<8>)COUNT_READ_DENIED);
        all.bridge.deliver = DELIVER_REQUESTER;
        all.bridge.result = CACHE_RESULT_DENIED;
        ig_tm_md.ucast_egress_port = meta.requester_port;
        hdr.innet.destination = hdr.read.requester;
        hdr.value.setInvalid();
    }
    action next_root() {
        packets.count((bit<8>)COUNT_PASSES_RECIRCULATED);
        all.bridge.deliver = DELIVER_AGAIN;
        ig_tm_md.ucast_egress_port = AGAIN_PORT;
        hdr.read.start_0 = hdr.value.value_2;
        hdr.read.start_1 = hdr.value.value_3;
        hdr.value.setInvalid();
    }
    action next_level() {
        packets.count((bit<8>)COUNT_PASSES_RECIRCULATED);
        all.bridge.deliver = DELIVER_AGAIN;
        ig_tm_md.ucast_egress_port = AGAIN_PORT;
        hdr.read.start_0 = hdr.value.value_2;
        hdr.read.start_1 = hdr.value.value_3;
        hdr.read.level = hdr.read.level + 1;
        hdr.value.setInvalid();
    }
#include "cache/outcome.p4"

    action bridge_to(PortId_t port) {
        ig_tm_md.ucast_egress_port = port;
    }
    action bridge_flood(bit<16> group) {
        ig_tm_md.mcast_grp_a = group;
    }
    action bridge_nowhere() {
        ig_dprsr_md.drop_ctl = 1;
    }
    table bridge {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { bridge_to; bridge_flood; bridge_nowhere; }
        const default_action = bridge_nowhere();
        size = 4096;
    }

    action is_kind(bit<8> kind) {
        meta.kind = kind;
    }

#include "cache/classify.p4"

    apply {
        all.bridge.setValid();
        all.bridge.deliver = DELIVER_PLAIN;
        if (hdr.entry.isValid()) {
            classify_cached.apply();
        } else if (meta.form != FORM_NONE) {
            classify_read.apply();
        } else if (meta.kind == KIND_PLAIN) {
            bridge.apply();
        }
        if (meta.form != FORM_NONE) {
            routing.apply(hdr, meta, ig_intr_md.ingress_port);
        }
        if (meta.form == FORM_WHOLE) {
            // D-74: what is dropped afterwards may find the lease passed as well.
            if (meta.passes == 0) {
                lease.apply(hdr, meta, ig_prsr_md);
            }
            cache.apply(hdr, meta, ig_intr_md.ingress_port);
            all.bridge.index = meta.index;
            all.bridge.counted_0 = meta.counted_0;
            all.bridge.counted_1 = meta.counted_1;
        }
        outcome.apply();
    }
#undef hdr
}

control IngressDeparser(packet_out packet,
                        inout tna_headers_t hdr,
                        in meta_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    apply {
        packet.emit(hdr);
    }
}

#include "cache/tna_egress.p4"

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
