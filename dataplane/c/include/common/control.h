/* The control plane's tables (D-41). It runs beside the packets, not in their path, and need not pass a
 * verifier: registers, which always exist, are taken without asking. */
#ifndef ONPATH_COMMON_CONTROL_H
#define ONPATH_COMMON_CONTROL_H

#include "common/state.h"

/* Why a command is refused; then nothing has changed. */
enum onpath_refusal {
	ONPATH_ACCEPTED,
	ONPATH_REFUSED_OTHER_EPOCH,
	ONPATH_REFUSED_SHARD,
	ONPATH_REFUSED_TERM,
	ONPATH_REFUSED_EPOCH_RUNS,
	ONPATH_REFUSED_NODE_ZERO,
	ONPATH_REFUSED_FULL,
	/* Of the cache: something is left of it, its lease is over, there is no such entry, the name has one. */
	ONPATH_REFUSED_NOT_EMPTY,
	ONPATH_REFUSED_PASSED,
	ONPATH_REFUSED_ENTRY,
	ONPATH_REFUSED_KNOWN,
};

/* What a target provides besides state.h. Puts replace; not 0: there is no room for one more. */
ONPATH_INLINE int onpath_put_route(struct onpath_state *state, __u32 node, const struct onpath_route *way);
ONPATH_INLINE void onpath_drop_route(struct onpath_state *state, __u32 node);
/* The port of a way is a host's from now on, and not any more. */
ONPATH_INLINE int onpath_put_host(struct onpath_state *state, const struct onpath_route *way);
ONPATH_INLINE void onpath_drop_host(struct onpath_state *state, const struct onpath_route *way);
/* All routes and hosts go; all counters become 0. */
ONPATH_INLINE void onpath_clear_tables(struct onpath_state *state);
ONPATH_INLINE void onpath_clear_counters(struct onpath_state *state);

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

#endif
