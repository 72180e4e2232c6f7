"""The visibility table: look, install and clear, its checks and its commands. D-45 to D-66."""

T, A, B = 0x50001, 0x60002, 0x70003
M, N, O = metadata(1), metadata(101), metadata(201)
TOLD = [to(CLIENT, INSTALLED), to(shard(0), INSTALLED)]
LAST = (1 << 16) - 1

# Checks. Those that all structures share are made of its packets too.
of_table("one byte less than the longer header is truncated", "D-2", count={"drop_truncated": 4}, steps=[
    comes(install().bytes()[:123]),
    comes(look().bytes()[:40]),
    comes(clear().bytes()[:16]),
    comes(install().bytes()[:15]),
])
of_table("a longer header without a message is whole", "D-2 D-16", count={"look_none": 1, "copies_sent": 1},
    steps=[comes(look().but(message=b""), to(shard(0), NONE))])
of_table("the table has three operations", "D-6", count={"drop_operation": 3},
    steps=[comes(install(code=0x20)), comes(install(code=0x24)), comes(look(code=0x2F))])
of_table("a short packet of no operation of the table is that", "D-2 D-6", count={"drop_operation": 1},
    steps=[comes(install(code=0x24).bytes()[:50])])
of_table("a flag of a packet of the table is dropped", "D-7", count={"drop_reserved": 10}, steps=[
    *(comes(install(flags=1 << bit)) for bit in range(8)),
    comes(look(flags=0x80)),
    comes(clear(flags=2)),
])
of_table("a home of 256 or more is dropped", "D-8", count={"drop_shard": 3},
    steps=[comes(install(shard=256)), comes(clear(shard=0xFFFF)), comes(look(shard=256))])
of_table("an entry of more than 16 bits is dropped", "D-9", entry_bits=16, count={"drop_index": 3},
    steps=[comes(install(index=1 << 16)), comes(look(index=1 << 31 | 5)), comes(clear(index=0xFFFFFFFF))])
of_table("a small table has as many entries as its numbers have bits for", "D-9 D-47", entry_bits=2,
    count={"install_done": 1, "drop_index": 3, "look_none": 1, "copies_sent": 3}, steps=[
        comes(install(index=3), *TOLD),
        comes(install(index=4)),
        comes(look(index=4)),
        comes(clear(index=7)),
        comes(look(index=2), to(shard(0), NONE)),
    ], after=table({3: (T, 100, M)}))
of_table("fingerprint 0 is dropped", "D-45", before=table(0, 100, M), count={"drop_fingerprint": 3},
    steps=[comes(install(fingerprint=0)), comes(look(fingerprint=0)), comes(clear(fingerprint=0))])
of_table("position 0 is dropped", "D-46", before=table(T, 0xFFFFFFFF, M), count={"drop_ts": 2, "look_pending": 1, "copies_sent": 1},
    steps=[comes(install(ts=0)), comes(clear(ts=0)), comes(look(ts=0), to(shard(0), PENDING, metadata=M))])
of_table("the first check of the table's that fails counts", "D-2 D-6 D-7 D-8 D-9 D-45 D-46 D-43", steps=[
    comes(install(code=0x2F, flags=1, shard=256, index=8, fingerprint=0, ts=0)),
    comes(install(flags=1, shard=256, index=8, fingerprint=0, ts=0).bytes()[:100]),
    comes(install(flags=1, shard=256, index=8, fingerprint=0, ts=0)),
    comes(install(shard=256, index=8, fingerprint=0, ts=0)),
    comes(install(index=8, fingerprint=0, ts=0)),
    comes(install(fingerprint=0, ts=0)),
    comes(install(ts=0)),
], count={"drop_operation": 1, "drop_truncated": 1, "drop_reserved": 1, "drop_shard": 1, "drop_index": 1, "drop_fingerprint": 1, "drop_ts": 1})
of_table("packets of two structures meet at one switch", "D-5", before=State(tags={(0, 5): T}, visible=(7, 1), entries={5: (A, 9, M)}),
    stages=10, index_bits=17, routes={**ROUTES, **TABLE_ROUTES}, count={"query_scattered": 1, "look_none": 1, "copies_sent": 2},
    steps=[comes(query(), to(shard(0), SCATTERED)), comes(look(), to(shard(0), NONE))])

