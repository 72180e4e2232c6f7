/* The registers of the cache, as one pass of a packet touches them. Stamp and value of an entry are touched together: each function here is
 * the only action on them. */
#ifndef ONPATH_CACHE_REGISTERS_H
#define ONPATH_CACHE_REGISTERS_H

#include "cache/state.h"
#include "common/header.h"

/* Every array of a value, in order. */
ONPATH_INLINE void onpath_copy_cached(__be32 *to, const __be32 *from)
{
	__u32 array;

#pragma GCC unroll 21
	for (array = 0; array < ONPATH_CACHE_VALUES; array++)
		to[array] = from[array];
}

/* The value, if it is that of this entry and valid (D-81, D-82): whether it is. */
ONPATH_INLINE int onpath_gate_read(struct onpath_cached *entry, __u32 number, __be32 *value)
{
	int valid;

	onpath_enter_cached(entry);
	valid = (entry->number == number || onpath_planted(81)) && entry->state && (!(entry->state & 1) || onpath_planted(82));
	if (valid)
		onpath_copy_cached(value, entry->value);
	onpath_leave_cached(entry);
	return valid;
}

/* D-97 to D-99: the result of a fill. */
ONPATH_INLINE __u32 onpath_gate_fill(struct onpath_cached *entry, __u32 number, __u32 revision, const __be32 *value)
{
	__u32 filled = 2 * revision, result = ONPATH_CACHE_RESULT_FILLED;

	onpath_enter_cached(entry);
	if (entry->number != number && !onpath_planted(99)) {
		result = ONPATH_CACHE_RESULT_NOT_THERE;
	} else if (entry->state >= filled && !onpath_planted(98)) {
		result = ONPATH_CACHE_RESULT_NOT_NEWER;
	} else {
		entry->state = filled;
		if (!onpath_planted(97))
			onpath_copy_cached(entry->value, value);
	}
	onpath_leave_cached(entry);
	return result;
}

/* D-102 to D-104: whether the entry is this one, which says nothing up to this revision then. */
ONPATH_INLINE int onpath_gate_invalidate(struct onpath_cached *entry, __u32 number, __u32 revision)
{
	__u32 cleared = 2 * revision | 1;
	int its;

	onpath_enter_cached(entry);
	its = entry->number == number || onpath_planted(104);
	if (its && !onpath_planted(102) && (entry->state < cleared || onpath_planted(103)))
		entry->state = cleared;
	onpath_leave_cached(entry);
	return its;
}

/* D-117. */
ONPATH_INLINE void onpath_set_stamp(struct onpath_cached *entry, __u32 number)
{
	onpath_enter_cached(entry);
	entry->number = number;
	if (!onpath_planted(117))
		entry->state = 0;
	onpath_leave_cached(entry);
}

#endif
