/* What is wrong with packets of the visibility table (D-2, D-6 to D-9, D-45, D-46). */
#ifndef ONPATH_VISIBILITY_PARSER_H
#define ONPATH_VISIBILITY_PARSER_H

#include "common/parser.h"
#include "visibility/state.h"

/* D-7 to D-9, D-45, D-46. */
ONPATH_INLINE enum onpath_counter onpath_check_entry_fields(const struct onpath_config *config,
							    const struct onpath_visibility *header, __u32 op)
{
	if (header->flags && !onpath_planted(7))
		return ONPATH_DROP_RESERVED;
	if (onpath_be16(header->shard) >= ONPATH_SHARDS && !onpath_planted(8))
		return ONPATH_DROP_SHARD;
	if (onpath_be32(header->index) >> config->entry_bits && !onpath_planted(9))
		return ONPATH_DROP_INDEX;
	if (!header->fingerprint && !onpath_planted(45))
		return ONPATH_DROP_FINGERPRINT;
	if (!header->ts && op != ONPATH_OP_LOOK && !onpath_planted(46))
		return ONPATH_DROP_TS;
	return ONPATH_LET_THROUGH;
}

/* Whether an operation changes an entry (D-44). */
ONPATH_INLINE int onpath_changes_entry(__u32 op)
{
	return op != ONPATH_OP_LOOK;
}

/* The counter of the first check that fails, in the order of SPEC.md; otherwise the operation is in `op`. */
ONPATH_INLINE enum onpath_counter onpath_parse_visibility(const struct onpath_config *config,
							  const struct onpath_visibility *header, __u32 length, __u32 *op)
{
	*op = header->code & 0xf;
	if (*op != ONPATH_OP_LOOK && *op != ONPATH_OP_INSTALL && *op != ONPATH_OP_CLEAR) {
		if (!onpath_planted(6))
			return ONPATH_DROP_OPERATION;
		*op = ONPATH_OP_LOOK;
	}
	if (length < ONPATH_VISIBILITY_BYTES && !onpath_planted(2))
		return ONPATH_DROP_TRUNCATED;
	return onpath_check_entry_fields(config, header, *op);
}

#endif
