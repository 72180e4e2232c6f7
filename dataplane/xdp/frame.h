/* Frames: which of them are looked at, and what is written into a copy beside its in-network header (SPEC.md, Frames). */
#ifndef ONPATH_XDP_FRAME_H
#define ONPATH_XDP_FRAME_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include "common/header.h"

struct vlan_tag {
	__be16 tag;
	__be16 kind;
};

/* The headers of a frame that is whole up to the UDP payload. */
struct frame {
	struct ethhdr *link;
	struct iphdr *ip;
	struct udphdr *udp;
	__u8 *payload;
	/* Bytes of the payload, as the UDP header says. */
	__u32 length;
};

/* IPv4 without options. */
#define IP_BYTES sizeof(struct iphdr)
#define IP_START 0x45
/* More fragments, or not the first one. */
#define IP_FRAGMENT 0x3fff

ONPATH_INLINE __u32 sum_of_ip(const struct iphdr *ip)
{
	const __u16 *words = (const __u16 *)ip;
	__u32 sum = 0, at;

	for (at = 0; at < IP_BYTES / 2; at++)
		sum += words[at];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Finds the headers of an IPv4 and UDP frame with at most one VLAN tag; 0: it is none that is looked at. */
ONPATH_INLINE int find_headers(const struct xdp_md *context, struct frame *frame)
{
	__u8 *at = (__u8 *)(long)context->data, *end = (__u8 *)(long)context->data_end;
	__be16 kind;

	frame->link = (struct ethhdr *)at;
	at += sizeof(struct ethhdr);
	if (at > end)
		return 0;
	kind = frame->link->h_proto;
	if (kind == onpath_be16(ETH_P_8021Q)) {
		struct vlan_tag *tag = (struct vlan_tag *)at;

		at += sizeof(*tag);
		if (at > end)
			return 0;
		kind = tag->kind;
	}
	frame->ip = (struct iphdr *)at;
	frame->udp = (struct udphdr *)(at + IP_BYTES);
	frame->payload = at + IP_BYTES + sizeof(struct udphdr);
	return kind == onpath_be16(ETH_P_IP) && frame->payload <= end;
}

/* Bytes of the payload, as the UDP header says: of sound headers alone. */
ONPATH_INLINE __u32 payload_of(const struct frame *frame)
{
	return onpath_be16(frame->udp->len) - (__u32)sizeof(struct udphdr);
}

/* Whether the headers are sound, and for this address and port; then the length of the payload is known. */
ONPATH_INLINE int is_for(struct frame *frame, const struct xdp_md *context, __be32 address, __u32 udp_port)
{
	__u8 *start = (__u8 *)frame->ip, *end = (__u8 *)(long)context->data_end;
	__u32 ip_length = onpath_be16(frame->ip->tot_len), udp_length = onpath_be16(frame->udp->len);

	if (frame->udp->dest != onpath_be16((__u16)udp_port) || frame->ip->daddr != address)
		return 0;
	if (*start != IP_START || frame->ip->protocol != 17 || frame->ip->frag_off & onpath_be16(IP_FRAGMENT))
		return 0;
	if (udp_length < sizeof(struct udphdr) || udp_length + IP_BYTES != ip_length || ip_length > (__u64)(end - start))
		return 0;
	frame->length = payload_of(frame);
	return frame->ip->ttl > 1 && sum_of_ip(frame->ip) == 0xffff;
}

/* The addresses of a copy, from the switch to a node. */
ONPATH_INLINE void write_addresses(struct frame *frame, const struct settings *own, const struct onpath_route *way)
{
	__builtin_memcpy(frame->link->h_dest, way->to, ETH_ALEN);
	__builtin_memcpy(frame->link->h_source, way->from, ETH_ALEN);
	frame->ip->saddr = own->address;
	frame->ip->daddr = way->address;
	frame->ip->ttl--;
	frame->ip->check = 0;
	frame->ip->check = ~sum_of_ip(frame->ip);
	frame->udp->source = onpath_be16((__u16)own->config.udp_port);
	frame->udp->dest = way->udp_port;
	frame->udp->check = 0;
}

#endif
