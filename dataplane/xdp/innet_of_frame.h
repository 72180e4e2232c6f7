/* The in-network header of a frame: what is read of it, and what is written into it. */
#ifndef ONPATH_XDP_INNET_OF_FRAME_H
#define ONPATH_XDP_INNET_OF_FRAME_H

/* Of a packet of the cache, where the length is the operation's. */
ONPATH_INLINE __u32 read_cache(const struct frame *frame, const __u8 *end, union onpath_innet *header)
{
	if ((header->common.code & 0xf) == ONPATH_OP_INVALIDATE) {
		if (frame->length < ONPATH_INVALIDATE_BYTES || frame->payload + ONPATH_INVALIDATE_BYTES > end)
			return ONPATH_COMMON_BYTES;
		__builtin_memcpy(header->bytes, __builtin_assume_aligned(frame->payload, 4), ONPATH_INVALIDATE_BYTES);
		return ONPATH_INVALIDATE_BYTES;
	}
	if (frame->length < ONPATH_READ_BYTES || frame->payload + ONPATH_READ_BYTES > end)
		return ONPATH_COMMON_BYTES;
	header->read = *(struct onpath_read *)frame->payload;
	return ONPATH_READ_BYTES;
}

/* Reads what there is of the header: all, the part that all structures share, also of those that the program does not have, or nothing. How
 * much that is is all that decides about a payload (D-2). */
ONPATH_INLINE __u32 read_header(const struct frame *frame, const __u8 *end, __u32 has, union onpath_innet *header)
{
	__u32 structure;

	if (frame->length < ONPATH_COMMON_BYTES || frame->payload + ONPATH_COMMON_BYTES > end)
		return 0;
	header->common = *(struct onpath_common *)frame->payload;
	structure = header->common.code >> 4;
	if (!(has & ONPATH_HAS(structure)))
		return ONPATH_COMMON_BYTES;
	switch (structure) {
	case ONPATH_STRUCTURE_DIRTY_SET:
		if (frame->length < ONPATH_DIRTY_SET_BYTES || frame->payload + ONPATH_DIRTY_SET_BYTES > end)
			break;
		header->dirty_set = *(struct onpath_dirty_set *)frame->payload;
		return ONPATH_DIRTY_SET_BYTES;
	case ONPATH_STRUCTURE_VISIBILITY:
		if (frame->length < ONPATH_VISIBILITY_BYTES || frame->payload + ONPATH_VISIBILITY_BYTES > end)
			break;
		header->visibility = *(struct onpath_visibility *)frame->payload;
		return ONPATH_VISIBILITY_BYTES;
	case ONPATH_STRUCTURE_CACHE:
		return read_cache(frame, end, header);
	}
	return ONPATH_COMMON_BYTES;
}

/* A switch writes into the common part (D-16), whatever the structure, and of a look the metadata. */
ONPATH_INLINE struct onpath_common *common_of(const struct frame *frame, const __u8 *end)
{
	return frame->payload + ONPATH_COMMON_BYTES <= end ? (struct onpath_common *)frame->payload : 0;
}

/* How far a read has come, and what it is answered (D-91, D-92). */
ONPATH_INLINE void write_read(const struct frame *frame, const __u8 *end, const union onpath_innet *header)
{
	struct onpath_read *out = (struct onpath_read *)frame->payload;

	if (header->common.code != (ONPATH_STRUCTURE_CACHE << 4 | ONPATH_OP_READ) || frame->payload + ONPATH_READ_BYTES > end)
		return;
	out->level = header->read.level;
	out->start[0] = header->read.start[0];
	out->start[1] = header->read.start[1];
	if (header->common.result == ONPATH_CACHE_RESULT_ANSWERED)
		onpath_copy_cached(out->levels, header->read.levels);
}

/* What a look has found (D-56). */
ONPATH_INLINE void write_metadata(const struct frame *frame, const __u8 *end, const union onpath_innet *header)
{
	struct onpath_visibility *out = (struct onpath_visibility *)frame->payload;

	if (header->common.code >> 4 != ONPATH_STRUCTURE_VISIBILITY || header->common.result != ONPATH_RESULT_PENDING)
		return;
	if (frame->payload + ONPATH_VISIBILITY_BYTES <= end)
		onpath_copy_values(out->metadata, header->visibility.metadata);
}

#endif
