/* What is wrong with packets of the dirty set (D-2, D-6 to D-10). */
#ifndef ONPATH_DIRTY_SET_PARSER_H
#define ONPATH_DIRTY_SET_PARSER_H

#include "common/parser.h"
#include "dirty_set/state.h"

/* D-7 to D-10. */
ONPATH_INLINE enum onpath_counter onpath_check_fields(const struct onpath_config *config,
						      const struct onpath_dirty_set *header)
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

/* Whether an operation changes a register (D-44). */
ONPATH_INLINE int onpath_changes(__u32 op)
{
	return op != ONPATH_OP_QUERY;
}

/* The counter of the first check that fails, in the order of SPEC.md; otherwise the operation is in `op`. */
ONPATH_INLINE enum onpath_counter onpath_parse_dirty_set(const struct onpath_config *config,
							 const struct onpath_dirty_set *header, __u32 length, __u32 *op)
{
	*op = header->code & 0xf;
	if (*op != ONPATH_OP_QUERY && *op != ONPATH_OP_INSERT && *op != ONPATH_OP_REMOVE) {
		if (!onpath_planted(6))
			return ONPATH_DROP_OPERATION;
		*op = ONPATH_OP_QUERY;
	}
	if (length < ONPATH_DIRTY_SET_BYTES && !onpath_planted(2))
		return ONPATH_DROP_TRUNCATED;
	return onpath_check_fields(config, header);
}

#endif
