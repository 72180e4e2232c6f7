/* What a target provides for the cache: common/state.h. */
#ifndef ONPATH_CACHE_STATE_H
#define ONPATH_CACHE_STATE_H

#include "common/state.h"

/* How many entries there are, and places in a row of the sketch. */
ONPATH_INLINE __u32 onpath_cached_entries(const struct onpath_config *config)
{
	return (__u32)1 << config->cache_bits;
}

/* How long the cache answers: a pair of registers of stage 0. */
struct onpath_lease {
	__u32 until;
	__u32 epoch;
};

/* Number and state are the stamp, a double-width register; the value, in network order, is an array for each word. */
struct onpath_cached {
	__u32 number;
	__u32 state;
	__be32 value[ONPATH_CACHE_VALUES];
};

/* What a name has. */
struct onpath_found {
	__u32 index;
	__u32 number;
};

/* Who hears of names that are missed often; node 0: nobody. */
struct onpath_report {
	__u32 node;
	__u32 threshold;
};

/* The tick that the switch's clock shows (D-73). */
ONPATH_INLINE __u32 onpath_now(struct onpath_state *state);
ONPATH_INLINE struct onpath_lease *onpath_get_lease(struct onpath_state *state);
/* Makes the epoch 0 if the lease is still the one that was seen, with nothing between the two (D-74). */
ONPATH_INLINE void onpath_end_lease(struct onpath_lease *lease, const struct onpath_lease *seen);
ONPATH_INLINE const struct onpath_report *onpath_get_report(struct onpath_state *state);
/* 0: the name has no entry. */
ONPATH_INLINE const struct onpath_found *onpath_find_name(struct onpath_state *state, __u64 key, __u32 token);
ONPATH_INLINE struct onpath_cached *onpath_find_cached(struct onpath_state *state, __u32 index);
ONPATH_INLINE __u16 *onpath_find_missed(struct onpath_state *state, __u32 row, __u32 place);
ONPATH_INLINE __u8 *onpath_find_reported(struct onpath_state *state, __u32 place);
ONPATH_INLINE __u32 *onpath_find_hits(struct onpath_state *state, __u32 index);
/* Whether the packet that is on its way came in where somebody is listed who may name anybody, or this caller (D-77, D-78). */
ONPATH_INLINE int onpath_asks_for_any(struct onpath_state *state);
ONPATH_INLINE int onpath_asks_for(struct onpath_state *state, __u32 uid, __u32 gid);
#ifdef ONPATH_PLANTED
/* The same of any caller at all. */
ONPATH_INLINE int onpath_asks(struct onpath_state *state);
#endif

/* Between these two a packet has stamp and value of an entry to itself, as between onpath_enter and onpath_leave (D-81). */
ONPATH_INLINE void onpath_enter_cached(struct onpath_cached *entry);
ONPATH_INLINE void onpath_leave_cached(struct onpath_cached *entry);

#endif
