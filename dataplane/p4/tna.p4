// The in-network program of Onpath (dataplane/SPEC.md) for the Tofino Native Architecture:
//
//   p4c --target tofino --arch tna -o onpath.tofino dataplane/p4/tna.p4
//
// This file is what an architecture adds to the rest. What differs from v1model is told in README.md. Ingress, 12 stages:
//
//   0        what kind of packet it is, epoch and complete, pair of the shard, its term once more, routes
//   1 to 10  one array of tags each; beside them how a term compares, the gate of an entry (1) and three arrays of metadata each (2 to 9)
//   11       the verdict, which counts and sets the way of the packet
//
// Nothing has compiled this form as it is: README.md.
#include <core.p4>
#include <tna.p4>

// Larger tables of routes leave the first array of tags no room in stage 1.
#ifndef ROUTES
#define ROUTES 4096
#endif
// Beside a dirty set of full size a stage has room for three arrays of metadata of so many entries, and no more: README.md.
#ifndef ENTRY_BITS
#define ENTRY_BITS 15
#endif
// D-44 is asked by a value set of the parser: a table would be a stage before the pair's register.
#define HOSTS_IN_PARSER
#define HOST_PORTS 64

#include "common/headers.p4"

// What selects a register is a field and nothing that is computed: the lower bits of the index, of which there must be one.
#if SET_BITS < 1
#error "two sets at least"
#endif
typedef bit<SET_BITS> set_t;
#if ENTRY_BITS < 1
#error "two entries at least"
#endif
typedef bit<ENTRY_BITS> entry_t;

// What a copy takes along from ingress to egress, before the frame.
header bridge_t {
    bit<8> deliver;
    bit<8> result;
}

struct tna_headers_t {
    bridge_t bridge;
    headers_t of_frame;
}

struct tracking_t {
    bit<16> epoch;
    bit<16> run;
}

struct pair_t {
    bit<32> min_term;
    bit<32> counter;
}

// `bar` is the least position that takes effect: Ts while the entry is occupied, and Ts + 1 when it was cleared.
struct gate_t {
    bit<32> bar;
    bit<32> fingerprint;
}

// Stage 0: `epoch`, and 1 (runs) or 2 (complete). Without an epoch both are 0, so that epoch 0 of a packet finds 0 (D-18, D-19,
// D-26, D-37, D-38; D-55 to D-57, D-62 to D-64).
control Tracking(in bit<16> epoch, out bit<2> tracking) {
    Register<tracking_t, bit<1>>(1, { 0, 0 }) present;
    RegisterAction<tracking_t, bit<1>, bit<16>>(present) look = {
        void apply(inout tracking_t now, out bit<16> found) {
            found = 0;
            if (now.epoch == epoch) {
                found = now.run;
            }
        }
    };
    bit<16> run;
    apply {
        run = look.execute(0);
        tracking = run[1:0];
    }
}