# Routing.
of_table("an answered packet of the table is only routed", "D-11 D-44", before=table(T, 100, M), count={"answered": 4, "copies_sent": 4}, steps=[
    comes(install(result=INSTALLED, ts=200), to(CLIENT, INSTALLED), port=500),
    comes(look(result=PENDING, metadata=N), to(shard(0), PENDING)),
    comes(look(result=NONE), to(shard(0), NONE)),
    comes(clear(result=255), to(DATA, 255)),
])
of_table("without a route to the home the session hears of its install", "D-17 D-53", count={"install_done": 1, "copies_sent": 1, "copies_unrouted": 1},
    steps=[comes(install(shard=9), to(CLIENT, INSTALLED))], after=table(T, 100, M))
of_table("without a route a clear frees", "D-17 D-58", before=table(T, 100, M), count={"clear_done": 1, "copies_unrouted": 1},
    steps=[comes(clear(destination=0x02000077))], after=table(0, 100, M))
of_table("messages behind the longer header are carried byte for byte", "D-16", before=table(T, 100, M),
    count={"look_pending": 1, "install_done": 1, "copies_sent": 3}, steps=[
        comes(look(shard=3, ts=0x01020304).but(message=bytes(range(256)) * 4), to(shard(0), PENDING, metadata=M)),
        comes(install(ts=101).but(message=bytes(range(255, -1, -1)) * 4), *TOLD),
    ], after=table(T, 101, M))
of_table("a stranger installs nothing", "D-44", before=table(A, 9, N), count={"drop_stranger": 3},
    steps=[comes(install(), port=21), comes(install(destination=0), port=500), comes(install(epoch=6), port=21)])
of_table("a stranger frees nothing", "D-44", before=table(T, 100, M), count={"drop_stranger": 3, "look_pending": 1, "copies_sent": 1}, steps=[
    comes(clear(), port=21),
    comes(clear(epoch=6), port=9),
    comes(clear(destination=CLIENT), port=14),
    comes(look(), to(shard(0), PENDING, metadata=M)),
])
of_table("whoever looks is answered", "D-44 D-56", before=table(T, 100, M), count={"look_pending": 3, "copies_sent": 3},
    steps=[comes(look(), to(shard(0), PENDING, metadata=M), port=port) for port in (10, 22, 500)])

of_table("the index selects the entry", "D-47", entry_bits=16, count={"install_done": 4, "look_none": 1, "look_pending": 1, "copies_sent": 10}, steps=[
    comes(install(), *TOLD),
    comes(install(index=4, metadata=N), *TOLD),
    comes(install(index=0, ts=3), *TOLD),
    comes(install(index=LAST, metadata=O), *TOLD),
    comes(look(index=6), to(shard(0), NONE)),
    comes(look(index=LAST), to(shard(0), PENDING, metadata=O)),
], after=table({0: (T, 3, M), 4: (T, 100, N), 5: (T, 100, M), LAST: (T, 100, O)}))

# Installs.
of_table("a newer install takes effect", "D-48 D-52", before=table(T, 99, N), count={"install_done": 1, "copies_sent": 2},
    steps=[comes(install(), *TOLD)], after=table(T, 100, M))
of_table("an older install changes nothing", "D-48 D-54", before=table(T, 101, N), count={"install_older": 2, "copies_sent": 2},
    steps=[comes(install(), to(shard(0), OLDER)), comes(install(fingerprint=A), to(shard(0), OLDER))])
of_table("a newer install takes effect in a free entry", "D-48", before=table(0, 99, N), count={"install_done": 1, "copies_sent": 2},
    steps=[comes(install(), *TOLD)], after=table(T, 100, M))
of_table("an older install changes no free entry", "D-48 D-54", before=table(0, 101, N), count={"install_older": 1, "copies_sent": 1},
    steps=[comes(install(), to(shard(0), OLDER))])
