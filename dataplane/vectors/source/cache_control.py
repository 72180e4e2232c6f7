"""The cache: what it counts and reports, and its control plane. D-106 to D-122."""

FOUND = to(CLIENT, ANSWERED, level=1, start=DIR, **answer())
AT_LEAF = {"level": 1, "start": DIR}
MISSED = to(shard(0), MISS)
NAME = read(OTHER_KEY)
TOLD = [MISSED, to(CONTROLLER, MISS)]


def reports(threshold, **other):
    return Cached(report=(CONTROLLER, threshold), **other)


# Misses.
of_cache("a miss is counted by the key of its last level, in three rows", "D-106", count={"read_missed": 3, "copies_sent": 3}, steps=[
    comes(read(OTHER_KEY, LEAF_KEY), MISSED),
    comes(read(DIR_KEY, LEAF_KEY), to(shard(0), MISS, level=1, start=DIR)),
    comes(read(DIR_KEY, OTHER_KEY), to(shard(0), MISS, level=1, start=DIR)),
], before=cached(stamps={2: (200, 3)}), after=cached(stamps={2: (200, 3)}, sketch={(0, 2): 2, (1, 3): 2, (2, 4): 2, (0, 5): 1, (1, 6): 1, (2, 7): 1}))
of_cache("a miss of nine levels is counted by the ninth", "D-106", before=Cached(), count={"read_missed": 1, "copies_sent": 1},
    steps=[comes(read(*(key(50 + level) for level in range(8)), OTHER_KEY), MISSED)], after=Cached(missed={OTHER_KEY: 1}))
of_cache("each row has its bits of the key", "D-106", before=Cached(), cache_bits=16, count={"read_missed": 1, "copies_sent": 1},
    steps=[comes(read(0x4444333322221111), MISSED)], after=Cached(sketch={(0, 0x1111): 1, (1, 0x2222): 1, (2, 0x3333): 1}))
of_cache("a counter of misses does not wrap", "D-107", before=Cached(sketch={(0, 5): 65534, (1, 6): 65535, (2, 7): 3}), count={"read_missed": 2, "copies_sent": 2},
    steps=[comes(NAME, MISSED), comes(NAME, MISSED)], after=Cached(sketch={(0, 5): 65535, (1, 6): 65535, (2, 7): 5}))
of_cache("a miss above the threshold is reported once", "D-108", before=reports(2), count={"read_missed": 3, "read_reported": 1, "copies_sent": 5},
    steps=[comes(NAME, MISSED), comes(NAME, MISSED), comes(NAME, *TOLD), comes(NAME, MISSED)], after=reports(2, missed={OTHER_KEY: 4}, reported=[0]))
of_cache("the least of three counters is above the threshold or not", "D-108", before=reports(2, sketch={(0, 5): 9, (1, 6): 9, (2, 7): 1}),
    count={"read_missed": 1, "read_reported": 1, "copies_sent": 3}, steps=[comes(NAME, MISSED), comes(NAME, *TOLD)],
    after=reports(2, sketch={(0, 5): 11, (1, 6): 11, (2, 7): 3}, reported=[0]))
of_cache("what is reported has come as far as the walk", "D-108", before=cached(report=(CONTROLLER, 0)), count={"read_reported": 1, "copies_sent": 2},
    steps=[comes(read(DIR_KEY, OTHER_KEY), to(shard(0), MISS, **AT_LEAF), to(CONTROLLER, MISS, **AT_LEAF))], after=cached(missed={OTHER_KEY: 1}, reported=[0]))
of_cache("without somebody to hear of it nothing is reported", "D-108 D-121", before=Cached(), count={"read_missed": 2, "read_reported": 1, "copies_sent": 4}, steps=[
    comes(NAME, MISSED),
    do(f"cache.report {CONTROLLER} 1"),
    comes(NAME, *TOLD),
    do("cache.report 0 0"),
    comes(read(LEAF_KEY), MISSED),
], after=Cached(missed={OTHER_KEY: 2, LEAF_KEY: 1}, reported=[0]))
of_cache("the greatest threshold is above all", "D-108", before=reports(65535, sketch={(0, 5): 65535, (1, 6): 65535, (2, 7): 65535}),
    count={"read_missed": 1, "copies_sent": 1}, steps=[comes(NAME, MISSED)])
