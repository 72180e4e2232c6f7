/* Commands of the control plane that touch registers (src/command.rs). */
#ifndef ONPATH_XDP_COMMAND_H
#define ONPATH_XDP_COMMAND_H

/* A command of the control plane that touches registers, given to BPF_PROG_TEST_RUN as a packet, so that it is made under the lock. */
struct command {
	__u32 kind;
	__u32 a;
	__u32 b;
	__u32 c;
};

/* Numbers of src/command.rs. */
enum {
	COMMAND_EPOCH = 1,
	COMMAND_COMPLETE,
	COMMAND_RAISE,
	COMMAND_REBOOT,
	COMMAND_VISIBILITY_EPOCH,
	COMMAND_VISIBILITY_COMPLETE,
	/* Its answer is in the command: a is the epoch, b the tick that the clock shows. */
	COMMAND_CACHE_EPOCH,
	COMMAND_CACHE_BEGIN,
	COMMAND_CACHE_RENEW,
	COMMAND_CACHE_OFF,
	/* Index a gets number b if the epoch is c. */
	COMMAND_CACHE_STAMP,
	/* How many stamps are not {0, 0}, in a. */
	COMMAND_CACHE_LEFT,
	COMMAND_CACHE_EMPTY,
	COMMAND_CACHE_RESET,
	/* The clock stands at a from now on. */
	COMMAND_CACHE_CLOCK,
};

/* What it answers. */
enum { ANSWER_DONE = 16, ANSWER_OTHER_EPOCH, ANSWER_EPOCH_RUNS, ANSWER_PASSED, ANSWER_NO_ENTRY, ANSWER_UNKNOWN };

/* Each of these is called for all places of the cache. */
static long count_left(__u32 index, void *left)
{
	struct onpath_cached *entry = onpath_find_cached(0, index);

	if (entry && (entry->number || entry->state))
		*(__u32 *)left += 1;
	return 0;
}

static long empty_stamp(__u32 index, void *unused)
{
	struct onpath_cached *entry = onpath_find_cached(0, index);

	(void)unused;
	if (!entry)
		return 1;
	onpath_enter_cached(entry);
	entry->number = 0;
	entry->state = 0;
	onpath_leave_cached(entry);
	return 0;
}

static long reset_counts(__u32 place, void *unused)
{
	struct counted *counts = find_counted(place), none = { { 0 }, 0, 0, 0 };

	(void)unused;
	if (!counts)
		return 1;
	*counts = none;
	return 0;
}

static long forget_entry(__u32 index, void *unused)
{
	struct onpath_cached *entry = onpath_find_cached(0, index);
	__u32 array;

	(void)unused;
	if (!entry)
		return 1;
	onpath_enter_cached(entry);
	entry->number = 0;
	entry->state = 0;
	for (array = 0; array < ONPATH_CACHE_VALUES; array++)
		entry->value[array] = 0;
	onpath_leave_cached(entry);
	return reset_counts(index, 0);
}

ONPATH_INLINE void for_all(const struct settings *own, long (*what)(__u32, void *), void *with)
{
	loop(onpath_cached_entries(&own->config), what, with, 0);
}

