/* What the program keeps, and how the C form reaches it (state.h). src/maps.rs gives the same layouts to the kernel. */
#ifndef ONPATH_XDP_MAPS_H
#define ONPATH_XDP_MAPS_H

#include <linux/bpf.h>
#include <linux/types.h>

#define SECTION(name) __attribute__((section(name), used))

/* Maps as the loader reads them from the types. */
#define KIND(name, value) int(*name)[value]
#define TYPE(name, type) type *name

static void *(*map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*redirect_map)(void *map, __u64 key, __u64 flags) = (void *)BPF_FUNC_redirect_map;
static long (*tail_call)(void *context, void *programs, __u32 number) = (void *)BPF_FUNC_tail_call;
static long (*loop)(__u32 times, void *what, void *with, __u64 flags) = (void *)BPF_FUNC_loop;
static long (*spin_lock)(struct bpf_spin_lock *lock) = (void *)BPF_FUNC_spin_lock;
static long (*spin_unlock)(struct bpf_spin_lock *lock) = (void *)BPF_FUNC_spin_unlock;

/* Most devices of a switch. */
#define DEVICES_MAX 32

/* The way to a node: `port` is the number of its device in the kernel, `device` that in `devices`. */
struct onpath_route {
	__u32 port;
	__u32 device;
	__be32 address;
	__be16 udp_port;
	/* Link addresses: of the node, or of the next hop, and of the device. */
	__u8 to[6];
	__u8 from[6];
	__u16 spare;
};

#include "state.h"

/* What is fixed when the program is loaded. */
struct settings {
	struct onpath_config config;
	/* The IPv4 address of the switch. */
	__be32 address;
};

/* Where a host's frames come from (D-44). */
struct source {
	/* The number of the device in the kernel by which they come in. */
	__u32 device;
	__be32 address;
	__be16 udp_port;
	__u16 spare;
};

/* One lock for all registers of a structure: SPEC.md, XDP. */
struct tracked {
	struct onpath_tracking tracking;
	struct bpf_spin_lock lock;
};

/* Of one processor: the number that the last two copies were made with, and of which pair the first left last. */
struct twins {
	__u32 last;
	__u32 half;
};

#define KEYED_MAP(name, kind, entries, key_type, value_type) \
	struct {                                            \
		KIND(type, kind);                           \
		KIND(max_entries, entries);                 \
		TYPE(key, key_type);                        \
		TYPE(value, value_type);                    \
	} name SECTION(".maps")
/* A table that takes memory for the entries that it has. */
#define GROWING_MAP(name, entries, key_type, value_type) \
	struct {                                         \
		KIND(type, BPF_MAP_TYPE_HASH);           \
		KIND(max_entries, entries);              \
		KIND(map_flags, BPF_F_NO_PREALLOC);      \
		TYPE(key, key_type);                     \
		TYPE(value, value_type);                 \
	} name SECTION(".maps")
#define MAP(name, kind, entries, value_type) KEYED_MAP(name, kind, entries, __u32, value_type)

MAP(settings, BPF_MAP_TYPE_ARRAY, 1, struct settings);
MAP(tracking, BPF_MAP_TYPE_ARRAY, 1, struct tracked);
MAP(pairs, BPF_MAP_TYPE_ARRAY, ONPATH_SHARDS, struct onpath_pair);
MAP(sets, BPF_MAP_TYPE_ARRAY, 1 << ONPATH_INDEX_BITS, struct onpath_set);
MAP(visibility, BPF_MAP_TYPE_ARRAY, 1, struct tracked);
MAP(entries, BPF_MAP_TYPE_ARRAY, 1 << ONPATH_ENTRY_BITS, struct onpath_entry);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, ONPATH_COUNTERS, __u64);
MAP(routes, BPF_MAP_TYPE_HASH, ONPATH_ROUTES_MAX, struct onpath_route);
KEYED_MAP(hosts, BPF_MAP_TYPE_HASH, ONPATH_HOSTS_MAX, struct source, __u32);
MAP(twins, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct twins);
/* Programs of structures that have one of their own. */
enum { PART_CACHE, PARTS };
struct {
	KIND(type, BPF_MAP_TYPE_PROG_ARRAY);
	KIND(max_entries, PARTS);
	KIND(key_size, 4);
	KIND(value_size, 4);
} parts SECTION(".maps");
/* By which devices a copy leaves; their egress program is onpath_twin. */
MAP(devices, BPF_MAP_TYPE_DEVMAP, DEVICES_MAX, struct bpf_devmap_val);

