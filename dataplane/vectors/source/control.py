"""The control plane: D-37 to D-42."""

T, A = 0x50001, 0x60002
MARK = [to(CLIENT, MARKED), to(shard(2), MARKED)]

# Schedule C6: a query must not be answered normal before the sites have marked again.
vector("a new epoch is not complete", "D-37 D-19", count={"query_unknown": 2, "copies_sent": 2}, steps=[
    do("epoch 8"),
    comes(query(epoch=8), to(shard(0), UNKNOWN)),
    comes(query(epoch=7), to(shard(0), UNKNOWN)),
], after=State(epoch=(8, 0)))
vector("the present epoch again stays complete", "D-37", count={"query_normal": 1, "copies_sent": 1},
    steps=[do("epoch 7"), comes(query(), to(shard(0), NORMAL))])
vector("epoch 0 ends tracking", "D-37", count={"query_unknown": 1, "insert_other_epoch": 1, "copies_sent": 2}, steps=[
    do("epoch 0"),
    comes(query(), to(shard(0), UNKNOWN)),
    comes(insert(), to(shard(2), OTHER_EPOCH)),
], after=State(epoch=(0, 0)))
vector("tags of an earlier epoch are found", "D-37 D-18", before=State(tags={(4, 5): T}), count={"query_scattered": 1, "copies_sent": 1},
    steps=[do("epoch 8"), do("complete 8"), comes(query(epoch=8), to(shard(0), SCATTERED))],
    after=State(epoch=(8, 1), tags={(4, 5): T}))
vector("terms and counters outlive an epoch", "D-37 D-29", count={"drop_not_newer": 1, "drop_term_ahead": 1}, steps=[
    do("epoch 8"),
    comes(remove(epoch=8, sequence=99)),
    comes(remove(epoch=8, term=5)),
], after=State(epoch=(8, 0)))
vector("the greatest epoch", "D-37", count={"query_normal": 1, "copies_sent": 1},
    steps=[do("epoch 65535"), do("complete 65535"), comes(query(epoch=65535), to(shard(0), NORMAL))],
    after=State(epoch=(65535, 1)))

vector("complete lets queries be normal", "D-38", before=State(epoch=(7, 0)), count={"query_unknown": 1, "query_normal": 1, "copies_sent": 2}, steps=[
    comes(query(), to(shard(0), UNKNOWN)),
    do("complete 7"),
    comes(query(), to(shard(0), NORMAL)),
], after=State(epoch=(7, 1)))
vector("complete of another epoch is refused", "D-38", before=State(epoch=(7, 0)), count={}, steps=[refused("complete 6"), refused("complete 8")])
vector("epoch 0 is never complete", "D-38", before=State(epoch=(0, 0)), count={}, steps=[refused("complete 0")])
vector("complete again changes nothing", "D-38", count={}, steps=[do("complete 7")])

vector("raise zeroes the counter", "D-39", count={"remove_done": 1, "drop_term_lower": 1, "copies_sent": 1}, steps=[
    do("raise 0 6"),
    comes(remove(term=6, sequence=1), to(shard(2), REMOVED)),
    comes(remove(term=4, sequence=500)),
], after=State(pairs={0: (6, 1)}))
vector("raise again does not let old removes in", "D-39", before=State(tags={(0, 5): T}), count={"drop_not_newer": 1},
    steps=[do("raise 0 4"), comes(remove(sequence=99))])
vector("terms are not lowered", "D-39", before=State(tags={(0, 5): T}), count={"drop_term_lower": 1},
    steps=[do("raise 0 3"), comes(remove(term=3))])
vector("raise is of one shard", "D-39 D-32", before=State(pairs={0: (4, 99), 1: (4, 7), 255: (2, 8)}), count={},
    steps=[do("raise 1 5"), do("raise 255 8388607")], after=State(pairs={0: (4, 99), 1: (5, 0), 255: (8388607, 0)}))
vector("terms that are none are refused", "D-39", count={}, steps=[refused("raise 256 5"), refused("raise 0 0"), refused("raise 0 16777216")])

vector("clear empties a set that nobody uses", "D-40", before=State(epoch=(0, 0), tags={(0, 0): T, (9, 131071): A}), count={},
    steps=[do("clear")], after=State(epoch=(0, 0)))
vector("clear is refused while an epoch runs", "D-40", before=State(tags={(0, 5): T}), count={"query_scattered": 1, "copies_sent": 1},
    steps=[refused("clear"), comes(query(), to(shard(0), SCATTERED))])
vector("clear is refused before the set is complete", "D-40", before=State(epoch=(7, 0), tags={(0, 5): T}), count={}, steps=[refused("clear")])

vector("a route leads to its last port", "D-41", routes={shard(0): 77}, count={"query_normal": 1, "copies_sent": 1}, steps=[
    do(f"route {shard(0)} 10"),
    do(f"route {shard(0)} 77"),
    comes(query(), to(shard(0), NORMAL)),
])
vector("a route that was taken away leads nowhere", "D-41 D-17", count={"query_normal": 1, "copies_unrouted": 1},
    steps=[do(f"unroute {shard(0)}"), do("unroute 12345"), comes(query())])
vector("node 0 has no route", "D-41", count={}, steps=[refused("route 0 10")])

vector("a port is a host's while it is listed", "D-41 D-44", hosts=(), count={"drop_stranger": 2, "insert_marked": 2, "copies_sent": 4}, steps=[
    comes(insert()),
    do("host 12"),
    do("host 12"),
    comes(insert(), *MARK),
    do("unhost 13"),
    comes(insert(), *MARK),
    do("unhost 12"),
    comes(insert()),
], after=State(tags={(0, 5): T}))

NOTHING = State(epoch=(0, 0), pairs={})
vector("after a reboot there is nothing", "D-42", before=State(tags={(0, 5): T, (9, 131071): A}), count={}, steps=[do("reboot")], after=NOTHING)
vector("after a reboot nobody is reached", "D-42 D-17", count={"query_unknown": 1, "copies_unrouted": 1}, steps=[
    comes(query(), to(shard(0), NORMAL)),
    do("reboot"),
    comes(query()),
], after=NOTHING)
vector("after a reboot removes wait for their term", "D-42 D-31", count={"drop_term_ahead": 1},
    steps=[do("reboot"), do("host 12"), comes(remove())], after=NOTHING)
vector("after a reboot nobody is a host", "D-42 D-44", count={"drop_stranger": 2}, steps=[
    do("reboot"),
    do("epoch 8"),
    comes(insert(epoch=8)),
    do("raise 0 4"),
    comes(remove(epoch=8)),
], after=State(epoch=(8, 0), pairs={0: (4, 0)}))
# Schedule C7.
vector("an old remove does not take out a mark of after the reboot", "D-42 D-33",
    count={"insert_marked": 1, "remove_other_epoch": 1, "query_scattered": 1, "copies_sent": 4}, steps=[
        comes(remove(), to(shard(2), REMOVED)),
        do("reboot"),
        *(do(f"route {node} {port}") for node, port in sorted(ROUTES.items())),
        do("host 12"),
        do("raise 0 4"),
        do("epoch 8"),
        comes(insert(epoch=8), *MARK),
        do("complete 8"),
        comes(remove(), to(shard(2), OTHER_EPOCH)),
        comes(query(epoch=8), to(shard(0), SCATTERED)),
    ], after=State(epoch=(8, 1), pairs={0: (4, 100)}, tags={(0, 5): T}))
