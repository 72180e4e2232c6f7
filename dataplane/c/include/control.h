/* The control plane: epochs, terms, tables, reboot (D-37 to D-42). It runs beside the packets, not in their path, and need not pass a
 * verifier: registers, which always exist, are taken without asking. */
#ifndef ONPATH_CONTROL_H
#define ONPATH_CONTROL_H

#include "routing.h"

/* Why a command is refused; then nothing has changed. */
enum onpath_refusal {
	ONPATH_ACCEPTED,
	ONPATH_REFUSED_OTHER_EPOCH,
	ONPATH_REFUSED_SHARD,
	ONPATH_REFUSED_TERM,
	ONPATH_REFUSED_EPOCH_RUNS,
	ONPATH_REFUSED_NODE_ZERO,
	ONPATH_REFUSED_TWICE,
	ONPATH_REFUSED_FULL,
	ONPATH_REFUSED_MEMBERS,
	ONPATH_REFUSED_PREFIX,
	ONPATH_REFUSED_OVERLAP,
};

/* What a target provides besides state.h. Puts replace; not 0: there is no room for one more. */
ONPATH_INLINE int onpath_put_route(struct onpath_state *state, __u32 node, const struct onpath_route *way);
ONPATH_INLINE void onpath_drop_route(struct onpath_state *state, __u32 node);
ONPATH_INLINE int onpath_put_group(struct onpath_state *state, __u32 group, const __u32 *members, __u32 count);
ONPATH_INLINE void onpath_drop_group(struct onpath_state *state, __u32 group);
/* The port of a way is a host's from now on, and not any more. */
ONPATH_INLINE int onpath_put_host(struct onpath_state *state, const struct onpath_route *way);
ONPATH_INLINE void onpath_drop_host(struct onpath_state *state, const struct onpath_route *way);
/* All tags become 0; all routes, groups, peers and hosts go; all counters become 0. */
ONPATH_INLINE void onpath_clear_tags(struct onpath_state *state);
ONPATH_INLINE void onpath_clear_tables(struct onpath_state *state);
ONPATH_INLINE void onpath_clear_counters(struct onpath_state *state);

/* D-37. */
ONPATH_INLINE enum onpath_refusal onpath_control_epoch(struct onpath_state *state, __u32 epoch)
{
	onpath_set_epoch(onpath_get_tracking(state), epoch);
	return ONPATH_ACCEPTED;
}

/* D-38. */
ONPATH_INLINE enum onpath_refusal onpath_control_complete(struct onpath_state *state, __u32 epoch)
{
	return onpath_set_complete(onpath_get_tracking(state), epoch) ? ONPATH_ACCEPTED : ONPATH_REFUSED_OTHER_EPOCH;
}

/* D-39. */
ONPATH_INLINE enum onpath_refusal onpath_control_raise(struct onpath_state *state, __u32 shard, __u32 term)
{
	if (shard >= ONPATH_SHARDS)
		return ONPATH_REFUSED_SHARD;
	if (term == 0 || term > ONPATH_TERM_MAX)
		return ONPATH_REFUSED_TERM;
	onpath_raise(onpath_get_tracking(state), onpath_find_pair(state, shard), term);
	return ONPATH_ACCEPTED;
}

/* D-40. */
ONPATH_INLINE enum onpath_refusal onpath_control_clear(struct onpath_state *state)
{
	if (onpath_get_tracking(state)->epoch != 0 && !onpath_planted(40))
		return ONPATH_REFUSED_EPOCH_RUNS;
	onpath_clear_tags(state);
	return ONPATH_ACCEPTED;
}

/* D-41. */
ONPATH_INLINE enum onpath_refusal onpath_control_route(struct onpath_state *state, __u32 node, const struct onpath_route *way)
{
	if (node == 0)
		return ONPATH_REFUSED_NODE_ZERO;
	return onpath_put_route(state, node, way) ? ONPATH_REFUSED_FULL : ONPATH_ACCEPTED;
}