/* For every two devices, or one twice: the device of the first copy and that of the second. */
struct two_devices {
	KIND(type, BPF_MAP_TYPE_DEVMAP);
	KIND(max_entries, 2);
	TYPE(key, __u32);
	TYPE(value, struct bpf_devmap_val);
};

struct {
	KIND(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	KIND(max_entries, DEVICES_MAX * DEVICES_MAX);
	TYPE(key, __u32);
	KIND(value_size, 4);
	struct two_devices *values[];
} two_devices SECTION(".maps");

/* A packet: where it comes from, and the copies that it makes, at most two. */
struct onpath_state {
	struct source from;
	/* Of the cache: what its tokens are of. */
	__u32 epoch;
	__u32 copies;
	__u32 node;
	const struct onpath_route *first;
	const struct onpath_route *second;
	/* What the header of the first copy has in common with all others. */
	struct onpath_common header;
};

ONPATH_INLINE int onpath_from_host(struct onpath_state *state)
{
	return map_lookup(&hosts, &state->from) != 0;
}

#define FIND(map, number)                       \
	__u32 key = number;                     \
	(void)state;                            \
	return map_lookup(&map, &key)

ONPATH_INLINE const struct settings *get_settings(void)
{
	__u32 key = 0;

	return map_lookup(&settings, &key);
}

ONPATH_INLINE const struct onpath_config *onpath_get_config(struct onpath_state *state)
{
	/* `config` is its first member. */
	FIND(settings, 0);
}

ONPATH_INLINE struct onpath_tracking *onpath_get_tracking(struct onpath_state *state)
{
	/* `tracking` is its first member. */
	FIND(tracking, 0);
}

ONPATH_INLINE struct onpath_pair *onpath_find_pair(struct onpath_state *state, __u32 shard)
{
	FIND(pairs, shard);
}

ONPATH_INLINE struct onpath_set *onpath_find_set(struct onpath_state *state, __u32 set)
{
	FIND(sets, set);
}

ONPATH_INLINE struct onpath_tracking *onpath_get_visibility(struct onpath_state *state)
{
	FIND(visibility, 0);
}

ONPATH_INLINE struct onpath_entry *onpath_find_entry(struct onpath_state *state, __u32 number)
{
	FIND(entries, number);
}

ONPATH_INLINE __u64 *onpath_find_counter(struct onpath_state *state, enum onpath_counter counter)
{
	FIND(counters, counter);
}

ONPATH_INLINE const struct onpath_route *onpath_find_route(struct onpath_state *state, __u32 node)
{
	FIND(routes, node);
}

#include "cache.h"

ONPATH_INLINE void onpath_enter(struct onpath_tracking *tracking)
{
	spin_lock(&((struct tracked *)tracking)->lock);
}

ONPATH_INLINE void onpath_leave(struct onpath_tracking *tracking)
{
	spin_unlock(&((struct tracked *)tracking)->lock);
}

/* Only remembers: what goes where is written when all copies are known. */
ONPATH_INLINE void onpath_emit(struct onpath_state *state, const union onpath_innet *header,
			       const struct onpath_common *common, __u32 node, const struct onpath_route *way)
{
	(void)header;
	if (state->copies++) {
		state->second = way;
		return;
	}
	state->first = way;
	state->node = node;
	state->header = *common;
}

#endif
