/* What a target provides for the dirty set: common/state.h. */
#ifndef ONPATH_DIRTY_SET_STATE_H
#define ONPATH_DIRTY_SET_STATE_H

#include "common/state.h"

/* How many sets there are. */
ONPATH_INLINE __u32 onpath_sets(const struct onpath_config *config)
{
	return (__u32)1 << config->index_bits;
}

/* What a shard's removes are compared with: a double-width register of stage 0. */
struct onpath_pair {
	__u32 min_term;
	__u32 counter;
};

/* The registers at one index, array after array; those from `stages` on are not used. */
struct onpath_set {
	__u32 tag[ONPATH_STAGES_MAX];
};

ONPATH_INLINE struct onpath_tracking *onpath_get_tracking(struct onpath_state *state);
/* The pair of a shard below ONPATH_SHARDS. */
ONPATH_INLINE struct onpath_pair *onpath_find_pair(struct onpath_state *state, __u32 shard);
/* The set of this number. */
ONPATH_INLINE struct onpath_set *onpath_find_set(struct onpath_state *state, __u32 set);

#endif
