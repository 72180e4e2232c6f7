/* The control plane of the visibility table: epochs, clear (D-63 to D-65), and its part of a reboot (D-66). */
#ifndef ONPATH_VISIBILITY_CONTROL_H
#define ONPATH_VISIBILITY_CONTROL_H

#include "common/control.h"
#include "visibility/registers.h"

/* What a target provides besides state.h: all entries become 0. */
ONPATH_INLINE void onpath_clear_entries(struct onpath_state *state);

/* D-63. */
ONPATH_INLINE enum onpath_refusal onpath_control_visibility_epoch(struct onpath_state *state, __u32 epoch)
{
	onpath_set_epoch(onpath_get_visibility(state), epoch, 63);
	return ONPATH_ACCEPTED;
}

/* D-64. */
ONPATH_INLINE enum onpath_refusal onpath_control_visibility_complete(struct onpath_state *state, __u32 epoch)
{
	return onpath_set_complete(onpath_get_visibility(state), epoch, 64) ? ONPATH_ACCEPTED : ONPATH_REFUSED_OTHER_EPOCH;
}

/* D-65. */
ONPATH_INLINE enum onpath_refusal onpath_control_visibility_clear(struct onpath_state *state)
{
	if (onpath_get_visibility(state)->epoch != 0 && !onpath_planted(65))
		return ONPATH_REFUSED_EPOCH_RUNS;
	onpath_clear_entries(state);
	return ONPATH_ACCEPTED;
}

/* D-66. */
ONPATH_INLINE void onpath_reboot_visibility(struct onpath_state *state)
{
	struct onpath_tracking *tracking = onpath_get_visibility(state);

	tracking->epoch = 0;
	tracking->complete = 0;
	if (!onpath_planted(66))
		onpath_clear_entries(state);
}

#endif
