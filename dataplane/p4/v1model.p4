// The in-network program of Onpath (dataplane/SPEC.md) for the v1model architecture, as simple_switch of bmv2 has it:
//
//   p4c-bm2-ss --arch v1model -o onpath.json dataplane/p4/v1model.p4
//
// This file is what an architecture adds to the rest: registers, counters, how copies are made, frames.
#include <core.p4>
#include <v1model.p4>

// Fields of a clone: it is parsed again and keeps these alone.
#define COPIED @field_list(1)
const bit<8> COPIED_FIELDS = 1;
// instance_type of a clone of the ingress.
const bit<32> INGRESS_CLONE = 1;
// A group that floods comes in its egress to the port of origin too.
const bit<32> REPLICATION = 5;

// What a packet keeps that the egress sends to the ingress again, for the next pass of the cache.
#define CARRIED @field_list(2)
const bit<8> CARRIED_FIELDS = 2;
#define WITH_CACHE
// No cable: where a packet leaves the ingress that comes again.
const bit<9> AGAIN_PORT = 510;

#include "common/headers.p4"

const bit<32> CACHED_MASK = CACHED - 1;

// Stage 0: `epoch` and `complete` of a structure as one register: epoch in the upper 16 bits, below it 1 (runs) or 2 (complete). All 0
// without an epoch (D-18, D-19, D-26, D-37, D-38; D-55 to D-57, D-62 to D-64).
control Tracking(in bit<16> epoch, out bit<2> tracking) {
    register<bit<32>>(1) present;
    bit<32> now;
    apply {
        tracking = TRACKING_OTHER;
        present.read(now, 0);
        if (epoch != 0 && now[31:16] == epoch) {
            tracking = now[1:0];
        }
    }
}

// Stage 0: `min_term` (upper half) and `counter` of a shard (D-27 to D-32). A remove that is accepted raises the counter.
control Admission(in bit<16> shard, in bit<32> term, in bit<32> sequence, out bit<1> admitted, out bit<2> term_order) {
    register<bit<64>>(256) pairs;
    bit<64> pair;
    apply {
        admitted = 0;
        term_order = TERM_EQUAL;
        pairs.read(pair, (bit<32>)shard);
        if (term < pair[63:32]) {
            term_order = TERM_LOWER;
        } else if (term > pair[63:32]) {
            term_order = TERM_AHEAD;
        } else if (sequence > pair[31:0]) {
            admitted = 1;
            pairs.write((bit<32>)shard, pair[63:32] ++ sequence);
        }
    }
}

// Stages 1 to 10: one array of tags. An action is one step that no other packet gets between.
control TagArray(in bit<32> index, in bit<32> tag, in bit<8> kind, in bit<2> tracking, in bit<1> admitted, inout bit<1> held) {
    register<bit<32>>(SETS) tags;
    bit<32> set;
    bit<32> value;

    action query() {
        tags.read(value, set);
        held = (value == tag) ? 1w1 : held;
    }
    action conditional_insert() {
        tags.read(value, set);
        value = (value == 0) ? tag : value;
        tags.write(set, value);
        held = (value == tag) ? 1w1 : 1w0;
    }
    action conditional_remove() {
        tags.read(value, set);
        value = (value == tag) ? 32w0 : value;
        tags.write(set, value);
    }
    action nothing() {
    }

#include "dirty_set/array.p4"

    apply {
        set = index & SET_MASK;
        value = 0;
        step.apply();
    }
}

