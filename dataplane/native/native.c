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

/* Who may ask by a port: in the name of anybody (0), or of a caller (1). */
struct requester {
	__u32 port;
	__u32 named;
	__u32 uid;
	__u32 gid;
};

struct name {
	__u64 key;
	__u32 token;
	struct onpath_found entry;
};

struct onpath_state {
	struct onpath_config config;
	struct onpath_tracking tracking;
	struct onpath_tracking visibility;
	struct onpath_lease lease;
	struct onpath_report report;
	__u32 clock;
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
	/* Sorted. */
	__u32 requesters_used;
	struct requester requesters[ONPATH_REQUESTERS_MAX];
	__u32 names_used;
	/* The sets, and behind them the entries, those of the cache, its names, and what it counts. */
	__u64 registers[];
};

static struct onpath_set *all_sets(struct onpath_state *state)
{
	return (struct onpath_set *)state->registers;
}

static struct onpath_entry *all_entries(struct onpath_state *state)
{
	return (struct onpath_entry *)(all_sets(state) + onpath_sets(&state->config));
}

/* Sorted. */
static struct name *all_names(struct onpath_state *state)
{
	return (struct name *)(all_entries(state) + onpath_entries(&state->config));
}

static struct onpath_cached *all_cached(struct onpath_state *state)
{
	return (struct onpath_cached *)(all_names(state) + onpath_cached_entries(&state->config));
}

static __u32 *all_hits(struct onpath_state *state)
{
	return (__u32 *)(all_cached(state) + onpath_cached_entries(&state->config));
}

/* Row after row. */
static __u16 *all_missed(struct onpath_state *state)
{
	return (__u16 *)(all_hits(state) + onpath_cached_entries(&state->config));
}

