/* The parser: which packets are looked at, and what is wrong with the others (D-1 to D-10). */
#ifndef ONPATH_PARSER_H
#define ONPATH_PARSER_H

#include "header.h"

/* No counter: the parser lets the packet through. */
#define ONPATH_LET_THROUGH ONPATH_COUNTERS

/* D-7 to D-10. */
ONPATH_INLINE enum onpath_counter onpath_check_fields(const struct onpath_config *config,
						      const struct onpath_innet *header)
{
	if ((header->flags || header->spare_0 || header->spare_1) && !onpath_planted(7))
		return ONPATH_DROP_RESERVED;
	if (onpath_be16(header->shard) >= ONPATH_SHARDS && !onpath_planted(8))
		return ONPATH_DROP_SHARD;
	if (onpath_be32(header->index) >> config->index_bits && !onpath_planted(9))
		return ONPATH_DROP_INDEX;
	if (!header->tag && !onpath_planted(10))
		return ONPATH_DROP_TAG;
	return ONPATH_LET_THROUGH;
}

/* The counter of the first check that fails, in the order of SPEC.md; otherwise the operation is in `op`. `header` has what there is
 * of the header's bytes in a payload of `length`, and 0 for those that are missing. */
ONPATH_INLINE enum onpath_counter onpath_parse(const struct onpath_config *config, __u32 udp_port,
					       const struct onpath_innet *header, __u32 length, __u32 *op)
{
	*op = header->code & 0xf;
	if (udp_port != config->udp_port && !onpath_planted(1))
		return ONPATH_PLAIN;
	if (length < ONPATH_COMMON_BYTES)
		return ONPATH_DROP_TRUNCATED;
	if (header->version != ONPATH_VERSION && !onpath_planted(3))
		return ONPATH_DROP_VERSION;
	if (onpath_be32(header->cluster) != config->cluster && !onpath_planted(4))
		return ONPATH_DROP_CLUSTER;
	if (header->code >> 4 != ONPATH_STRUCTURE_DIRTY_SET && !onpath_planted(5))
		return ONPATH_DROP_STRUCTURE;
	if (*op != ONPATH_OP_QUERY && *op != ONPATH_OP_INSERT && *op != ONPATH_OP_REMOVE) {
		if (!onpath_planted(6))
			return ONPATH_DROP_OPERATION;
		*op = ONPATH_OP_QUERY;
	}
	if (length < ONPATH_HEADER_BYTES && !onpath_planted(2))
		return ONPATH_DROP_TRUNCATED;
	return onpath_check_fields(config, header);
}

#endif
