/* What the cache counts: how often names are missed, and how often entries answer (D-106 to D-110). Arrays of the egress. */
#ifndef ONPATH_CACHE_COUNTS_H
#define ONPATH_CACHE_COUNTS_H

#include "cache/state.h"

/* Where a key is counted in a row; beyond the last one the bit that it was told. */
ONPATH_INLINE __u32 onpath_place(const struct onpath_config *config, __u64 key, __u32 row)
{
	return (__u32)(key >> (16 * row)) & 0xffff & (onpath_cached_entries(config) - 1);
}

/* Counts a miss of a key (D-106, D-107); the node that is to be told, 0: none (D-108). */
ONPATH_INLINE __u32 onpath_count_miss(struct onpath_state *state, const struct onpath_config *config, __u64 key)
{
	const struct onpath_report *report = onpath_get_report(state);
	__u32 row, node, least = 0xffff;
	__u8 *reported, told;

#pragma GCC unroll 3
	for (row = 0; row < ONPATH_SKETCH_ROWS; row++) {
		__u16 *count = onpath_find_missed(state, row, onpath_place(config, key, row));

		if (!count)
			return 0;
		if (*count != 0xffff || onpath_planted(107))
			*count += 1;
		if (*count < least)
			least = *count;
	}
	node = report ? report->node : 0;
	if (!node || least <= report->threshold)
		return 0;
	reported = onpath_find_reported(state, onpath_place(config, key, ONPATH_SKETCH_ROWS));
	if (!reported)
		return 0;
	told = *reported;
	*reported = 1;
	return !told || onpath_planted(108) ? node : 0;
}

/* D-110. Several processors of a target may answer at once. */
ONPATH_INLINE void onpath_count_hit(struct onpath_state *state, __u32 index)
{
	__u32 *hits = onpath_find_hits(state, index);

	if (hits)
		__sync_fetch_and_add(hits, 1);
}

#endif