/* D-41. */
ONPATH_INLINE enum onpath_refusal onpath_control_group(struct onpath_state *state, __u32 group, const __u32 *members,
						       __u32 count)
{
	__u32 at, other;

	if (count > ONPATH_MEMBERS_MAX)
		return ONPATH_REFUSED_MEMBERS;
	for (at = 0; at < ONPATH_MEMBERS_MAX && at < count; at++) {
		if (members[at] == 0)
			return ONPATH_REFUSED_NODE_ZERO;
	}
	for (at = 0; at < ONPATH_MEMBERS_MAX && at < count; at++) {
		for (other = 0; other < at; other++) {
			if (members[at] == members[other])
				return ONPATH_REFUSED_TWICE;
		}
	}
	return onpath_put_group(state, group, members, count) ? ONPATH_REFUSED_FULL : ONPATH_ACCEPTED;
}

/* Whether two prefixes share an index. */
ONPATH_INLINE int onpath_prefixes_overlap(__u32 value, __u32 bits, __u32 other_value, __u32 other_bits)
{
	return onpath_prefix_holds(value, bits, other_value << (ONPATH_INDEX_BITS - other_bits)) ||
	       onpath_prefix_holds(other_value, other_bits, value << (ONPATH_INDEX_BITS - bits));
}

/* D-41. */
ONPATH_INLINE enum onpath_refusal onpath_control_peer(struct onpath_state *state, __u32 value, __u32 bits,
						      const struct onpath_route *way)
{
	const struct onpath_config *config = onpath_get_config(state);
	struct onpath_peers *peers = onpath_get_peers(state);
	int overlaps;
	__u32 at;

	if (bits > ONPATH_INDEX_BITS || value >> bits)
		return ONPATH_REFUSED_PREFIX;
	overlaps = onpath_prefixes_overlap(value, bits, config->own_value, config->own_bits);
	for (at = 0; at < ONPATH_PEERS_MAX && at < peers->count; at++) {
		struct onpath_peer *peer = &peers->at[at];

		if (peer->value == value && peer->bits == bits) {
			peer->way = *way;
			return ONPATH_ACCEPTED;
		}
		overlaps |= onpath_prefixes_overlap(value, bits, peer->value, peer->bits);
	}
	if (overlaps && !onpath_planted(41))
		return ONPATH_REFUSED_OVERLAP;
	if (at == ONPATH_PEERS_MAX)
		return ONPATH_REFUSED_FULL;
	peers->at[at].value = value;
	peers->at[at].bits = bits;
	peers->at[at].way = *way;
	peers->count = at + 1;
	return ONPATH_ACCEPTED;
}

/* D-41. */
ONPATH_INLINE enum onpath_refusal onpath_control_unpeer(struct onpath_state *state, __u32 value, __u32 bits)
{
	struct onpath_peers *peers = onpath_get_peers(state);
	__u32 at, kept = 0;

	for (at = 0; at < ONPATH_PEERS_MAX && at < peers->count; at++) {
		if (peers->at[at].value != value || peers->at[at].bits != bits)
			peers->at[kept++] = peers->at[at];
	}
	peers->count = kept;
	return ONPATH_ACCEPTED;
}

/* D-41, D-44. */
ONPATH_INLINE enum onpath_refusal onpath_control_host(struct onpath_state *state, const struct onpath_route *way)
{
	return onpath_put_host(state, way) ? ONPATH_REFUSED_FULL : ONPATH_ACCEPTED;
}

/* D-42. */
ONPATH_INLINE enum onpath_refusal onpath_control_reboot(struct onpath_state *state)
{
	struct onpath_tracking *tracking = onpath_get_tracking(state);
	__u32 shard;

	tracking->epoch = 0;
	tracking->complete = 0;
	for (shard = 0; shard < ONPATH_SHARDS && !onpath_planted(42); shard++) {
		struct onpath_pair *pair = onpath_find_pair(state, shard);

		pair->min_term = 0;
		pair->counter = 0;
	}
	onpath_clear_tags(state);
	onpath_clear_tables(state);
	onpath_clear_counters(state);
	return ONPATH_ACCEPTED;
}

#endif
