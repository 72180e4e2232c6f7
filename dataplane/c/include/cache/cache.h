/* The cache: read, fill and invalidate (D-73 to D-110).
 *
 * A packet comes to where it may have to wait, between names and stamp; a read that is not answered yet waits once more before the names of
 * its next level. Between the two anything may happen. */
#ifndef ONPATH_CACHE_H
#define ONPATH_CACHE_H

#include "cache/counts.h"
#include "cache/lease.h"
#include "cache/permission.h"
#include "cache/registers.h"
#include "common/counters.h"
#include "common/done.h"

/* Where a packet is on its way. */
struct onpath_walk {
	__u32 op;
	/* Passes that it has begun. */
	__u32 passes;
	/* It waits before the names of its next pass, otherwise before the stamp of what its name has. */
	__u32 before_names;
	/* Whether its name has an entry, and which. */
	__u32 found;
	struct onpath_found entry;
};

/* As often a packet goes on at most. */
#define ONPATH_TURNS_MAX (2 * ONPATH_PASSES_MAX)

/* Whether the next pass is the one of the root's own entry (D-79). */
ONPATH_INLINE int onpath_of_root(const struct onpath_read *header)
{
	return !(header->start[0] | header->start[1]) && !onpath_planted(79);
}

/* Key and token of a level from 0; those beyond the last have none. */
ONPATH_INLINE __u64 onpath_level(const struct onpath_read *header, __u32 level, __u32 *token)
{
	const __u8 *bytes = (const __u8 *)header->levels;
	__u64 key = 0;
	__u32 byte;

	*token = 0;
	if (level >= ONPATH_LEVELS_MAX)
		return 0;
	bytes += level * ONPATH_LEVEL_BYTES;
#pragma GCC unroll 8
	for (byte = 0; byte < 8; byte++)
		key = key << 8 | bytes[byte];
	*token = bytes[8];
	return key;
}

/* The key that a miss is counted by (D-106). */
ONPATH_INLINE __u64 onpath_last_key(const struct onpath_read *header)
{
	__u32 token;

	return onpath_level(header, header->depth ? header->depth - 1 : 0, &token);
}

/* D-80. The packet waits before the stamp then. */
ONPATH_INLINE void onpath_look_up(struct onpath_state *state, const union onpath_innet *header, struct onpath_walk *walk)
{
	const struct onpath_found *entry;
	__u64 key;
	__u32 token;

	if (walk->op != ONPATH_OP_READ) {
		key = onpath_be64(header->fill.key);
		token = header->fill.token;
	} else if (onpath_of_root(&header->read)) {
		key = 0;
		token = ONPATH_ROOT_TOKEN;
	} else {
		key = onpath_level(&header->read, header->read.level, &token);
	}
	entry = onpath_find_name(state, key, token);
	walk->passes++;
	walk->before_names = 0;
	walk->found = entry != 0;
	walk->entry.index = entry ? entry->index : 0;
	walk->entry.number = entry ? entry->number : 0;
}

/* To who asked. */
ONPATH_INLINE struct onpath_done onpath_done_to_requester(enum onpath_counter counter, __u32 result,
							  const struct onpath_read *header)
{
	struct onpath_done done = onpath_done(counter, result, ONPATH_TO_NODE);

	done.node = onpath_be32(header->requester);
	return done;
}

/* D-94. */
ONPATH_INLINE struct onpath_done onpath_done_miss(enum onpath_counter counter, const struct onpath_read *header)
{
	if (onpath_planted(94))
		return onpath_done_to_requester(counter, ONPATH_CACHE_RESULT_MISS, header);
	return onpath_done(counter, ONPATH_CACHE_RESULT_MISS, ONPATH_TO_DESTINATION);
}

/* D-76 to D-78, D-109. */
ONPATH_INLINE struct onpath_done onpath_not_asked(struct onpath_state *state, const struct onpath_config *config,
						  enum onpath_counter counter, const struct onpath_read *header)
{
	if (onpath_planted(109))
		(void)onpath_count_miss(state, config, onpath_last_key(header));
	return onpath_done_miss(counter, header);
}

