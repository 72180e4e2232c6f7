/* Whether a caller may pass a level, and do what it wants of the last (D-83 to D-90). */
#ifndef ONPATH_CACHE_PERMISSION_H
#define ONPATH_CACHE_PERMISSION_H

#include "cache/parser.h"

/* What the value of a level says. */
enum onpath_verdict {
	ONPATH_PASSED,
	ONPATH_DENIED,
	/* The switch cannot tell. */
	ONPATH_OPEN,
};

/* D-90: whether what the read is for can be answered of such an inode. */
ONPATH_INLINE int onpath_answers(const struct onpath_read *header, __u32 kind)
{
	if (onpath_planted(90))
		return 1;
	switch (header->purpose) {
	case ONPATH_PURPOSE_STAT:
		return kind != ONPATH_KIND_DIRECTORY;
	case ONPATH_PURPOSE_ACCESS:
		return kind != ONPATH_KIND_SYMLINK;
	case ONPATH_PURPOSE_OPEN:
		return kind == ONPATH_KIND_FILE && !(header->wants & ONPATH_WANTS_WRITE);
	case ONPATH_PURPOSE_SIZE:
		return kind == ONPATH_KIND_FILE;
	default:
		return 1;
	}
}

/* D-84. */
ONPATH_INLINE int onpath_leads_on(const struct onpath_value *value)
{
	return (value->kind == ONPATH_KIND_DIRECTORY || onpath_planted(84)) && (value->id[0] | value->id[1]);
}

/* D-85 to D-87: the bits that the caller surely has; in `open` those that it may have or not. */
ONPATH_INLINE __u32 onpath_class_bits(const struct onpath_read *header, const struct onpath_value *value, __u32 *open)
{
	__u32 mode = onpath_be16(value->mode), group = mode >> 3 & 7, others = mode & 7;

	*open = 0;
	if (header->uid == value->uid && !onpath_planted(85))
		return mode >> 6 & 7;
	if (header->gid == value->gid && !onpath_planted(86))
		return group;
	if (onpath_planted(87))
		return others;
	*open = group ^ others;
	return group & others;
}

/* D-85 to D-88: whether the caller may do all that is wanted. */
ONPATH_INLINE enum onpath_verdict onpath_may(const struct onpath_read *header, const struct onpath_value *value, __u32 wanted)
{
	__u32 over = header->wants & (ONPATH_WANTS_READS_ALL | ONPATH_WANTS_WRITES_ALL), covered = 0, open;
	__u32 granted = onpath_class_bits(header, value, &open);

	if (onpath_planted(88) && !header->uid)
		over = ONPATH_WANTS_READS_ALL | ONPATH_WANTS_WRITES_ALL;
	if (over & ONPATH_WANTS_READS_ALL) {
		covered |= ONPATH_WANTS_READ;
		if (value->kind == ONPATH_KIND_DIRECTORY)
			covered |= ONPATH_WANTS_EXEC;
	}
	if (over & ONPATH_WANTS_WRITES_ALL)
		covered |= ONPATH_WANTS_WRITE;
	if (!(wanted & ~granted) || !(wanted & ~covered))
		return ONPATH_PASSED;
	return !over && (wanted & ~(granted | open)) ? ONPATH_DENIED : ONPATH_OPEN;
}

/* D-83 to D-90: of a level, the last or not. */
ONPATH_INLINE enum onpath_verdict onpath_judge(const struct onpath_read *header, const struct onpath_value *value, int last)
{
	__u32 differs = (value->parent[0] ^ header->start[0]) | (value->parent[1] ^ header->start[1]);
	__u32 wanted = ONPATH_WANTS_EXEC;

	if (differs && !onpath_planted(83))
		return ONPATH_OPEN;
	if (!(last ? onpath_answers(header, value->kind) : onpath_leads_on(value)))
		return ONPATH_OPEN;
	if (last)
		wanted = onpath_planted(89) ? 0 : header->wants & 7;
	return onpath_may(header, value, wanted);
}

#endif
