/* The control plane of the cache (D-112 to D-121), and its part of a reboot (D-122). */
#ifndef ONPATH_CACHE_CONTROL_H
#define ONPATH_CACHE_CONTROL_H

#include "cache/lease.h"
#include "cache/registers.h"
#include "common/control.h"

/* What a target provides besides state.h. Puts replace; not 0: there is no room for one more. */
ONPATH_INLINE int onpath_put_name(struct onpath_state *state, __u64 key, __u32 token, const struct onpath_found *entry);
ONPATH_INLINE void onpath_drop_name(struct onpath_state *state, __u64 key, __u32 token);
/* Whether a name has an entry, however names are found. */
ONPATH_INLINE int onpath_has_name(struct onpath_state *state, __u64 key, __u32 token);
/* The port of a way may ask in anybody's name, or in that of a caller. */
ONPATH_INLINE int onpath_put_requester(struct onpath_state *state, const struct onpath_route *way, int any, __u32 uid, __u32 gid);
ONPATH_INLINE void onpath_drop_requesters(struct onpath_state *state, const struct onpath_route *way);
ONPATH_INLINE void onpath_put_report(struct onpath_state *state, __u32 node, __u32 threshold);
/* Whether there is any name, or a stamp that is not {0, 0}. */
ONPATH_INLINE int onpath_any_left(struct onpath_state *state);
/* All names go; stamps become {0, 0}; values 0; counters 0; bits 0; requesters and report go. */
ONPATH_INLINE void onpath_clear_names(struct onpath_state *state);
ONPATH_INLINE void onpath_clear_stamps(struct onpath_state *state);
ONPATH_INLINE void onpath_clear_values(struct onpath_state *state);
ONPATH_INLINE void onpath_clear_counts(struct onpath_state *state);
ONPATH_INLINE void onpath_clear_reported(struct onpath_state *state);
ONPATH_INLINE void onpath_clear_requesters(struct onpath_state *state);

/* D-112. */
ONPATH_INLINE enum onpath_refusal onpath_control_cache_begin(struct onpath_state *state, __u32 epoch, __u32 until)
{
	struct onpath_lease *lease = onpath_get_lease(state);

	if (epoch == 0)
		return ONPATH_REFUSED_OTHER_EPOCH;
	if (onpath_cache_epoch(state, lease) != 0)
		return ONPATH_REFUSED_EPOCH_RUNS;
	if (onpath_any_left(state) && !onpath_planted(112))
		return ONPATH_REFUSED_NOT_EMPTY;
	return onpath_begin_lease(state, lease, epoch, until) ? ONPATH_ACCEPTED : ONPATH_REFUSED_PASSED;
}

/* D-113. */
ONPATH_INLINE enum onpath_refusal onpath_control_cache_renew(struct onpath_state *state, __u32 epoch, __u32 until)
{
	struct onpath_lease *lease = onpath_get_lease(state);

	if (!onpath_of_present(state, lease, epoch))
		return ONPATH_REFUSED_OTHER_EPOCH;
	onpath_renew_lease(lease, until);
	return ONPATH_ACCEPTED;
}

/* D-115. */
ONPATH_INLINE enum onpath_refusal onpath_control_cache_off(struct onpath_state *state)
{
	if (!onpath_planted(115))
		onpath_get_lease(state)->epoch = 0;
	return ONPATH_ACCEPTED;
}

/* D-116. */
ONPATH_INLINE enum onpath_refusal onpath_control_cache_empty(struct onpath_state *state)
{
	if (onpath_cache_epoch(state, onpath_get_lease(state)) != 0 && !onpath_planted(116))
		return ONPATH_REFUSED_EPOCH_RUNS;
	onpath_clear_names(state);
	onpath_clear_stamps(state);
	return ONPATH_ACCEPTED;
}

/* D-117. */
ONPATH_INLINE enum onpath_refusal onpath_control_cache_stamp(struct onpath_state *state, __u32 epoch, __u32 index, __u32 number)
{
	struct onpath_cached *entry;

	if (!onpath_of_present(state, onpath_get_lease(state), epoch))
		return ONPATH_REFUSED_OTHER_EPOCH;
	entry = onpath_find_cached(state, index);
	if (!entry)
		return ONPATH_REFUSED_ENTRY;
	onpath_set_stamp(entry, number);
	return ONPATH_ACCEPTED;
}

/* D-118. */
ONPATH_INLINE enum onpath_refusal onpath_control_cache_admit(struct onpath_state *state, __u32 epoch, __u64 key, __u32 token,
							     const struct onpath_found *entry)
{
	if (!onpath_of_present(state, onpath_get_lease(state), epoch))
		return ONPATH_REFUSED_OTHER_EPOCH;
	if (!token || !entry->number || !onpath_find_cached(state, entry->index))
		return ONPATH_REFUSED_ENTRY;
	if (onpath_has_name(state, key, token) && !onpath_planted(118))
		return ONPATH_REFUSED_KNOWN;
	return onpath_put_name(state, key, token, entry) ? ONPATH_REFUSED_FULL : ONPATH_ACCEPTED;
}

/* D-119. */
ONPATH_INLINE enum onpath_refusal onpath_control_cache_evict(struct onpath_state *state, __u32 epoch, __u64 key, __u32 token)
{
	if (!onpath_of_present(state, onpath_get_lease(state), epoch))
		return ONPATH_REFUSED_OTHER_EPOCH;
	if (!onpath_planted(119))
		onpath_drop_name(state, key, token);
	return ONPATH_ACCEPTED;
}

/* D-120. */
ONPATH_INLINE enum onpath_refusal onpath_control_cache_list(struct onpath_state *state, const struct onpath_route *way, int any,
							    __u32 uid, __u32 gid)
{
	return onpath_put_requester(state, way, any, uid, gid) ? ONPATH_REFUSED_FULL : ONPATH_ACCEPTED;
}

/* D-120. */
ONPATH_INLINE enum onpath_refusal onpath_control_cache_unlist(struct onpath_state *state, const struct onpath_route *way)
{
	if (!onpath_planted(120))
		onpath_drop_requesters(state, way);
	return ONPATH_ACCEPTED;
}

/* D-121. */
ONPATH_INLINE enum onpath_refusal onpath_control_cache_reset(struct onpath_state *state)
{
	onpath_clear_counts(state);
	if (!onpath_planted(121))
		onpath_clear_reported(state);
	return ONPATH_ACCEPTED;
}

/* D-122. */
ONPATH_INLINE void onpath_reboot_cache(struct onpath_state *state)
{
	struct onpath_lease *lease = onpath_get_lease(state);

	lease->epoch = 0;
	lease->until = 0;
	if (!onpath_planted(122))
		onpath_clear_names(state);
	onpath_clear_stamps(state);
	onpath_clear_values(state);
	onpath_clear_counts(state);
	onpath_clear_reported(state);
	onpath_clear_requesters(state);
	onpath_put_report(state, 0, 0);
}

#endif
