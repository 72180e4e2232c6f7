// The dirty set, stages 1 to 10: one array of tags after the other, each touched at most once a packet (D-18 to D-27, D-33).
// `TagArray` is the architecture's.
#ifndef ONPATH_DIRTY_SET_P4
#define ONPATH_DIRTY_SET_P4

control DirtySet(inout headers_t hdr, inout meta_t meta) {
#if STAGES > 0
    TagArray() array0;
#endif
#if STAGES > 1
    TagArray() array1;
#endif
#if STAGES > 2
    TagArray() array2;
#endif
#if STAGES > 3
    TagArray() array3;
#endif
#if STAGES > 4
    TagArray() array4;
#endif
#if STAGES > 5
    TagArray() array5;
#endif
#if STAGES > 6
    TagArray() array6;
#endif
#if STAGES > 7
    TagArray() array7;
#endif
#if STAGES > 8
    TagArray() array8;
#endif
#if STAGES > 9
    TagArray() array9;
#endif

    apply {
#if STAGES > 0
        array0.apply(hdr.dirty_set.index, hdr.dirty_set.tag, meta.kind, meta.tracking, meta.admitted, meta.held);
#endif
#if STAGES > 1
        array1.apply(hdr.dirty_set.index, hdr.dirty_set.tag, meta.kind, meta.tracking, meta.admitted, meta.held);
#endif
#if STAGES > 2
        array2.apply(hdr.dirty_set.index, hdr.dirty_set.tag, meta.kind, meta.tracking, meta.admitted, meta.held);
#endif
#if STAGES > 3
        array3.apply(hdr.dirty_set.index, hdr.dirty_set.tag, meta.kind, meta.tracking, meta.admitted, meta.held);
#endif
#if STAGES > 4
        array4.apply(hdr.dirty_set.index, hdr.dirty_set.tag, meta.kind, meta.tracking, meta.admitted, meta.held);
#endif
#if STAGES > 5
        array5.apply(hdr.dirty_set.index, hdr.dirty_set.tag, meta.kind, meta.tracking, meta.admitted, meta.held);
#endif
#if STAGES > 6
        array6.apply(hdr.dirty_set.index, hdr.dirty_set.tag, meta.kind, meta.tracking, meta.admitted, meta.held);
#endif
#if STAGES > 7
        array7.apply(hdr.dirty_set.index, hdr.dirty_set.tag, meta.kind, meta.tracking, meta.admitted, meta.held);
#endif
#if STAGES > 8
        array8.apply(hdr.dirty_set.index, hdr.dirty_set.tag, meta.kind, meta.tracking, meta.admitted, meta.held);
#endif
#if STAGES > 9
        array9.apply(hdr.dirty_set.index, hdr.dirty_set.tag, meta.kind, meta.tracking, meta.admitted, meta.held);
#endif
    }
}

#endif