of_cache("without a route to the controller the shard gets its miss", "D-108 D-17", before=Cached(report=(0x04000077, 0)),
    count={"read_reported": 1, "copies_sent": 1, "copies_unrouted": 1}, steps=[comes(NAME, MISSED)], after=Cached(missed={OTHER_KEY: 1}, reported=[0]))
of_cache("misses of who is not answered are not counted", "D-109", before=reports(0), count={"read_other_epoch": 1, "read_stranger": 1, "copies_sent": 2},
    steps=[comes(NAME.but(epoch=6), MISSED), comes(NAME, MISSED, port=22)])
of_cache("the entry that gives the answer is hit", "D-110", count={"read_answered": 3, "copies_sent": 3}, steps=[
    comes(read(), FOUND),
    comes(read(), FOUND),
    comes(read(DIR_KEY, purpose=LOOKUP), to(CLIENT, ANSWERED, **answer(directory()))),
], after=cached(hits={1: 1, 2: 2}))
of_cache("the entry that denies is hit", "D-110 D-93", before=cached(values={1: directory(mode=0)}, hits={1: 7}), count={"read_denied": 1, "copies_sent": 1},
    steps=[comes(read(), to(CLIENT, DENIED))], after=cached(values={1: directory(mode=0)}, hits={1: 8}))

# Commands.
of_cache("commands of other structures leave the cache alone", "D-111", count={"read_answered": 1, "copies_sent": 1}, steps=[
    do("epoch 8"),
    do("epoch 0"),
    do("clear"),
    do("visibility.epoch 9"),
    do("visibility.epoch 0"),
    do("visibility.clear"),
    comes(read(), FOUND),
], after=cached(hits={2: 1}))
vector("commands of the cache leave other structures alone", "D-111", cache_bits=3, routes={**ROUTES, **CACHE_ROUTES}, count={"query_scattered": 1, "look_pending": 1, "copies_sent": 2},
    before=State(tags={(0, 5): 0x50001}, visible=(7, 1), entries={5: (0x50001, 100, metadata(1))}, cache=cached()), steps=[
        do("cache.off"),
        do("cache.empty"),
        do(f"cache.begin 9 {UNTIL}"),
        do("cache.reset"),
        comes(query(), to(shard(0), SCATTERED)),
        comes(look(), to(shard(0), PENDING, metadata=metadata(1))),
    ], after=State(tags={(0, 5): 0x50001}, visible=(7, 1), entries={5: (0x50001, 100, metadata(1))}, cache=cached(lease=(9, UNTIL), stamps={1: (0, 0), 2: (0, 0)})))
OFF = Cached(lease=(0, 0))
of_cache("an epoch begins with an empty cache", "D-112", before=OFF, count={"read_missed": 1, "copies_sent": 1},
    steps=[do(f"cache.begin 7 {UNTIL}"), comes(read(), MISSED)], after=Cached(missed={LEAF_KEY: 1}))
