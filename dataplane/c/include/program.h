/* The in-network program in C: one packet. The rules are in dataplane/SPEC.md; what a target provides is in state.h. */
#ifndef ONPATH_PROGRAM_H
#define ONPATH_PROGRAM_H

#include "copies.h"

/* What becomes of a packet (D-1 to D-34, D-44), and to whom it goes. `header` has what there is of the header's bytes in a UDP payload of
 * `length`, and 0 for those that are missing; the result is written into it. */
ONPATH_INLINE struct onpath_done onpath_decide(struct onpath_state *state, __u32 udp_port, struct onpath_innet *header,
					       __u32 length)
{
	const struct onpath_config *config = onpath_get_config(state);
	struct onpath_done done = onpath_done(ONPATH_PLAIN, 0, ONPATH_TO_NOBODY);
	__u32 op;

	if (!config)
		return done;
	done.counter = onpath_parse(config, udp_port, header, length, &op);
	if (done.counter != ONPATH_LET_THROUGH)
		return done;
	/* D-11. */
	if (header->result && !onpath_planted(11))
		return onpath_done(ONPATH_ANSWERED, 0, ONPATH_TO_DESTINATION);
	if (op != ONPATH_OP_QUERY && !onpath_from_host(state) && !onpath_planted(44))
		return onpath_done(ONPATH_DROP_STRANGER, 0, ONPATH_TO_NOBODY);
	done = onpath_execute(state, config, header, op);
	if (done.result)
		header->result = done.result;
	return done;
}

/* One packet: decides, sends its copies and counts it. For ONPATH_PLAIN it passes as if this program did not exist. */
ONPATH_INLINE enum onpath_counter onpath_step(struct onpath_state *state, __u32 udp_port, struct onpath_innet *header,
					      __u32 length)
{
	struct onpath_done done = onpath_decide(state, udp_port, header, length);

	onpath_deliver(state, header, &done);
	onpath_count(state, done.counter);
	return done.counter;
}

#endif
