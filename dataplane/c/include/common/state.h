/* What a target of the C form provides for all structures; what it provides for one of them is in the state.h of its folder. The rules are
 * in the other headers, under the names of the folders and files in dataplane/rust/src; they reach state through the functions declared in
 * these files and in control.h, and through nothing else.
 *
 * A target defines `struct onpath_state` and `struct onpath_route`, which has a member `__u32 port` and whatever else the target
 * keeps about a way; includes state.h; defines the functions declared by it; and includes program.h. No function allocates, calls
 * a library or loops without a bound that is known beforehand. Where a function may give 0, the rules do without. */
#ifndef ONPATH_COMMON_STATE_H
#define ONPATH_COMMON_STATE_H

#include "common/innet.h"
#include "common/planted.h"

#define ONPATH_INLINE static inline __attribute__((always_inline))

/* What is fixed when the program is loaded. */
struct onpath_config {
	__u32 cluster;
	__u32 udp_port;
	/* Of the dirty set: at most ONPATH_INDEX_BITS, and ONPATH_STAGES_MAX. */
	__u32 index_bits;
	__u32 stages;
	/* Of the visibility table: at most ONPATH_ENTRY_BITS. */
	__u32 entry_bits;
	/* Of the cache: at most ONPATH_CACHE_BITS. */
	__u32 cache_bits;
};

/* `epoch` and `complete` of a structure: one register of stage 0. */
struct onpath_tracking {
	__u32 epoch;
	__u32 complete;
};

struct onpath_state;

/* D-44: whether the packet that is on its way came in where the control plane lists a host. */
ONPATH_INLINE int onpath_from_host(struct onpath_state *state);
ONPATH_INLINE const struct onpath_config *onpath_get_config(struct onpath_state *state);
ONPATH_INLINE __u64 *onpath_find_counter(struct onpath_state *state, enum onpath_counter counter);
/* 0: no route to the node. */
ONPATH_INLINE const struct onpath_route *onpath_find_route(struct onpath_state *state, __u32 node);

/* A copy for this node leaves with this header, whose common part is `common`. */
ONPATH_INLINE void onpath_emit(struct onpath_state *state, const union onpath_innet *header,
			       const struct onpath_common *common, __u32 node, const struct onpath_route *way);

/* Between these two a packet has the registers to itself; no other function of a target is called meanwhile, so that a lock which
 * lies beside `tracking` and forbids calls will do. */
ONPATH_INLINE void onpath_enter(struct onpath_tracking *tracking);
ONPATH_INLINE void onpath_leave(struct onpath_tracking *tracking);

#endif
