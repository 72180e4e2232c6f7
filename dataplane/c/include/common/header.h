/* Byte order, and the header on its way out: what a switch writes (D-16), and nothing else. */
#ifndef ONPATH_HEADER_H
#define ONPATH_HEADER_H

#include "common/state.h"

/* From network order to that of the machine, and back. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define onpath_be16(value) __builtin_bswap16(value)
#define onpath_be32(value) __builtin_bswap32(value)
#elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define onpath_be16(value) (value)
#define onpath_be32(value) (value)
#else
#error "unknown byte order"
#endif

/* The common part of the copy for a node (D-16). */
ONPATH_INLINE struct onpath_common onpath_to_node(const struct onpath_common *header, __u32 node)
{
	struct onpath_common copy = *header;

	if (!onpath_planted(16))
		copy.destination = onpath_be32(node);
	return copy;
}

#endif
