// What a packet is on its way through the program: its headers, and what the stages tell each other (dataplane/SPEC.md).
#ifndef ONPATH_HEADERS_P4
#define ONPATH_HEADERS_P4

#include "innet.p4"
// An architecture that has the cache says so (WITH_CACHE), and also if it has nothing else (CACHE_ALONE).
#ifdef WITH_CACHE
#include "../cache/headers.p4"
#endif

// What is fixed when the program is compiled, each by -D: the number of the file system (D-4), the in-network port (D-1), the bits
// of an index (D-9, D-12), how many arrays of tags there are, and the bits of an entry's number (D-9, D-47). Without them: the file system of dataplane/vectors, and full size.
#ifndef CLUSTER
#define CLUSTER 0x0C1A57E2
#endif
#ifndef PORT
#define PORT UDP_PORT
#endif
#ifndef SET_BITS
#define SET_BITS 17
#endif
#if SET_BITS > 17
#error "a fingerprint has an index of 17 bits"
#endif
#ifndef STAGES
#define STAGES 10
#endif
#if STAGES > 10
#error "a pass has 12 stages: at most 10 arrays of tags"
#endif

#ifndef ENTRY_BITS
#define ENTRY_BITS 16
#endif
#if ENTRY_BITS > 16
#error "numbers of entries have 16 bits"
#endif

// Entries of a table of routes: as many as there are nodes will do.
#ifndef ROUTES
#define ROUTES 65536
#endif

// Sets that this switch has.
#define SETS (1 << SET_BITS)

const bit<32> SET_MASK = SETS - 1;
// What an index that has a set does not have.
const bit<32> BEYOND_SETS = 0xffffffff - (SETS - 1);
// Entries of the visibility table that this switch has.
#define ENTRIES (1 << ENTRY_BITS)

const bit<32> ENTRY_MASK = ENTRIES - 1;
// What the number of an entry does not have.
const bit<32> BEYOND_ENTRIES = 0xffffffff - (ENTRIES - 1);
const bit<32> CLUSTER_NUMBER = CLUSTER;
const bit<16> IN_NETWORK_PORT = PORT;

const bit<16> ETHER_TYPE_IPV4 = 0x0800;
const bit<8> IP_PROTOCOL_UDP = 17;
const bit<32> ETHERNET_BYTES = 14;
const bit<32> IPV4_BYTES = 20;
// Copies are packets of the switch: they start anew.
const bit<8> TTL_OF_COPIES = 64;

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> diffserv;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    innet_t innet;
#ifndef CACHE_ALONE
    dirty_set_t dirty_set;
    visibility_t visibility;
#endif
#ifdef WITH_CACHE
    cache_read_t read;
    cache_levels_t levels;
    cache_entry_t entry;
    cache_value_t value;
#endif
}

// What the parser found (meta.kind). Below 0x80 it is the number of the counter: plain, or why the packet is dropped.
const bit<8> KIND_PLAIN = 0;
const bit<8> KIND_ANSWERED = 0x80;
const bit<8> KIND_QUERY = 0x81;
const bit<8> KIND_INSERT = 0x82;
const bit<8> KIND_REMOVE = 0x83;
const bit<8> KIND_LOOK = 0x84;
const bit<8> KIND_INSTALL = 0x85;
const bit<8> KIND_CLEAR = 0x86;

// How much of the in-network header is there, to an architecture that checks it behind the parser.
const bit<2> FORM_NONE = 0;
const bit<2> FORM_COMMON = 1;
const bit<2> FORM_WHOLE = 2;

// What the register of its structure's epoch says about a packet: of another epoch, of this one, and whether the structure is complete.
const bit<2> TRACKING_OTHER = 0;
const bit<2> TRACKING_RUNS = 1;
const bit<2> TRACKING_COMPLETE = 2;

// How the term of a remove compares with min_term.
const bit<2> TERM_EQUAL = 0;
const bit<2> TERM_LOWER = 1;
const bit<2> TERM_AHEAD = 2;

// Who gets copies (meta.deliver).
const bit<8> DELIVER_PLAIN = 0;
const bit<8> DELIVER_NOBODY = 1;
const bit<8> DELIVER_DESTINATION = 2;
const bit<8> DELIVER_SHARD = 3;
const bit<8> DELIVER_SHARD_AND_DESTINATION = 4;

// An architecture says how what a copy carries into the egress is marked.
#ifndef COPIED
#define COPIED
#endif
// And what a pass of the cache hands to the next.
#ifndef CARRIED
#define CARRIED
#endif

struct meta_t {
    bit<8> kind;
    bit<2> form;
    bit<2> tracking;
    bit<2> term_order;
    bit<1> admitted;
    // Insert, query: the set has the tag. Look: the entry is of this file. Install: it is now. Clear: it is free now.
    bit<1> held;
    // Routes (stage 0): whether there is one, the port, and how a second copy gets there.
    bit<1> destination_known;
    bit<1> shard_known;
    // It came in by a port that is a host's (D-44).
    bit<1> from_host;
    bit<9> destination_port;
    bit<9> shard_port;
    bit<16> destination_copy;
    // For the egress: whom the copy is for, and of two copies the second.
    COPIED bit<8> deliver;
    COPIED bit<8> result;
    COPIED bit<32> node;
    COPIED bit<32> second;
    bit<1> rewritten;
#ifdef WITH_CACHE
    // Passes before this one.
    CARRIED bit<8> passes;
    // What this pass looks up, and where on its way it is.
    bit<32> key_0;
    bit<32> key_1;
    bit<8> token;
    bit<1> root;
    bit<1> last;
    // The key that a miss is counted by.
    bit<32> counted_0;
    bit<32> counted_1;
    // The packet's epoch and that of the cache: 0 if they are equal.
    bit<16> epoch_differs;
    bit<1> may_name_any;
    bit<1> may_name_this;
    bit<2> asked;
    // What the name has.
    bit<1> found;
    bit<16> index;
    bit<32> number;
    bit<32> other_number;
    // What a fill or an invalidate makes of s; s, to a read, if the stamp is its entry's.
    bit<32> reaches;
    bit<32> state;
    // Whether a fill found the stamp of its entry, and whether what a fill or an invalidate wants is done.
    bit<1> its;
    bit<1> done;
    // What differs between the value and who asks: 0 if it is equal.
    bit<32> parent_0;
    bit<32> parent_1;
    bit<32> owner;
    bit<32> group;
    bit<2> of_class;
    bit<1> fits;
    bit<2> passed;
    bit<1> requester_known;
    bit<9> requester_port;
    // A miss is told to who hears of it, and whether there is a route.
    bit<1> reported;
    bit<1> second_known;
#endif
}

#endif
