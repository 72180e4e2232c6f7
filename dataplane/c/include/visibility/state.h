/* What a target provides for the visibility table: common/state.h. */
#ifndef ONPATH_VISIBILITY_STATE_H
#define ONPATH_VISIBILITY_STATE_H

#include "common/state.h"

/* How many entries there are. */
ONPATH_INLINE __u32 onpath_entries(const struct onpath_config *config)
{
	return (__u32)1 << config->entry_bits;
}

/* Fingerprint and position are the gate, a double-width register; the values, in network order, are an array each. */
struct onpath_entry {
	__u32 fingerprint;
	__u32 ts;
	__be32 value[ONPATH_VALUES];
};

ONPATH_INLINE struct onpath_tracking *onpath_get_visibility(struct onpath_state *state);
/* The entry of this number. */
ONPATH_INLINE struct onpath_entry *onpath_find_entry(struct onpath_state *state, __u32 number);

#endif
