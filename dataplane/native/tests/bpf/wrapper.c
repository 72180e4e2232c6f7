/* The C form with its state in BPF maps: shows that clang takes the headers for a BPF program. It is no target: it looks at a frame
 * only as far as the port, and of several copies it sends the last. */

#include <linux/bpf.h>
#include <linux/types.h>

#define SECTION(name) __attribute__((section(name), used))

/* Maps as the loader reads them from the types. */
#define KIND(name, value) int(*name)[value]
#define TYPE(name, type) type *name

static void *(*map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*redirect_map)(void *map, __u64 key, __u64 flags) = (void *)BPF_FUNC_redirect_map;
static long (*spin_lock)(struct bpf_spin_lock *lock) = (void *)BPF_FUNC_spin_lock;
static long (*spin_unlock)(struct bpf_spin_lock *lock) = (void *)BPF_FUNC_spin_unlock;

struct onpath_route {
	__u32 port;
};

#include "state.h"

struct onpath_state {
	struct onpath_innet *packet;
	long action;
};

struct tracked {
	struct onpath_tracking tracking;
	struct bpf_spin_lock lock;
};

#define MAP(name, kind, entries, value_type)           \
	struct {                                       \
		KIND(type, kind);                      \
		KIND(max_entries, entries);            \
		TYPE(key, __u32);                      \
		TYPE(value, value_type);               \
	} name SECTION(".maps")

MAP(configs, BPF_MAP_TYPE_ARRAY, 1, struct onpath_config);
MAP(tracking, BPF_MAP_TYPE_ARRAY, 1, struct tracked);
MAP(pairs, BPF_MAP_TYPE_ARRAY, ONPATH_SHARDS, struct onpath_pair);
MAP(sets, BPF_MAP_TYPE_ARRAY, 1 << ONPATH_INDEX_BITS, struct onpath_set);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, ONPATH_COUNTERS, __u64);
MAP(peers, BPF_MAP_TYPE_ARRAY, 1, struct onpath_peers);
MAP(routes, BPF_MAP_TYPE_HASH, ONPATH_ROUTES_MAX, struct onpath_route);
MAP(groups, BPF_MAP_TYPE_HASH, ONPATH_GROUPS_MAX, struct onpath_group);
MAP(ports, BPF_MAP_TYPE_DEVMAP, 64, __u32);

#define FIND(map, number)                       \
	__u32 key = number;                     \
	(void)state;                            \
	return map_lookup(&map, &key)

ONPATH_INLINE const struct onpath_config *onpath_get_config(struct onpath_state *state)
{
	FIND(configs, 0);
}

ONPATH_INLINE struct onpath_tracking *onpath_get_tracking(struct onpath_state *state)
{
	/* `tracking` is its first member. */
	FIND(tracking, 0);
}

ONPATH_INLINE struct onpath_peers *onpath_get_peers(struct onpath_state *state)
{
	FIND(peers, 0);
}

ONPATH_INLINE struct onpath_pair *onpath_find_pair(struct onpath_state *state, __u32 shard)
{
	FIND(pairs, shard);
}

ONPATH_INLINE struct onpath_set *onpath_find_set(struct onpath_state *state, __u32 set)
{
	FIND(sets, set);
}

ONPATH_INLINE __u64 *onpath_find_counter(struct onpath_state *state, enum onpath_counter counter)
{
	FIND(counters, counter);
}

ONPATH_INLINE const struct onpath_route *onpath_find_route(struct onpath_state *state, __u32 node)
{
	FIND(routes, node);
}

ONPATH_INLINE const struct onpath_group *onpath_find_group(struct onpath_state *state, __u32 group)
{
	FIND(groups, group);
}

ONPATH_INLINE void onpath_enter(struct onpath_tracking *tracking)
{
	spin_lock(&((struct tracked *)tracking)->lock);
}

ONPATH_INLINE void onpath_leave(struct onpath_tracking *tracking)
{
	spin_unlock(&((struct tracked *)tracking)->lock);
}

ONPATH_INLINE void onpath_emit(struct onpath_state *state, const struct onpath_innet *header, __u32 node,
			       const struct onpath_route *way)
{
	(void)node;
	*state->packet = *header;
	state->action = redirect_map(&ports, way->port, 0);
}

#include "program.h"

/* Ethernet, IPv4 without options, UDP. */
#define BEFORE_PAYLOAD (14 + 20 + 8)

SECTION("xdp") int onpath_wrapper(struct xdp_md *context)
{
	__u8 *data = (__u8 *)(long)context->data, *end = (__u8 *)(long)context->data_end;
	struct onpath_innet header;
	struct onpath_state state = { 0, XDP_DROP };
	__u32 udp_port;

	if (data + BEFORE_PAYLOAD + ONPATH_HEADER_BYTES > end)
		return XDP_PASS;
	udp_port = (__u32)data[BEFORE_PAYLOAD - 6] << 8 | data[BEFORE_PAYLOAD - 5];
	state.packet = (struct onpath_innet *)(data + BEFORE_PAYLOAD);
	header = *state.packet;
	if (onpath_step(&state, udp_port, &header, end - data - BEFORE_PAYLOAD) == ONPATH_PLAIN)
		return XDP_PASS;
	return state.action;
}

char licence_of_program[] SECTION("license") = "Apache-2.0";
