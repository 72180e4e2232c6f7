/* What the program keeps of the cache, and how the C form reaches it (cache/state.h): a part of maps.h. src/layout.rs has the layouts. */
#ifndef ONPATH_XDP_CACHE_H
#define ONPATH_XDP_CACHE_H

static __u64 (*boot_time_ns)(void) = (void *)BPF_FUNC_ktime_get_boot_ns;

/* The lease, and the tick at which the clock of a switch under test stands. */
struct leased {
	struct onpath_lease lease;
	struct bpf_spin_lock lock;
	__u32 stands;
	__u32 tick;
};

/* Names of an epoch are found by packets of that epoch alone. */
struct name {
	__u64 key;
	__u32 token;
	__u32 epoch;
};

struct cached {
	struct onpath_cached entry;
	struct bpf_spin_lock lock;
};

/* What is counted at one place: misses in each row and whether they were told, and the answers of the entry of this index. */
struct counted {
	__u16 missed[ONPATH_SKETCH_ROWS];
	__u8 reported;
	__u8 spare;
	__u32 hits;
};

/* Who may ask: in the name of anybody (0), or of a caller (1). */
struct requester {
	struct source from;
	__u32 named;
	__u32 uid;
	__u32 gid;
};

MAP(lease, BPF_MAP_TYPE_ARRAY, 1, struct leased);
GROWING_MAP(names, 1 << ONPATH_CACHE_BITS, struct name, struct onpath_found);
MAP(cached, BPF_MAP_TYPE_ARRAY, 1 << ONPATH_CACHE_BITS, struct cached);
MAP(counted, BPF_MAP_TYPE_ARRAY, 1 << ONPATH_CACHE_BITS, struct counted);
GROWING_MAP(requesters, ONPATH_REQUESTERS_MAX, struct requester, __u32);
MAP(report, BPF_MAP_TYPE_ARRAY, 1, struct onpath_report);

ONPATH_INLINE struct leased *get_leased(void)
{
	__u32 key = 0;

	return map_lookup(&lease, &key);
}

/* Time since the machine was started, that of its sleep included. */
ONPATH_INLINE __u32 onpath_now(struct onpath_state *state)
{
	const struct leased *own = get_leased();

	(void)state;
	return own && own->stands ? own->tick : (__u32)(boot_time_ns() >> 16);
}

ONPATH_INLINE struct onpath_lease *onpath_get_lease(struct onpath_state *state)
{
	/* `lease` is its first member. */
	FIND(lease, 0);
}

ONPATH_INLINE void onpath_end_lease(struct onpath_lease *lease, const struct onpath_lease *seen)
{
	struct leased *own = (struct leased *)lease;

	spin_lock(&own->lock);
	if (lease->until == seen->until && lease->epoch == seen->epoch)
		lease->epoch = 0;
	spin_unlock(&own->lock);
}

ONPATH_INLINE const struct onpath_report *onpath_get_report(struct onpath_state *state)
{
	FIND(report, 0);
}

ONPATH_INLINE const struct onpath_found *onpath_find_name(struct onpath_state *state, __u64 key, __u32 token)
{
	struct name name = { key, token, state->epoch };

	return map_lookup(&names, &name);
}

ONPATH_INLINE struct onpath_cached *onpath_find_cached(struct onpath_state *state, __u32 index)
{
	FIND(cached, index);
}

ONPATH_INLINE struct counted *find_counted(__u32 place)
{
	return map_lookup(&counted, &place);
}

ONPATH_INLINE __u16 *onpath_find_missed(struct onpath_state *state, __u32 row, __u32 place)
{
	struct counted *counts = find_counted(place);

	(void)state;
	return counts && row < ONPATH_SKETCH_ROWS ? &counts->missed[row] : 0;
}

ONPATH_INLINE __u8 *onpath_find_reported(struct onpath_state *state, __u32 place)
{
	struct counted *counts = find_counted(place);

	(void)state;
	return counts ? &counts->reported : 0;
}

ONPATH_INLINE __u32 *onpath_find_hits(struct onpath_state *state, __u32 index)
{
	struct counted *counts = find_counted(index);

	(void)state;
	return counts ? &counts->hits : 0;
}

ONPATH_INLINE int onpath_asks_for_any(struct onpath_state *state)
{
	struct requester any = { state->from, 0, 0, 0 };

	return map_lookup(&requesters, &any) != 0;
}

ONPATH_INLINE int onpath_asks_for(struct onpath_state *state, __u32 uid, __u32 gid)
{
	struct requester caller = { state->from, 1, uid, gid };

	return map_lookup(&requesters, &caller) != 0;
}

ONPATH_INLINE void onpath_enter_cached(struct onpath_cached *entry)
{
	spin_lock(&((struct cached *)entry)->lock);
}

ONPATH_INLINE void onpath_leave_cached(struct onpath_cached *entry)
{
	spin_unlock(&((struct cached *)entry)->lock);
}

#endif
