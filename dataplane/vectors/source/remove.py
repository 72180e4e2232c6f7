"""Removes: sequences, terms, epochs, and where they are forwarded. D-27 to D-34."""

T, A = 0x50001, 0x60002
MARKED_SET = State(tags={(2, 5): T})

for stage in range(10):
    vector(f"array {stage} is removed from", "D-27", count={"remove_done": 1, "copies_sent": 1},
        before=State(tags={(stage, 5): T}), steps=[comes(remove(), to(shard(2), REMOVED))], after=State(pairs={0: (4, 100)}))
vector("a remove takes out its tag and no other", "D-27", count={"remove_done": 1, "copies_sent": 1},
    before=State(tags={(0, 5): A, (1, 5): T, (1, 4): T, (1, 6): T, (5, 5): T, (9, 5): A + 1}),
    steps=[comes(remove(), to(shard(2), REMOVED))],
    after=State(pairs={0: (4, 100)}, tags={(0, 5): A, (1, 4): T, (1, 6): T, (9, 5): A + 1}))
vector("a remove of what is not there is forwarded", "D-27 D-34", count={"remove_done": 1, "copies_sent": 1},
    steps=[comes(remove(), to(shard(2), REMOVED))], after=State(pairs={0: (4, 100)}))
vector("a remove works before the set is complete", "D-27", before=MARKED_SET.but(epoch=(7, 0)), count={"remove_done": 1, "copies_sent": 1},
    steps=[comes(remove(), to(shard(2), REMOVED))], after=State(epoch=(7, 0), pairs={0: (4, 100)}))
vector("after a remove the state is normal", "D-27 D-18", before=MARKED_SET, count={"query_scattered": 1, "remove_done": 1, "query_normal": 1, "copies_sent": 3},
    steps=[
        comes(query(), to(shard(0), SCATTERED)),
        comes(remove(), to(shard(2), REMOVED)),
        comes(query(), to(shard(0), NORMAL)),
    ], after=State(pairs={0: (4, 100)}))

vector("the counter becomes the sequence", "D-28", count={"remove_done": 3, "copies_sent": 3}, steps=[
    comes(remove(), to(shard(2), REMOVED)),
    comes(remove(sequence=5000), to(shard(2), REMOVED)),
    comes(remove(sequence=0xFFFFFFFF), to(shard(2), REMOVED)),
], after=State(pairs={0: (4, 0xFFFFFFFF)}))
vector("sequences are unsigned", "D-28 D-29", before=State(pairs={0: (4, 0x7FFFFFFF)}), count={"remove_done": 1, "drop_not_newer": 1, "copies_sent": 1},
    steps=[
        comes(remove(sequence=0x80000000), to(shard(2), REMOVED)),
        comes(remove(sequence=0x7FFFFFFF)),
    ], after=State(pairs={0: (4, 0x80000000)}))
vector("the first sequence is 1", "D-28 D-29", before=State(pairs={0: (4, 0)}), count={"remove_done": 1, "drop_not_newer": 1, "copies_sent": 1},
    steps=[comes(remove(sequence=0)), comes(remove(sequence=1), to(shard(2), REMOVED))], after=State(pairs={0: (4, 1)}))

# Schedule C4: a mark of after the collect survives a copy that the network made of its remove.
vector("a copy of a remove leaves a later mark", "D-29", before=MARKED_SET,
    count={"remove_done": 1, "insert_marked": 1, "drop_not_newer": 1, "query_scattered": 1, "copies_sent": 4}, steps=[
        comes(remove(), to(shard(2), REMOVED)),
        comes(insert(), to(CLIENT, MARKED), to(shard(2), MARKED)),
        comes(remove()),
        comes(query(), to(shard(0), SCATTERED)),
    ], after=State(pairs={0: (4, 100)}, tags={(0, 5): T}))
# Schedule C3: the remove of an earlier round is late.
vector("an overtaken remove is not forwarded", "D-29", before=MARKED_SET, count={"remove_done": 1, "drop_not_newer": 2, "copies_sent": 1}, steps=[
    comes(remove(sequence=102), to(shard(2), REMOVED)),
    comes(remove(sequence=101)),
    comes(remove(sequence=101, destination=shard(1))),
], after=State(pairs={0: (4, 102)}))
vector("a copy for another directory is not newer either", "D-29", before=State(pairs={0: (4, 100)}, tags={(0, 9): T}),
    count={"drop_not_newer": 1}, steps=[comes(remove(index=9))])