of_table("positions wrap", "D-48", before=table(T, 0xFFFFFFF0, N), count={"install_done": 1, "install_older": 1, "copies_sent": 3},
    steps=[comes(install(ts=5), *TOLD), comes(install(ts=0xFFFFFFF1), to(shard(0), OLDER))], after=table(T, 5, M))
of_table("half of all positions is after one", "D-48", before=table(T, 1000, N), count={"install_done": 1, "install_older": 3, "copies_sent": 5}, steps=[
    comes(install(ts=1000 + (1 << 31)), to(shard(0), OLDER)),
    comes(install(ts=1001 + (1 << 31)), to(shard(0), OLDER)),
    comes(install(ts=999 + (1 << 31)), *TOLD),
    comes(install(ts=1000), to(shard(0), OLDER)),
], after=table(T, 999 + (1 << 31), M))
of_table("positions are compared as a whole", "D-48", before=table(T, 0x01020304, N), count={"install_older": 3, "install_done": 1, "copies_sent": 5}, steps=[
    comes(install(ts=0x01020300), to(shard(0), OLDER)),
    comes(install(ts=0x01010405), to(shard(0), OLDER)),
    comes(install(ts=0x00FFFFFF), to(shard(0), OLDER)),
    comes(install(ts=0x01020305), *TOLD),
], after=table(T, 0x01020305, M))
of_table("an entry in which nothing was takes any position", "D-49", count={"install_done": 4, "copies_sent": 8}, steps=[
    comes(install(index=index, ts=ts), *TOLD) for index, ts in enumerate((1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF))
], after=table({0: (T, 1, M), 1: (T, 0x7FFFFFFF, M), 2: (T, 0x80000000, M), 3: (T, 0xFFFFFFFF, M)}))
of_table("an install again is answered again", "D-50", count={"install_done": 3, "copies_sent": 6},
    steps=[comes(install(), *TOLD)] * 3, after=table(T, 100, M))
of_table("an install again finds the entry of its position", "D-50", before=table(A, 100, N), count={"install_done": 1, "copies_sent": 2},
    steps=[comes(install(), *TOLD)], after=table(T, 100, M))
of_table("a copy of an install after its clear changes nothing", "D-51 D-54", count={"install_done": 1, "clear_done": 1, "install_older": 1, "look_none": 1, "copies_sent": 5},
    steps=[
        comes(install(), *TOLD),
        comes(clear(), to(DATA, CLEARED)),
        comes(install(), to(shard(0), OLDER)),
        comes(look(), to(shard(0), NONE)),
    ], after=table(0, 100, M))
of_table("an install overwrites that of another file", "D-52", before=table(A, 99, N), count={"look_pending": 2, "install_done": 1, "look_none": 1, "copies_sent": 5},
    steps=[
        comes(look(fingerprint=A), to(shard(0), PENDING, metadata=N)),
        comes(install(), *TOLD),
        comes(look(fingerprint=A), to(shard(0), NONE)),
        comes(look(), to(shard(0), PENDING, metadata=M)),
    ], after=table(T, 100, M))
of_table("a newer install of a file takes the place of its older one", "D-52", count={"install_done": 2, "look_pending": 2, "copies_sent": 6}, steps=[
    comes(install(), *TOLD),
    comes(look(), to(shard(0), PENDING, metadata=M)),
    comes(install(ts=101, metadata=N), *TOLD),
    comes(look(), to(shard(0), PENDING, metadata=N)),
], after=table(T, 101, N))
of_table("metadata may be anything", "D-52 D-56", count={"install_done": 2, "look_pending": 2, "copies_sent": 6}, steps=[
    comes(install(metadata=bytes(96)), *TOLD),
    comes(look(metadata=O), to(shard(0), PENDING, metadata=bytes(96))),
    comes(install(ts=101, metadata=b"\xff" * 96), *TOLD),
    comes(look(), to(shard(0), PENDING, metadata=b"\xff" * 96)),
], after=table(T, 101, b"\xff" * 96))
of_table("an install without a session goes to its home alone", "D-53", count={"install_done": 1, "copies_sent": 1},
    steps=[comes(install(destination=0), to(shard(0), INSTALLED))], after=table(T, 100, M))
