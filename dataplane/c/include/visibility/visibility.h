/* The visibility table: look, install and clear (D-47 to D-61). */
#ifndef ONPATH_VISIBILITY_H
#define ONPATH_VISIBILITY_H

#include "common/done.h"
#include "visibility/registers.h"

/* D-56, D-57. What it finds is put into the header. */
ONPATH_INLINE struct onpath_done onpath_look(const struct onpath_tracking *tracking, const struct onpath_entry *entry,
					     struct onpath_visibility *header)
{
	int complete = tracking->complete || onpath_planted(57);

	if (!onpath_matches(tracking, onpath_be16(header->epoch)) || !complete)
		return onpath_done(ONPATH_LOOK_UNKNOWN, ONPATH_RESULT_UNKNOWN, ONPATH_TO_DESTINATION);
	if (!onpath_gate_look(entry, onpath_be32(header->fingerprint)))
		return onpath_done(ONPATH_LOOK_NONE, ONPATH_RESULT_NONE, ONPATH_TO_DESTINATION);
	onpath_copy_values(header->metadata, entry->value);
	return onpath_done(ONPATH_LOOK_PENDING, ONPATH_RESULT_PENDING, ONPATH_TO_DESTINATION);
}

/* D-48 to D-55. */
ONPATH_INLINE struct onpath_done onpath_install(const struct onpath_tracking *tracking, struct onpath_entry *entry,
						const struct onpath_visibility *header)
{
	enum onpath_effect effect;

	if (!onpath_matches(tracking, onpath_be16(header->epoch)) && !onpath_planted(55))
		return onpath_done(ONPATH_INSTALL_OTHER_EPOCH, ONPATH_RESULT_OTHER_EPOCH, ONPATH_TO_SHARD);
	effect = onpath_gate_install(entry, onpath_be32(header->fingerprint), onpath_be32(header->ts));
	if (effect == ONPATH_NO_EFFECT)
		return onpath_done(ONPATH_INSTALL_OLDER, ONPATH_RESULT_OLDER,
				   onpath_planted(54) ? ONPATH_TO_SHARD_AND_DESTINATION : ONPATH_TO_SHARD);
	if (effect == ONPATH_TAKES)
		onpath_copy_values(entry->value, header->metadata);
	return onpath_done(ONPATH_INSTALL_DONE, ONPATH_RESULT_INSTALLED,
			   onpath_planted(53) ? ONPATH_TO_DESTINATION : ONPATH_TO_SHARD_AND_DESTINATION);
}

/* D-58 to D-61. */
ONPATH_INLINE struct onpath_done onpath_clear(const struct onpath_tracking *tracking, struct onpath_entry *entry,
					      const struct onpath_visibility *header)
{
	enum onpath_deliver deliver = onpath_planted(61) ? ONPATH_TO_SHARD : ONPATH_TO_DESTINATION;
	int left = onpath_planted(60) && !onpath_matches(tracking, onpath_be16(header->epoch));

	if (!left && onpath_gate_clear(entry, onpath_be32(header->ts)))
		return onpath_done(ONPATH_CLEAR_DONE, ONPATH_RESULT_CLEARED, deliver);
	return onpath_done(ONPATH_CLEAR_KEPT, ONPATH_RESULT_KEPT, deliver);
}

/* Executes the operation of a packet on the entry of its index (D-47). */
ONPATH_INLINE struct onpath_done onpath_execute_visibility(struct onpath_state *state, const struct onpath_config *config,
							   struct onpath_visibility *header, __u32 op)
{
	__u32 index = onpath_be32(header->index) >> onpath_planted(47);
	struct onpath_tracking *tracking = onpath_get_visibility(state);
	struct onpath_entry *entry = onpath_find_entry(state, index & (onpath_entries(config) - 1));
	struct onpath_done done;

	/* What a target without these registers has not: no packet gets here that does not name a register of SPEC.md. */
	if (!tracking || !entry)
		return onpath_done(ONPATH_DROP_INDEX, 0, ONPATH_TO_NOBODY);
	onpath_enter(tracking);
	if (op == ONPATH_OP_LOOK)
		done = onpath_look(tracking, entry, header);
	else if (op == ONPATH_OP_INSTALL)
		done = onpath_install(tracking, entry, header);
	else
		done = onpath_clear(tracking, entry, header);
	onpath_leave(tracking);
	return done;
}

#endif