of_cache("epoch 0 does not begin", "D-112", before=OFF, count={}, steps=[refused(f"cache.begin 0 {UNTIL}")])
of_cache("an epoch does not begin while one runs", "D-112", before=Cached(), count={}, steps=[refused(f"cache.begin 8 {UNTIL}"), refused(f"cache.begin 7 {UNTIL + 9}")])
of_cache("an epoch does not begin when its lease is over", "D-112", before=OFF, count={}, steps=[
    refused(f"cache.begin 7 {NOW}"),
    refused(f"cache.begin 7 {NOW - 1}"),
    refused(f"cache.begin 7 {(NOW + (1 << 31)) % (1 << 32)}"),
    do(f"cache.begin 7 {NOW + 1}"),
], after=Cached(lease=(7, NOW + 1)))
of_cache("an epoch does not begin with names", "D-112", count={}, steps=[
    do("cache.stamp 7 1 0"),
    do("cache.stamp 7 2 0"),
    do("cache.off"),
    refused(f"cache.begin 8 {UNTIL}"),
], after=cached(lease=(0, UNTIL), stamps={1: (0, 0), 2: (0, 0)}))
of_cache("an epoch does not begin with stamps", "D-112", before=Cached(lease=(0, 0), stamps={5: (9, 0)}), count={}, steps=[refused(f"cache.begin 8 {UNTIL}")])
of_cache("who has rebooted may go on with its epoch", "D-112 D-122", count={}, steps=[do("reboot"), do("cache.begin 7 800")], after=Cached(lease=(7, 800)))
of_cache("a lease is prolonged and never shortened", "D-113", count={}, steps=[
    do(f"cache.renew 7 {UNTIL + 100}"),
    do(f"cache.renew 7 {UNTIL + 50}"),
    do("cache.renew 7 0"),
    do(f"cache.renew 7 {UNTIL + 100}"),
], after=cached(lease=(7, UNTIL + 100)))
of_cache("a lease grows across the end of the clock", "D-113 D-75", before=OFF, count={"read_missed": 1, "copies_sent": 1}, steps=[
    do(f"cache.clock {0xFFFFFF00}"),
    do(f"cache.begin 7 {0xFFFFFFF0}"),
    do("cache.renew 7 20"),
    do(f"cache.renew 7 {0xFFFFFFF8}"),
    do("cache.clock 3"),
    comes(NAME, MISSED),
], after=Cached(lease=(7, 20), missed={OTHER_KEY: 1}))
of_cache("commands of another epoch are refused", "D-114", count={"read_answered": 1, "copies_sent": 1}, steps=[
    *(refused(f"cache.{command}") for epoch in (6, 8, 0) for command in (
        f"renew {epoch} {UNTIL + 9}", f"stamp {epoch} 2 201", f"admit {epoch} {OTHER_KEY} 1 3 300", f"evict {epoch} {LEAF_KEY} 1")),
    comes(read(), FOUND),
], after=cached(hits={2: 1}))
of_cache("epoch 0 is no epoch to commands", "D-114", before=OFF, count={}, steps=[
    refused(f"cache.renew 0 {UNTIL}"),
    refused("cache.stamp 0 1 5"),
    refused(f"cache.admit 0 {OTHER_KEY} 1 3 300"),
    refused(f"cache.evict 0 {OTHER_KEY} 1"),
])
of_cache("commands are refused when the lease is over", "D-114 D-74", count={}, steps=[
    do(f"cache.clock {UNTIL}"),
    refused("cache.stamp 7 2 201"),
    do(f"cache.clock {NOW}"),
    refused(f"cache.evict 7 {LEAF_KEY} 1"),
], after=cached(lease=(0, UNTIL)))
of_cache("off ends the epoch and leaves the rest", "D-115", count={"read_other_epoch": 1, "fill_other_epoch": 1, "copies_sent": 2}, steps=[
    do("cache.off"),
    comes(read(), MISSED),
    comes(fill(revision=2), to(CONTROLLER, OTHER_EPOCH)),
], after=cached(lease=(0, UNTIL)))
of_cache("a cache in use is not emptied", "D-116", count={"read_answered": 1, "copies_sent": 1}, steps=[refused("cache.empty"), comes(read(), FOUND)], after=cached(hits={2: 1}))
of_cache("a cache that nobody uses is emptied", "D-116 D-112", count={"read_missed": 1, "copies_sent": 1}, steps=[
    do("cache.off"),
    do("cache.empty"),
    do(f"cache.begin 8 {UNTIL}"),
    comes(read(epoch=8), MISSED),
], after=Cached(lease=(8, UNTIL), values={1: directory(), 2: value()}, missed={LEAF_KEY: 1}))
of_cache("a cache whose lease is over is emptied", "D-116 D-74", count={}, steps=[do(f"cache.clock {UNTIL}"), do("cache.empty")],
    after=Cached(lease=(0, UNTIL), values={1: directory(), 2: value()}))