of_table("home and session behind one port both hear of the install", "D-53", routes={shard(0): 13, CLIENT: 13},
    count={"install_done": 1, "copies_sent": 2}, steps=[comes(install(), *TOLD)], after=table(T, 100, M))
of_table("an install whose session is its home makes two copies alike", "D-53", count={"install_done": 1, "copies_sent": 2},
    steps=[comes(install(destination=shard(0)), to(shard(0), INSTALLED), to(shard(0), INSTALLED))], after=table(T, 100, M))
of_table("an install is acknowledged before the table is complete", "D-53 D-55", before=table(visible=(7, 0)), count={"install_done": 1, "copies_sent": 2},
    steps=[comes(install(), *TOLD)], after=table(T, 100, M, visible=(7, 0)))
of_table("an older install is told to its home alone", "D-54", before=table(T, 200, N), count={"install_older": 2, "copies_sent": 2},
    steps=[comes(install(), to(shard(0), OLDER)), comes(install(destination=0, shard=2), to(shard(2), OLDER))])
of_table("an install of another epoch changes nothing", "D-55", before=table(T, 9, N), count={"install_other_epoch": 4, "copies_sent": 4}, steps=[
    comes(install(epoch=6), to(shard(0), OTHER_EPOCH)),
    comes(install(epoch=8), to(shard(0), OTHER_EPOCH)),
    comes(install(epoch=0xFF07, destination=0), to(shard(0), OTHER_EPOCH)),
    comes(install(epoch=0), to(shard(0), OTHER_EPOCH)),
])
of_table("epoch 0 is no epoch to an install", "D-55", before=table(visible=(0, 0)), count={"install_other_epoch": 1, "copies_sent": 1},
    steps=[comes(install(epoch=0), to(shard(0), OTHER_EPOCH))])

# Looks.
of_table("a look finds the metadata of its file", "D-56", before=table(T, 100, M), count={"look_pending": 1, "copies_sent": 1},
    steps=[comes(look(), to(shard(0), PENDING, metadata=M))])
of_table("a look of another file finds none", "D-56", before=table(T, 100, M), count={"look_none": 3, "copies_sent": 3},
    steps=[comes(look(fingerprint=of), to(shard(0), NONE)) for of in (A, T ^ 1 << 31, T ^ 1)])
of_table("a look finds none in a free entry", "D-56", before=table(0, 100, M), count={"look_none": 2, "copies_sent": 2},
    steps=[comes(look(), to(shard(0), NONE)), comes(look(metadata=N), to(shard(0), NONE))])
of_table("a look goes to its destination", "D-56", before=table(T, 100, M), count={"look_pending": 1, "look_none": 1, "copies_sent": 2},
    steps=[comes(look(destination=shard(2)), to(shard(2), PENDING, metadata=M)), comes(look(destination=CLIENT2, fingerprint=A), to(CLIENT2, NONE))])
of_table("a table that is not complete knows nothing", "D-57", before=table(T, 100, M, visible=(7, 0)), count={"look_unknown": 2, "copies_sent": 2},
    steps=[comes(look(metadata=N), to(shard(0), UNKNOWN)), comes(look(fingerprint=A), to(shard(0), UNKNOWN))])
of_table("a look of another epoch is unknown", "D-57", before=table(T, 100, M), count={"look_unknown": 4, "copies_sent": 4}, steps=[
    comes(look(epoch=6), to(shard(0), UNKNOWN)),
    comes(look(epoch=8, fingerprint=A), to(shard(0), UNKNOWN)),
    comes(look(epoch=0x0107, fingerprint=A), to(shard(0), UNKNOWN)),
    comes(look(epoch=0), to(shard(0), UNKNOWN)),
])
of_table("epoch 0 is no epoch to a look", "D-57", before=table(visible=(0, 0)), count={"look_unknown": 1, "copies_sent": 1},
    steps=[comes(look(epoch=0), to(shard(0), UNKNOWN))])