vector("a remove of a lower term is dropped", "D-30", before=MARKED_SET, count={"drop_term_lower": 2},
    steps=[comes(remove(term=3)), comes(remove(term=0, sequence=0xFFFFFFFF))])
vector("terms are compared as a whole", "D-30 D-31", before=MARKED_SET.but(pairs={0: (0x010004, 99)}),
    count={"drop_term_lower": 2, "drop_term_ahead": 1},
    steps=[comes(remove(term=4)), comes(remove(term=0x0004)), comes(remove(term=0x020004))])

vector("a remove of a term not announced is dropped", "D-31", before=MARKED_SET, count={"drop_term_ahead": 2},
    steps=[comes(remove(term=5)), comes(remove(term=0xFFFFFF, sequence=1))])
vector("a term announced lets its first remove in once", "D-31 D-39", before=MARKED_SET,
    count={"drop_term_ahead": 1, "remove_done": 1, "drop_not_newer": 1, "copies_sent": 1}, steps=[
        comes(remove(term=5, sequence=1)),
        do("raise 0 5"),
        comes(remove(term=5, sequence=1), to(shard(2), REMOVED)),
        comes(remove(term=5, sequence=1)),
    ], after=State(pairs={0: (5, 1)}))

vector("shards have sequences of their own", "D-32", before=State(pairs={0: (4, 500), 1: (9, 0)}), count={"remove_done": 1, "drop_not_newer": 1, "copies_sent": 1},
    steps=[comes(remove(shard=1, term=9), to(shard(2), REMOVED)), comes(remove())], after=State(pairs={0: (4, 500), 1: (9, 100)}))
vector("a shard has not another's term", "D-32", before=MARKED_SET.but(pairs={1: (9, 0)}), count={"drop_term_lower": 1, "drop_term_ahead": 1},
    steps=[comes(remove(shard=1, term=4)), comes(remove(term=9))])

# Schedule C7: the remove of an epoch before a reboot.
vector("a remove of another epoch takes nothing out", "D-33 D-28", before=MARKED_SET, count={"remove_other_epoch": 3, "copies_sent": 3}, steps=[
    comes(remove(epoch=6), to(shard(2), OTHER_EPOCH)),
    comes(remove(epoch=8, sequence=101), to(shard(2), OTHER_EPOCH)),
    comes(remove(epoch=0, sequence=102), to(shard(2), OTHER_EPOCH)),
], after=MARKED_SET.but(pairs={0: (4, 102)}))
vector("epoch 0 is no epoch to a remove", "D-33", before=MARKED_SET.but(epoch=(0, 0)), count={"remove_other_epoch": 1, "copies_sent": 1},
    steps=[comes(remove(epoch=0), to(shard(2), OTHER_EPOCH))], after=MARKED_SET.but(epoch=(0, 0), pairs={0: (4, 100)}))
vector("a remove of another epoch counts once too", "D-28 D-29 D-33", before=MARKED_SET, count={"remove_other_epoch": 1, "drop_not_newer": 1, "copies_sent": 1},
    steps=[comes(remove(epoch=6), to(shard(2), OTHER_EPOCH)), comes(remove())], after=MARKED_SET.but(pairs={0: (4, 100)}))
vector("a remove goes to its destination", "D-34", before=MARKED_SET, count={"remove_done": 2, "copies_sent": 2}, steps=[
    comes(remove(destination=shard(3)), to(shard(3), REMOVED)),
    comes(remove(destination=shard(0), sequence=101), to(shard(0), REMOVED)),
], after=State(pairs={0: (4, 101)}))

vector("sequences are compared as a whole", "D-28 D-29", before=State(pairs={0: (4, 0x01000200)}),
    count={"remove_done": 1, "drop_not_newer": 3, "copies_sent": 1}, steps=[
        comes(remove(sequence=0x00020001)),
        comes(remove(sequence=0x010001FF)),
        comes(remove(sequence=0x000003FF)),
        comes(remove(sequence=0x01000201), to(shard(2), REMOVED)),
    ], after=State(pairs={0: (4, 0x01000201)}))
