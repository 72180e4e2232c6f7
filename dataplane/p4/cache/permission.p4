// Whether who asks may pass a level, and do what it wants of the last: D-82 to D-90. The decision tables are fragments of their own.
#ifndef ONPATH_CACHE_PERMISSION_P4
#define ONPATH_CACHE_PERMISSION_P4

control Permission(inout headers_t hdr, inout meta_t meta) {
    // What is equal has no difference: words 0 and 1 are the parent, 5 the owner, 6 the group.
    action compare() {
        meta.parent_0 = hdr.value.value_0 ^ hdr.read.start_0;
        meta.parent_1 = hdr.value.value_1 ^ hdr.read.start_1;
        meta.owner = hdr.value.value_5 ^ hdr.read.uid;
        meta.group = hdr.value.value_6 ^ hdr.read.gid;
    }

    action class_is(bit<2> of_class) {
        meta.of_class = of_class;
    }
    action fits_if(bit<1> yes) {
        meta.fits = yes;
    }
    action passes() {
        meta.passed = LEVEL_PASSED;
    }
    action denies() {
        meta.passed = LEVEL_DENIED;
    }
    action cannot_tell() {
        meta.passed = LEVEL_UNKNOWN;
    }

#include "class.p4"
#include "fits.p4"
#include "may.p4"

    apply {
        if (meta.kind == KIND_READ) {
            compare();
            class_of.apply();
            fits.apply();
            may.apply();
        }
    }
}

#endif