# Clears.
of_table("a clear frees the entry of its position", "D-58 D-59", before=table(T, 100, M), count={"clear_done": 1, "look_none": 1, "copies_sent": 2},
    steps=[comes(clear(), to(DATA, CLEARED)), comes(look(), to(shard(0), NONE))], after=table(0, 100, M))
of_table("a clear of another position frees nothing", "D-58", before=table(T, 100, M), count={"clear_kept": 4, "look_pending": 1, "copies_sent": 5}, steps=[
    comes(clear(ts=99), to(DATA, KEPT)),
    comes(clear(ts=101), to(DATA, KEPT)),
    comes(clear(ts=100 | 1 << 31), to(DATA, KEPT)),
    comes(clear(ts=0xFFFFFFFF), to(DATA, KEPT)),
    comes(look(), to(shard(0), PENDING, metadata=M)),
])
of_table("a clear again finds a free entry", "D-58", before=table(T, 100, M), count={"clear_done": 1, "clear_kept": 1, "copies_sent": 2},
    steps=[comes(clear(), to(DATA, CLEARED)), comes(clear(), to(DATA, KEPT))], after=table(0, 100, M))
of_table("a clear compares positions alone", "D-58", before=table(A, 100, M), count={"clear_done": 1, "copies_sent": 1},
    steps=[comes(clear(), to(DATA, CLEARED))], after=table(0, 100, M))
of_table("a clear leaves other entries", "D-58 D-47", before=table({4: (T, 100, M), 5: (T, 100, N), 6: (T, 100, O)}), count={"clear_done": 1, "copies_sent": 1},
    steps=[comes(clear(), to(DATA, CLEARED))], after=table({4: (T, 100, M), 5: (0, 100, N), 6: (T, 100, O)}))
of_table("after a clear an older install changes nothing", "D-59", before=table(T, 100, M), count={"clear_done": 1, "install_older": 1, "install_done": 1, "copies_sent": 4},
    steps=[
        comes(clear(), to(DATA, CLEARED)),
        comes(install(ts=99, fingerprint=A), to(shard(0), OLDER)),
        comes(install(ts=101, fingerprint=A, metadata=N), *TOLD),
    ], after=table(A, 101, N))
of_table("a clear goes to its destination whether it frees or not", "D-61", before=table(T, 100, M), count={"clear_done": 1, "clear_kept": 1, "copies_sent": 2},
    steps=[comes(clear(ts=7, destination=CLIENT2), to(CLIENT2, KEPT)), comes(clear(), to(DATA, CLEARED))], after=table(0, 100, M))
of_table("a clear works before the table is complete", "D-58 D-60", before=table(T, 100, M, visible=(7, 0)), count={"clear_done": 1, "copies_sent": 1},
    steps=[comes(clear(), to(DATA, CLEARED))], after=table(0, 100, M, visible=(7, 0)))
# A home that has restarted and has not heard of the epoch.
of_table("a clear of another epoch frees", "D-60", before=table({1: (T, 100, M), 2: (T, 100, N), 3: (T, 100, O)}), count={"clear_done": 3, "copies_sent": 3},
    steps=[comes(clear(index=index, epoch=epoch), to(DATA, CLEARED)) for index, epoch in ((1, 0), (2, 6), (3, 8))],
    after=table({1: (0, 100, M), 2: (0, 100, N), 3: (0, 100, O)}))
of_table("a clear frees while no epoch runs", "D-60", before=table(T, 100, M, visible=(0, 0)), count={"clear_done": 1, "copies_sent": 1},
    steps=[comes(clear(epoch=0), to(DATA, CLEARED))], after=table(0, 100, M, visible=(0, 0)))