static __u8 *all_reported(struct onpath_state *state)
{
	return (__u8 *)(all_missed(state) + ONPATH_SKETCH_ROWS * onpath_cached_entries(&state->config));
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

#include "cache_state.h"

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

#include "cache_control.h"

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

/* A packet that waits on its way. */
struct waiting {
	union onpath_innet header;
	struct onpath_walk walk;
};

/* What Rust calls: src/ffi.rs. */

__u64 onpath_native_bytes(const struct onpath_config *config);
void onpath_native_load(struct onpath_state *state, const struct onpath_config *config);
struct onpath_tracking *onpath_native_tracking(struct onpath_state *state);
struct onpath_pair *onpath_native_pairs(struct onpath_state *state);
struct onpath_set *onpath_native_sets(struct onpath_state *state);
struct onpath_tracking *onpath_native_visibility(struct onpath_state *state);
struct onpath_entry *onpath_native_entries(struct onpath_state *state);
/* (until, epoch). */
struct onpath_lease *onpath_native_lease(struct onpath_state *state);
struct onpath_cached *onpath_native_cached(struct onpath_state *state);
__u32 *onpath_native_hits(struct onpath_state *state);
__u16 *onpath_native_missed(struct onpath_state *state);
__u8 *onpath_native_reported(struct onpath_state *state);
const __u64 *onpath_native_counters(const struct onpath_state *state);
__u32 onpath_native_step(struct onpath_state *state, __u32 port, __u32 udp_port, const __u8 *payload, __u64 length,
			 struct copy *copies, __u32 copies_max, __u32 *copies_made);
__u32 onpath_native_arrive(struct onpath_state *state, __u32 port, __u32 udp_port, const __u8 *payload, __u64 length,
			   struct copy *copies, __u32 copies_max, __u32 *copies_made, struct waiting *waiting);
__u32 onpath_native_go_on(struct onpath_state *state, struct copy *copies, __u32 copies_max, __u32 *copies_made,
			  struct waiting *waiting);
__u32 onpath_native_control(struct onpath_state *state, __u32 command, __u32 a, __u32 b, __u32 port);
__u32 onpath_native_cache(struct onpath_state *state, __u32 command, const __u64 *arguments);
void onpath_native_plant(__u32 rule);

__u64 onpath_native_bytes(const struct onpath_config *config)
{
	return sizeof(struct onpath_state) + sizeof(struct onpath_set) * (__u64)onpath_sets(config) +
	       sizeof(struct onpath_entry) * (__u64)onpath_entries(config) +
	       (sizeof(struct name) + sizeof(struct onpath_cached) + sizeof(__u32) + ONPATH_SKETCH_ROWS * sizeof(__u16) + 1) *
		       (__u64)onpath_cached_entries(config);
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

struct onpath_lease *onpath_native_lease(struct onpath_state *state)
{
	return &state->lease;
}

struct onpath_cached *onpath_native_cached(struct onpath_state *state)
{
	return all_cached(state);
}

__u32 *onpath_native_hits(struct onpath_state *state)
{
	return all_hits(state);
}

__u16 *onpath_native_missed(struct onpath_state *state)
{
	return all_missed(state);
}

__u8 *onpath_native_reported(struct onpath_state *state)
{
	return all_reported(state);
}

const __u64 *onpath_native_counters(const struct onpath_state *state)
{
	return state->counters;
}

/* What there is of a header in a payload; of how long it is only whether a header is whole decides. */
static __u32 read_header(union onpath_innet *header, const __u8 *payload, __u64 length)
{
	union onpath_innet none = { .bytes = { 0 } };
	__u32 at;

	*header = none;
	for (at = 0; at < ONPATH_HEADER_BYTES_MAX && at < length; at++)
		header->bytes[at] = payload[at];
	return at;
}

__u32 onpath_native_step(struct onpath_state *state, __u32 port, __u32 udp_port, const __u8 *payload, __u64 length,
			 struct copy *copies, __u32 copies_max, __u32 *copies_made)
{
	union onpath_innet header;
	__u32 counter, whole = read_header(&header, payload, length);

	state->in_port = port;
	state->copies = copies;
	state->copies_max = copies_max;
	state->copies_made = 0;
	counter = onpath_step(state, ONPATH_HAS_ALL, udp_port, &header, whole);
	*copies_made = state->copies_made;
	state->copies = 0;
	return counter;
}

/* What a packet was counted as; ONPATH_COUNTERS: it waits. */
static __u32 finished(struct onpath_state *state, int waits, union onpath_innet *header, const struct onpath_done *done,
		      __u32 *copies_made)
{
	__u32 counter = waits ? (__u32)ONPATH_COUNTERS : (__u32)onpath_finish(state, header, done);

	*copies_made = state->copies_made;
	state->copies = 0;
	return counter;
}

__u32 onpath_native_arrive(struct onpath_state *state, __u32 port, __u32 udp_port, const __u8 *payload, __u64 length,
			   struct copy *copies, __u32 copies_max, __u32 *copies_made, struct waiting *waiting)
{
	struct onpath_done done;
	__u32 whole = read_header(&waiting->header, payload, length);
	int waits;

	state->in_port = port;
	state->copies = copies;
	state->copies_max = copies_max;
	state->copies_made = 0;
	waits = onpath_decide(state, ONPATH_HAS_ALL, udp_port, &waiting->header, whole, &waiting->walk, &done);
	return finished(state, waits, &waiting->header, &done, copies_made);
}

__u32 onpath_native_go_on(struct onpath_state *state, struct copy *copies, __u32 copies_max, __u32 *copies_made,
			  struct waiting *waiting)
{
	struct onpath_done done;

	state->copies = copies;
	state->copies_max = copies_max;
	state->copies_made = 0;
	return finished(state, onpath_go_on(state, &state->config, &waiting->header, &waiting->walk, &done), &waiting->header,
			&done, copies_made);
}

/* Commands of the cache, in the order of src/lib.rs. */
__u32 onpath_native_cache(struct onpath_state *state, __u32 command, const __u64 *arguments)
{
	__u32 a = arguments[0], b = arguments[1], c = arguments[2];
	struct onpath_found entry = { arguments[3], arguments[4] };
	struct onpath_route way = { a };

	switch (command) {
	case 0:
		state->clock = a;
		return ONPATH_ACCEPTED;
	case 1:
		return onpath_control_cache_begin(state, a, b);
	case 2:
		return onpath_control_cache_renew(state, a, b);
	case 3:
		return onpath_control_cache_off(state);
	case 4:
		return onpath_control_cache_empty(state);
	case 5:
		return onpath_control_cache_stamp(state, a, b, c);
	case 6:
		return onpath_control_cache_admit(state, a, arguments[1], c, &entry);
	case 7:
		return onpath_control_cache_evict(state, a, arguments[1], c);
	case 8:
		return onpath_control_cache_list(state, &way, 1, 0, 0);
	case 9:
		return onpath_control_cache_list(state, &way, 0, b, c);
	case 10:
		return onpath_control_cache_unlist(state, &way);
	case 11:
		onpath_put_report(state, a, b);
		return ONPATH_ACCEPTED;
	default:
		return onpath_control_cache_reset(state);
	}
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
		/* D-111. */
		if (onpath_planted(111))
			onpath_control_cache_off(state);
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