// The gate of an entry: fingerprint (upper half) and Ts.
control Gate(in bit<32> index, in bit<32> fingerprint, in bit<32> ts, in bit<8> kind, in bit<2> tracking, inout bit<1> held) {
    register<bit<64>>(ENTRIES) gates;
    bit<32> entry;
    bit<64> gate;
    bit<32> after;

    action look() {
        gates.read(gate, entry);
        held = (gate[63:32] == fingerprint) ? 1w1 : 1w0;
    }
    // D-48 to D-51: after is serial, so its highest bit says before.
    action install() {
        gates.read(gate, entry);
        after = ts - gate[31:0];
        held = (gate[31:0] == 0 || (after != 0 && after[31:31] == 0) || (after == 0 && gate[63:32] != 0)) ? 1w1 : 1w0;
        gate = (held == 1) ? (fingerprint ++ ts) : gate;
        gates.write(entry, gate);
    }
    // D-58, D-59.
    action clear() {
        gates.read(gate, entry);
        held = (gate[63:32] != 0 && gate[31:0] == ts) ? 1w1 : 1w0;
        gate = (held == 1) ? (32w0 ++ gate[31:0]) : gate;
        gates.write(entry, gate);
    }
    action nothing() {
    }

#include "visibility/gate.p4"

    apply {
        entry = index & ENTRY_MASK;
        gate = 0;
        after = 0;
        at_gate.apply();
    }
}

// One array of metadata.
control ValueArray(in bit<32> index, inout bit<32> word, in bit<8> kind, in bit<1> held) {
    register<bit<32>>(ENTRIES) values;
    bit<32> entry;

    action read() {
        values.read(word, entry);
    }
    action write() {
        values.write(entry, word);
    }
    action nothing() {
    }

#include "visibility/value.p4"

    apply {
        entry = index & ENTRY_MASK;
        at_value.apply();
    }
}

// The cache, stage 0: `until` (upper half) and below it `epoch` in 16 bits (D-73 to D-76). A tick of the clock is 2^6 us, somewhat less than 2^16 ns.
// With -DCLOCK_IN_REGISTER the control plane says what the clock shows, as vectors do.
control Lease(in bit<16> epoch, in bit<48> timestamp, out bit<16> epoch_differs) {
    register<bit<64>>(1) lease;
#ifdef CLOCK_IN_REGISTER
    register<bit<32>>(1) clock;
#endif
    bit<64> present;
    bit<32> now;
    bit<32> left;
    apply {
        lease.read(present, 0);
#ifdef CLOCK_IN_REGISTER
        clock.read(now, 0);
#else
        now = timestamp[37:6];
#endif
        // Not after the clock is nothing left, or less than nothing.
        left = present[63:32] - now;
        if (left == 0 || left[31:31] == 1) {
            present = present[63:32] ++ 32w0;
            lease.write(0, present);
        }
        epoch_differs = present[15:0] ^ epoch;
    }
}

// Stage 3: the stamp of an entry, n (upper half) and s.
control Stamp(inout meta_t meta) {
    register<bit<64>>(CACHED) stamps;
    bit<32> at;
    bit<64> stamp;

    action read() {
        stamps.read(stamp, at);
        meta.state = (stamp[63:32] == meta.number) ? stamp[31:0] : 32w0;
    }
    action fill() {
        stamps.read(stamp, at);
        meta.its = (stamp[63:32] == meta.number) ? 1w1 : 1w0;
        meta.done = (meta.its == 1 && stamp[31:0] < meta.reaches) ? 1w1 : 1w0;
        stamp = (meta.done == 1) ? (meta.number ++ meta.reaches) : stamp;
        stamps.write(at, stamp);
    }
    action invalidate() {
        stamps.read(stamp, at);
        meta.done = (stamp[63:32] == meta.number) ? 1w1 : 1w0;
        stamp = (meta.done == 1 && stamp[31:0] < meta.reaches) ? (meta.number ++ meta.reaches) : stamp;
        stamps.write(at, stamp);
    }
    action nothing() {
    }

#include "cache/stamp.p4"

    apply {
        at = (bit<32>)meta.index & CACHED_MASK;
        stamp = 0;
        meta.state = 0;
        meta.its = 0;
        meta.done = 0;
        at_stamp.apply();
    }
}

// Stages 4 to 9: one array of a value.
control CachedArray(in bit<16> index, inout bit<32> word, in bit<8> kind, in bit<32> state, in bit<1> done) {
    register<bit<32>>(CACHED) values;
    bit<32> at;

    action read() {
        values.read(word, at);
    }
    action write() {
        values.write(at, word);
    }
    action nothing() {
    }

#include "cache/value.p4"

    apply {
        at = (bit<32>)index & CACHED_MASK;
        at_cached.apply();
    }
}

