/* What an operation came to. */
#ifndef ONPATH_DONE_H
#define ONPATH_DONE_H

#include "common/state.h"

/* To whom a packet goes. */
enum onpath_deliver {
	ONPATH_TO_NOBODY,
	ONPATH_TO_DESTINATION,
	/* The shard that sent it. */
	ONPATH_TO_SHARD,
	/* That shard and, if there is one, its destination (D-23). */
	ONPATH_TO_SHARD_AND_DESTINATION,
	/* A node that the packet or the control plane names: `node` of struct onpath_done. */
	ONPATH_TO_NODE,
	/* Its destination and such a node (D-108). */
	ONPATH_TO_DESTINATION_AND_NODE,
};

/* What became of a packet. */
struct onpath_done {
	enum onpath_counter counter;
	enum onpath_deliver deliver;
	/* What the header says; 0: as it came. */
	__u32 result;
	__u32 node;
};

ONPATH_INLINE struct onpath_done onpath_done(enum onpath_counter counter, __u32 result, enum onpath_deliver deliver)
{
	struct onpath_done done = { counter, deliver, result, 0 };

	return done;
}

#endif