// Stage 0: the pair of a shard, one double-width action (D-27 to D-32), beside the table that says what kind of packet it is, and so by the
// same fields. Why a remove is not admitted matters only to the counters: a table has min_term a second time, by which stages 1 and 2 tell
// it. The control plane writes the table first (D-39).
control Admission(in headers_t hdr, inout meta_t meta) {
    Register<pair_t, bit<8>>(256, { 0, 0 }) pairs;
    RegisterAction<pair_t, bit<8>, bit<1>>(pairs) look = {
        void apply(inout pair_t pair, out bit<1> accepted) {
            accepted = 0;
            if (pair.min_term == hdr.dirty_set.term && hdr.dirty_set.sequence > pair.counter) {
                pair.counter = hdr.dirty_set.sequence;
                accepted = 1;
            }
        }
    };
    bit<32> announced_term;
    bit<32> below;
    bit<32> above;

    action admit_pair() {
        meta.admitted = look.execute(hdr.innet.shard[7:0]);
    }
    // A remove that passes every check (dirty_set/classify.p4).
    table admit {
        key = {
            meta.form: ternary;
            hdr.innet.version: ternary;
            hdr.innet.cluster: ternary;
            hdr.innet.structure: ternary;
            hdr.innet.op: ternary;
            hdr.innet.flags: ternary;
            hdr.dirty_set.spare_0: ternary;
            hdr.dirty_set.spare_1: ternary;
            hdr.innet.shard: ternary;
            hdr.dirty_set.index: ternary;
            hdr.dirty_set.tag: ternary;
            hdr.innet.result: ternary;
            meta.from_host: ternary;
        }
        actions = { admit_pair; NoAction; }
        const entries = {
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_REMOVE, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_SETS, 32w0, 8w0, 1w1): NoAction();
            (FORM_WHOLE, VERSION, CLUSTER_NUMBER, STRUCTURE_DIRTY_SET, OP_REMOVE, 8w0, 32w0, 32w0, 16w0 &&& 16w0xff00, 32w0 &&& BEYOND_SETS, _, 8w0, 1w1): admit_pair();
        }
        const default_action = NoAction();
    }

    action min_term_is(bit<32> min_term) {
        announced_term = min_term;
    }
    table announced {
        key = { hdr.innet.shard: exact; }
        actions = { min_term_is; }
        const default_action = min_term_is(0);
        size = 256;
    }

    // Differences that stop at 0: 0 and 0 is equal.
    action compare() {
        below = announced_term |-| hdr.dirty_set.term;
        above = hdr.dirty_set.term |-| announced_term;
    }

    action equal() {
        meta.term_order = TERM_EQUAL;
    }
    action lower() {
        meta.term_order = TERM_LOWER;
    }
    action ahead() {
        meta.term_order = TERM_AHEAD;
    }
    table order {
        key = {
            below: ternary;
            above: ternary;
        }
        actions = { equal; lower; ahead; }
        const entries = {
            (32w0, 32w0): equal();
            (32w0, _): ahead();
        }
        const default_action = lower();
    }

    apply {
        admit.apply();
        announced.apply();
        compare();
        order.apply();
    }
}

// Stages 1 to 10: one array of tags, one register action (SwitchFS §6.3: register query, conditional insert, conditional
// remove).
control TagArray(in bit<32> index, in bit<32> tag, in bit<8> kind, in bit<2> tracking, in bit<1> admitted, inout bit<1> held) {
    Register<bit<32>, set_t>(SETS, 0) tags;
    RegisterAction<bit<32>, set_t, bit<1>>(tags) register_query = {
        void apply(inout bit<32> value, out bit<1> holds) {
            holds = 0;
            if (value == tag) {
                holds = 1;
            }
        }
    };
    RegisterAction<bit<32>, set_t, bit<1>>(tags) register_insert = {
        void apply(inout bit<32> value, out bit<1> holds) {
            holds = 0;
            if (value == 0 || value == tag) {
                value = tag;
                holds = 1;
            }
        }
    };
    RegisterAction<bit<32>, set_t, bit<1>>(tags) register_remove = {
        void apply(inout bit<32> value) {
            if (value == tag) {
                value = 0;
            }
        }
    };

    action query() {
        held = held | register_query.execute(index[SET_BITS - 1:0]);
    }
    action conditional_insert() {
        held = register_insert.execute(index[SET_BITS - 1:0]);
    }
    action conditional_remove() {
        register_remove.execute(index[SET_BITS - 1:0]);
    }
    action nothing() {
    }

#include "dirty_set/array.p4"

    apply {
        step.apply();
    }
}

