// The egress of the cache's pipe on Tofino: what is counted when it is known what becomes of a read, and copies on their way out (D-16, D-17,
// D-43, D-94, D-106 to D-110). Included by tna_cache.p4.
#ifndef ONPATH_CACHE_TNA_EGRESS_P4
#define ONPATH_CACHE_TNA_EGRESS_P4

parser EgressParser(packet_in packet,
                    out tna_headers_t hdr,
                    out egress_meta_t meta,
                    out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        meta.of_copy.rewritten = 0;
        meta.of_copy.reported = 0;
        transition select(packet.lookahead<bit<8>>()) {
            DELIVER_REPORT: parse_mirrored;
            default: parse_bridge;
        }
    }
    state parse_mirrored {
        packet.extract(hdr.mirrored);
        transition parse_copy;
    }
    state parse_bridge {
        packet.extract(hdr.bridge);
        transition select(hdr.bridge.deliver) {
            DELIVER_PLAIN: accept;
            DELIVER_AGAIN: accept;
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

// One row of the sketch (D-106, D-107).
control Row(in bit<16> place, in bit<16> threshold, out bit<16> above) {
    Register<bit<16>, cached_t>(CACHED, 0) counts;
    RegisterAction<bit<16>, cached_t, bit<16>>(counts) add = {
        void apply(inout bit<16> count, out bit<16> now) {
            count = count |+| 1;
            now = count;
        }
    };
    bit<16> counted;
    apply {
        counted = add.execute(place[CACHE_BITS - 1:0]);
        above = counted |-| threshold;
    }
}

control Egress(inout tna_headers_t all,
               inout egress_meta_t meta,
               in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    Counter<bit<64>, bit<8>>(COUNTERS, CounterType_t.PACKETS) packets;
    Counter<bit<64>, bit<8>>(COUNTERS, CounterType_t.PACKETS) copies;
    Register<bit<32>, cached_t>(CACHED, 0) hits;
    RegisterAction<bit<32>, cached_t, bit<32>>(hits) hit = {
        void apply(inout bit<32> count) {
            count = count + 1;
        }
    };
    Register<bit<1>, cached_t>(CACHED, 0) told;
    RegisterAction<bit<1>, cached_t, bit<1>>(told) tell = {
        void apply(inout bit<1> bit_of_key, out bit<1> was_told) {
            was_told = bit_of_key;
            bit_of_key = 1;
        }
    };
    Row() row0;
    Row() row1;
    Row() row2;
    Header() header_out;
    bit<1> unrouted;
    bit<1> was_told;

    // D-108, D-121: who hears of misses, above which threshold, and the session of the copy. Nobody is node 0.
    action report_to(bit<32> node, MirrorId_t session, bit<16> threshold) {
        meta.of_copy.second = node;
        meta.session = session;
        meta.threshold = threshold;
    }
    table report {
        actions = { report_to; }
        default_action = report_to(0, 0, 0);
    }

    action ask_told() {
        was_told = tell.execute(all.bridge.counted_0[16 + CACHE_BITS - 1:16]);
    }
    action below() {
        was_told = 1;
    }
    // The least of three is above the threshold if all are.
    table at_told {
        key = {
            meta.of_copy.second: ternary;
            meta.above_0: ternary;
            meta.above_1: ternary;
            meta.above_2: ternary;
        }
        actions = { ask_told; below; }
        const entries = {
            (32w0, _, _, _): below();
            (_, 16w0, _, _): below();
            (_, _, 16w0, _): below();
            (_, _, _, 16w0): below();
        }
        const default_action = ask_told();
    }

    // Of the copy that is told only the node's side is written: the switch's is there since the first one.
    action told_at(bit<32> node, bit<48> mac, bit<32> ip, bit<16> udp_port) {
        all.of_frame.ethernet.dst_addr = mac;
        all.of_frame.ipv4.dst_addr = ip;
        all.of_frame.udp.dst_port = udp_port;
        all.of_frame.innet.destination = node;
        meta.of_copy.rewritten = 1;
        unrouted = 0;
    }
    action told_nowhere() {
        unrouted = 1;
    }
    table report_address {
        actions = { told_at; told_nowhere; }
        default_action = told_nowhere();
    }

    apply {
        unrouted = 0;
        was_told = 1;
        if (all.mirrored.isValid()) {
            report_address.apply();
        } else if (all.of_frame.innet.isValid()) {
            meta.of_copy.node = all.of_frame.innet.destination;
            meta.of_copy.result = all.bridge.result;
            if (all.bridge.deliver == DELIVER_REQUESTER) {
                hit.execute(all.bridge.index[CACHE_BITS - 1:0]);
            }
            if (all.bridge.deliver == DELIVER_MISSED) {
                report.apply();
                row0.apply(all.bridge.counted_1[15:0], meta.threshold, meta.above_0);
                row1.apply(all.bridge.counted_1[31:16], meta.threshold, meta.above_1);
                row2.apply(all.bridge.counted_0[15:0], meta.threshold, meta.above_2);
                at_told.apply();
                if (was_told == 1) {
                    packets.count((bit<8>)COUNT_READ_MISSED);
                } else {
                    packets.count((bit<8>)COUNT_READ_REPORTED);
                    meta.mirrored = DELIVER_REPORT;
                    eg_dprsr_md.mirror_type = 1;
                }
            }
            header_out.apply(all.of_frame, meta.of_copy, unrouted);
            // Without a route a copy is where packets come again.
            if (eg_intr_md.egress_port == AGAIN_PORT) {
                unrouted = 1;
            }
        }
        if (all.of_frame.innet.isValid()) {
            if (unrouted == 1) {
                copies.count((bit<8>)COUNT_COPIES_UNROUTED);
                eg_dprsr_md.drop_ctl = 1;
            } else {
                copies.count((bit<8>)COUNT_COPIES_SENT);
            }
        }
        all.bridge.setInvalid();
        all.mirrored.setInvalid();
    }
}

control EgressDeparser(packet_out packet,
                       inout tna_headers_t hdr,
                       in egress_meta_t meta,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() ipv4_checksum;
    Mirror() mirror;
    apply {
        if (eg_dprsr_md.mirror_type == 1) {
            mirror.emit<mirrored_t>(meta.session, { meta.mirrored });
        }
        if (meta.of_copy.rewritten == 1) {
            hdr.of_frame.ipv4.checksum = ipv4_checksum.update({
                hdr.of_frame.ipv4.version, hdr.of_frame.ipv4.ihl, hdr.of_frame.ipv4.diffserv, hdr.of_frame.ipv4.total_length,
                hdr.of_frame.ipv4.identification, hdr.of_frame.ipv4.flags, hdr.of_frame.ipv4.fragment_offset,
                hdr.of_frame.ipv4.ttl, hdr.of_frame.ipv4.protocol, hdr.of_frame.ipv4.src_addr, hdr.of_frame.ipv4.dst_addr });
        }
        packet.emit(hdr);
    }
}

#endif