// What the cache counts, when it is known what becomes of a read (D-106 to D-110). In the ingress, so that a miss without a route counts too.
control Counts(inout meta_t meta) {
    register<bit<16>>(CACHED) row0;
    register<bit<16>>(CACHED) row1;
    register<bit<16>>(CACHED) row2;
    register<bit<1>>(CACHED) told;
    register<bit<32>>(CACHED) hits;
    bit<32> place;
    bit<16> count;
    bit<16> least;
    bit<32> hit;
    bit<1> was_told;
    bit<16> threshold;
    bit<1> known;
    bit<16> copy;

    // Who hears of misses, whether it has a route, and its clone session (D-108, D-121).
    action report_to(bit<32> node, bit<1> node_known, bit<16> node_copy, bit<16> above) {
        meta.second = node;
        known = node_known;
        copy = node_copy;
        threshold = above;
    }
    action report_to_nobody() {
        meta.second = 0;
    }
    table report {
        actions = { report_to; report_to_nobody; }
        default_action = report_to_nobody();
    }

    apply {
        known = 0;
        copy = 0;
        threshold = 0;
        meta.reported = 0;
        if (meta.deliver == DELIVER_REQUESTER) {
            place = (bit<32>)meta.index & CACHED_MASK;
            hits.read(hit, place);
            hits.write(place, hit + 1);
        } else if (meta.deliver == DELIVER_MISSED) {
            place = (bit<32>)meta.counted_1[15:0] & CACHED_MASK;
            row0.read(count, place);
            count = count |+| 16w1;
            row0.write(place, count);
            least = count;
            place = (bit<32>)meta.counted_1[31:16] & CACHED_MASK;
            row1.read(count, place);
            count = count |+| 16w1;
            row1.write(place, count);
            if (count < least) {
                least = count;
            }
            place = (bit<32>)meta.counted_0[15:0] & CACHED_MASK;
            row2.read(count, place);
            count = count |+| 16w1;
            row2.write(place, count);
            if (count < least) {
                least = count;
            }
            report.apply();
            if (meta.second != 0 && least > threshold) {
                place = (bit<32>)meta.counted_0[31:16] & CACHED_MASK;
                told.read(was_told, place);
                told.write(place, 1w1);
                meta.reported = ~was_told;
                meta.destination_copy = copy;
                meta.second_known = known;
            }
        }
    }
}

#include "common/routing.p4"
#include "dirty_set/dirty_set.p4"
#include "visibility/visibility.p4"
#include "cache/cache.p4"
#include "common/header.p4"

parser OnpathParser(packet_in packet,
                    out headers_t hdr,
                    inout meta_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        transition parse_frame;
    }

#include "common/frame.p4"
#include "common/parser.p4"
#include "dirty_set/parser.p4"
#include "visibility/parser.p4"
#include "cache/parser.p4"
}

control verify_frame(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum(
            hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length, hdr.ipv4.identification, hdr.ipv4.flags,
              hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr },
            hdr.ipv4.checksum,
            HashAlgorithm.csum16);
    }
}

