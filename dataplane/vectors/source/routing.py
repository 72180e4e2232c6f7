"""Where packets go: D-11, D-12, D-16, D-17, D-44."""

vector("an answered packet is only routed", "D-11 D-16", count={"answered": 3, "copies_sent": 3}, steps=[
    comes(insert(result=MARKED), to(CLIENT, MARKED)),
    comes(remove(result=OTHER_EPOCH), to(shard(2), OTHER_EPOCH)),
    comes(query(result=NORMAL, epoch=6), to(shard(0), NORMAL)),
], before=State(tags={(0, 9): 0x50001, (4, 5): 0x50001}))
vector("a result that nobody knows is an answer", "D-11", count={"answered": 1, "copies_sent": 1},
    steps=[comes(insert(result=255), to(CLIENT, 255))])
vector("an answered packet to nobody is dropped", "D-11 D-17", count={"answered": 1, "copies_unrouted": 1},
    steps=[comes(insert(result=MARKED, destination=0))])

vector("the index selects the set", "D-12", count={"insert_marked": 3, "query_normal": 1, "query_scattered": 1, "copies_sent": 8}, steps=[
    comes(insert(), to(CLIENT, MARKED), to(shard(2), MARKED)),
    comes(insert(index=4), to(CLIENT, MARKED), to(shard(2), MARKED)),
    comes(insert(index=0x10005), to(CLIENT, MARKED), to(shard(2), MARKED)),
    comes(query(index=6), to(shard(0), NORMAL)),
    comes(query(index=0x10005), to(shard(0), SCATTERED)),
], after=State(tags={(0, 4): 0x50001, (0, 5): 0x50001, (0, 0x10005): 0x50001}))
vector("a small switch has as many sets as its indexes have bits for", "D-12 D-9", index_bits=3,
    count={"insert_marked": 2, "query_normal": 1, "drop_index": 3, "copies_sent": 5}, steps=[
        comes(insert(index=0), to(CLIENT, MARKED), to(shard(2), MARKED)),
        comes(insert(index=7), to(CLIENT, MARKED), to(shard(2), MARKED)),
        comes(insert(index=8)),
        comes(query(index=8)),
        comes(query(index=0x10007)),
        comes(query(index=6), to(shard(0), NORMAL)),
    ], after=State(tags={(0, 0): 0x50001, (0, 7): 0x50001}))

vector("the message is carried byte for byte", "D-16", count={"query_normal": 1, "copies_sent": 1},
    steps=[comes(query(shard=3, term=0x01020304, sequence=0xFFFFFFFF).but(message=bytes(range(256)) * 5),
                 to(shard(0), NORMAL))])
vector("the shard's copy of a mark is addressed to it", "D-16 D-23", count={"insert_marked": 1, "copies_sent": 2},
    steps=[comes(insert(), to(CLIENT, MARKED), to(shard(2), MARKED))], after=State(tags={(0, 5): 0x50001}))
vector("the port by which a query comes in decides nothing", "D-16 D-44", count={"query_normal": 3, "copies_sent": 3}, steps=[
    comes(query(), to(shard(0), NORMAL), port=10),
    comes(query(), to(shard(0), NORMAL), port=22),
    comes(query(), to(shard(0), NORMAL), port=500),
])
vector("the result of the sender is overwritten, not trusted", "D-16 D-11", count={"answered": 1, "query_scattered": 1, "copies_sent": 2},
    before=State(tags={(0, 5): 0x50001}), steps=[
        comes(query(result=NORMAL), to(shard(0), NORMAL)),
        comes(query(), to(shard(0), SCATTERED)),
    ])

vector("without a route the query is lost and counted", "D-17 D-43", count={"query_normal": 1, "copies_unrouted": 1},
    steps=[comes(query(destination=shard(9)))])
vector("without a route to the client the shard hears of its mark", "D-17", count={"insert_marked": 1, "copies_sent": 1, "copies_unrouted": 1},
    steps=[comes(insert(destination=0x03000077), to(shard(2), MARKED))], after=State(tags={(0, 5): 0x50001}))
vector("without a route to the shard the client hears of the mark", "D-17", count={"insert_marked": 1, "copies_sent": 1, "copies_unrouted": 1},
    steps=[comes(insert(shard=9), to(CLIENT, MARKED))], after=State(tags={(0, 5): 0x50001}))
vector("without a route a remove removes", "D-17", count={"remove_done": 1, "copies_unrouted": 1},
    before=State(tags={(3, 5): 0x50001}), steps=[comes(remove(destination=shard(9)))], after=State(pairs={0: (4, 100)}))

# Whoever can send a datagram to the switch: all registers stay as they are, whatever epoch and term it says.
vector("a stranger's insert is dropped", "D-44", count={"drop_stranger": 2}, steps=[
    comes(insert(), port=21),
    comes(insert(destination=0), port=500),
])
vector("a stranger's remove takes no mark out and raises no counter", "D-44 D-28",
    before=State(tags={(3, 5): 0x50001}), count={"drop_stranger": 3, "query_scattered": 1, "remove_done": 1, "copies_sent": 2}, steps=[
        comes(remove(), port=22),
        comes(remove(sequence=0xFFFFFFFF), port=14),
        comes(remove(destination=shard(1)), port=9),
        comes(query(), to(shard(0), SCATTERED)),
        comes(remove(), to(shard(2), REMOVED), port=10),
    ], after=State(pairs={0: (4, 100)}))
vector("what a stranger says of another epoch or term is not looked at", "D-44 D-26 D-30", count={"drop_stranger": 3}, steps=[
    comes(insert(epoch=6), port=21),
    comes(remove(epoch=6), port=21),
    comes(remove(term=3), port=21),
])
vector("what was answered goes on from anywhere", "D-11 D-44", count={"answered": 2, "copies_sent": 2}, steps=[
    comes(insert(result=MARKED), to(CLIENT, MARKED), port=500),
    comes(remove(result=REMOVED), to(shard(2), REMOVED), port=500),
])
