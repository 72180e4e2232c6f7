/* The in-network program in C: one packet. The rules are in dataplane/SPEC.md; what a target provides is in state.h. */
#ifndef ONPATH_PROGRAM_H
#define ONPATH_PROGRAM_H

#include "common/copies.h"
#include "dirty_set/dirty_set.h"
#include "visibility/visibility.h"

/* D-5: the structure of a packet, 0 for none that is known. */
ONPATH_INLINE __u32 onpath_structure(const struct onpath_common *header)
{
	__u32 structure = header->code >> 4;

	if (structure == ONPATH_STRUCTURE_DIRTY_SET || structure == ONPATH_STRUCTURE_VISIBILITY)
		return structure;
	return onpath_planted(5) ? ONPATH_STRUCTURE_DIRTY_SET : 0;
}

/* What becomes of a packet, and to whom it goes. `header` has what there is of the header's bytes in a UDP payload of `length`, and 0 for
 * those that are missing; what the switch answers is written into it. */
ONPATH_INLINE struct onpath_done onpath_decide(struct onpath_state *state, __u32 udp_port, union onpath_innet *header,
					       __u32 length)
{
	const struct onpath_config *config = onpath_get_config(state);
	struct onpath_done done = onpath_done(ONPATH_PLAIN, 0, ONPATH_TO_NOBODY);
	__u32 structure, op;
	int changes;

	if (!config)
		return done;
	done.counter = onpath_parse_common(config, udp_port, &header->common, length);
	if (done.counter != ONPATH_LET_THROUGH)
		return done;
	structure = onpath_structure(&header->common);
	if (!structure)
		return onpath_done(ONPATH_DROP_STRUCTURE, 0, ONPATH_TO_NOBODY);
	if (structure == ONPATH_STRUCTURE_DIRTY_SET)
		done.counter = onpath_parse_dirty_set(config, &header->dirty_set, length, &op);
	else
		done.counter = onpath_parse_visibility(config, &header->visibility, length, &op);
	if (done.counter != ONPATH_LET_THROUGH)
		return done;
	/* D-11. */
	if (header->common.result && !onpath_planted(11))
		return onpath_done(ONPATH_ANSWERED, 0, ONPATH_TO_DESTINATION);
	changes = structure == ONPATH_STRUCTURE_DIRTY_SET ? onpath_changes(op) : onpath_changes_entry(op);
	if (changes && !onpath_from_host(state) && !onpath_planted(44))
		return onpath_done(ONPATH_DROP_STRANGER, 0, ONPATH_TO_NOBODY);
	if (structure == ONPATH_STRUCTURE_DIRTY_SET)
		done = onpath_execute(state, config, &header->dirty_set, op);
	else
		done = onpath_execute_visibility(state, config, &header->visibility, op);
	if (done.result)
		header->common.result = done.result;
	return done;
}

/* One packet: decides, sends its copies and counts it. For ONPATH_PLAIN it passes as if this program did not exist. */
ONPATH_INLINE enum onpath_counter onpath_step(struct onpath_state *state, __u32 udp_port, union onpath_innet *header,
					      __u32 length)
{
	struct onpath_done done = onpath_decide(state, udp_port, header, length);

	onpath_deliver(state, header, &done);
	onpath_count(state, done.counter);
	return done.counter;
}

#endif
