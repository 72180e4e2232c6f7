/* The in-network program as XDP: frames come in by the devices it is attached to, and their copies leave by these. What is XDP's own is
 * in SPEC.md, XDP; the rules are in dataplane/c/include. No helper that is called asks for the GPL. */

#include "maps.h"
#include "frame.h"
#include "program.h"

/* In `flags` between the program and its egress program: two copies leave. No packet on a wire has it (D-7). */
#define FLAG_TWINS 0x80

/* Reads what there is of the header: all, the part that all structures share, or nothing. How much that is is all that decides about a
 * payload (D-2). */
ONPATH_INLINE __u32 read_header(const struct frame *frame, const __u8 *end, union onpath_innet *header)
{
	if (frame->length < ONPATH_COMMON_BYTES || frame->payload + ONPATH_COMMON_BYTES > end)
		return 0;
	header->common = *(struct onpath_common *)frame->payload;
	switch (header->common.code >> 4) {
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
	}
	return ONPATH_COMMON_BYTES;
}

/* A switch writes into the common part (D-16), whatever the structure, and of a look the metadata. */
ONPATH_INLINE struct onpath_common *common_of(const struct frame *frame, const __u8 *end)
{
	return frame->payload + ONPATH_COMMON_BYTES <= end ? (struct onpath_common *)frame->payload : 0;
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

/* Numbers the two copies of a packet, from 1 to 65,535, so that their egress program knows the second from the first. */
ONPATH_INLINE __u16 next_number(void)
{
	__u32 key = 0;
	struct twins *mine = map_lookup(&twins, &key);

	if (!mine)
		return 1;
	mine->last = mine->last % 0xffff + 1;
	return mine->last;
}

/* Whole copies are clones: the kernel makes them where they leave, and onpath_twin tells them apart and addresses each. */
ONPATH_INLINE long send_twins(struct frame *frame, struct onpath_common *header, const struct onpath_state *state,
			      __be32 destination)
{
	__u32 key = state->first->device % DEVICES_MAX * DEVICES_MAX + state->second->device % DEVICES_MAX;
	void *both = map_lookup(&two_devices, &key);

	if (!both)
		return XDP_DROP;
	*header = state->header;
	header->flags = FLAG_TWINS;
	header->destination = destination;
	frame->udp->check = next_number();
	return redirect_map(both, 0, BPF_F_BROADCAST);
}

SECTION("xdp") int onpath_switch(struct xdp_md *context)
{
	__u8 *end = (__u8 *)(long)context->data_end;
	const struct settings *own = get_settings();
	struct onpath_state state = { 0 };
	union onpath_innet header = { .bytes = { 0 } };
	struct onpath_common *out;
	__be32 destination;
	struct frame frame;
	__u32 length;

	if (!own)
		return XDP_PASS;
	if (!find_headers(context, &frame) || !is_for(&frame, context, own->address, own->config.udp_port)) {
		onpath_count(&state, ONPATH_PLAIN);
		return XDP_PASS;
	}
	length = read_header(&frame, end, &header);
	destination = header.common.destination;
	state.from.device = context->ingress_ifindex;
	state.from.address = frame.ip->saddr;
	state.from.udp_port = frame.udp->source;
	onpath_step(&state, own->config.udp_port, &header, length);
	out = common_of(&frame, end);
	if (!state.copies || !state.first || !out)
		return XDP_DROP;
	if (state.second)
		return send_twins(&frame, out, &state, destination);
	*out = state.header;
	write_metadata(&frame, end, &header);
	write_addresses(&frame, own, state.first);
	/* Also where it came from: XDP_TX does not wake the other end of a veth that polls by GRO alone. */
	return redirect_map(&devices, state.first->device % DEVICES_MAX, 0);
}

/* Of two copies that leave by one device the first comes first: whether this is the second. */
ONPATH_INLINE int is_second(__u32 number)
{
	__u32 key = 0;
	struct twins *mine = map_lookup(&twins, &key);

	if (!mine)
		return 0;
	if (mine->half == number) {
		mine->half = 0;
		return 1;
	}
	mine->half = number;
	return 0;
}

/* Where a frame leaves: of two copies that are still the same, each gets its node and the addresses of that (D-16, D-23). */
SECTION("xdp/devmap") int onpath_twin(struct xdp_md *context)
{
	__u8 *end = (__u8 *)(long)context->data_end;
	const struct settings *own = get_settings();
	const struct onpath_route *first, *second;
	struct onpath_common *header;
	struct frame frame;
	__u32 node, device = context->egress_ifindex;

	if (!own || !find_headers(context, &frame))
		return XDP_PASS;
	header = common_of(&frame, end);
	if (!header || header->flags != FLAG_TWINS)
		return XDP_PASS;
	node = ONPATH_NODE_OF_SHARD_0 + onpath_be16(header->shard);
	first = onpath_find_route(0, node);
	second = onpath_find_route(0, onpath_be32(header->destination));
	if (!first || !second)
		return XDP_DROP;
	if (first->port == second->port ? is_second(frame.udp->check) : device == second->port) {
		first = second;
		node = onpath_be32(header->destination);
	}
	/* Its route is another one since. */
	if (first->port != device)
		return XDP_DROP;
	header->destination = onpath_be32(node);
	header->flags = 0;
	write_addresses(&frame, own, first);
	return XDP_PASS;
}

/* A command of the control plane that touches registers, given to BPF_PROG_TEST_RUN as a packet, so that it is made under the lock. */
struct command {
	__u32 kind;
	__u32 a;
	__u32 b;
	__u32 spare;
};

/* Numbers of src/command.rs. */
enum {
	COMMAND_EPOCH = 1,
	COMMAND_COMPLETE,
	COMMAND_RAISE,
	COMMAND_REBOOT,
	COMMAND_VISIBILITY_EPOCH,
	COMMAND_VISIBILITY_COMPLETE,
};

/* What it answers. */
enum { ANSWER_DONE = 16, ANSWER_OTHER_EPOCH, ANSWER_UNKNOWN };

/* D-42, D-66: what of a reboot is to happen between packets. */
ONPATH_INLINE void forget(struct onpath_tracking *all, struct onpath_tracking *table)
{
	__u32 shard;

	onpath_set_epoch(table, 0, 63);
	onpath_set_epoch(all, 0, 37);
	for (shard = 0; shard < ONPATH_SHARDS; shard++) {
		struct onpath_pair *pair = onpath_find_pair(0, shard);

		if (!pair)
			continue;
		onpath_enter(all);
		pair->min_term = 0;
		pair->counter = 0;
		onpath_leave(all);
	}
}

SECTION("xdp") int onpath_command(struct xdp_md *context)
{
	const struct command *command = (const struct command *)(long)context->data;
	struct onpath_tracking *all = onpath_get_tracking(0), *table = onpath_get_visibility(0);
	struct onpath_pair *pair;

	if ((__u8 *)(command + 1) > (__u8 *)(long)context->data_end || !all || !table)
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
		forget(all, table);
		return ANSWER_DONE;
	case COMMAND_VISIBILITY_EPOCH:
		onpath_set_epoch(table, command->a, 63);
		return ANSWER_DONE;
	case COMMAND_VISIBILITY_COMPLETE:
		return onpath_set_complete(table, command->a, 64) ? ANSWER_DONE : ANSWER_OTHER_EPOCH;
	default:
		return ANSWER_UNKNOWN;
	}
}

char licence_of_program[] SECTION("license") = "Apache-2.0";
