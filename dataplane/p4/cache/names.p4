// The names that have entries, (key, token) → (index, number): D-80, D-96, D-104, D-118, D-119.
#ifndef ONPATH_CACHE_NAMES_P4
#define ONPATH_CACHE_NAMES_P4

control Names(inout headers_t hdr, inout meta_t meta) {
    // A fill and an invalidate name the number themselves: what differs is 0 if it is this one.
    action entry_is(bit<16> index, bit<32> number) {
        meta.found = 1;
        meta.index = index;
        meta.number = number;
        meta.other_number = hdr.entry.number ^ number;
    }
    table names {
        key = {
            meta.key_0: exact;
            meta.key_1: exact;
            meta.token: exact;
        }
        actions = { entry_is; NoAction; }
        const default_action = NoAction();
        size = CACHED;
    }
    apply {
        names.apply();
        // D-102: cleared up to a revision is one more than filled by it.
        if (meta.kind == KIND_INVALIDATE) {
            meta.reaches = meta.reaches | 1;
        }
    }
}

#endif
