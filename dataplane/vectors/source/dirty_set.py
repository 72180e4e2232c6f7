"""Query and insert: D-18 to D-26."""

T, A, B, C = 0x50001, 0x60002, 0x70003, 0x80004
MARK = [to(CLIENT, MARKED), to(shard(2), MARKED)]
FULL_SET = {(stage, 5): A + stage for stage in range(10)}

vector("what is not in the set is normal", "D-18", count={"query_normal": 1, "copies_sent": 1},
    before=State(tags={(0, 5): A, (1, 6): T, (2, 4): T}), steps=[comes(query(), to(shard(0), NORMAL))])
for stage in range(10):
    vector(f"array {stage} is queried", "D-18", count={"query_scattered": 1, "copies_sent": 1},
        before=State(tags={(stage, 5): T}), steps=[comes(query(), to(shard(0), SCATTERED))])
vector("tags are compared as a whole", "D-18", count={"query_normal": 1, "copies_sent": 1},
    before=State(tags={(0, 5): 0x1234_5678, (1, 5): 0x9234_5679, (2, 5): 0x1235_5679}),
    steps=[comes(query(tag=0x1234_5679), to(shard(0), NORMAL))])

vector("a set that is not complete is unknown", "D-19", before=State(epoch=(7, 0), tags={(0, 5): T}),
    count={"query_unknown": 2, "copies_sent": 2},
    steps=[comes(query(), to(shard(0), UNKNOWN)), comes(query(tag=A), to(shard(0), UNKNOWN))])
vector("a query of another epoch is unknown", "D-19", before=State(tags={(0, 5): T}), count={"query_unknown": 4, "copies_sent": 4},
    steps=[
        comes(query(epoch=6), to(shard(0), UNKNOWN)),
        comes(query(epoch=8, tag=A), to(shard(0), UNKNOWN)),
        comes(query(epoch=0x0107, tag=A), to(shard(0), UNKNOWN)),
        comes(query(epoch=0), to(shard(0), UNKNOWN)),
    ])
vector("epoch 0 is no epoch to a query", "D-19", before=State(epoch=(0, 0)), count={"query_unknown": 1, "copies_sent": 1},
    steps=[comes(query(epoch=0), to(shard(0), UNKNOWN))])

vector("an insert takes the first register of an empty set", "D-20 D-23", count={"insert_marked": 1, "copies_sent": 2},
    steps=[comes(insert(), *MARK)], after=State(tags={(0, 5): T}))
vector("an insert takes the first register that is free", "D-20", count={"insert_marked": 1, "copies_sent": 2},
    before=State(tags={(0, 5): A, (1, 5): B, (3, 5): C}), steps=[comes(insert(), *MARK)],
    after=State(tags={(0, 5): A, (1, 5): B, (2, 5): T, (3, 5): C}))
vector("an insert takes the last register", "D-20", count={"insert_marked": 1, "copies_sent": 2},
    before=State(tags={**FULL_SET, (9, 5): 0}), steps=[comes(insert(), *MARK)], after=State(tags={**FULL_SET, (9, 5): T}))
vector("an insert finds its tag in a full set", "D-20 D-22", count={"insert_marked": 1, "copies_sent": 2},
    before=State(tags={**FULL_SET, (9, 5): T}), steps=[comes(insert(), *MARK)])
vector("other sets are not touched by an insert", "D-20", count={"insert_marked": 1, "copies_sent": 2},
    before=State(tags={(0, 4): T, (1, 6): T, (5, 69): T}), steps=[comes(insert(), *MARK)],
    after=State(tags={(0, 4): T, (1, 6): T, (5, 69): T, (0, 5): T}))

vector("a tag does not stand twice", "D-21", count={"insert_marked": 1, "copies_sent": 2},
    before=State(tags={(0, 5): A, (4, 5): T}), steps=[comes(insert(), *MARK)], after=State(tags={(0, 5): A, (1, 5): T}))
vector("a tag moves from the last register to the first", "D-21", count={"insert_marked": 1, "copies_sent": 2},
    before=State(tags={(9, 5): T}), steps=[comes(insert(), *MARK)], after=State(tags={(0, 5): T}))
vector("all later copies of a tag go", "D-21", count={"insert_marked": 1, "copies_sent": 2},
    before=State(tags={(0, 5): T, (3, 5): T, (4, 5): A, (7, 5): T}), steps=[comes(insert(), *MARK)],
    after=State(tags={(0, 5): T, (4, 5): A}))