control ingress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {
    counter(COUNTERS, CounterType.packets) packets;
    counter(COUNTERS, CounterType.packets) copies;

    Routing() routing;
    Tracking() tracking;
    Admission() admission;
    DirtySet() dirty_set;
    Tracking() table_tracking;
    VisibilityTable() visibility;
    Lease() lease;
    Cache() cache;
    Counts() counts;

    action pass(bit<32> count) {
        packets.count(count);
        meta.deliver = DELIVER_PLAIN;
    }
    action discard(bit<32> count) {
        packets.count(count);
        meta.deliver = DELIVER_NOBODY;
    }
    action route(bit<32> count) {
        packets.count(count);
        meta.deliver = DELIVER_DESTINATION;
        meta.result = hdr.innet.result;
    }
    action to_destination(bit<8> result, bit<32> count) {
        packets.count(count);
        meta.deliver = DELIVER_DESTINATION;
        meta.result = result;
    }
    action to_shard(bit<8> result, bit<32> count) {
        packets.count(count);
        meta.deliver = DELIVER_SHARD;
        meta.result = result;
    }
    action to_shard_and_destination(bit<8> result, bit<32> count) {
        packets.count(count);
        meta.deliver = DELIVER_SHARD_AND_DESTINATION;
        meta.result = result;
    }

    action not_asked(bit<32> count) {
        packets.count(count);
        meta.deliver = DELIVER_DESTINATION;
        meta.result = CACHE_RESULT_MISS;
        hdr.value.setInvalid();
    }
    action missed() {
        meta.deliver = DELIVER_MISSED;
        meta.result = CACHE_RESULT_MISS;
        hdr.value.setInvalid();
    }
    action answered() {
        packets.count(COUNT_READ_ANSWERED);
        meta.deliver = DELIVER_REQUESTER;
        meta.result = CACHE_RESULT_ANSWERED;
        hdr.levels.setInvalid();
    }
    action denied() {
        packets.count(COUNT_READ_DENIED);
        meta.deliver = DELIVER_REQUESTER;
        meta.result = CACHE_RESULT_DENIED;
        hdr.value.setInvalid();
    }
    action next_root() {
        packets.count(COUNT_PASSES_RECIRCULATED);
        meta.deliver = DELIVER_AGAIN;
        hdr.read.start_0 = hdr.value.value_2;
        hdr.read.start_1 = hdr.value.value_3;
        hdr.value.setInvalid();
    }
    action next_level() {
        packets.count(COUNT_PASSES_RECIRCULATED);
        meta.deliver = DELIVER_AGAIN;
        hdr.read.start_0 = hdr.value.value_2;
        hdr.read.start_1 = hdr.value.value_3;
        hdr.read.level = hdr.read.level + 1;
        hdr.value.setInvalid();
    }

#include "common/verdict.p4"
#include "cache/outcome.p4"

    // What the switch does with other frames: it is a bridge with fixed entries.
    action bridge_to(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    action bridge_flood(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }
    table bridge {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { bridge_to; bridge_flood; NoAction; }
        const default_action = NoAction();
        size = 65536;
    }

    apply {
        mark_to_drop(standard_metadata);
        if (hdr.udp.isValid()) {
            // UDP contradicts IPv4, the frame is shorter than it says, or the header is damaged: it passes, for whom it is for
            // to see.
            if ((bit<32>)hdr.ipv4.total_length != (bit<32>)hdr.udp.length + IPV4_BYTES
                || standard_metadata.packet_length < ETHERNET_BYTES + (bit<32>)hdr.ipv4.total_length
                || standard_metadata.checksum_error == 1) {
                meta.kind = KIND_PLAIN;
            }
        }
        if (meta.kind >= KIND_ANSWERED) {
            routing.apply(hdr, meta, standard_metadata.ingress_port);
        }
        if (meta.kind == KIND_QUERY || meta.kind == KIND_INSERT || meta.kind == KIND_REMOVE) {
            tracking.apply(hdr.innet.epoch, meta.tracking);
            if (meta.kind == KIND_REMOVE) {
                admission.apply(hdr.innet.shard, hdr.dirty_set.term, hdr.dirty_set.sequence, meta.admitted, meta.term_order);
            }
            dirty_set.apply(hdr, meta);
        }
        if (meta.kind == KIND_LOOK || meta.kind == KIND_INSTALL || meta.kind == KIND_CLEAR) {
            table_tracking.apply(hdr.innet.epoch, meta.tracking);
            visibility.apply(hdr, meta);
        }
        if (meta.kind == KIND_READ || meta.kind == KIND_FILL || meta.kind == KIND_INVALIDATE) {
            if (meta.passes == 0) {
                lease.apply(hdr.innet.epoch, standard_metadata.ingress_global_timestamp, meta.epoch_differs);
            }
            cache.apply(hdr, meta, standard_metadata.ingress_port);
            outcome.apply();
            counts.apply(meta);
            if (meta.deliver == DELIVER_MISSED) {
                if (meta.reported == 1) {
                    packets.count(COUNT_READ_REPORTED);
                } else {
                    packets.count(COUNT_READ_MISSED);
                }
            }
        } else {
            verdict.apply();
        }

        if (meta.deliver == DELIVER_PLAIN) {
            if (hdr.ethernet.isValid()) {
                bridge.apply();
            }
        } else if (meta.deliver == DELIVER_AGAIN) {
            meta.passes = meta.passes + 1;
            standard_metadata.egress_spec = AGAIN_PORT;
        } else if (meta.deliver == DELIVER_REQUESTER) {
            meta.node = hdr.read.requester;
            if (meta.requester_known == 1) {
                standard_metadata.egress_spec = meta.requester_port;
            } else {
                copies.count(COUNT_COPIES_UNROUTED);
            }
        } else if (meta.deliver == DELIVER_DESTINATION || meta.deliver == DELIVER_MISSED) {
            meta.node = hdr.innet.destination;
            if (meta.destination_known == 1) {
                standard_metadata.egress_spec = meta.destination_port;
            } else {
                copies.count(COUNT_COPIES_UNROUTED);
            }
            // D-108: the second copy is a clone, as below.
            if (meta.deliver == DELIVER_MISSED && meta.reported == 1) {
                if (meta.second_known == 1) {
                    clone_preserving_field_list(CloneType.I2E, (bit<32>)meta.destination_copy, COPIED_FIELDS);
                } else {
                    copies.count(COUNT_COPIES_UNROUTED);
                }
            }
        } else if (meta.deliver == DELIVER_SHARD || meta.deliver == DELIVER_SHARD_AND_DESTINATION) {
            meta.node = NODE_OF_SHARD_0 + (bit<32>)hdr.innet.shard;
            if (meta.shard_known == 1) {
                standard_metadata.egress_spec = meta.shard_port;
            } else {
                copies.count(COUNT_COPIES_UNROUTED);
            }
            // D-23, D-53: the second copy is a clone of the packet as it came in; what it carries are the fields marked COPIED.
            if (meta.deliver == DELIVER_SHARD_AND_DESTINATION) {
                meta.second = hdr.innet.destination;
                if (meta.destination_known == 1) {
                    clone_preserving_field_list(CloneType.I2E, (bit<32>)meta.destination_copy, COPIED_FIELDS);
                } else {
                    copies.count(COUNT_COPIES_UNROUTED);
                }
            }
        }
    }
}

control egress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {
    counter(COUNTERS, CounterType.packets) copies;
    bit<1> unrouted;

    Header() header_out;

    apply {
        unrouted = 0;
        if (meta.deliver == DELIVER_PLAIN) {
            if (standard_metadata.instance_type == REPLICATION
                && standard_metadata.egress_port == standard_metadata.ingress_port) {
                mark_to_drop(standard_metadata);
            }
        } else if (meta.deliver == DELIVER_AGAIN) {
            recirculate_preserving_field_list(CARRIED_FIELDS);
        } else {
            if (standard_metadata.instance_type == INGRESS_CLONE) {
                meta.node = meta.second;
            }
            header_out.apply(hdr, meta, unrouted);
            if (unrouted == 1) {
                copies.count(COUNT_COPIES_UNROUTED);
                mark_to_drop(standard_metadata);
            } else {
                copies.count(COUNT_COPIES_SENT);
            }
        }
    }
}

control compute_checksums(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(
            meta.rewritten == 1,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length, hdr.ipv4.identification, hdr.ipv4.flags,
              hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr },
            hdr.ipv4.checksum,
            HashAlgorithm.csum16);
    }
}

control OnpathDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.innet);
        packet.emit(hdr.dirty_set);
        packet.emit(hdr.visibility);
        packet.emit(hdr.read);
        packet.emit(hdr.entry);
        packet.emit(hdr.levels);
        packet.emit(hdr.value);
    }
}

V1Switch(OnpathParser(), verify_frame(), ingress(), egress(), compute_checksums(), OnpathDeparser()) main;
