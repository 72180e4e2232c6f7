/* The dirty set: query, insert and remove (D-12, D-18 to D-34). */
#ifndef ONPATH_DIRTY_SET_H
#define ONPATH_DIRTY_SET_H

#include "common/done.h"
#include "dirty_set/registers.h"

/* D-18, D-19: register query in every stage. */
ONPATH_INLINE struct onpath_done onpath_query(struct onpath_pass *pass, const struct onpath_dirty_set *header)
{
	__u32 tag = onpath_be32(header->tag), found = 0, stage;
	int complete = pass->tracking->complete || onpath_planted(19);

	if (!onpath_matches(pass->tracking, onpath_be16(header->epoch)) || !complete)
		return onpath_done(ONPATH_QUERY_UNKNOWN, ONPATH_RESULT_UNKNOWN, ONPATH_TO_DESTINATION);
	for (stage = 0; stage < ONPATH_STAGES_MAX && stage < pass->stages; stage++)
		found |= pass->set->tag[stage] == tag && (stage == 0 || !onpath_planted(18));
	if (found)
		return onpath_done(ONPATH_QUERY_SCATTERED, ONPATH_RESULT_SCATTERED, ONPATH_TO_DESTINATION);
	return onpath_done(ONPATH_QUERY_NORMAL, ONPATH_RESULT_NORMAL, ONPATH_TO_DESTINATION);
}

/* Conditional insert stage by stage until one succeeds, conditional remove in those after it. Whether one succeeded (D-20, D-21). */
ONPATH_INLINE int onpath_put(struct onpath_pass *pass, __u32 tag)
{
	__u32 stage;
	int placed = 0;

	for (stage = 0; stage < ONPATH_STAGES_MAX && stage < pass->stages; stage++) {
		__u32 *value = &pass->set->tag[stage];

		if (stage == 0 && onpath_planted(20))
			continue;
		if (!placed)
			placed = onpath_conditional_insert(value, tag);
		else if (!onpath_planted(21))
			onpath_conditional_remove(value, tag);
	}
	return placed;
}

/* D-20 to D-26. */
ONPATH_INLINE struct onpath_done onpath_insert(struct onpath_pass *pass, const struct onpath_dirty_set *header)
{
	if (!onpath_matches(pass->tracking, onpath_be16(header->epoch)) && !onpath_planted(26))
		return onpath_done(ONPATH_INSERT_OTHER_EPOCH, ONPATH_RESULT_OTHER_EPOCH, ONPATH_TO_SHARD);
	if (onpath_put(pass, onpath_be32(header->tag)))
		return onpath_done(ONPATH_INSERT_MARKED, ONPATH_RESULT_MARKED,
				   onpath_planted(23) ? ONPATH_TO_DESTINATION : ONPATH_TO_SHARD_AND_DESTINATION);
	return onpath_done(ONPATH_INSERT_FULL, ONPATH_RESULT_FULL,
			   onpath_planted(24) ? ONPATH_TO_SHARD_AND_DESTINATION : ONPATH_TO_SHARD);
}

/* D-27 to D-34. */
ONPATH_INLINE struct onpath_done onpath_remove(struct onpath_pass *pass, const struct onpath_dirty_set *header)
{
	enum onpath_counter drop = onpath_admit(pass->pair, header);
	enum onpath_deliver deliver = onpath_planted(34) ? ONPATH_TO_SHARD : ONPATH_TO_DESTINATION;
	__u32 stage;

	if (drop != ONPATH_LET_THROUGH)
		return onpath_done(drop, 0, ONPATH_TO_NOBODY);
	if (!onpath_matches(pass->tracking, onpath_be16(header->epoch)) && !onpath_planted(33))
		return onpath_done(ONPATH_REMOVE_OTHER_EPOCH, ONPATH_RESULT_OTHER_EPOCH, deliver);
	for (stage = 0; stage < ONPATH_STAGES_MAX && stage < pass->stages; stage++) {
		onpath_conditional_remove(&pass->set->tag[stage], onpath_be32(header->tag));
		if (onpath_planted(27))
			break;
	}
	return onpath_done(ONPATH_REMOVE_DONE, ONPATH_RESULT_REMOVED, deliver);
}

/* Executes the operation of a packet on the set of its index (D-12). */
ONPATH_INLINE struct onpath_done onpath_execute(struct onpath_state *state, const struct onpath_config *config,
						const struct onpath_dirty_set *header, __u32 op)
{
	__u32 index = onpath_be32(header->index) >> onpath_planted(12), set = index & (onpath_sets(config) - 1);
	__u32 shard = onpath_planted(32) ? 0 : onpath_be16(header->shard) % ONPATH_SHARDS;
	struct onpath_pass pass = {
		onpath_get_tracking(state), onpath_find_pair(state, shard), onpath_find_set(state, set), config->stages,
	};
	struct onpath_done done;

	/* What a target without these registers has not: no packet gets here that does not name a register of SPEC.md. */
	if (!pass.tracking || !pass.pair)
		return onpath_done(ONPATH_DROP_SHARD, 0, ONPATH_TO_NOBODY);
	if (!pass.set)
		return onpath_done(ONPATH_DROP_INDEX, 0, ONPATH_TO_NOBODY);
	onpath_enter(pass.tracking);
	if (op == ONPATH_OP_QUERY)
		done = onpath_query(&pass, header);
	else if (op == ONPATH_OP_INSERT)
		done = onpath_insert(&pass, header);
	else
		done = onpath_remove(&pass, header);
	onpath_leave(pass.tracking);
	return done;
}

#endif
