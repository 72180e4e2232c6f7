/* What the control plane does to the cache of a plain struct (cache/control.h): a part of native.c. */
#ifndef ONPATH_NATIVE_CACHE_CONTROL_H
#define ONPATH_NATIVE_CACHE_CONTROL_H

ONPATH_INLINE int onpath_has_name(struct onpath_state *state, __u64 key, __u32 token)
{
	__u32 at = place_of_name(state, key, token);

	return at < state->names_used && all_names(state)[at].key == key && all_names(state)[at].token == token;
}

ONPATH_INLINE int onpath_put_name(struct onpath_state *state, __u64 key, __u32 token, const struct onpath_found *entry)
{
	struct name *names = all_names(state);
	__u32 at = place_of_name(state, key, token), last;

	if (!onpath_has_name(state, key, token)) {
		if (state->names_used == onpath_cached_entries(&state->config))
			return -1;
		for (last = state->names_used++; last > at; last--)
			names[last] = names[last - 1];
		names[at].key = key;
		names[at].token = token;
	}
	names[at].entry = *entry;
	return 0;
}

ONPATH_INLINE void onpath_drop_name(struct onpath_state *state, __u64 key, __u32 token)
{
	__u32 at = place_of_name(state, key, token);

	if (!onpath_has_name(state, key, token))
		return;
	for (state->names_used--; at < state->names_used; at++)
		all_names(state)[at] = all_names(state)[at + 1];
}

ONPATH_INLINE int onpath_put_requester(struct onpath_state *state, const struct onpath_route *way, int any, __u32 uid, __u32 gid)
{
	struct requester new = { way->port, !any, any ? 0 : uid, any ? 0 : gid };
	__u32 at = place_of_requester(state, &new), last;

	if (is_listed(state, &new))
		return 0;
	if (state->requesters_used == ONPATH_REQUESTERS_MAX)
		return -1;
	for (last = state->requesters_used++; last > at; last--)
		state->requesters[last] = state->requesters[last - 1];
	state->requesters[at] = new;
	return 0;
}

ONPATH_INLINE void onpath_drop_requesters(struct onpath_state *state, const struct onpath_route *way)
{
	__u32 from, to = 0;

	for (from = 0; from < state->requesters_used; from++) {
		if (state->requesters[from].port != way->port)
			state->requesters[to++] = state->requesters[from];
	}
	state->requesters_used = to;
}

ONPATH_INLINE void onpath_put_report(struct onpath_state *state, __u32 node, __u32 threshold)
{
	state->report.node = node;
	state->report.threshold = threshold;
}

ONPATH_INLINE int onpath_any_left(struct onpath_state *state)
{
	__u32 index, left = state->names_used;

	for (index = 0; index < onpath_cached_entries(&state->config); index++)
		left |= all_cached(state)[index].number | all_cached(state)[index].state;
	return left != 0;
}

ONPATH_INLINE void onpath_clear_names(struct onpath_state *state)
{
	state->names_used = 0;
}

ONPATH_INLINE void onpath_clear_stamps(struct onpath_state *state)
{
	__u32 index;

	for (index = 0; index < onpath_cached_entries(&state->config); index++)
		all_cached(state)[index].number = all_cached(state)[index].state = 0;
}

ONPATH_INLINE void onpath_clear_values(struct onpath_state *state)
{
	__u32 index, array;

	for (index = 0; index < onpath_cached_entries(&state->config); index++) {
		for (array = 0; array < ONPATH_CACHE_VALUES; array++)
			all_cached(state)[index].value[array] = 0;
	}
}

ONPATH_INLINE void onpath_clear_counts(struct onpath_state *state)
{
	__u32 index, places = onpath_cached_entries(&state->config);

	for (index = 0; index < places; index++)
		all_hits(state)[index] = 0;
	for (index = 0; index < ONPATH_SKETCH_ROWS * places; index++)
		all_missed(state)[index] = 0;
}

ONPATH_INLINE void onpath_clear_reported(struct onpath_state *state)
{
	__u32 place;

	for (place = 0; place < onpath_cached_entries(&state->config); place++)
		all_reported(state)[place] = 0;
}

ONPATH_INLINE void onpath_clear_requesters(struct onpath_state *state)
{
	state->requesters_used = 0;
	state->clock = 0;
}

#endif
