/* The registers of an entry, as one packet passes them: the gate, then the values. Each function here is the only action on its registers
 * that a packet makes. */
#ifndef ONPATH_VISIBILITY_REGISTERS_H
#define ONPATH_VISIBILITY_REGISTERS_H

#include "common/tracking.h"
#include "visibility/parser.h"

/* What an install does to an entry. */
enum onpath_effect {
	/* Nothing. */
	ONPATH_NO_EFFECT,
	/* The entry is its own. */
	ONPATH_TAKES,
	/* It says so, but it is not: a planted bug. */
	ONPATH_PRETENDS,
};

/* Whether the entry is of this file (D-56). */
ONPATH_INLINE int onpath_gate_look(const struct onpath_entry *entry, __u32 fingerprint)
{
	return entry->fingerprint && (entry->fingerprint == fingerprint || onpath_planted(56));
}

/* Makes the entry this file's if that is newer (D-48 to D-52). */
ONPATH_INLINE enum onpath_effect onpath_gate_install(struct onpath_entry *entry, __u32 fingerprint, __u32 ts)
{
	__u32 occupied = entry->fingerprint != 0;
	__u32 newer = onpath_planted(48) ? ts > entry->ts : (__s32)(ts - entry->ts) > 0;
	__u32 first = entry->ts == 0 && !onpath_planted(49);
	__u32 again = ts == entry->ts && ((occupied && !onpath_planted(50)) || (!occupied && onpath_planted(51)));

	if (!newer && !first && !again)
		return ONPATH_NO_EFFECT;
	if (occupied && onpath_planted(52))
		return ONPATH_PRETENDS;
	entry->fingerprint = fingerprint;
	entry->ts = ts;
	return ONPATH_TAKES;
}

/* Frees the entry if this is its position (D-58, D-59): whether it did. */
ONPATH_INLINE int onpath_gate_clear(struct onpath_entry *entry, __u32 ts)
{
	if (!entry->fingerprint || (entry->ts != ts && !onpath_planted(58)))
		return 0;
	entry->fingerprint = 0;
	if (onpath_planted(59))
		entry->ts = 0;
	return 1;
}

/* Every array of values, in order. */
ONPATH_INLINE void onpath_copy_values(__be32 *to, const __be32 *from)
{
	__u32 array;

#pragma GCC unroll 24
	for (array = 0; array < ONPATH_VALUES; array++)
		to[array] = from[array];
}

#endif