// Stage 1: the gate of an entry, one double-width action. By `bar` D-48, D-50 and D-51 are one comparison, which is serial, and D-49 is the
// other: there are two in an action.
control Gate(in bit<32> index, in bit<32> fingerprint, in bit<32> ts, in bit<8> kind, in bit<2> tracking, inout bit<1> held) {
    Register<gate_t, entry_t>(ENTRIES, { 0, 0 }) gates;
    RegisterAction<gate_t, entry_t, bit<1>>(gates) gate_look = {
        void apply(inout gate_t gate, out bit<1> equal) {
            equal = 0;
            if (gate.fingerprint == fingerprint) {
                equal = 1;
            }
        }
    };
    RegisterAction<gate_t, entry_t, bit<1>>(gates) gate_install = {
        void apply(inout gate_t gate, out bit<1> takes) {
            takes = 0;
            if (gate.bar == 0 || (int<32>)(ts - gate.bar) >= 0) {
                gate.bar = ts;
                gate.fingerprint = fingerprint;
                takes = 1;
            }
        }
    };
    RegisterAction<gate_t, entry_t, bit<1>>(gates) gate_clear = {
        void apply(inout gate_t gate, out bit<1> frees) {
            frees = 0;
            if (gate.bar == ts && gate.fingerprint != 0) {
                gate.bar = gate.bar + 1;
                gate.fingerprint = 0;
                frees = 1;
            }
        }
    };

    action look() {
        held = gate_look.execute(index[ENTRY_BITS - 1:0]);
    }
    action install() {
        held = gate_install.execute(index[ENTRY_BITS - 1:0]);
    }
    action clear() {
        held = gate_clear.execute(index[ENTRY_BITS - 1:0]);
    }
    action nothing() {
    }

#include "visibility/gate.p4"

    apply {
        at_gate.apply();
    }
}

// Stages 2 to 9, three in each: one array of metadata.
control ValueArray(in bit<32> index, inout bit<32> word, in bit<8> kind, in bit<1> held) {
    Register<bit<32>, entry_t>(ENTRIES, 0) values;
    RegisterAction<bit<32>, entry_t, bit<32>>(values) value_read = {
        void apply(inout bit<32> value, out bit<32> found) {
            found = value;
        }
    };
    RegisterAction<bit<32>, entry_t, bit<32>>(values) value_write = {
        void apply(inout bit<32> value) {
            value = word;
        }
    };

    action read() {
        word = value_read.execute(index[ENTRY_BITS - 1:0]);
    }
    action write() {
        value_write.execute(index[ENTRY_BITS - 1:0]);
    }
    action nothing() {
    }

#include "visibility/value.p4"

    apply {
        at_value.apply();
    }
}

#include "common/routing.p4"
#include "dirty_set/dirty_set.p4"
#include "visibility/visibility.p4"
#include "common/header.p4"

