// What a packet of the cache is on its way through the program, beside common/headers.p4 (dataplane/SPEC.md, D-67 to D-110).
#ifndef ONPATH_CACHE_HEADERS_P4
#define ONPATH_CACHE_HEADERS_P4

#include "innet.p4"

// Bits of an index of the cache, fixed when the program is compiled: 2^CACHE_BITS entries, and as many places in a row of the sketch.
#ifndef CACHE_BITS
#define CACHE_BITS 16
#endif
#if CACHE_BITS > 16
#error "an index of the cache has 16 bits"
#endif
#define CACHED (1 << CACHE_BITS)

// Kinds of packets (meta.kind) beside those of common/headers.p4.
const bit<8> KIND_READ = 0x87;
const bit<8> KIND_FILL = 0x88;
const bit<8> KIND_INVALIDATE = 0x89;

// Who gets copies (meta.deliver) beside those of common/headers.p4: the node that asks; the destination, and whoever hears of misses; the
// program itself, for the next pass.
const bit<8> DELIVER_REQUESTER = 5;
const bit<8> DELIVER_MISSED = 6;
const bit<8> DELIVER_AGAIN = 7;

// Whether a packet is listened to (meta.asked).
const bit<2> ASKED_OTHER_EPOCH = 0;
const bit<2> ASKED_BY_STRANGER = 1;
const bit<2> ASKED_WELL = 2;

// Whose bits of the mode count (meta.of_class).
const bit<2> CLASS_OTHERS = 0;
const bit<2> CLASS_GROUP = 1;
const bit<2> CLASS_OWNER = 2;

// What a level says to who asks (meta.passed).
const bit<2> LEVEL_UNKNOWN = 0;
const bit<2> LEVEL_PASSED = 1;
const bit<2> LEVEL_DENIED = 2;

// Word 4 of a value: kind in the upper 8 bits, permission bits in the lower 16.
const bit<32> WORD_OF_KIND = 0xff000000;
const bit<32> WORD_DIRECTORY = 0x04000000;
const bit<32> WORD_FILE = 0x08000000;
const bit<32> WORD_SYMLINK = 0x0a000000;

#endif
