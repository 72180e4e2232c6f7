/* What is wrong with packets of the cache (D-2, D-6 to D-8, D-67 to D-72). */
#ifndef ONPATH_CACHE_PARSER_H
#define ONPATH_CACHE_PARSER_H

#include "cache/state.h"
#include "common/parser.h"

/* A field of 64 bits. */
ONPATH_INLINE __u64 onpath_be64(const __be32 *words)
{
	return (__u64)onpath_be32(words[0]) << 32 | onpath_be32(words[1]);
}

/* What lies in a read behind its levels. */
ONPATH_INLINE __u32 onpath_behind_levels(const struct onpath_read *header)
{
	const __u8 *spare = (const __u8 *)header->levels + ONPATH_LEVELS_MAX * ONPATH_LEVEL_BYTES;

	return spare[0] | spare[1] | spare[2];
}

/* D-7, D-8, D-67 to D-69. */
ONPATH_INLINE enum onpath_counter onpath_check_read(const struct onpath_read *header)
{
	__u32 spare = (header->wants & ~ONPATH_WANTS_ALL) | onpath_behind_levels(header);

	if ((header->flags || (!header->result && spare)) && !onpath_planted(7))
		return ONPATH_DROP_RESERVED;
	if (onpath_be16(header->shard) >= ONPATH_SHARDS && !onpath_planted(8))
		return ONPATH_DROP_SHARD;
	if (header->result)
		return ONPATH_LET_THROUGH;
	if ((header->depth == 0 || header->depth > ONPATH_LEVELS_MAX) && !onpath_planted(67))
		return ONPATH_DROP_RESERVED;
	if (header->level && !onpath_planted(68))
		return ONPATH_DROP_RESERVED;
	if ((header->purpose < ONPATH_PURPOSE_LOOKUP || header->purpose > ONPATH_PURPOSE_SIZE) && !onpath_planted(69))
		return ONPATH_DROP_RESERVED;
	return ONPATH_LET_THROUGH;
}

/* D-7, D-8, D-70 to D-72. Of an invalidate there is no value. */
ONPATH_INLINE enum onpath_counter onpath_check_entry(const struct onpath_fill *header)
{
	__u32 revision = onpath_be32(header->revision);
	__u32 spare = header->spare_0 | header->spare_1 | header->spare_2;

	if ((header->flags || (!header->result && spare)) && !onpath_planted(7))
		return ONPATH_DROP_RESERVED;
	if (onpath_be16(header->shard) >= ONPATH_SHARDS && !onpath_planted(8))
		return ONPATH_DROP_SHARD;
	if (header->result)
		return ONPATH_LET_THROUGH;
	if (!header->token && !onpath_planted(70))
		return ONPATH_DROP_RESERVED;
	if (!header->number && !onpath_planted(71))
		return ONPATH_DROP_RESERVED;
	if ((revision == 0 || revision >= ONPATH_REVISION_END) && !onpath_planted(72))
		return ONPATH_DROP_RESERVED;
	return ONPATH_LET_THROUGH;
}

/* Whether an operation changes an entry (D-44). */
ONPATH_INLINE int onpath_changes_cache(__u32 op)
{
	return op != ONPATH_OP_READ;
}

/* The counter of the first check that fails, in the order of SPEC.md; otherwise the operation is in `op`. */
ONPATH_INLINE enum onpath_counter onpath_parse_cache(const union onpath_innet *header, __u32 length, __u32 *op)
{
	*op = header->common.code & 0xf;
	if (*op != ONPATH_OP_READ && *op != ONPATH_OP_FILL && *op != ONPATH_OP_INVALIDATE) {
		if (!onpath_planted(6))
			return ONPATH_DROP_OPERATION;
		*op = ONPATH_OP_READ;
	}
	if (length < (*op == ONPATH_OP_INVALIDATE ? ONPATH_INVALIDATE_BYTES : ONPATH_READ_BYTES) && !onpath_planted(2))
		return ONPATH_DROP_TRUNCATED;
	return *op == ONPATH_OP_READ ? onpath_check_read(&header->read) : onpath_check_entry(&header->fill);
}

#endif