/* D-94, D-106 to D-108. */
ONPATH_INLINE struct onpath_done onpath_missed(struct onpath_state *state, const struct onpath_config *config,
					       const struct onpath_read *header)
{
	__u32 token;
	__u64 key = onpath_planted(106) ? onpath_level(header, 0, &token) : onpath_last_key(header);
	struct onpath_done done = onpath_done(ONPATH_READ_REPORTED, ONPATH_CACHE_RESULT_MISS, ONPATH_TO_DESTINATION_AND_NODE);

	done.node = onpath_count_miss(state, config, key);
	return done.node ? done : onpath_done_miss(ONPATH_READ_MISSED, header);
}

/* D-77, D-78. */
ONPATH_INLINE int onpath_may_ask(struct onpath_state *state, const struct onpath_read *header)
{
	if (onpath_asks_for_any(state) || onpath_planted(77))
		return 1;
#ifdef ONPATH_PLANTED
	if (onpath_planted(78))
		return onpath_asks(state);
#endif
	if (header->wants & (ONPATH_WANTS_READS_ALL | ONPATH_WANTS_WRITES_ALL))
		return 0;
	return onpath_asks_for(state, onpath_be32(header->uid), onpath_be32(header->gid));
}

/* A pass from the stamp on (D-81 to D-94): whether it goes on, to its next pass. */
ONPATH_INLINE int onpath_read_level(struct onpath_state *state, const struct onpath_config *config, struct onpath_read *header,
				    struct onpath_walk *walk, struct onpath_done *done)
{
	union {
		struct onpath_value of;
		__be32 words[ONPATH_CACHE_VALUES];
	} value;
	int root = onpath_of_root(header), last = !root && (__u32)header->level + 1 == header->depth;
	struct onpath_cached *entry = walk->found ? onpath_find_cached(state, walk->entry.index) : 0;
	enum onpath_verdict verdict = ONPATH_OPEN;

	if (entry && onpath_gate_read(entry, walk->entry.number, value.words))
		verdict = onpath_judge(header, &value.of, last);
	if (verdict == ONPATH_PASSED && last) {
		onpath_count_hit(state, walk->entry.index);
		onpath_copy_cached(header->levels, value.words);
		*done = onpath_done_to_requester(ONPATH_READ_ANSWERED, ONPATH_CACHE_RESULT_ANSWERED, header);
		if (onpath_planted(92))
			done->deliver = ONPATH_TO_DESTINATION;
		return 0;
	}
	if (verdict == ONPATH_PASSED && walk->passes < ONPATH_PASSES_MAX) {
		if (onpath_planted(110))
			onpath_count_hit(state, walk->entry.index);
		if (!onpath_planted(91)) {
			header->start[0] = value.of.id[0];
			header->start[1] = value.of.id[1];
		}
		header->level += !root;
		walk->before_names = 1;
		return 1;
	}
	if (verdict == ONPATH_DENIED && !onpath_planted(93)) {
		onpath_count_hit(state, walk->entry.index);
		*done = onpath_done_to_requester(ONPATH_READ_DENIED, ONPATH_CACHE_RESULT_DENIED, header);
		return 0;
	}
	*done = onpath_missed(state, config, header);
	return 0;
}

/* The entry that a home speaks of; 0: there is none of this number (D-96, D-104: `rule`). */
ONPATH_INLINE struct onpath_cached *onpath_entry_of(struct onpath_state *state, const struct onpath_fill *header,
						    const struct onpath_walk *walk, __u32 rule)
{
	if (!walk->found || (walk->entry.number != onpath_be32(header->number) && !onpath_planted(rule)))
		return 0;
	return onpath_find_cached(state, walk->entry.index);
}

