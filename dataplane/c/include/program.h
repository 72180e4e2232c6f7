/* The in-network program in C: one packet. The rules are in dataplane/SPEC.md; what a target provides is in state.h. */
#ifndef ONPATH_PROGRAM_H
#define ONPATH_PROGRAM_H

#include "common/copies.h"
#include "dirty_set/dirty_set.h"
#include "visibility/visibility.h"
#include "cache/cache.h"

/* The structures that a program has, in a word that the compiler knows: a target may have a program for some and one for others. */
#define ONPATH_HAS(structure) (1u << (structure))
#define ONPATH_HAS_ALL \
	(ONPATH_HAS(ONPATH_STRUCTURE_DIRTY_SET) | ONPATH_HAS(ONPATH_STRUCTURE_VISIBILITY) | ONPATH_HAS(ONPATH_STRUCTURE_CACHE))

/* D-5: the structure of a packet, 0 for none that the program has. */
ONPATH_INLINE __u32 onpath_structure(const struct onpath_common *header, __u32 has)
{
	__u32 structure = header->code >> 4;

	if (structure == ONPATH_STRUCTURE_DIRTY_SET && has & ONPATH_HAS(ONPATH_STRUCTURE_DIRTY_SET))
		return ONPATH_STRUCTURE_DIRTY_SET;
	if (structure == ONPATH_STRUCTURE_VISIBILITY && has & ONPATH_HAS(ONPATH_STRUCTURE_VISIBILITY))
		return ONPATH_STRUCTURE_VISIBILITY;
	if (structure == ONPATH_STRUCTURE_CACHE && has & ONPATH_HAS(ONPATH_STRUCTURE_CACHE))
		return ONPATH_STRUCTURE_CACHE;
	return onpath_planted(5) ? ONPATH_STRUCTURE_DIRTY_SET : 0;
}

/* The counter of the first check of its structure that fails; otherwise the operation is in `op`, and whether it changes what is none of its
 * sender's in `changes` (D-44). */
ONPATH_INLINE enum onpath_counter onpath_parse(const struct onpath_config *config, const union onpath_innet *header,
					       __u32 structure, __u32 length, __u32 *op, int *changes)
{
	enum onpath_counter counter;

	if (structure == ONPATH_STRUCTURE_CACHE) {
		counter = onpath_parse_cache(header, length, op);
		*changes = onpath_changes_cache(*op);
	} else if (structure == ONPATH_STRUCTURE_DIRTY_SET) {
		counter = onpath_parse_dirty_set(config, &header->dirty_set, length, op);
		*changes = onpath_changes(*op);
	} else {
		counter = onpath_parse_visibility(config, &header->visibility, length, op);
		*changes = onpath_changes_entry(*op);
	}
	return counter;
}

/* What becomes of a packet, and to whom it goes, unless it waits: then that is said, and only `walk` is written. `header` has what there is of
 * the header's bytes in a UDP payload of `length`, and 0 for those that are missing; what the switch answers is written into it. */
ONPATH_INLINE int onpath_decide(struct onpath_state *state, __u32 has, __u32 udp_port, union onpath_innet *header,
				__u32 length, struct onpath_walk *walk, struct onpath_done *done)
{
	const struct onpath_config *config = onpath_get_config(state);
	__u32 structure, op;
	int changes;

	*done = onpath_done(ONPATH_PLAIN, 0, ONPATH_TO_NOBODY);
	if (!config)
		return 0;
	done->counter = onpath_parse_common(config, udp_port, &header->common, length);
	if (done->counter != ONPATH_LET_THROUGH)
		return 0;
	structure = onpath_structure(&header->common, has);
	done->counter = ONPATH_DROP_STRUCTURE;
	if (!structure)
		return 0;
	done->counter = onpath_parse(config, header, structure, length, &op, &changes);
	if (done->counter != ONPATH_LET_THROUGH)
		return 0;
	/* D-11. */
	if (header->common.result && !onpath_planted(11)) {
		*done = onpath_done(ONPATH_ANSWERED, 0, ONPATH_TO_DESTINATION);
		return 0;
	}
	done->counter = ONPATH_DROP_STRANGER;
	if (changes && !onpath_from_host(state) && !onpath_planted(44))
		return 0;
	walk->op = op;
	if (structure == ONPATH_STRUCTURE_CACHE)
		return onpath_arrive_at_cache(state, config, header, walk, done);
	if (structure == ONPATH_STRUCTURE_DIRTY_SET)
		*done = onpath_execute(state, config, &header->dirty_set, op);
	else
		*done = onpath_execute_visibility(state, config, &header->visibility, op);
	return 0;
}

/* Sends the copies of a packet that is done, and counts it. */
ONPATH_INLINE enum onpath_counter onpath_finish(struct onpath_state *state, union onpath_innet *header,
						const struct onpath_done *done)
{
	if (done->result)
		header->common.result = done->result;
	onpath_deliver(state, header, done);
	onpath_count(state, done->counter);
	return done->counter;
}

/* One packet: decides, sends its copies and counts it. For ONPATH_PLAIN it passes as if this program did not exist. */
ONPATH_INLINE enum onpath_counter onpath_step(struct onpath_state *state, __u32 has, __u32 udp_port, union onpath_innet *header,
					      __u32 length)
{
	const struct onpath_config *config = onpath_get_config(state);
	struct onpath_walk walk = { 0 };
	struct onpath_done done;
	int waits = onpath_decide(state, has, udp_port, header, length, &walk, &done);
	__u32 turn;

	if (has & ONPATH_HAS(ONPATH_STRUCTURE_CACHE)) {
		for (turn = 0; waits && config && turn < ONPATH_TURNS_MAX; turn++)
			waits = onpath_go_on(state, config, header, &walk, &done);
	}
	return onpath_finish(state, header, &done);
}

#endif