/* Commands of the cache (D-112 to D-117, D-121). */
ONPATH_INLINE int command_of_cache(struct command *command, const __u8 *end, const struct settings *own)
{
	struct onpath_lease *lease = onpath_get_lease(0);
	struct leased *leased = (struct leased *)lease;
	struct onpath_cached *entry;
	__u32 left = 0;

	if (!lease || (__u8 *)(command + 1) > end)
		return ANSWER_UNKNOWN;
	switch (command->kind) {
	case COMMAND_CACHE_EPOCH:
		command->a = onpath_cache_epoch(0, lease);
		command->b = onpath_now(0);
		return ANSWER_DONE;
	case COMMAND_CACHE_BEGIN:
		if (onpath_cache_epoch(0, lease))
			return ANSWER_EPOCH_RUNS;
		return onpath_begin_lease(0, lease, command->a, command->b) ? ANSWER_DONE : ANSWER_PASSED;
	case COMMAND_CACHE_RENEW:
		if (!onpath_of_present(0, lease, command->a))
			return ANSWER_OTHER_EPOCH;
		onpath_renew_lease(lease, command->b);
		return ANSWER_DONE;
	case COMMAND_CACHE_OFF:
		lease->epoch = 0;
		return ANSWER_DONE;
	case COMMAND_CACHE_STAMP:
		if (!onpath_of_present(0, lease, command->c))
			return ANSWER_OTHER_EPOCH;
		entry = onpath_find_cached(0, command->a);
		if (!entry)
			return ANSWER_NO_ENTRY;
		onpath_set_stamp(entry, command->b);
		return ANSWER_DONE;
	case COMMAND_CACHE_LEFT:
		for_all(own, count_left, &left);
		command->a = left;
		return ANSWER_DONE;
	case COMMAND_CACHE_EMPTY:
		if (onpath_cache_epoch(0, lease))
			return ANSWER_EPOCH_RUNS;
		for_all(own, empty_stamp, 0);
		return ANSWER_DONE;
	case COMMAND_CACHE_RESET:
		for_all(own, reset_counts, 0);
		return ANSWER_DONE;
	case COMMAND_CACHE_CLOCK:
		leased->stands = 1;
		leased->tick = command->a;
		return ANSWER_DONE;
	default:
		return ANSWER_UNKNOWN;
	}
}

static long forget_pair(__u32 shard, void *unused)
{
	struct onpath_tracking *all = onpath_get_tracking(0);
	struct onpath_pair *pair = onpath_find_pair(0, shard);

	(void)unused;
	if (!all || !pair)
		return 1;
	onpath_enter(all);
	pair->min_term = 0;
	pair->counter = 0;
	onpath_leave(all);
	return 0;
}

/* D-42, D-66, D-122: what of a reboot is to happen between packets. */
ONPATH_INLINE void forget(const struct settings *own, struct onpath_tracking *all, struct onpath_tracking *table)
{
	struct onpath_lease *lease = onpath_get_lease(0);

	if (lease) {
		lease->epoch = 0;
		lease->until = 0;
	}
	onpath_set_epoch(table, 0, 63);
	onpath_set_epoch(all, 0, 37);
	for_all(own, forget_entry, 0);
	loop(ONPATH_SHARDS, forget_pair, 0, 0);
}

SECTION("xdp") int onpath_command(struct xdp_md *context)
{
	__u8 *end = (__u8 *)(long)context->data_end;
	struct command *command = (struct command *)(long)context->data;
	const struct settings *own = get_settings();
	struct onpath_tracking *all = onpath_get_tracking(0), *table = onpath_get_visibility(0);
	struct onpath_pair *pair;

	if ((__u8 *)(command + 1) > end || !own || !all || !table)
		return ANSWER_UNKNOWN;
	switch (command->kind) {
	case COMMAND_EPOCH:
		onpath_set_epoch(all, command->a, 37);
		return ANSWER_DONE;
	case COMMAND_COMPLETE:
		return onpath_set_complete(all, command->a, 38) ? ANSWER_DONE : ANSWER_OTHER_EPOCH;
	case COMMAND_RAISE:
		pair = onpath_find_pair(0, command->a);
		if (!pair)
			return ANSWER_UNKNOWN;
		onpath_raise(all, pair, command->b);
		return ANSWER_DONE;
	case COMMAND_REBOOT:
		forget(own, all, table);
		return ANSWER_DONE;
	case COMMAND_VISIBILITY_EPOCH:
		onpath_set_epoch(table, command->a, 63);
		return ANSWER_DONE;
	case COMMAND_VISIBILITY_COMPLETE:
		return onpath_set_complete(table, command->a, 64) ? ANSWER_DONE : ANSWER_OTHER_EPOCH;
	default:
		return command_of_cache(command, end, own);
	}
}

#endif
