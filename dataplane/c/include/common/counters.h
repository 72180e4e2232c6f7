/* Counters (D-43). Their names and order are in innet.h. */
#ifndef ONPATH_COUNTERS_H
#define ONPATH_COUNTERS_H

#include "common/state.h"

ONPATH_INLINE void onpath_count(struct onpath_state *state, enum onpath_counter counter)
{
	__u64 *value = onpath_find_counter(state, counter);

	if (value)
		*value += 1;
}

#endif
