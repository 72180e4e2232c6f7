// The visibility table: the gate of the entry, then one array of values after the other, each touched at most once a packet (D-47 to D-60).
// `Gate` and `ValueArray` are the architecture's.
#ifndef ONPATH_VISIBILITY_P4
#define ONPATH_VISIBILITY_P4

control VisibilityTable(inout headers_t hdr, inout meta_t meta) {
    Gate() gate;
    ValueArray() value0;
    ValueArray() value1;
    ValueArray() value2;
    ValueArray() value3;
    ValueArray() value4;
    ValueArray() value5;
    ValueArray() value6;
    ValueArray() value7;
    ValueArray() value8;
    ValueArray() value9;
    ValueArray() value10;
    ValueArray() value11;
    ValueArray() value12;
    ValueArray() value13;
    ValueArray() value14;
    ValueArray() value15;
    ValueArray() value16;
    ValueArray() value17;
    ValueArray() value18;
    ValueArray() value19;
    ValueArray() value20;
    ValueArray() value21;
    ValueArray() value22;
    ValueArray() value23;

    apply {
        gate.apply(hdr.visibility.index, hdr.visibility.fingerprint, hdr.visibility.ts, meta.kind, meta.tracking, meta.held);
        value0.apply(hdr.visibility.index, hdr.visibility.metadata_0, meta.kind, meta.held);
        value1.apply(hdr.visibility.index, hdr.visibility.metadata_1, meta.kind, meta.held);
        value2.apply(hdr.visibility.index, hdr.visibility.metadata_2, meta.kind, meta.held);
        value3.apply(hdr.visibility.index, hdr.visibility.metadata_3, meta.kind, meta.held);
        value4.apply(hdr.visibility.index, hdr.visibility.metadata_4, meta.kind, meta.held);
        value5.apply(hdr.visibility.index, hdr.visibility.metadata_5, meta.kind, meta.held);
        value6.apply(hdr.visibility.index, hdr.visibility.metadata_6, meta.kind, meta.held);
        value7.apply(hdr.visibility.index, hdr.visibility.metadata_7, meta.kind, meta.held);
        value8.apply(hdr.visibility.index, hdr.visibility.metadata_8, meta.kind, meta.held);
        value9.apply(hdr.visibility.index, hdr.visibility.metadata_9, meta.kind, meta.held);
        value10.apply(hdr.visibility.index, hdr.visibility.metadata_10, meta.kind, meta.held);
        value11.apply(hdr.visibility.index, hdr.visibility.metadata_11, meta.kind, meta.held);
        value12.apply(hdr.visibility.index, hdr.visibility.metadata_12, meta.kind, meta.held);
        value13.apply(hdr.visibility.index, hdr.visibility.metadata_13, meta.kind, meta.held);
        value14.apply(hdr.visibility.index, hdr.visibility.metadata_14, meta.kind, meta.held);
        value15.apply(hdr.visibility.index, hdr.visibility.metadata_15, meta.kind, meta.held);
        value16.apply(hdr.visibility.index, hdr.visibility.metadata_16, meta.kind, meta.held);
        value17.apply(hdr.visibility.index, hdr.visibility.metadata_17, meta.kind, meta.held);
        value18.apply(hdr.visibility.index, hdr.visibility.metadata_18, meta.kind, meta.held);
        value19.apply(hdr.visibility.index, hdr.visibility.metadata_19, meta.kind, meta.held);
        value20.apply(hdr.visibility.index, hdr.visibility.metadata_20, meta.kind, meta.held);
        value21.apply(hdr.visibility.index, hdr.visibility.metadata_21, meta.kind, meta.held);
        value22.apply(hdr.visibility.index, hdr.visibility.metadata_22, meta.kind, meta.held);
        value23.apply(hdr.visibility.index, hdr.visibility.metadata_23, meta.kind, meta.held);
    }
}

#endif
