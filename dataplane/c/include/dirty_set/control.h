/* The control plane of the dirty set: epochs, terms, clear (D-37 to D-40), and its part of a reboot (D-42). */
#ifndef ONPATH_DIRTY_SET_CONTROL_H
#define ONPATH_DIRTY_SET_CONTROL_H

#include "common/control.h"
#include "dirty_set/registers.h"

/* What a target provides besides state.h: all tags become 0. */
ONPATH_INLINE void onpath_clear_tags(struct onpath_state *state);

/* D-37. */
ONPATH_INLINE enum onpath_refusal onpath_control_epoch(struct onpath_state *state, __u32 epoch)
{
	onpath_set_epoch(onpath_get_tracking(state), epoch, 37);
	return ONPATH_ACCEPTED;
}

/* D-38. */
ONPATH_INLINE enum onpath_refusal onpath_control_complete(struct onpath_state *state, __u32 epoch)
{
	return onpath_set_complete(onpath_get_tracking(state), epoch, 38) ? ONPATH_ACCEPTED : ONPATH_REFUSED_OTHER_EPOCH;
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

/* D-42. */
ONPATH_INLINE void onpath_reboot_dirty_set(struct onpath_state *state)
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
}

#endif
