/* The C form over a plain struct, for tests: the state lies in memory that the caller gives, and is 0 to begin with. */

#include <linux/types.h>

struct onpath_route {
	__u32 port;
};

/* A test says for each thread which rule is removed; 0 is none. */
#ifdef ONPATH_PLANTED
static _Thread_local __u32 removed_rule;
#undef ONPATH_PLANTED
#define ONPATH_PLANTED removed_rule
#endif

#include "state.h"

/* A copy that leaves, as Rust reads it. */
struct copy {
	__u32 port;
	__u32 node;
	union onpath_innet header;
};

struct node_route {
	__u32 node;
	struct onpath_route way;
};

struct onpath_state {
	struct onpath_config config;
	struct onpath_tracking tracking;
	struct onpath_tracking visibility;
	struct onpath_pair pairs[ONPATH_SHARDS];
	__u64 counters[ONPATH_COUNTERS];
	/* The port by which the packet came in that is on its way, and where its copies go. */
	__u32 in_port;
	struct copy *copies;
	__u32 copies_max;
	__u32 copies_made;
	/* Sorted by node. */
	__u32 routes_used;
	struct node_route routes[ONPATH_ROUTES_MAX];
	__u32 hosts_used;
	__u32 hosts[ONPATH_HOSTS_MAX];
	/* The sets, and behind them the entries. */
	__u32 registers[];
};

static struct onpath_set *all_sets(struct onpath_state *state)
{
	return (struct onpath_set *)state->registers;
}

static struct onpath_entry *all_entries(struct onpath_state *state)
{
	return (struct onpath_entry *)(all_sets(state) + onpath_sets(&state->config));
}

ONPATH_INLINE const struct onpath_config *onpath_get_config(struct onpath_state *state)
{
	return &state->config;
}

ONPATH_INLINE struct onpath_tracking *onpath_get_tracking(struct onpath_state *state)
{
	return &state->tracking;
}

ONPATH_INLINE struct onpath_pair *onpath_find_pair(struct onpath_state *state, __u32 shard)
{
	return shard < ONPATH_SHARDS ? &state->pairs[shard] : 0;
}

ONPATH_INLINE struct onpath_set *onpath_find_set(struct onpath_state *state, __u32 set)
{
	return set < onpath_sets(&state->config) ? &all_sets(state)[set] : 0;
}

ONPATH_INLINE struct onpath_tracking *onpath_get_visibility(struct onpath_state *state)
{
	return &state->visibility;
}

ONPATH_INLINE struct onpath_entry *onpath_find_entry(struct onpath_state *state, __u32 number)
{
	return number < onpath_entries(&state->config) ? &all_entries(state)[number] : 0;
}

ONPATH_INLINE __u64 *onpath_find_counter(struct onpath_state *state, enum onpath_counter counter)
{
	return (__u32)counter < ONPATH_COUNTERS ? &state->counters[counter] : 0;
}

