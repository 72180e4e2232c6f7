"""Where packets go: D-11 to D-17."""

vector("an answered packet is only routed", "D-11 D-16", count={"answered": 3, "copies_sent": 3}, steps=[
    comes(insert(result=MARKED), to(CLIENT, MARKED)),
    comes(remove(result=OTHER_EPOCH), to(shard(2), OTHER_EPOCH)),
    comes(query(result=NORMAL, epoch=6), to(shard(0), NORMAL)),
], before=State(tags={(0, 9): 0x50001, (4, 5): 0x50001}))
vector("an answered packet is not handed on", "D-11", own=(1, 1), peers=[(0, 1, 40)], count={"answered": 1, "copies_sent": 1},
    steps=[comes(query(result=SCATTERED), to(shard(0), SCATTERED))])
vector("a result that nobody knows is an answer", "D-11", count={"answered": 1, "copies_sent": 1},
    steps=[comes(insert(result=255), to(CLIENT, 255))])
vector("an answered packet to nobody is dropped", "D-11 D-17", count={"answered": 1, "copies_unrouted": 1},
    steps=[comes(insert(result=MARKED, destination=0))])

vector("a packet of the own prefix is executed", "D-12", own=(1, 1), peers=[(0, 1, 40)],
    count={"insert_marked": 1, "copies_sent": 2},
    steps=[comes(insert(index=0x10005), to(CLIENT, MARKED), to(shard(2), MARKED))],
    after=State(tags={(0, 0x10005): 0x50001}))
vector("the smallest prefix is one set", "D-12 D-13", own=(5, 17), peers=[(4, 17, 41), (3, 16, 42)],
    count={"insert_marked": 1, "handed_on": 2, "copies_sent": 4},
    steps=[
        comes(insert(index=5), to(CLIENT, MARKED), to(shard(2), MARKED)),
        comes(insert(index=4), handed_on(41)),
        comes(insert(index=6), handed_on(42)),
    ], after=State(tags={(0, 5): 0x50001}))

vector("another prefix is handed on", "D-13 D-43", own=(1, 1), peers=[(0, 2, 40), (1, 2, 41)],
    count={"handed_on": 4, "copies_sent": 4}, steps=[
        comes(insert(index=5, flags=REDIRECT, alternative=shard(1)), handed_on(40)),
        comes(query(index=0x7FFF), handed_on(40)),
        comes(query(index=0x8000), handed_on(41)),
        comes(remove(index=0xFFFF, flags=MULTICAST, destination=1), handed_on(41)),
    ], groups={1: [shard(1)]})

vector("what was handed on is executed by its switch", "D-13 D-16", own=(0, 1), peers=[(1, 1, 40)],
    count={"query_normal": 1, "copies_sent": 1}, steps=[comes(query(flags=HANDED_ON), to(shard(0), NORMAL))])
vector("what was handed on is not handed on again", "D-14", own=(1, 1), peers=[(0, 1, 40)], count={"drop_loop": 1},
    steps=[comes(insert(flags=HANDED_ON))])
vector("a loop is one also where no prefix is known", "D-14", own=(1, 1), count={"drop_loop": 1},
    steps=[comes(insert(flags=HANDED_ON))])
vector("a prefix that nobody has is dropped", "D-15", own=(1, 1), peers=[(1, 2, 40)], count={"drop_prefix": 3},
    steps=[comes(insert()), comes(query()), comes(remove())])

vector("the message is carried byte for byte", "D-16", count={"query_normal": 1, "copies_sent": 1},
    steps=[comes(query(shard=3, term=0x01020304, sequence=0xFFFFFFFF, alternative=0xA5A5A5A5).but(message=bytes(range(256)) * 5),
                 to(shard(0), NORMAL))])
vector("flags are cleared in copies", "D-16 D-23", own=(0, 1), count={"insert_marked": 1, "copies_sent": 2},
    steps=[comes(insert(flags=REDIRECT | HANDED_ON, alternative=shard(1)), to(CLIENT, MARKED), to(shard(2), MARKED))],
    after=State(tags={(0, 5): 0x50001}))
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
    comes(insert(flags=REDIRECT, alternative=shard(1)), port=500),
])
vector("a stranger's remove takes no mark out and raises no counter", "D-44 D-28",
    before=State(tags={(3, 5): 0x50001}), count={"drop_stranger": 3, "query_scattered": 1, "remove_done": 1, "copies_sent": 2}, steps=[
        comes(remove(), port=22),
        comes(remove(sequence=0xFFFFFFFF), port=14),
        comes(remove(flags=MULTICAST, destination=1), port=9),
        comes(query(), to(shard(0), SCATTERED)),
        comes(remove(), to(shard(2), REMOVED), port=10),
    ], after=State(pairs={0: (4, 100)}), groups={})
vector("what a stranger says of another epoch or term is not looked at", "D-44 D-26 D-30", count={"drop_stranger": 3}, steps=[
    comes(insert(epoch=6), port=21),
    comes(remove(epoch=6), port=21),
    comes(remove(term=3), port=21),
])
vector("a stranger's packet is not handed on", "D-44 D-13 D-15", own=(1, 1), peers=[(0, 2, 40)], count={"drop_stranger": 3, "handed_on": 1, "copies_sent": 1}, steps=[
    comes(insert(), port=21),
    comes(remove(), port=21),
    comes(insert(index=0x8000), port=21),
    comes(query(), handed_on(40)),
])
vector("another switch is listed as a host is", "D-44 D-12", own=(0, 1), peers=[(1, 1, 40)], hosts=(40,),
    count={"insert_marked": 1, "drop_stranger": 1, "copies_sent": 2}, steps=[
        comes(insert(flags=HANDED_ON), to(CLIENT, MARKED), to(shard(2), MARKED), port=40),
        comes(insert(flags=HANDED_ON)),
    ], after=State(tags={(0, 5): 0x50001}))
vector("a loop is one also from a stranger", "D-14 D-44", own=(1, 1), peers=[(0, 1, 40)], count={"drop_loop": 1},
    steps=[comes(insert(flags=HANDED_ON), port=21)])
vector("what was answered goes on from anywhere", "D-11 D-44", count={"answered": 2, "copies_sent": 2}, steps=[
    comes(insert(result=MARKED), to(CLIENT, MARKED), port=500),
    comes(remove(result=REMOVED), to(shard(2), REMOVED), port=500),
])
