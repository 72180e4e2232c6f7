/* What the program is compared with: every IPv4 UDP frame back where it came from, its addresses swapped, and nothing else. */

#include <linux/bpf.h>
#include <linux/types.h>

#define SECTION(name) __attribute__((section(name), used))

SECTION("xdp") int reflector(struct xdp_md *context)
{
	__u8 *data = (__u8 *)(long)context->data, *end = (__u8 *)(long)context->data_end;
	__u16 *word = (__u16 *)data, kept;
	int at;

	if (data + 42 > end || data[12] != 8 || data[13] != 0 || data[23] != 17)
		return XDP_PASS;
	for (at = 0; at < 3; at++) {
		kept = word[at];
		word[at] = word[at + 3];
		word[at + 3] = kept;
	}
	for (at = 13; at < 15; at++) {
		kept = word[at];
		word[at] = word[at + 2];
		word[at + 2] = kept;
	}
	kept = word[17];
	word[17] = word[18];
	word[18] = kept;
	word[20] = 0;
	return XDP_TX;
}

SECTION("xdp") int empty(struct xdp_md *context)
{
	(void)context;
	return XDP_PASS;
}

char licence_of_program[] SECTION("license") = "Apache-2.0";
