/* The in-network program as XDP: frames come in by the devices it is attached to, and their copies leave by these. What is XDP's own is
 * in SPEC.md, XDP; the rules are in dataplane/c/include. No helper that is called asks for the GPL. */

#include "maps.h"
#include "frame.h"
#include "program.h"
#include "innet_of_frame.h"
#include "command.h"

/* In `flags` between the program and its egress program: two copies leave. No packet on a wire has it (D-7). */
#define FLAG_TWINS 0x80

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

ONPATH_INLINE void set_source(struct onpath_state *state, const struct xdp_md *context, const struct frame *frame)
{
	state->from.device = context->ingress_ifindex;
	state->from.address = frame->ip->saddr;
	state->from.udp_port = frame->udp->source;
}

/* Lets the copies of a packet leave. */
ONPATH_INLINE long leave(const struct settings *own, struct frame *frame, const __u8 *end, const struct onpath_state *state,
			 const union onpath_innet *header)
{
	struct onpath_common *out;

	if (!state->copies || !state->first || frame->payload + ONPATH_COMMON_BYTES > end)
		return XDP_DROP;
	out = (struct onpath_common *)frame->payload;
	write_read(frame, end, header);
	if (state->second)
		return send_twins(frame, out, state, header->common.destination);
	*out = state->header;
	write_metadata(frame, end, header);
	write_addresses(frame, own, state->first);
	/* Also where it came from: XDP_TX does not wake the other end of a veth that polls by GRO alone. */
	return redirect_map(&devices, state->first->device % DEVICES_MAX, 0);
}

/* What becomes of a frame for the switch, in a program that has the other structures. */
ONPATH_INLINE long handle(struct xdp_md *context, const struct settings *own, struct frame *frame)
{
	const __u32 has = ONPATH_HAS(ONPATH_STRUCTURE_DIRTY_SET) | ONPATH_HAS(ONPATH_STRUCTURE_VISIBILITY);
	__u8 *end = (__u8 *)(long)context->data_end;
	union onpath_innet header = { .bytes = { 0 } };
	__u32 length = read_header(frame, end, has, &header);
	struct onpath_state state = { 0 };

	set_source(&state, context, frame);
	onpath_step(&state, has, own->config.udp_port, &header, length);
	return leave(own, frame, end, &state, &header);
}

SECTION("xdp") int onpath_switch(struct xdp_md *context)
{
	__u8 *end = (__u8 *)(long)context->data_end;
	const struct settings *own = get_settings();
	const struct onpath_common *common;
	struct onpath_state state = { 0 };
	struct frame frame;

	if (!own)
		return XDP_PASS;
	if (!find_headers(context, &frame) || !is_for(&frame, context, own->address, own->config.udp_port)) {
		onpath_count(&state, ONPATH_PLAIN);
		return XDP_PASS;
	}
	common = common_of(&frame, end);
	/* Where its program is not there the structure is none that the switch has. */
	if (common && common->code >> 4 == ONPATH_STRUCTURE_CACHE)
		tail_call(context, &parts, PART_CACHE);
	return handle(context, own, &frame);
}

/* A packet of the cache on its way: for its header the stack has no room. What a short packet does not have of it is that of the one before,
 * and no rule looks there. */
struct work {
	union onpath_innet header;
	struct onpath_walk walk;
	struct onpath_done done;
};

/* Of one processor. */
MAP(works, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct work);

/* Of one turn: what the kernel's loop calls. */
struct turn_of {
	struct onpath_state *state;
	const struct onpath_config *config;
	struct work *work;
};

/* Not 0: the packet is done. The verifier looks at this once, not at every turn, and knows nothing of what lies in the map, which keeps the
 * ways to be looked at few. */
static long next_turn(__u32 turn, void *with)
{
	const struct turn_of *of = with;

	(void)turn;
	return !onpath_go_on(of->state, of->config, &of->work->header, &of->work->walk, &of->work->done);
}

