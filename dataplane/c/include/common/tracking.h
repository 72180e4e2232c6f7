/* The epoch of a structure and its complete bit. What the control plane does to them it does beside packets that are on their way. */
#ifndef ONPATH_TRACKING_H
#define ONPATH_TRACKING_H

#include "common/state.h"

/* Whether an epoch *matches*. */
ONPATH_INLINE int onpath_matches(const struct onpath_tracking *tracking, __u32 epoch)
{
	return epoch != 0 && tracking->epoch == epoch;
}

/* D-37, D-63: `rule` is that of the structure. */
ONPATH_INLINE void onpath_set_epoch(struct onpath_tracking *tracking, __u32 epoch, __u32 rule)
{
	onpath_enter(tracking);
	if (epoch != tracking->epoch) {
		tracking->epoch = epoch;
		if (!onpath_planted(rule))
			tracking->complete = 0;
	}
	onpath_leave(tracking);
}

/* D-38, D-64: whether it was the present epoch. */
ONPATH_INLINE int onpath_set_complete(struct onpath_tracking *tracking, __u32 epoch, __u32 rule)
{
	int present;

	onpath_enter(tracking);
	present = onpath_matches(tracking, epoch) || onpath_planted(rule);
	if (present)
		tracking->complete = 1;
	onpath_leave(tracking);
	return present;
}

#endif