/* The first place whose node is not smaller. */
static __u32 place_of(const struct onpath_state *state, __u32 node)
{
	__u32 low = 0, high = state->routes_used;

	while (low < high) {
		__u32 middle = low + (high - low) / 2;

		if (state->routes[middle].node < node)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

ONPATH_INLINE const struct onpath_route *onpath_find_route(struct onpath_state *state, __u32 node)
{
	__u32 at = place_of(state, node);

	return at < state->routes_used && state->routes[at].node == node ? &state->routes[at].way : 0;
}

/* The place of a host's port; behind the last if it is none. */
static __u32 place_of_host(const struct onpath_state *state, __u32 port)
{
	__u32 at = 0;

	while (at < state->hosts_used && state->hosts[at] != port)
		at++;
	return at;
}

ONPATH_INLINE int onpath_from_host(struct onpath_state *state)
{
	return place_of_host(state, state->in_port) < state->hosts_used;
}

/* One thread has the state to itself. */
ONPATH_INLINE void onpath_enter(struct onpath_tracking *tracking)
{
	(void)tracking;
}

ONPATH_INLINE void onpath_leave(struct onpath_tracking *tracking)
{
	(void)tracking;
}

/* Copies for which there is no room are made and not written, and so are seen. */
ONPATH_INLINE void onpath_emit(struct onpath_state *state, const union onpath_innet *header,
			       const struct onpath_common *common, __u32 node, const struct onpath_route *way)
{
	if (state->copies_made < state->copies_max) {
		struct copy copy = { way->port, node, *header };

		copy.header.common = *common;
		state->copies[state->copies_made] = copy;
	}
	state->copies_made++;
}

#include "control.h"
#include "program.h"

ONPATH_INLINE int onpath_put_route(struct onpath_state *state, __u32 node, const struct onpath_route *way)
{
	__u32 at = place_of(state, node), last;

	if (at == state->routes_used || state->routes[at].node != node) {
		if (state->routes_used == ONPATH_ROUTES_MAX)
			return -1;
		for (last = state->routes_used++; last > at; last--)
			state->routes[last] = state->routes[last - 1];
		state->routes[at].node = node;
	}
	state->routes[at].way = *way;
	return 0;
}

ONPATH_INLINE void onpath_drop_route(struct onpath_state *state, __u32 node)
{
	__u32 at = place_of(state, node);

	if (at == state->routes_used || state->routes[at].node != node)
		return;
	for (state->routes_used--; at < state->routes_used; at++)
		state->routes[at] = state->routes[at + 1];
}

ONPATH_INLINE int onpath_put_host(struct onpath_state *state, const struct onpath_route *way)
{
	__u32 at = place_of_host(state, way->port);

	if (at == ONPATH_HOSTS_MAX)
		return -1;
	if (at == state->hosts_used)
		state->hosts[state->hosts_used++] = way->port;
	return 0;
}

ONPATH_INLINE void onpath_drop_host(struct onpath_state *state, const struct onpath_route *way)
{
	__u32 at = place_of_host(state, way->port);

	if (at < state->hosts_used)
		state->hosts[at] = state->hosts[--state->hosts_used];
}

ONPATH_INLINE void onpath_clear_tags(struct onpath_state *state)
{
	__u32 set, stage;

	for (set = 0; set < onpath_sets(&state->config); set++) {
		for (stage = 0; stage < ONPATH_STAGES_MAX; stage++)
			all_sets(state)[set].tag[stage] = 0;
	}
}

ONPATH_INLINE void onpath_clear_entries(struct onpath_state *state)
{
	struct onpath_entry none = { 0 };
	__u32 number;

	for (number = 0; number < onpath_entries(&state->config); number++)
		all_entries(state)[number] = none;
}

ONPATH_INLINE void onpath_clear_tables(struct onpath_state *state)
{
	state->routes_used = 0;
	state->hosts_used = 0;
}

ONPATH_INLINE void onpath_clear_counters(struct onpath_state *state)
{
	__u32 counter;

	for (counter = 0; counter < ONPATH_COUNTERS; counter++)
		state->counters[counter] = 0;
}

/* What Rust calls: src/ffi.rs. */

__u64 onpath_native_bytes(const struct onpath_config *config);
void onpath_native_load(struct onpath_state *state, const struct onpath_config *config);
struct onpath_tracking *onpath_native_tracking(struct onpath_state *state);
struct onpath_pair *onpath_native_pairs(struct onpath_state *state);
struct onpath_set *onpath_native_sets(struct onpath_state *state);
struct onpath_tracking *onpath_native_visibility(struct onpath_state *state);
struct onpath_entry *onpath_native_entries(struct onpath_state *state);
const __u64 *onpath_native_counters(const struct onpath_state *state);
__u32 onpath_native_step(struct onpath_state *state, __u32 port, __u32 udp_port, const __u8 *payload, __u64 length,
			 struct copy *copies, __u32 copies_max, __u32 *copies_made);
__u32 onpath_native_control(struct onpath_state *state, __u32 command, __u32 a, __u32 b, __u32 port);
void onpath_native_plant(__u32 rule);

__u64 onpath_native_bytes(const struct onpath_config *config)
{
	return sizeof(struct onpath_state) + sizeof(struct onpath_set) * (__u64)onpath_sets(config) +
	       sizeof(struct onpath_entry) * (__u64)onpath_entries(config);
}

void onpath_native_load(struct onpath_state *state, const struct onpath_config *config)
{
	state->config = *config;
}

struct onpath_tracking *onpath_native_tracking(struct onpath_state *state)
{
	return &state->tracking;
}

struct onpath_pair *onpath_native_pairs(struct onpath_state *state)
{
	return state->pairs;
}

struct onpath_set *onpath_native_sets(struct onpath_state *state)
{
	return all_sets(state);
}

struct onpath_tracking *onpath_native_visibility(struct onpath_state *state)
{
	return &state->visibility;
}

struct onpath_entry *onpath_native_entries(struct onpath_state *state)
{
	return all_entries(state);
}

const __u64 *onpath_native_counters(const struct onpath_state *state)
{
	return state->counters;
}

__u32 onpath_native_step(struct onpath_state *state, __u32 port, __u32 udp_port, const __u8 *payload, __u64 length,
			 struct copy *copies, __u32 copies_max, __u32 *copies_made)
{
	union {
		union onpath_innet header;
		__u8 bytes[ONPATH_HEADER_BYTES_MAX];
	} packet = { .bytes = { 0 } };
	__u32 counter, at;

	for (at = 0; at < ONPATH_HEADER_BYTES_MAX && at < length; at++)
		packet.bytes[at] = payload[at];
	state->in_port = port;
	state->copies = copies;
	state->copies_max = copies_max;
	state->copies_made = 0;
	/* Whether a header is whole is all that the length decides. */
	counter = onpath_step(state, udp_port, &packet.header, length < ONPATH_HEADER_BYTES_MAX ? length : ONPATH_HEADER_BYTES_MAX);
	*copies_made = state->copies_made;
	state->copies = 0;
	return counter;
}

/* Commands in the order of SPEC.md, which is the one of src/lib.rs. */
__u32 onpath_native_control(struct onpath_state *state, __u32 command, __u32 a, __u32 b, __u32 port)
{
	struct onpath_route way = { port };

	switch (command) {
	case 0:
		/* D-62. */
		if (onpath_planted(62))
			onpath_control_visibility_epoch(state, a);
		return onpath_control_epoch(state, a);
	case 1:
		return onpath_control_complete(state, a);
	case 2:
		return onpath_control_raise(state, a, b);
	case 3:
		return onpath_control_clear(state);
	case 4:
		return onpath_control_route(state, a, &way);
	case 5:
		onpath_drop_route(state, a);
		return ONPATH_ACCEPTED;
	case 6:
		return onpath_control_host(state, &way);
	case 7:
		onpath_drop_host(state, &way);
		return ONPATH_ACCEPTED;
	case 8:
		return onpath_control_visibility_epoch(state, a);
	case 9:
		return onpath_control_visibility_complete(state, a);
	case 10:
		return onpath_control_visibility_clear(state);
	default:
		return onpath_control_reboot(state);
	}
}

/* Removes a rule for this thread, in a build in which rules can be removed. */
void onpath_native_plant(__u32 rule)
{
#ifdef ONPATH_PLANTED
	removed_rule = rule;
#else
	(void)rule;
#endif
}