/* The cache has a program and so a stack of its own; onpath_switch gives it frames that are whole and for the switch. */
SECTION("xdp") int onpath_cache(struct xdp_md *context)
{
	const __u32 has = ONPATH_HAS(ONPATH_STRUCTURE_CACHE);
	__u8 *end = (__u8 *)(long)context->data_end;
	const struct settings *own = get_settings();
	struct onpath_state state = { 0 };
	struct turn_of turn_of;
	struct frame frame;
	__u32 key = 0, length;
	struct work *work = map_lookup(&works, &key);

	if (!own || !work || !find_headers(context, &frame))
		return XDP_PASS;
	frame.length = payload_of(&frame);
	length = read_header(&frame, end, has, &work->header);
	set_source(&state, context, &frame);
	state.epoch = onpath_be16(work->header.common.epoch);
	turn_of = (struct turn_of){ &state, &own->config, work };
	if (onpath_decide(&state, has, own->config.udp_port, &work->header, length, &work->walk, &work->done))
		loop(ONPATH_TURNS_MAX, next_turn, &turn_of, 0);
	onpath_finish(&state, &work->header, &work->done);
	return leave(own, &frame, end, &state, &work->header);
}

/* A packet of the cache that a vector lets wait, as user space keeps it meanwhile. */
struct turn {
	/* Where it comes in. */
	struct source from;
	/* 0: it comes in now. */
	__u32 waits;
	struct work work;
};

MAP(turns, BPF_MAP_TYPE_ARRAY, 1, struct turn);

/* One turn of such a packet: XDP_PASS, it waits. It is loaded for vectors alone. */
SECTION("xdp") int onpath_turn(struct xdp_md *context)
{
	const __u32 has = ONPATH_HAS(ONPATH_STRUCTURE_CACHE);
	__u8 *end = (__u8 *)(long)context->data_end;
	const struct settings *own = get_settings();
	struct onpath_state state = { 0 };
	struct frame frame;
	__u32 key = 0;
	struct turn *turn = map_lookup(&turns, &key);
	struct work *work;

	if (!own || !turn || !find_headers(context, &frame))
		return XDP_DROP;
	frame.length = payload_of(&frame);
	work = &turn->work;
	state.from = turn->from;
	if (turn->waits) {
		state.epoch = onpath_be16(work->header.common.epoch);
		turn->waits = onpath_go_on(&state, &own->config, &work->header, &work->walk, &work->done);
	} else {
		__u32 length = read_header(&frame, end, has, &work->header);

		state.epoch = onpath_be16(work->header.common.epoch);
		turn->waits = onpath_decide(&state, has, own->config.udp_port, &work->header, length, &work->walk, &work->done);
	}
	if (turn->waits)
		return XDP_PASS;
	onpath_finish(&state, &work->header, &work->done);
	return leave(own, &frame, end, &state, &work->header);
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

/* To whom two copies go: of the cache to the shard that is asked and to who hears of misses (D-108), otherwise to the shard that has sent
 * the packet and to whom that names. */
ONPATH_INLINE void find_twins(const struct onpath_common *header, __u32 *node, __u32 *other)
{
	const struct onpath_report *told = onpath_get_report(0);

	*node = ONPATH_NODE_OF_SHARD_0 + onpath_be16(header->shard);
	*other = onpath_be32(header->destination);
	if (header->code >> 4 != ONPATH_STRUCTURE_CACHE)
		return;
	*node = *other;
	*other = told ? told->node : 0;
}

/* Where a frame leaves: of two copies that are still the same, each gets its node and the addresses of that (D-16, D-23). */
SECTION("xdp/devmap") int onpath_twin(struct xdp_md *context)
{
	__u8 *end = (__u8 *)(long)context->data_end;
	const struct settings *own = get_settings();
	const struct onpath_route *first, *second;
	struct onpath_common *header;
	struct frame frame;
	__u32 node, other, device = context->egress_ifindex;

	if (!own || !find_headers(context, &frame))
		return XDP_PASS;
	header = common_of(&frame, end);
	if (!header || header->flags != FLAG_TWINS)
		return XDP_PASS;
	find_twins(header, &node, &other);
	first = onpath_find_route(0, node);
	second = onpath_find_route(0, other);
	if (!first || !second)
		return XDP_DROP;
	if (first->port == second->port ? is_second(frame.udp->check) : device == second->port) {
		first = second;
		node = other;
	}
	/* Its route is another one since. */
	if (first->port != device)
		return XDP_DROP;
	header->destination = onpath_be32(node);
	header->flags = 0;
	write_addresses(&frame, own, first);
	return XDP_PASS;
}

char licence_of_program[] SECTION("license") = "Apache-2.0";