of_cache("a stamp is empty, whatever it was", "D-117", count={"read_missed": 2, "fill_done": 1, "copies_sent": 3}, steps=[
    do("cache.stamp 7 2 200"),
    comes(read(), to(shard(0), MISS, **AT_LEAF)),
    comes(fill(), to(CONTROLLER, FILLED)),
    do("cache.stamp 7 2 0"),
    comes(read(), to(shard(0), MISS, **AT_LEAF)),
], after=cached(stamps={2: (0, 0)}, missed={LEAF_KEY: 2}))
of_cache("a stamp of an index that does not exist is refused", "D-117", count={}, steps=[
    refused("cache.stamp 7 8 300"),
    refused("cache.stamp 7 4294967295 300"),
    do("cache.stamp 7 7 4294967295"),
], after=cached(stamps={7: (4294967295, 0)}))
of_cache("what has no place and no number is not admitted", "D-118", count={"read_missed": 1, "copies_sent": 1}, steps=[
    refused(f"cache.admit 7 {OTHER_KEY} 0 3 300"),
    refused(f"cache.admit 7 {OTHER_KEY} 1 3 0"),
    refused(f"cache.admit 7 {OTHER_KEY} 1 8 300"),
    comes(NAME, MISSED),
], after=cached(missed={OTHER_KEY: 1}))
of_cache("a name that has an entry gets no other", "D-118", count={"read_answered": 1, "copies_sent": 1}, steps=[
    refused(f"cache.admit 7 {LEAF_KEY} 1 3 300"),
    comes(read(), FOUND),
], after=cached(hits={2: 1}))
of_cache("no more names than there are indexes", "D-118 D-119", before=Cached(), cache_bits=1, count={}, steps=[
    do(f"cache.admit 7 {DIR_KEY} 1 0 1"),
    do(f"cache.admit 7 {DIR_KEY} 255 1 2"),
    refused(f"cache.admit 7 {OTHER_KEY} 1 1 3"),
    do(f"cache.evict 7 {DIR_KEY} 1"),
    do(f"cache.admit 7 {OTHER_KEY} 1 0 3"),
])
of_cache("an evicted name is not found, and its stamp stays", "D-119", count={"read_missed": 1, "fill_not_there": 1, "invalidate_not_there": 1, "copies_sent": 3}, steps=[
    do(f"cache.evict 7 {LEAF_KEY} 1"),
    do(f"cache.evict 7 {DIR_KEY} 2"),
    do(f"cache.evict 7 {OTHER_KEY} 1"),
    comes(read(), to(shard(0), MISS, **AT_LEAF)),
    comes(fill(revision=2), to(CONTROLLER, NOT_THERE)),
    comes(invalidate(), to(shard(0), NOT_THERE)),
], after=cached(missed={LEAF_KEY: 1}))
of_cache("who is taken out of the list is not answered", "D-120", before=cached(listed=["cache.any 21", "cache.caller 21 9 90", "cache.caller 22 9 90"]),
    count={"read_stranger": 2, "read_answered": 2, "copies_sent": 4}, steps=[
        do("cache.unlist 21"),
        comes(read(), MISSED),
        comes(read(), FOUND, port=22),
        do("cache.unlist 22"),
        comes(read(), MISSED, port=22),
        do("cache.unlist 23"),
        do("cache.caller 22 9 90"),
        comes(read(), FOUND, port=22),
    ], after=cached(hits={2: 2}))
of_cache("a new period counts from 0 and reports again", "D-121", before=reports(0, missed={OTHER_KEY: 7}, reported=[0], hits={3: 9}), count={"read_missed": 1, "read_reported": 1, "copies_sent": 3}, steps=[
    comes(NAME, MISSED),
    do("cache.reset"),
    comes(NAME, *TOLD),
], after=reports(0, missed={OTHER_KEY: 1}, reported=[0]))
of_cache("after a reboot the cache is empty", "D-122 D-42", before=cached(report=(CONTROLLER, 0), missed={LEAF_KEY: 1}, reported=[2], hits={1: 1}), count={}, steps=[do("reboot")], after=OFF)
of_cache("after a reboot the cache answers nothing and nobody", "D-122 D-76 D-77", before=cached(report=(CONTROLLER, 0)), count={"read_other_epoch": 1, "read_stranger": 1, "read_missed": 1, "copies_sent": 3}, steps=[
    do("reboot"),
    *(do(f"route {node} {port}") for node, port in sorted(CACHE_ROUTES.items())),
    comes(read(), MISSED),
    do(f"cache.begin 7 {UNTIL}"),
    comes(read(), MISSED),
    do("cache.any 21"),
    comes(read(), MISSED),
], after=Cached(missed={LEAF_KEY: 1}))
