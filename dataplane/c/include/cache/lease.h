/* The lease of the cache: the epoch and how long it is one (D-73 to D-75, D-112 to D-114). */
#ifndef ONPATH_CACHE_LEASE_H
#define ONPATH_CACHE_LEASE_H

#include "cache/state.h"

/* Serially: less than half of the clock later. */
ONPATH_INLINE int onpath_is_after(__u32 one, __u32 other)
{
	return (__s32)(one - other) > 0;
}

/* The epoch, which is none from the moment that the lease is found passed (D-73 to D-75). */
ONPATH_INLINE __u32 onpath_cache_epoch(struct onpath_state *state, struct onpath_lease *lease)
{
	struct onpath_lease seen = *lease;
	__u32 now = onpath_now(state);

	if ((onpath_planted(75) ? seen.until > now : onpath_is_after(seen.until, now)) || onpath_planted(73))
		return seen.epoch;
	if (seen.epoch && !onpath_planted(74))
		onpath_end_lease(lease, &seen);
	return 0;
}

/* D-114: whether an epoch is that of the cache. */
ONPATH_INLINE int onpath_of_present(struct onpath_state *state, struct onpath_lease *lease, __u32 epoch)
{
	return (onpath_cache_epoch(state, lease) == epoch && epoch != 0) || onpath_planted(114);
}

/* D-112: whether there is time left in a lease that begins. Until is written first, so that nobody meets the epoch without it. */
ONPATH_INLINE int onpath_begin_lease(struct onpath_state *state, struct onpath_lease *lease, __u32 epoch, __u32 until)
{
	if (!onpath_is_after(until, onpath_now(state)))
		return 0;
	lease->until = until;
	lease->epoch = epoch;
	return 1;
}

/* D-113. Whoever finds the lease passed meanwhile has ended the epoch, and that stays so. */
ONPATH_INLINE void onpath_renew_lease(struct onpath_lease *lease, __u32 until)
{
	if (onpath_is_after(until, lease->until) || onpath_planted(113))
		lease->until = until;
}

#endif
