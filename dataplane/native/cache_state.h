/* How the C form reaches the cache of a plain struct (cache/state.h): a part of native.c. */
#ifndef ONPATH_NATIVE_CACHE_STATE_H
#define ONPATH_NATIVE_CACHE_STATE_H

ONPATH_INLINE __u32 onpath_now(struct onpath_state *state)
{
	return state->clock;
}

ONPATH_INLINE struct onpath_lease *onpath_get_lease(struct onpath_state *state)
{
	return &state->lease;
}

ONPATH_INLINE void onpath_end_lease(struct onpath_lease *lease, const struct onpath_lease *seen)
{
	if (lease->until == seen->until && lease->epoch == seen->epoch)
		lease->epoch = 0;
}

ONPATH_INLINE const struct onpath_report *onpath_get_report(struct onpath_state *state)
{
	return &state->report;
}

/* The first place whose name is not before. */
static __u32 place_of_name(struct onpath_state *state, __u64 key, __u32 token)
{
	const struct name *names = all_names(state);
	__u32 low = 0, high = state->names_used;

	while (low < high) {
		__u32 middle = low + (high - low) / 2;

		if (names[middle].key < key || (names[middle].key == key && names[middle].token < token))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

ONPATH_INLINE const struct onpath_found *onpath_find_name(struct onpath_state *state, __u64 key, __u32 token)
{
	__u32 at = place_of_name(state, key, onpath_planted(80) ? 0 : token);
	const struct name *name = &all_names(state)[at];

	if (at == state->names_used || name->key != key)
		return 0;
	return name->token == token || onpath_planted(80) ? &name->entry : 0;
}

ONPATH_INLINE struct onpath_cached *onpath_find_cached(struct onpath_state *state, __u32 index)
{
	return index < onpath_cached_entries(&state->config) ? &all_cached(state)[index] : 0;
}

ONPATH_INLINE __u16 *onpath_find_missed(struct onpath_state *state, __u32 row, __u32 place)
{
	__u32 places = onpath_cached_entries(&state->config);

	return row < ONPATH_SKETCH_ROWS && place < places ? &all_missed(state)[row * places + place] : 0;
}

ONPATH_INLINE __u8 *onpath_find_reported(struct onpath_state *state, __u32 place)
{
	return place < onpath_cached_entries(&state->config) ? &all_reported(state)[place] : 0;
}

ONPATH_INLINE __u32 *onpath_find_hits(struct onpath_state *state, __u32 index)
{
	return index < onpath_cached_entries(&state->config) ? &all_hits(state)[index] : 0;
}

static int is_before(const struct requester *one, const struct requester *other)
{
	if (one->port != other->port)
		return one->port < other->port;
	if (one->named != other->named)
		return one->named < other->named;
	return one->uid != other->uid ? one->uid < other->uid : one->gid < other->gid;
}

/* The first place whose requester is not before. */
static __u32 place_of_requester(const struct onpath_state *state, const struct requester *of)
{
	__u32 low = 0, high = state->requesters_used;

	while (low < high) {
		__u32 middle = low + (high - low) / 2;

		if (is_before(&state->requesters[middle], of))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int is_listed(const struct onpath_state *state, const struct requester *of)
{
	__u32 at = place_of_requester(state, of);

	return at < state->requesters_used && !is_before(of, &state->requesters[at]);
}

ONPATH_INLINE int onpath_asks_for_any(struct onpath_state *state)
{
	struct requester any = { state->in_port, 0, 0, 0 };

	return is_listed(state, &any);
}

ONPATH_INLINE int onpath_asks_for(struct onpath_state *state, __u32 uid, __u32 gid)
{
	struct requester caller = { state->in_port, 1, uid, gid };

	return is_listed(state, &caller);
}

#ifdef ONPATH_PLANTED
ONPATH_INLINE int onpath_asks(struct onpath_state *state)
{
	struct requester first = { state->in_port, 0, 0, 0 };
	__u32 at = place_of_requester(state, &first);

	return at < state->requesters_used && state->requesters[at].port == state->in_port;
}
#endif

/* One thread has the state to itself. */
ONPATH_INLINE void onpath_enter_cached(struct onpath_cached *entry)
{
	(void)entry;
}

ONPATH_INLINE void onpath_leave_cached(struct onpath_cached *entry)
{
	(void)entry;
}

#endif
