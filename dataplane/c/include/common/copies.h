/* The copies that a packet makes (D-16, D-17, D-23, D-34, D-108). */
#ifndef ONPATH_COPIES_H
#define ONPATH_COPIES_H

#include "common/counters.h"
#include "common/done.h"
#include "common/header.h"

/* D-16, D-17. */
ONPATH_INLINE void onpath_send(struct onpath_state *state, const union onpath_innet *header, __u32 node)
{
	const struct onpath_route *way = onpath_find_route(state, node);
	struct onpath_route port_0 = { 0 };
	struct onpath_common copy;

	if (!way && onpath_planted(17))
		way = &port_0;
	if (!way) {
		if (!onpath_planted(43))
			onpath_count(state, ONPATH_COPIES_UNROUTED);
		return;
	}
	onpath_count(state, ONPATH_COPIES_SENT);
	copy = onpath_to_node(&header->common, node);
	onpath_emit(state, header, &copy, node, way);
}

/* Sends a packet to whom it is for. */
ONPATH_INLINE void onpath_deliver(struct onpath_state *state, const union onpath_innet *header,
				  const struct onpath_done *done)
{
	__u32 shard = ONPATH_NODE_OF_SHARD_0 + onpath_be16(header->common.shard);
	__u32 destination = onpath_be32(header->common.destination);

	switch (done->deliver) {
	case ONPATH_TO_NOBODY:
		break;
	case ONPATH_TO_DESTINATION:
		onpath_send(state, header, destination);
		break;
	case ONPATH_TO_SHARD:
		onpath_send(state, header, shard);
		break;
	case ONPATH_TO_SHARD_AND_DESTINATION:
		onpath_send(state, header, shard);
		if (destination)
			onpath_send(state, header, destination);
		break;
	case ONPATH_TO_NODE:
		onpath_send(state, header, done->node);
		break;
	case ONPATH_TO_DESTINATION_AND_NODE:
		onpath_send(state, header, destination);
		onpath_send(state, header, done->node);
		break;
	}
}

#endif
