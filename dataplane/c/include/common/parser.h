/* The parser: which packets are looked at, and what is wrong with the others, whatever structure they are of (D-1 to D-5). */
#ifndef ONPATH_PARSER_H
#define ONPATH_PARSER_H

#include "common/header.h"

/* No counter: the parser lets the packet through. */
#define ONPATH_LET_THROUGH ONPATH_COUNTERS

/* The counter of the first check that fails, in the order of SPEC.md. `header` has what there is of the header's bytes in a payload of
 * `length`, and 0 for those that are missing. */
ONPATH_INLINE enum onpath_counter onpath_parse_common(const struct onpath_config *config, __u32 udp_port,
						      const struct onpath_common *header, __u32 length)
{
	if (udp_port != config->udp_port && !onpath_planted(1))
		return ONPATH_PLAIN;
	if (length < ONPATH_COMMON_BYTES)
		return ONPATH_DROP_TRUNCATED;
	if (header->version != ONPATH_VERSION && !onpath_planted(3))
		return ONPATH_DROP_VERSION;
	if (onpath_be32(header->cluster) != config->cluster && !onpath_planted(4))
		return ONPATH_DROP_CLUSTER;
	return ONPATH_LET_THROUGH;
}

#endif