# What goes wrong on the way.
# The first of two is applied, and the clear that says so is lost; the second was refused, and only its clear arrives.
of_table("what a lost clear leaves is overwritten", "D-52 D-58", count={"install_done": 2, "clear_kept": 1, "clear_done": 1, "look_pending": 1, "copies_sent": 7}, steps=[
    comes(install(ts=1), *TOLD),
    comes(clear(ts=2), to(DATA, KEPT)),
    comes(look(), to(shard(0), PENDING, metadata=M)),
    comes(install(ts=3, fingerprint=A, metadata=N), *TOLD),
    comes(clear(ts=3), to(DATA, CLEARED)),
], after=table(0, 3, N))
# What was installed was applied by another way before it came here.
of_table("an install that comes after its clear is cleared again", "D-48 D-58", before=table(0, 99, N),
    count={"clear_kept": 1, "install_done": 1, "look_pending": 1, "clear_done": 1, "copies_sent": 5}, steps=[
        comes(clear(), to(DATA, KEPT)),
        comes(install(), *TOLD),
        comes(look(), to(shard(0), PENDING, metadata=M)),
        comes(clear(), to(DATA, CLEARED)),
    ], after=table(0, 100, M))
# The data node has lost what it wrote, and positions go on behind those that it had reserved.
of_table("what a data node has lost is overwritten", "D-52", before=table(T, 100, M), count={"install_done": 1, "look_none": 1, "copies_sent": 3},
    steps=[comes(install(ts=1 << 20, fingerprint=A, metadata=N), *TOLD), comes(look(), to(shard(0), NONE))], after=table(A, 1 << 20, N))
# Why positions never come again: the switch takes the second for a copy of the first.
of_table("a position that comes again is taken for a copy", "D-50 D-51", count={"install_done": 2, "clear_done": 1, "install_older": 1, "copies_sent": 6}, steps=[
    comes(install(), *TOLD),
    comes(install(fingerprint=A, metadata=N), *TOLD),
    comes(clear(), to(DATA, CLEARED)),
    comes(install(fingerprint=B, metadata=O), to(shard(0), OLDER)),
], after=table(0, 100, N))
of_table("an install of the epoch before comes late", "D-55 D-63", before=table(T, 90, N), count={"install_other_epoch": 1, "look_unknown": 1, "copies_sent": 2}, steps=[
    do("visibility.epoch 8"),
    comes(install(), to(shard(0), OTHER_EPOCH)),
    comes(look(epoch=8), to(shard(0), UNKNOWN)),
], after=table(T, 90, N, visible=(8, 0)))

# Commands.
of_table("the dirty set's commands leave the table alone", "D-62 D-39 D-40", before=State(epoch=(3, 1), pairs={}, tags={(0, 5): T}, visible=(7, 1), entries={5: (T, 100, M)}),
    count={"look_pending": 1, "install_other_epoch": 1, "copies_sent": 2}, steps=[
        do("epoch 8"),
        do("complete 8"),
        do("epoch 0"),
        do("clear"),
        do("raise 1 5"),
        comes(look(), to(shard(0), PENDING, metadata=M)),
        comes(install(epoch=3), to(shard(0), OTHER_EPOCH)),
    ], after=State(epoch=(0, 0), pairs={1: (5, 0)}, visible=(7, 1), entries={5: (T, 100, M)}))
of_table("the table's commands leave the dirty set alone", "D-62 D-63 D-65", before=State(epoch=(3, 1), tags={(0, 5): T}, visible=(7, 1), entries={5: (T, 100, M)}),
    count={"query_scattered": 1, "query_unknown": 1, "copies_sent": 2}, steps=[
        do("visibility.epoch 8"),
        do("visibility.epoch 0"),
        do("visibility.clear"),
        comes(query(epoch=3), to(shard(0), SCATTERED)),
        comes(query(epoch=8), to(shard(0), UNKNOWN)),
    ], after=State(epoch=(3, 1), tags={(0, 5): T}))
of_table("a new epoch of the table is not complete", "D-63 D-57", before=table(T, 100, M), count={"look_unknown": 2, "copies_sent": 2}, steps=[
    do("visibility.epoch 8"),
    comes(look(epoch=8), to(shard(0), UNKNOWN)),
    comes(look(epoch=7), to(shard(0), UNKNOWN)),
], after=table(T, 100, M, visible=(8, 0)))
of_table("the present epoch of the table again stays complete", "D-63", count={"look_none": 1, "copies_sent": 1},
    steps=[do("visibility.epoch 7"), comes(look(), to(shard(0), NONE))])
