/* The control plane: epochs, terms, tables, reboot (D-37 to D-42). It runs beside the packets, not in their path, and need not pass a
 * verifier: registers, which always exist, are taken without asking. */
#ifndef ONPATH_CONTROL_H
#define ONPATH_CONTROL_H

#include "dirty_set.h"

/* Why a command is refused; then nothing has changed. */
enum onpath_refusal {
	ONPATH_ACCEPTED,
	ONPATH_REFUSED_OTHER_EPOCH,
	ONPATH_REFUSED_SHARD,
	ONPATH_REFUSED_TERM,
	ONPATH_REFUSED_EPOCH_RUNS,
	ONPATH_REFUSED_NODE_ZERO,
	ONPATH_REFUSED_FULL,
};

/* What a target provides besides state.h. Puts replace; not 0: there is no room for one more. */
ONPATH_INLINE int onpath_put_route(struct onpath_state *state, __u32 node, const struct onpath_route *way);
ONPATH_INLINE void onpath_drop_route(struct onpath_state *state, __u32 node);
/* The port of a way is a host's from now on, and not any more. */
ONPATH_INLINE int onpath_put_host(struct onpath_state *state, const struct onpath_route *way);
ONPATH_INLINE void onpath_drop_host(struct onpath_state *state, const struct onpath_route *way);
/* All tags become 0; all routes and hosts go; all counters become 0. */
ONPATH_INLINE void onpath_clear_tags(struct onpath_state *state);
ONPATH_INLINE void onpath_clear_tables(struct onpath_state *state);
ONPATH_INLINE void onpath_clear_counters(struct onpath_state *state);

/* D-37. */
ONPATH_INLINE enum onpath_refusal onpath_control_epoch(struct onpath_state *state, __u32 epoch)
{
	onpath_set_epoch(onpath_get_tracking(state), epoch);
	return ONPATH_ACCEPTED;
}

/* D-38. */
ONPATH_INLINE enum onpath_refusal onpath_control_complete(struct onpath_state *state, __u32 epoch)
{
	return onpath_set_complete(onpath_get_tracking(state), epoch) ? ONPATH_ACCEPTED : ONPATH_REFUSED_OTHER_EPOCH;
}

/* D-39. */
ONPATH_INLINE enum onpath_refusal onpath_control_raise(struct onpath_state *state, __u32 shard, __u32 term)
{
	if (shard >= ONPATH_SHARDS)
		return ONPATH_REFUSED_SHARD;
	if (term == 0 || term > ONPATH_TERM_MAX)
		return ONPATH_REFUSED_TERM;
	onpath_raise(onpath_get_tracking(state), onpath_find_pair(state, shard), term);
	return ONPATH_ACCEPTED;
}

/* D-40. */
ONPATH_INLINE enum onpath_refusal onpath_control_clear(struct onpath_state *state)
{
	if (onpath_get_tracking(state)->epoch != 0 && !onpath_planted(40))
		return ONPATH_REFUSED_EPOCH_RUNS;
	onpath_clear_tags(state);
	return ONPATH_ACCEPTED;
}

/* D-41. */
ONPATH_INLINE enum onpath_refusal onpath_control_route(struct onpath_state *state, __u32 node, const struct onpath_route *way)
{
	if (node == 0 && !onpath_planted(41))
		return ONPATH_REFUSED_NODE_ZERO;
	return onpath_put_route(state, node, way) ? ONPATH_REFUSED_FULL : ONPATH_ACCEPTED;
}

/* D-41, D-44. */
ONPATH_INLINE enum onpath_refusal onpath_control_host(struct onpath_state *state, const struct onpath_route *way)
{
	return onpath_put_host(state, way) ? ONPATH_REFUSED_FULL : ONPATH_ACCEPTED;
}

/* D-42. */
ONPATH_INLINE enum onpath_refusal onpath_control_reboot(struct onpath_state *state)
{
	struct onpath_tracking *tracking = onpath_get_tracking(state);
	__u32 shard;

	tracking->epoch = 0;
	tracking->complete = 0;
	for (shard = 0; shard < ONPATH_SHARDS && !onpath_planted(42); shard++) {
		struct onpath_pair *pair = onpath_find_pair(state, shard);

		pair->min_term = 0;
		pair->counter = 0;
	}
	onpath_clear_tags(state);
	onpath_clear_tables(state);
	onpath_clear_counters(state);
	return ONPATH_ACCEPTED;
}

#endif