/* D-96 to D-100. */
ONPATH_INLINE struct onpath_done onpath_fill_entry(struct onpath_state *state, const struct onpath_fill *header,
						   const struct onpath_walk *walk)
{
	struct onpath_cached *entry = onpath_entry_of(state, header, walk, 96);
	enum onpath_deliver deliver = onpath_planted(100) ? ONPATH_TO_SHARD : ONPATH_TO_DESTINATION;
	__u32 result = ONPATH_CACHE_RESULT_NOT_THERE;

	if (entry)
		result = onpath_gate_fill(entry, walk->entry.number, onpath_be32(header->revision), header->value);
	if (result == ONPATH_CACHE_RESULT_FILLED)
		return onpath_done(ONPATH_FILL_DONE, result, deliver);
	return onpath_done(result == ONPATH_CACHE_RESULT_NOT_NEWER ? ONPATH_FILL_NOT_NEWER : ONPATH_FILL_NOT_THERE, result, deliver);
}

/* D-102 to D-105. */
ONPATH_INLINE struct onpath_done onpath_invalidate_entry(struct onpath_state *state, const struct onpath_fill *header,
							 const struct onpath_walk *walk)
{
	struct onpath_cached *entry = onpath_entry_of(state, header, walk, 104);
	enum onpath_deliver deliver = onpath_planted(105) ? ONPATH_TO_SHARD : ONPATH_TO_DESTINATION;

	if (entry && onpath_gate_invalidate(entry, walk->entry.number, onpath_be32(header->revision)))
		return onpath_done(ONPATH_INVALIDATE_DONE, ONPATH_CACHE_RESULT_CLEARED, deliver);
	return onpath_done(ONPATH_INVALIDATE_NOT_THERE, ONPATH_CACHE_RESULT_NOT_THERE, deliver);
}

/* A packet that comes in: what is looked at once, and the names of the first pass. Whether it waits; otherwise it is done. */
ONPATH_INLINE int onpath_arrive_at_cache(struct onpath_state *state, const struct onpath_config *config,
					 const union onpath_innet *header, struct onpath_walk *walk, struct onpath_done *done)
{
	struct onpath_lease *lease = onpath_get_lease(state);
	__u32 epoch = onpath_be16(header->common.epoch), own = lease ? onpath_cache_epoch(state, lease) : 0;
	int matches = epoch == own && epoch != 0;

	if (walk->op == ONPATH_OP_READ) {
		if (!matches && !onpath_planted(76)) {
			*done = onpath_not_asked(state, config, ONPATH_READ_OTHER_EPOCH, &header->read);
			return 0;
		}
		if (!onpath_may_ask(state, &header->read)) {
			*done = onpath_not_asked(state, config, ONPATH_READ_STRANGER, &header->read);
			return 0;
		}
	} else if (walk->op == ONPATH_OP_FILL && !matches && !onpath_planted(95)) {
		*done = onpath_done(ONPATH_FILL_OTHER_EPOCH, ONPATH_CACHE_RESULT_OTHER_EPOCH,
				    onpath_planted(100) ? ONPATH_TO_SHARD : ONPATH_TO_DESTINATION);
		return 0;
	} else if (walk->op == ONPATH_OP_INVALIDATE && !matches && !onpath_planted(101)) {
		*done = onpath_done(ONPATH_INVALIDATE_OTHER_EPOCH, ONPATH_CACHE_RESULT_OTHER_EPOCH,
				    onpath_planted(105) ? ONPATH_TO_SHARD : ONPATH_TO_DESTINATION);
		return 0;
	}
	walk->passes = 0;
	onpath_look_up(state, header, walk);
	return 1;
}

/* A packet that has waited, as far as it comes. Whether it waits again; otherwise it is done. */
ONPATH_INLINE int onpath_go_on(struct onpath_state *state, const struct onpath_config *config, union onpath_innet *header,
			       struct onpath_walk *walk, struct onpath_done *done)
{
	if (walk->before_names) {
		/* D-123. */
		if (!onpath_planted(123))
			onpath_count(state, ONPATH_PASSES_RECIRCULATED);
		onpath_look_up(state, header, walk);
		return 1;
	}
	if (walk->op == ONPATH_OP_READ)
		return onpath_read_level(state, config, &header->read, walk, done);
	if (walk->op == ONPATH_OP_FILL)
		*done = onpath_fill_entry(state, &header->fill, walk);
	else
		*done = onpath_invalidate_entry(state, &header->fill, walk);
	return 0;
}

#endif
