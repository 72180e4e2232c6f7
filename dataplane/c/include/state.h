/* What a target of the C form provides. The rules are in the other headers, under the names of the files in dataplane/rust/src;
 * they reach state through the functions declared here and in control.h, and through nothing else.
 *
 * A target defines `struct onpath_state` and `struct onpath_route`, which has a member `__u32 port` and whatever else the target
 * keeps about a way; includes this file; defines the functions declared here; and includes program.h. No function allocates, calls
 * a library or loops without a bound that is known beforehand. Where a function may give 0, the rules do without. */
#ifndef ONPATH_STATE_H
#define ONPATH_STATE_H

#include "innet.h"
#include "planted.h"

#define ONPATH_INLINE static inline __attribute__((always_inline))

/* What is fixed when the program is loaded. */
struct onpath_config {
	__u32 cluster;
	__u32 udp_port;
	/* At most ONPATH_INDEX_BITS: there are so many sets. */
	__u32 index_bits;
	__u32 stages;
};

/* How many sets there are. */
ONPATH_INLINE __u32 onpath_sets(const struct onpath_config *config)
{
	return (__u32)1 << config->index_bits;
}

/* `epoch` and `complete`: one register of stage 0. */
struct onpath_tracking {
	__u32 epoch;
	__u32 complete;
};

/* What a shard's removes are compared with: a double-width register of stage 0. */
struct onpath_pair {
	__u32 min_term;
	__u32 counter;
};

/* The registers at one index, array after array; those from `stages` on are not used. */
struct onpath_set {
	__u32 tag[ONPATH_STAGES_MAX];
};

struct onpath_state;

/* D-44: whether the packet that is on its way came in where the control plane lists a host. */
ONPATH_INLINE int onpath_from_host(struct onpath_state *state);
ONPATH_INLINE const struct onpath_config *onpath_get_config(struct onpath_state *state);
ONPATH_INLINE struct onpath_tracking *onpath_get_tracking(struct onpath_state *state);
/* The pair of a shard below ONPATH_SHARDS. */
ONPATH_INLINE struct onpath_pair *onpath_find_pair(struct onpath_state *state, __u32 shard);
/* The set of this number. */
ONPATH_INLINE struct onpath_set *onpath_find_set(struct onpath_state *state, __u32 set);
ONPATH_INLINE __u64 *onpath_find_counter(struct onpath_state *state, enum onpath_counter counter);
/* 0: no route to the node. */
ONPATH_INLINE const struct onpath_route *onpath_find_route(struct onpath_state *state, __u32 node);

/* Between these two a packet has the registers to itself; no other function of a target is called meanwhile, so that a lock which
 * lies beside `tracking` and forbids calls will do. */
ONPATH_INLINE void onpath_enter(struct onpath_tracking *tracking);
ONPATH_INLINE void onpath_leave(struct onpath_tracking *tracking);

/* A copy for this node leaves with this header. */
ONPATH_INLINE void onpath_emit(struct onpath_state *state, const struct onpath_innet *header, __u32 node,
			       const struct onpath_route *way);

#endif
