"""Which packets are looked at at all: D-1 to D-10."""

vector("another UDP port passes", "D-1 D-43", count={"plain": 1}, steps=[comes(insert(), udp_port=4798, passes=True)])
vector("any bytes pass on another UDP port", "D-1", count={"plain": 2}, steps=[
    comes(b"", udp_port=53, passes=True),
    comes(b"\x12\x00", udp_port=0, passes=True),
])

vector("an empty payload is truncated", "D-2", count={"drop_truncated": 1}, steps=[comes(b"")])
vector("one byte less than the header is truncated", "D-2", count={"drop_truncated": 1}, steps=[
    comes(insert().bytes()[:39]),
])
vector("the common part alone is truncated", "D-2", count={"drop_truncated": 1}, steps=[comes(insert().bytes()[:16])])
vector("half of the common part is truncated", "D-2", count={"drop_truncated": 2}, steps=[
    comes(insert().bytes()[:15]),
    comes(insert(version=2).bytes()[:5]),
])
vector("a short packet of something else is that", "D-2 D-3 D-4 D-5 D-6", steps=[
    comes(insert(version=2).bytes()[:16]),
    comes(insert(cluster=1).bytes()[:39]),
    comes(insert(code=0x52).bytes()[:20]),
    comes(insert(code=0x14).bytes()[:16]),
], count={"drop_version": 1, "drop_cluster": 1, "drop_structure": 1, "drop_operation": 1})
vector("a header without a message is whole", "D-2 D-16", count={"query_normal": 1, "copies_sent": 1}, steps=[
    comes(query().but(message=b""), to(shard(0), NORMAL)),
])

vector("another version is dropped", "D-3 D-43", count={"drop_version": 2}, steps=[
    comes(insert(version=0)),
    comes(insert(version=2)),
])

vector("another cluster is dropped", "D-4", count={"drop_cluster": 3}, steps=[
    comes(insert(cluster=CLUSTER ^ 1)),
    comes(insert(cluster=CLUSTER ^ 1 << 31)),
    comes(remove(cluster=0)),
])

vector("another structure is dropped", "D-5", count={"drop_structure": 4}, steps=[
    comes(insert(code=0x02)),
    comes(insert(code=0x52)),
    comes(insert(code=0x42)),
    comes(insert(code=0xF2)),
])

vector("another operation is dropped", "D-6", count={"drop_operation": 3}, steps=[
    comes(insert(code=0x10)),
    comes(insert(code=0x14)),
    comes(insert(code=0x1F)),
])

vector("a flag is dropped", "D-7", count={"drop_reserved": 10}, steps=[
    *(comes(insert(flags=1 << bit)) for bit in range(8)),
    comes(query(flags=0x80)),
    comes(remove(flags=2)),
])
vector("spare bits that are not 0 are dropped", "D-7", count={"drop_reserved": 4}, steps=[
    comes(insert(spare_0=1)),
    comes(insert(spare_0=1 << 31)),
    comes(query(spare_1=1)),
    comes(remove(spare_1=1 << 31)),
])

vector("a shard of 256 or more is dropped", "D-8", count={"drop_shard": 3}, steps=[
    comes(insert(shard=256)),
    comes(remove(shard=256)),
    comes(query(shard=0xFFFF)),
])
vector("the last shard has its registers", "D-8 D-32", count={"remove_done": 1, "copies_sent": 1},
    before=State(pairs={255: (4, 99)}, tags={(0, 5): 0x50001}),
    steps=[comes(remove(shard=255), to(shard(2), REMOVED))],
    after=State(pairs={255: (4, 100)}))

vector("an index of more than 17 bits is dropped", "D-9", count={"drop_index": 3}, steps=[
    comes(insert(index=1 << 17)),
    comes(insert(index=1 << 31 | 5)),
    comes(query(index=0xFFFFFFFF)),
])
vector("the last index has its registers", "D-9 D-12", count={"insert_marked": 1, "copies_sent": 2},
    steps=[comes(insert(index=(1 << 17) - 1), to(CLIENT, MARKED), to(shard(2), MARKED))],
    after=State(tags={(0, (1 << 17) - 1): 0x50001}))

vector("tag 0 is dropped", "D-10", count={"drop_tag": 3}, before=State(tags={(0, 5): 0x50001}), steps=[
    comes(insert(tag=0)),
    comes(query(tag=0)),
    comes(remove(tag=0)),
])

# Each packet is wrong in one way less than the one before.
vector("the first check that fails counts", "D-2 D-3 D-4 D-5 D-6 D-7 D-8 D-9 D-10 D-43", steps=[
    comes(insert(version=9, cluster=1, code=0x5F, flags=0x80, shard=256, index=1 << 17, tag=0).bytes()[:15]),
    comes(insert(version=9, cluster=1, code=0x5F, flags=0x80, shard=256, index=1 << 17, tag=0)),
    comes(insert(cluster=1, code=0x5F, flags=0x80, shard=256, index=1 << 17, tag=0)),
    comes(insert(code=0x5F, flags=0x80, shard=256, index=1 << 17, tag=0)),
    comes(insert(code=0x1F, flags=0x80, shard=256, index=1 << 17, tag=0)),
    comes(insert(flags=0x80, shard=256, index=1 << 17, tag=0).bytes()[:39]),
    comes(insert(flags=0x80, shard=256, index=1 << 17, tag=0)),
    comes(insert(shard=256, index=1 << 17, tag=0)),
    comes(insert(index=1 << 17, tag=0)),
    comes(insert(tag=0)),
], count={"drop_truncated": 2, "drop_version": 1, "drop_cluster": 1, "drop_structure": 1, "drop_operation": 1, "drop_reserved": 1,
          "drop_shard": 1, "drop_index": 1, "drop_tag": 1})