// The parser selects on port, structure and length only: it has no room to compare more.
parser Frames(packet_in packet, out headers_t hdr, inout meta_t meta) {
    state start {
        transition parse_frame;
    }

#include "common/frame.p4"

    // D-2: UDP's own header has 8 bytes; the common part ends at 24, that of the dirty set at 48, that of the visibility table at 132. A
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
        transition select(hdr.innet.structure, hdr.udp.length) {
            (_, 16w0x0018 &&& 16w0xfff8): accept;
            (_, 16w0x0020 &&& 16w0xfff0): accept;
            (STRUCTURE_VISIBILITY, 16w0x0030 &&& 16w0xfff0): accept;
            (STRUCTURE_VISIBILITY, 16w0x0040 &&& 16w0xffc0): accept;
            (STRUCTURE_VISIBILITY, 16w0x0080 &&& 16w0xfffc): accept;
            (STRUCTURE_VISIBILITY, _): parse_visibility;
            default: parse_dirty_set;
        }
    }
    state parse_dirty_set {
        packet.extract(hdr.dirty_set);
        meta.form = FORM_WHOLE;
        transition accept;
    }
    state parse_visibility {
        packet.extract(hdr.visibility);
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
        meta = { KIND_PLAIN, FORM_NONE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, DELIVER_PLAIN, 0, 0, 0, 0 };
        transition select(ig_intr_md.ingress_port) {
            host_ports: is_host;
            default: parse_all;
        }
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
    Tracking() tracking;
    Admission() admission;
    DirtySet() dirty_set;
    Tracking() table_tracking;
    VisibilityTable() visibility;

#define hdr all.of_frame

    // Every way is set here and now: the unicast port; with a second copy also a group of one port. Without a route the copy goes
    // to port 0x1ff of the replication engine, which has none: the control plane counts what is dropped there (D-17).
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
    action to_shard(bit<8> result, bit<32> count) {
        packets.count((bit<8>)count);
        all.bridge.deliver = DELIVER_SHARD;
        all.bridge.result = result;
        ig_tm_md.ucast_egress_port = meta.shard_port;
    }
    action to_shard_and_destination(bit<8> result, bit<32> count) {
        packets.count((bit<8>)count);
        all.bridge.deliver = DELIVER_SHARD_AND_DESTINATION;
        all.bridge.result = result;
        ig_tm_md.ucast_egress_port = meta.shard_port;
        ig_tm_md.mcast_grp_a = meta.destination_copy;
    }
#include "common/verdict.p4"

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

#include "dirty_set/classify.p4"
#include "visibility/classify.p4"

    apply {
        meta.destination_port = 0x1ff;
        meta.shard_port = 0x1ff;
        all.bridge.setValid();
        all.bridge.deliver = DELIVER_PLAIN;
        if (hdr.visibility.isValid()) {
            table_tracking.apply(hdr.innet.epoch, meta.tracking);
            classify_entry.apply();
        } else if (meta.form != FORM_NONE) {
            // None of these waits for another.
            tracking.apply(hdr.innet.epoch, meta.tracking);
            admission.apply(hdr, meta);
            classify.apply();
        } else if (meta.kind == KIND_PLAIN) {
            bridge.apply();
        }
        if (meta.form != FORM_NONE) {
            routing.apply(hdr, meta, ig_intr_md.ingress_port);
            if (hdr.visibility.isValid()) {
                visibility.apply(hdr, meta);
            } else {
                dirty_set.apply(hdr, meta);
            }
        }
        verdict.apply();
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

parser EgressParser(packet_in packet,
                    out tna_headers_t hdr,
                    out meta_t meta,
                    out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        packet.extract(hdr.bridge);
        transition select(hdr.bridge.deliver) {
            DELIVER_PLAIN: accept;
            default: parse_copy;
        }
    }
    // The ingress has checked all of it, and nothing behind the common part is written here.
    state parse_copy {
        packet.extract(hdr.of_frame.ethernet);
        packet.extract(hdr.of_frame.ipv4);
        packet.extract(hdr.of_frame.udp);
        packet.extract(hdr.of_frame.innet);
        transition accept;
    }
}

control Egress(inout tna_headers_t all,
               inout meta_t meta,
               in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    Counter<bit<64>, bit<8>>(COUNTERS, CounterType_t.PACKETS) copies;
    bit<1> unrouted;

    Header() header_out;

    apply {
        unrouted = 0;
        meta.rewritten = 0;
        meta.deliver = all.bridge.deliver;
        meta.result = all.bridge.result;
        if (meta.deliver != DELIVER_PLAIN) {
            // D-23, D-53: the copy that the replication engine made is the second.
            if (meta.deliver == DELIVER_DESTINATION
                || (meta.deliver == DELIVER_SHARD_AND_DESTINATION && eg_intr_md.egress_rid != 0)) {
                meta.node = all.of_frame.innet.destination;
            } else {
                meta.node = NODE_OF_SHARD_0[31:16] ++ all.of_frame.innet.shard;
            }
            header_out.apply(all.of_frame, meta, unrouted);
            if (unrouted == 1) {
                copies.count((bit<8>)COUNT_COPIES_UNROUTED);
                eg_dprsr_md.drop_ctl = 1;
            } else {
                copies.count((bit<8>)COUNT_COPIES_SENT);
            }
        }
        all.bridge.setInvalid();
    }
}

control EgressDeparser(packet_out packet,
                       inout tna_headers_t hdr,
                       in meta_t meta,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() ipv4_checksum;
    apply {
        if (meta.rewritten == 1) {
            hdr.of_frame.ipv4.checksum = ipv4_checksum.update({
                hdr.of_frame.ipv4.version, hdr.of_frame.ipv4.ihl, hdr.of_frame.ipv4.diffserv, hdr.of_frame.ipv4.total_length,
                hdr.of_frame.ipv4.identification, hdr.of_frame.ipv4.flags, hdr.of_frame.ipv4.fragment_offset,
                hdr.of_frame.ipv4.ttl, hdr.of_frame.ipv4.protocol, hdr.of_frame.ipv4.src_addr, hdr.of_frame.ipv4.dst_addr });
        }
        packet.emit(hdr);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