of_table("epoch 0 ends the use of the table", "D-63 D-55", count={"look_unknown": 1, "install_other_epoch": 1, "copies_sent": 2}, steps=[
    do("visibility.epoch 0"),
    comes(look(), to(shard(0), UNKNOWN)),
    comes(install(), to(shard(0), OTHER_EPOCH)),
], after=table(visible=(0, 0)))
of_table("entries of an earlier epoch are found", "D-63 D-56", before=table(T, 100, M), count={"look_pending": 1, "copies_sent": 1},
    steps=[do("visibility.epoch 8"), do("visibility.complete 8"), comes(look(epoch=8), to(shard(0), PENDING, metadata=M))],
    after=table(T, 100, M, visible=(8, 1)))
of_table("the greatest epoch of the table", "D-63 D-64", count={"look_none": 1, "copies_sent": 1},
    steps=[do("visibility.epoch 65535"), do("visibility.complete 65535"), comes(look(epoch=65535), to(shard(0), NONE))], after=table(visible=(65535, 1)))
of_table("complete lets looks find none", "D-64", before=table(visible=(7, 0)), count={"look_unknown": 1, "look_none": 1, "copies_sent": 2}, steps=[
    comes(look(), to(shard(0), UNKNOWN)),
    do("visibility.complete 7"),
    comes(look(), to(shard(0), NONE)),
], after=table(visible=(7, 1)))
of_table("complete of another epoch of the table is refused", "D-64", before=table(visible=(7, 0)), count={},
    steps=[refused("visibility.complete 6"), refused("visibility.complete 8")])
of_table("epoch 0 of the table is never complete", "D-64", before=table(visible=(0, 0)), count={}, steps=[refused("visibility.complete 0")])
of_table("a table that nobody uses is emptied", "D-65", entry_bits=16, before=table({0: (T, 100, M), 9: (0, 5, N), LAST: (A, 7, O)}, visible=(0, 0)), count={},
    steps=[do("visibility.clear")], after=table(visible=(0, 0)))
of_table("an emptied table takes any position", "D-65 D-49", before=table(T, 100, M), count={"install_done": 1, "copies_sent": 2}, steps=[
    do("visibility.epoch 0"),
    do("visibility.clear"),
    do("visibility.epoch 8"),
    comes(install(epoch=8, ts=100 + (1 << 31)), *TOLD),
], after=table(T, 100 + (1 << 31), M, visible=(8, 0)))
of_table("a table in use is not emptied", "D-65", before=table(T, 100, M), count={"look_pending": 1, "copies_sent": 1},
    steps=[refused("visibility.clear"), comes(look(), to(shard(0), PENDING, metadata=M))])
of_table("a table is not emptied before it is complete", "D-65", before=table(T, 100, M, visible=(7, 0)), count={}, steps=[refused("visibility.clear")])
of_table("after a reboot the table is empty", "D-66 D-42", entry_bits=16, before=table({5: (T, 100, M), LAST: (A, 7, N)}), count={},
    steps=[do("reboot")], after=table(visible=(0, 0)))
of_table("after a reboot the table waits for its epoch", "D-66 D-57 D-49", before=table(T, 100, M),
    count={"look_unknown": 1, "install_other_epoch": 1, "install_done": 1, "copies_sent": 4}, steps=[
        do("reboot"),
        *(do(f"route {node} {port}") for node, port in sorted(TABLE_ROUTES.items())),
        do("host 13"),
        comes(look(), to(shard(0), UNKNOWN)),
        comes(install(), to(shard(0), OTHER_EPOCH)),
        do("visibility.epoch 8"),
        comes(install(epoch=8, ts=0xF0000000), *TOLD),
    ], after=table(T, 0xF0000000, M, visible=(8, 0)))
