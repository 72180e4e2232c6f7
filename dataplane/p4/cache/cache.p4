// The cache, one pass: the name, who asks, stamp and value of its entry, and what that says (D-76 to D-104). Every register array is touched at
// most once. `Stamp` and `CachedArray` are the architecture's, and so are the lease before this and the outcome behind it.
#ifndef ONPATH_CACHE_P4
#define ONPATH_CACHE_P4

#include "level.p4"
#include "names.p4"
#include "asked.p4"
#include "permission.p4"

control Cache(inout headers_t hdr, inout meta_t meta, in bit<9> ingress_port) {
    Level() level;
    Names() names;
    Asking() asking;
    Stamp() stamp;
    CachedArray() cached0;
    CachedArray() cached1;
    CachedArray() cached2;
    CachedArray() cached3;
    CachedArray() cached4;
    CachedArray() cached5;
    CachedArray() cached6;
    CachedArray() cached7;
    CachedArray() cached8;
    CachedArray() cached9;
    CachedArray() cached10;
    CachedArray() cached11;
    CachedArray() cached12;
    CachedArray() cached13;
    CachedArray() cached14;
    CachedArray() cached15;
    CachedArray() cached16;
    CachedArray() cached17;
    CachedArray() cached18;
    CachedArray() cached19;
    CachedArray() cached20;
    Permission() permission;

    apply {
        level.apply(hdr, meta);
        names.apply(hdr, meta);
        asking.apply(hdr, meta, ingress_port);
        // What is read is put into the place of a value, which leaves only with an answer.
        if (meta.kind == KIND_READ) {
            hdr.value.setValid();
        }
        stamp.apply(meta);
        cached0.apply(meta.index, hdr.value.value_0, meta.kind, meta.state, meta.done);
        cached1.apply(meta.index, hdr.value.value_1, meta.kind, meta.state, meta.done);
        cached2.apply(meta.index, hdr.value.value_2, meta.kind, meta.state, meta.done);
        cached3.apply(meta.index, hdr.value.value_3, meta.kind, meta.state, meta.done);
        cached4.apply(meta.index, hdr.value.value_4, meta.kind, meta.state, meta.done);
        cached5.apply(meta.index, hdr.value.value_5, meta.kind, meta.state, meta.done);
        cached6.apply(meta.index, hdr.value.value_6, meta.kind, meta.state, meta.done);
        cached7.apply(meta.index, hdr.value.value_7, meta.kind, meta.state, meta.done);
        cached8.apply(meta.index, hdr.value.value_8, meta.kind, meta.state, meta.done);
        cached9.apply(meta.index, hdr.value.value_9, meta.kind, meta.state, meta.done);
        cached10.apply(meta.index, hdr.value.value_10, meta.kind, meta.state, meta.done);
        cached11.apply(meta.index, hdr.value.value_11, meta.kind, meta.state, meta.done);
        cached12.apply(meta.index, hdr.value.value_12, meta.kind, meta.state, meta.done);
        cached13.apply(meta.index, hdr.value.value_13, meta.kind, meta.state, meta.done);
        cached14.apply(meta.index, hdr.value.value_14, meta.kind, meta.state, meta.done);
        cached15.apply(meta.index, hdr.value.value_15, meta.kind, meta.state, meta.done);
        cached16.apply(meta.index, hdr.value.value_16, meta.kind, meta.state, meta.done);
        cached17.apply(meta.index, hdr.value.value_17, meta.kind, meta.state, meta.done);
        cached18.apply(meta.index, hdr.value.value_18, meta.kind, meta.state, meta.done);
        cached19.apply(meta.index, hdr.value.value_19, meta.kind, meta.state, meta.done);
        cached20.apply(meta.index, hdr.value.value_20, meta.kind, meta.state, meta.done);
        permission.apply(hdr, meta);
    }
}

#endif