vector("an insert again changes nothing", "D-22", count={"insert_marked": 3, "copies_sent": 6},
    before=State(tags={(0, 5): A}), steps=[
        comes(insert(), *MARK),
        comes(insert(), *MARK),
        comes(insert(shard=1, term=8), to(CLIENT, MARKED), to(shard(1), MARKED)),
    ], after=State(tags={(0, 5): A, (1, 5): T}))
vector("inserts have no sequence", "D-22", count={"insert_marked": 2, "copies_sent": 4},
    before=State(pairs={2: (9, 50)}), steps=[
        comes(insert(sequence=50), *MARK),
        comes(insert(sequence=1, term=8, tag=A), *MARK),
    ], after=State(pairs={2: (9, 50)}, tags={(0, 5): T, (1, 5): A}))

vector("a mark without a client goes to its shard alone", "D-23", count={"insert_marked": 1, "copies_sent": 1},
    steps=[comes(insert(destination=0), to(shard(2), MARKED))], after=State(tags={(0, 5): T}))
vector("a mark is acknowledged before the set is complete", "D-23 D-26", before=State(epoch=(7, 0)),
    count={"insert_marked": 1, "copies_sent": 2}, steps=[comes(insert(), *MARK)], after=State(epoch=(7, 0), tags={(0, 5): T}))
vector("a full set returns the packet to its shard", "D-24", before=State(tags=FULL_SET),
    count={"insert_full": 2, "copies_sent": 2}, steps=[
        comes(insert(), to(shard(2), FULL)),
        comes(insert(destination=0), to(shard(2), FULL)),
    ])
vector("a set is full when its arrays are", "D-24", stages=2, count={"insert_marked": 2, "insert_full": 1, "copies_sent": 5}, steps=[
    comes(insert(), *MARK),
    comes(insert(tag=A), *MARK),
    comes(insert(tag=B), to(shard(2), FULL)),
], after=State(tags={(0, 5): T, (1, 5): A}))
vector("without arrays every set is full", "D-24 D-18", stages=0, count={"insert_full": 1, "query_normal": 1, "copies_sent": 2}, steps=[
    comes(insert(), to(shard(2), FULL)),
    comes(query(), to(shard(0), NORMAL)),
])
vector("after a remove there is room", "D-24 D-27", before=State(tags=FULL_SET),
    count={"insert_full": 1, "insert_marked": 1, "remove_done": 1, "copies_sent": 4}, steps=[
        comes(insert(), to(shard(2), FULL)),
        comes(remove(tag=A + 6), to(shard(2), REMOVED)),
        comes(insert(), *MARK),
    ], after=State(pairs={0: (4, 100)}, tags={**FULL_SET, (6, 5): T}))

vector("an insert of another epoch changes nothing", "D-26", before=State(tags={(0, 5): A, (4, 5): T}),
    count={"insert_other_epoch": 3, "copies_sent": 3}, steps=[
        comes(insert(epoch=6), to(shard(2), OTHER_EPOCH)),
        comes(insert(epoch=0xFF07), to(shard(2), OTHER_EPOCH)),
        comes(insert(epoch=0), to(shard(2), OTHER_EPOCH)),
    ])
vector("epoch 0 is no epoch to an insert", "D-26", before=State(epoch=(0, 0)), count={"insert_other_epoch": 1, "copies_sent": 1},
    steps=[comes(insert(epoch=0), to(shard(2), OTHER_EPOCH))])
# What a target may get wrong that reads fields by hardware: the order of bytes, and copies that are alike.
vector("epochs are compared as a whole", "D-18 D-19", before=State(epoch=(0x0102, 1)),
    count={"query_normal": 1, "query_unknown": 4, "copies_sent": 5}, steps=[
        comes(query(epoch=0x0102), to(shard(0), NORMAL)),
        comes(query(epoch=0x0201), to(shard(0), UNKNOWN)),
        comes(query(epoch=0x0002), to(shard(0), UNKNOWN)),
        comes(query(epoch=0x0100), to(shard(0), UNKNOWN)),
        comes(query(epoch=0x0101), to(shard(0), UNKNOWN)),
    ])
vector("a mark whose client is its shard makes two copies alike", "D-23", count={"insert_marked": 1, "copies_sent": 2},
    steps=[comes(insert(destination=shard(2)), to(shard(2), MARKED), to(shard(2), MARKED), port=12)],
    after=State(tags={(0, 5): 0x50001}))
vector("shard and client behind one port both hear of the mark", "D-23", routes={shard(2): 12, CLIENT: 12},
    count={"insert_marked": 1, "copies_sent": 2}, steps=[comes(insert(), to(CLIENT, MARKED), to(shard(2), MARKED), port=12)],
    after=State(tags={(0, 5): 0x50001}))
