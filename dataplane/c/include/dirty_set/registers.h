/* The registers, as one packet passes them: stage 0, then array after array. Each function here is the only action on its register
 * that a packet makes. */
#ifndef ONPATH_REGISTERS_H
#define ONPATH_REGISTERS_H

#include "common/tracking.h"
#include "dirty_set/parser.h"

/* The registers of one packet, found before it enters. */
struct onpath_pass {
	struct onpath_tracking *tracking;
	struct onpath_pair *pair;
	struct onpath_set *set;
	__u32 stages;
};

/* Stage 0 of a remove: compares and raises the pair of its shard (D-27 to D-32). What it is dropped as, if it is. */
ONPATH_INLINE enum onpath_counter onpath_admit(struct onpath_pair *pair, const struct onpath_dirty_set *header)
{
	__u32 term = onpath_be32(header->term), sequence = onpath_be32(header->sequence);

	if (term < pair->min_term && !onpath_planted(30))
		return ONPATH_DROP_TERM_LOWER;
	if (term > pair->min_term && !onpath_planted(31))
		return ONPATH_DROP_TERM_AHEAD;
	if (sequence <= pair->counter && !(onpath_planted(29) && sequence == pair->counter))
		return ONPATH_DROP_NOT_NEWER;
	if (!onpath_planted(28))
		pair->counter = sequence;
	return ONPATH_LET_THROUGH;
}

/* Conditional insert: puts the tag into an empty register; whether it holds it now. */
ONPATH_INLINE int onpath_conditional_insert(__u32 *value, __u32 tag)
{
	if (*value == 0) {
		*value = tag;
		return 1;
	}
	return *value == tag && !onpath_planted(22);
}

/* Conditional remove: empties the register if it holds this tag. */
ONPATH_INLINE void onpath_conditional_remove(__u32 *value, __u32 tag)
{
	if (*value == tag)
		*value = 0;
}

/* What the control plane does to a pair, beside packets that are on their way. */

/* D-39. */
ONPATH_INLINE void onpath_raise(struct onpath_tracking *tracking, struct onpath_pair *pair, __u32 term)
{
	onpath_enter(tracking);
	if (term > pair->min_term || onpath_planted(39)) {
		pair->min_term = term;
		pair->counter = 0;
	}
	onpath_leave(tracking);
}

#endif
