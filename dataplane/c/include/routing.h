/* Routing by the prefix of the fingerprint: to this or another switch (D-12 to D-15), if who sends may (D-44). */
#ifndef ONPATH_ROUTING_H
#define ONPATH_ROUTING_H

#include "dirty_set.h"

/* Whether an index begins with a prefix of at most ONPATH_INDEX_BITS bits. */
ONPATH_INLINE int onpath_prefix_holds(__u32 value, __u32 bits, __u32 index)
{
	return index >> (ONPATH_INDEX_BITS - bits) == value;
}

/* How many indexes a prefix has. */
ONPATH_INLINE __u32 onpath_prefix_sets(__u32 bits)
{
	return (__u32)1 << (ONPATH_INDEX_BITS - bits);
}

/* The way to the switch that has the prefix of an index; 0: nobody is known to have it. */
ONPATH_INLINE const struct onpath_route *onpath_peer_of(struct onpath_state *state, __u32 index)
{
	const struct onpath_peers *peers = onpath_get_peers(state);
	__u32 at;

	if (!peers)
		return 0;
	for (at = 0; at < ONPATH_PEERS_MAX && at < peers->count; at++) {
		const struct onpath_peer *peer = &peers->at[at];

		if (onpath_prefix_holds(peer->value, peer->bits, index))
			return &peer->way;
	}
	return 0;
}

/* D-12 to D-15, D-44: executes the packet, hands it on or drops it. */
ONPATH_INLINE struct onpath_done onpath_by_prefix(struct onpath_state *state, const struct onpath_config *config,
						  const struct onpath_innet *header, __u32 op)
{
	__u32 index = onpath_be32(header->index), set = index & (onpath_prefix_sets(config->own_bits) - 1);
	struct onpath_done done = onpath_done(ONPATH_HANDED_ON, 0, ONPATH_TO_PEER);
	int own = onpath_prefix_holds(config->own_value, config->own_bits, index);

	if (!own && (header->flags & ONPATH_FLAG_HANDED_ON) && !onpath_planted(14))
		return onpath_done(ONPATH_DROP_LOOP, 0, ONPATH_TO_NOBODY);
	if (op != ONPATH_OP_QUERY && !onpath_from_host(state) && !onpath_planted(44))
		return onpath_done(ONPATH_DROP_STRANGER, 0, ONPATH_TO_NOBODY);
	if (own)
		return onpath_execute(state, config, header, op, onpath_planted(12) ? set >> 1 : set);
	done.way = onpath_peer_of(state, index);
	if (done.way)
		return done;
	if (onpath_planted(15) || onpath_planted(9))
		return onpath_execute(state, config, header, op, set);
	return onpath_done(ONPATH_DROP_PREFIX, 0, ONPATH_TO_NOBODY);
}

#endif
