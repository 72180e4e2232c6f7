"""The cache: checks of its packets, who is answered, and walks. D-67 to D-94."""

FOUND = to(CLIENT, ANSWERED, level=1, start=DIR, **answer())
HIT = cached(hits={2: 1})
AT_LEAF = {"level": 1, "start": DIR}


def missed(**fields):
    """To the shard, as far as it came."""
    return to(shard(0), MISS, **fields)


# Checks. Those that all structures share are made of its packets too.
of_cache("one byte less than the header of its operation is truncated", "D-2", count={"drop_truncated": 6}, steps=[
    comes(read().bytes()[:123]),
    comes(fill().bytes()[:123]),
    comes(fill().bytes()[:40]),
    comes(invalidate().bytes()[:39]),
    comes(invalidate().bytes()[:16]),
    comes(read().bytes()[:15]),
])
of_cache("headers of the cache without a message are whole", "D-2 D-16", count={"read_answered": 1, "fill_done": 1, "invalidate_done": 1, "copies_sent": 3}, steps=[
    comes(read().but(message=b""), FOUND),
    comes(fill(revision=2).but(message=b""), to(CONTROLLER, FILLED)),
    comes(invalidate(revision=2).but(message=b""), to(shard(0), CLEARED)),
], after=HIT.but(stamps={2: (200, 5)}))
of_cache("the cache has three operations", "D-6", count={"drop_operation": 4},
    steps=[comes(read(code=0x30)), comes(read(code=0x34)), comes(fill(code=0x3F)), comes(read(code=0x34).bytes()[:50])])
of_cache("spare bits of the cache are dropped", "D-7", count={"drop_reserved": 19}, steps=[
    *(comes(read(flags=1 << bit)) for bit in range(8)),
    *(comes(read(wants=1 << bit)) for bit in (5, 6, 7)),
    *(comes(read(levels=levels(DIR_KEY, LEAF_KEY)[:81] + spare)) for spare in (b"\1\0\0", b"\0\1\0", b"\0\0\x80")),
    comes(fill(spare_0=1)),
    comes(fill(spare_1=0x8000)),
    comes(fill(spare_2=1)),
    comes(invalidate(spare_2=1 << 31)),
    comes(invalidate(flags=1)),
])
of_cache("a shard of 256 or more sends nothing to the cache", "D-8", count={"drop_shard": 3},
    steps=[comes(read(shard=256)), comes(fill(shard=256)), comes(invalidate(shard=0xFFFF))])
of_cache("a read has one to nine levels", "D-67", count={"drop_reserved": 3}, steps=[comes(read(depth=depth)) for depth in (0, 10, 255)])
of_cache("a read begins at its first level", "D-68", count={"drop_reserved": 3}, steps=[comes(read(level=level)) for level in (1, 2, 128)])
of_cache("a read is for something", "D-69", count={"drop_reserved": 3}, steps=[comes(read(purpose=purpose)) for purpose in (0, 6, 255)])
of_cache("token 0 is nobody's", "D-70", count={"drop_reserved": 2}, steps=[comes(fill(token=0)), comes(invalidate(token=0))])
of_cache("number 0 is no entry's", "D-71", count={"drop_reserved": 2}, steps=[comes(fill(number=0)), comes(invalidate(number=0))])
of_cache("revisions are from 1 and below 2^31", "D-72", count={"drop_reserved": 6},
    steps=[comes(of(revision=number)) for of in (fill, invalidate) for number in (0, 1 << 31, 0xFFFFFFFF)])
of_cache("the greatest revision is one", "D-72 D-97 D-102", count={"fill_done": 1, "invalidate_done": 1, "copies_sent": 2}, steps=[
    comes(fill(revision=(1 << 31) - 1), to(CONTROLLER, FILLED)),
    comes(invalidate(revision=(1 << 31) - 1), to(shard(0), CLEARED)),
], after=cached(stamps={2: (200, 0xFFFFFFFF)}))
of_cache("the first check of the cache's that fails counts", "D-2 D-6 D-7 D-8 D-67 D-43", steps=[
    comes(read(code=0x3F, flags=1, shard=256, depth=0)),
    comes(read(flags=1, shard=256, depth=0).bytes()[:100]),
    comes(read(flags=1, shard=256, depth=0)),
    comes(read(shard=256, depth=0)),
    comes(read(depth=0)),
    comes(fill(flags=1, shard=256, token=0)),
    comes(fill(shard=256, token=0)),
    comes(fill(token=0), port=21),
], count={"drop_operation": 1, "drop_truncated": 1, "drop_reserved": 4, "drop_shard": 2})

# Routing, and who may.
of_cache("an answered packet of the cache is only routed", "D-11 D-44", count={"answered": 4, "copies_sent": 4}, steps=[
    comes(read(result=MISS, level=1), to(shard(0), MISS)),
    comes(read(result=ANSWERED, level=8, start=ROOT + 8, destination=CLIENT, levels=b"\xff" * 84), to(CLIENT, ANSWERED)),
    comes(fill(result=FILLED, revision=9), to(CONTROLLER, FILLED), port=500),
    comes(invalidate(result=255, revision=9), to(shard(0), 255), port=21),
])
of_cache("a stranger fills nothing", "D-44", count={"drop_stranger": 3},
    steps=[comes(fill(revision=2, value=value(mode=0o777)), port=21), comes(fill(revision=2), port=500), comes(fill(epoch=6), port=21)])
of_cache("a stranger invalidates nothing", "D-44", count={"drop_stranger": 3, "read_answered": 1, "copies_sent": 1}, steps=[
    comes(invalidate(revision=9), port=21),
    comes(invalidate(), port=9),
    comes(invalidate(epoch=0), port=21),
    comes(read(), FOUND),
], after=HIT)
of_cache("without a route to who asked an answer is lost", "D-17", count={"read_answered": 1, "copies_unrouted": 1, "passes_recirculated": 1},
    steps=[comes(read(requester=0x03000077))], after=HIT)
of_cache("without a route a fill fills", "D-17 D-97", count={"fill_done": 1, "copies_unrouted": 1},
    steps=[comes(fill(revision=2, destination=0x04000077))], after=cached(stamps={2: (200, 4)}))
of_cache("messages behind a read are carried byte for byte", "D-16 D-92", count={"read_answered": 1, "copies_sent": 1},
    steps=[comes(read().but(message=bytes(range(256)) * 4), FOUND)], after=HIT)

of_cache("flags and shard of an answered packet of the cache are looked at", "D-7 D-8 D-11", count={"drop_reserved": 2, "drop_shard": 2}, steps=[
    comes(read(result=MISS, level=1, flags=1)),
    comes(fill(result=FILLED, flags=1)),
    comes(read(result=MISS, shard=256)),
    comes(invalidate(result=CLEARED, shard=256)),
])

# The lease.
of_cache("the cache answers until its lease is over", "D-73", count={"read_answered": 1, "read_other_epoch": 1, "copies_sent": 2}, steps=[
    do(f"cache.clock {UNTIL - 1}"),
    comes(read(), FOUND),
    do(f"cache.clock {UNTIL}"),
    comes(read(), missed()),
], after=HIT.but(lease=(0, UNTIL)))
of_cache("a fill and an invalidate find a lease passed, too", "D-73 D-74", count={"fill_other_epoch": 1, "invalidate_other_epoch": 1, "copies_sent": 2}, steps=[
    do(f"cache.clock {UNTIL + 1}"),
    comes(fill(revision=2), to(CONTROLLER, OTHER_EPOCH)),
    comes(invalidate(), to(shard(0), OTHER_EPOCH)),
], after=cached(lease=(0, UNTIL)))
of_cache("a lease that was found passed does not live again when the clock has wrapped", "D-74", count={"read_other_epoch": 2, "copies_sent": 2}, steps=[
    do(f"cache.clock {UNTIL + (1 << 30)}"),
    comes(read(), missed()),
    do(f"cache.clock {(UNTIL + (1 << 31) + 5) % (1 << 32)}"),
    comes(read(), missed()),
], after=cached(lease=(0, UNTIL)))
of_cache("a lease that was found passed is not prolonged", "D-74 D-114", count={"read_other_epoch": 1, "copies_sent": 1}, steps=[
    do(f"cache.clock {UNTIL}"),
    refused(f"cache.renew 7 {UNTIL + 5000}"),
    comes(read(), missed()),
], after=cached(lease=(0, UNTIL)))

# The clock stands at NOW; half of it before, or behind, is far.
of_cache("a lease ends behind the end of the clock", "D-75", before=Cached(lease=(0, 0)), count={"read_missed": 2, "read_other_epoch": 1, "copies_sent": 3}, steps=[
    do(f"cache.clock {0xFFFFFF00}"),
    do("cache.begin 7 50"),
    comes(read(), missed()),
    do("cache.clock 49"),
    comes(read(), missed()),
    do("cache.clock 50"),
    comes(read(), missed()),
], after=Cached(lease=(0, 50), missed={LEAF_KEY: 2}))

# Epoch and requesters. None of these misses is counted.
of_cache("tokens of another epoch are no tokens", "D-76 D-109", count={"read_other_epoch": 4, "copies_sent": 4},
    steps=[comes(read(epoch=epoch), missed()) for epoch in (6, 8, 0x0107, 0)])
of_cache("epoch 0 is no epoch to a read", "D-76", before=Cached(lease=(0, 0)), count={"read_other_epoch": 1, "copies_sent": 1},
    steps=[comes(read(epoch=0), missed())])
of_cache("who is not listed is not answered", "D-77 D-109", count={"read_stranger": 3, "copies_sent": 3},
    steps=[comes(read(), missed(), port=port) for port in (22, 10, 210)])
of_cache("who is listed with callers names one of them", "D-78 D-109", before=cached(listed=["cache.caller 21 9 90", "cache.caller 21 9 91", "cache.caller 21 8 92", "cache.any 22"]),
    count={"read_answered": 3, "read_stranger": 4, "copies_sent": 7}, steps=[
        comes(read(), FOUND),
        comes(read(gid=91), FOUND),
        comes(read(gid=92), missed()),
        comes(read(uid=8, gid=90), missed()),
        comes(read(uid=0, gid=0), missed()),
        comes(read(), missed(), port=20),
        comes(read(uid=3, gid=3), FOUND, port=22),
    ], after=cached(hits={2: 3}))
of_cache("who is listed with callers has no capabilities", "D-78", before=cached(listed=["cache.caller 21 9 90"]), count={"read_stranger": 3, "copies_sent": 3},
    steps=[comes(read(wants=bits), missed()) for bits in (8, 16, 28)])

# Walks.
PATH = cached(names={(ROOT_KEY, 1): (0, 50)}, stamps={0: (50, 6)}, values={0: directory(parent=0, id=ROOT)})
of_cache("a path passes the root's own entry", "D-79 D-91", before=PATH, count={"read_answered": 1, "copies_sent": 1},
    steps=[comes(read(start=0), FOUND)], after=PATH.but(hits={2: 1}))
of_cache("a root that not everybody may search is one for a path", "D-79 D-93", before=PATH.but(values={0: directory(parent=0, id=ROOT, mode=0o700)}),
    count={"read_denied": 1, "read_answered": 1, "copies_sent": 2}, steps=[
        comes(read(start=0), to(CLIENT, DENIED)),
        comes(read(start=0, uid=5), FOUND),
    ], after=PATH.but(values={0: directory(parent=0, id=ROOT, mode=0o700)}, hits={0: 1, 2: 1}))
of_cache("without an entry of the root a path is a miss", "D-79", count={"read_missed": 1, "copies_sent": 1},
    steps=[comes(read(start=0), missed())], after=cached(missed={LEAF_KEY: 1}))
of_cache("nobody passes a root that is nothing", "D-79 D-84", before=PATH.but(values={0: directory(parent=0, id=0)}), count={"read_missed": 1, "copies_sent": 1},
    steps=[comes(read(start=0), missed())], after=PATH.but(values={0: directory(parent=0, id=0)}, missed={LEAF_KEY: 1}))
of_cache("a walk is answered at its last level", "D-91 D-92 D-110", count={"read_answered": 2, "copies_sent": 2}, steps=[
    comes(read(), FOUND),
    comes(read(requester=CLIENT2), to(CLIENT2, ANSWERED, level=1, start=DIR, **answer())),
], after=cached(hits={2: 2}))
of_cache("one level is answered in one pass", "D-92", count={"read_answered": 1, "copies_sent": 1},
    steps=[comes(read(LEAF_KEY, start=DIR), to(CLIENT, ANSWERED, **answer()))], after=HIT)
DEEP = [key(8 * level + 1) for level in range(9)]
DEEP_CACHE = Cached(
    names={(ROOT_KEY, 1): (9, 500), **{(name, 3): (at, 100 + at) for at, name in enumerate(DEEP)}},
    stamps={9: (500, 2), **{at: (100 + at, 2 * at + 2) for at in range(9)}},
    values={9: directory(parent=0, id=ROOT), **{at: directory(parent=ROOT + at, id=ROOT + at + 1) for at in range(8)}, 8: value(parent=ROOT + 8, id=99)},
)
of_cache("nine levels and the root are ten passes", "D-91 D-79 D-67", cache_bits=4, before=DEEP_CACHE, count={"read_answered": 1, "copies_sent": 1}, steps=[
    hold("deep", read(*((name, 3) for name in DEEP), start=0)),
    *(go("deep", read(), waits=True) for _ in range(18)),
    go("deep", read(*((name, 3) for name in DEEP), start=0), to(CLIENT, ANSWERED, level=8, start=ROOT + 8, **answer(value(parent=ROOT + 8, id=99)))),
], after=DEEP_CACHE.but(hits={8: 1}))
of_cache("a name that has no entry is a miss", "D-80 D-94", count={"read_missed": 3, "copies_sent": 3}, steps=[
    comes(read(DIR_KEY, OTHER_KEY), missed(**AT_LEAF)),
    comes(read(OTHER_KEY, LEAF_KEY), missed()),
    comes(read(OTHER_KEY), missed()),
], after=cached(missed={OTHER_KEY: 2, LEAF_KEY: 1}))
of_cache("a key with another token is a miss", "D-80", count={"read_missed": 4, "copies_sent": 4}, steps=[
    comes(read(DIR_KEY, (LEAF_KEY, 2)), missed(**AT_LEAF)),
    comes(read(DIR_KEY, (LEAF_KEY, 0)), missed(**AT_LEAF)),
    comes(read((DIR_KEY, 255), LEAF_KEY), missed()),
    comes(read((DIR_KEY, 0), LEAF_KEY), missed()),
], after=cached(missed={LEAF_KEY: 4}))
of_cache("two keys that are equal are told apart by their tokens", "D-80", count={"read_answered": 2, "copies_sent": 2},
    before=cached(names={(LEAF_KEY, 2): (3, 201)}, stamps={3: (201, 2)}, values={3: value(id=77)}), steps=[
        comes(read(), FOUND),
        comes(read(DIR_KEY, (LEAF_KEY, 2)), to(CLIENT, ANSWERED, level=1, start=DIR, **answer(value(id=77)))),
    ], after=cached(stamps={3: (201, 2)}, values={3: value(id=77)}, hits={2: 1, 3: 1}))
of_cache("an entry of another number is nobody's", "D-81", before=cached(stamps={2: (201, 2)}), count={"read_missed": 1, "copies_sent": 1},
    steps=[comes(read(), missed(**AT_LEAF))], after=cached(stamps={2: (201, 2)}, missed={LEAF_KEY: 1}))
of_cache("an entry that is empty says nothing", "D-82", before=cached(stamps={2: (200, 0)}), count={"read_missed": 1, "copies_sent": 1},
    steps=[comes(read(), missed(**AT_LEAF))], after=cached(stamps={2: (200, 0)}, missed={LEAF_KEY: 1}))
of_cache("an entry that is cleared says nothing", "D-82 D-102", count={"read_missed": 1, "invalidate_done": 1, "read_answered": 1, "copies_sent": 3}, steps=[
    comes(invalidate(), to(shard(0), CLEARED)),
    comes(read(), missed(**AT_LEAF)),
    comes(read(DIR_KEY, start=ROOT, purpose=LOOKUP), to(CLIENT, ANSWERED, **answer(directory()))),
], after=cached(stamps={2: (200, 3)}, missed={LEAF_KEY: 1}, hits={1: 1}))
of_cache("a directory that is cleared is passed by nobody", "D-82", before=cached(stamps={1: (100, 3)}), count={"read_missed": 1, "copies_sent": 1},
    steps=[comes(read(), missed())], after=cached(stamps={1: (100, 3)}, missed={LEAF_KEY: 1}))
of_cache("an entry of another directory is passed by nobody", "D-83", count={"read_missed": 4, "copies_sent": 4}, steps=[
    comes(read(start=ROOT + 1), missed()),
    comes(read(start=ROOT | 1 << 63), missed()),
    comes(read(LEAF_KEY, start=DIR ^ 1 << 32), missed()),
    comes(read(LEAF_KEY, start=DIR ^ 1 << 31), missed()),
], after=cached(missed={LEAF_KEY: 4}))
# The directory of the name was made again: its entry has another id, that of the file has the old one as its parent.
of_cache("what was in a directory of before is not in its successor", "D-83", before=cached(values={1: directory(id=DIR + 1)}), count={"read_missed": 1, "copies_sent": 1},
    steps=[comes(read(), missed(level=1, start=DIR + 1))], after=cached(values={1: directory(id=DIR + 1)}, missed={LEAF_KEY: 1}))
for kind in (1, 2, 6, 8, 10, 12):
    of_cache(f"nobody passes what is no directory, {kind}", "D-84", before=cached(values={1: directory(kind=kind)}), count={"read_missed": 1, "copies_sent": 1},
        steps=[comes(read(), missed())], after=cached(values={1: directory(kind=kind)}, missed={LEAF_KEY: 1}))


def searches(name, rules, mode, *callers, **listed):
    """Each (uid, gid, result of its read) through a directory of this mode, uid 5 and gid 50."""
    outs = {ANSWERED: FOUND, DENIED: to(CLIENT, DENIED), MISS: missed()}
    count = {"read_answered": 0, "read_denied": 0, "read_missed": 0, "copies_sent": len(callers)}
    for _, _, result in callers:
        count[{ANSWERED: "read_answered", DENIED: "read_denied", MISS: "read_missed"}[result]] += 1
    before = cached(values={1: directory(mode=mode)})
    of_cache(name, rules, before=before, count={name: n for name, n in count.items() if n},
        steps=[comes(read(uid=uid, gid=gid), outs[result]) for uid, gid, result in callers],
        after=before.but(hits={1: count["read_denied"], 2: count["read_answered"]}, missed={LEAF_KEY: count["read_missed"]}))


searches("an owner has its own bits", "D-85 D-93", 0o611, (5, 50, DENIED), (5, 90, DENIED), (9, 50, ANSWERED), (9, 90, ANSWERED))
searches("an owner who may search", "D-85", 0o100, (5, 50, ANSWERED), (5, 90, ANSWERED), (9, 50, DENIED), (9, 90, DENIED))
searches("the group has its own bits", "D-86 D-93", 0o701, (9, 50, DENIED), (5, 50, ANSWERED))
searches("a group that may search", "D-86", 0o710, (9, 50, ANSWERED))
searches("who may be in the group or not is not told", "D-87", 0o710, (9, 90, MISS), (0, 0, MISS))
searches("who may not be in the group or is not told either", "D-87", 0o701, (9, 90, MISS))
searches("where group and others are alike all are told", "D-87", 0o711, (9, 90, ANSWERED), (0, 0, ANSWERED))
searches("where neither group nor others may all are denied", "D-87 D-93", 0o766, (9, 90, DENIED))
searches("uid 0 says nothing", "D-88", 0o700, (0, 0, DENIED), (0, 50, DENIED))
CLOSED = cached(values={1: directory(mode=0), 2: value(mode=0)})
of_cache("who may read anything passes", "D-88 D-89", before=CLOSED, count={"read_answered": 2, "read_missed": 4, "copies_sent": 6}, steps=[
    comes(read(purpose=ACCESS, wants=4 | 8), to(CLIENT, ANSWERED, level=1, start=DIR, **answer(value(mode=0)))),
    comes(read(purpose=ACCESS, wants=6 | 24), to(CLIENT, ANSWERED, level=1, start=DIR, **answer(value(mode=0)))),
    comes(read(purpose=ACCESS, wants=6 | 8), missed(**AT_LEAF)),
    comes(read(purpose=ACCESS, wants=1 | 24), missed(**AT_LEAF)),
    comes(read(purpose=ACCESS, wants=2 | 8), missed(**AT_LEAF)),
    # It writes, which is not to search.
    comes(read(purpose=ACCESS, wants=16), missed()),
], after=CLOSED.but(hits={2: 2}, missed={LEAF_KEY: 4}))
of_cache("who may read anything searches the last directory", "D-88 D-90", before=CLOSED, count={"read_answered": 1, "copies_sent": 1},
    steps=[comes(read(DIR_KEY, purpose=ACCESS, wants=5 | 8), to(CLIENT, ANSWERED, **answer(directory(mode=0))))], after=CLOSED.but(hits={1: 1}))
of_cache("what is wanted of the last level is asked for", "D-89 D-93", before=cached(values={2: value(mode=0o640)}), count={"read_answered": 3, "read_denied": 3, "read_missed": 1, "copies_sent": 7}, steps=[
    comes(read(purpose=ACCESS, wants=6, uid=5), to(CLIENT, ANSWERED, level=1, start=DIR, **answer(value(mode=0o640)))),
    comes(read(purpose=OPEN, wants=4, gid=50), to(CLIENT, ANSWERED, level=1, start=DIR, **answer(value(mode=0o640)))),
    comes(read(purpose=ACCESS, wants=6, gid=50), to(CLIENT, DENIED, **AT_LEAF)),
    comes(read(purpose=ACCESS, wants=4), missed(**AT_LEAF)),
    comes(read(purpose=ACCESS, wants=2), to(CLIENT, DENIED, **AT_LEAF)),
    comes(read(purpose=ACCESS, wants=1, uid=5), to(CLIENT, DENIED, **AT_LEAF)),
    comes(read(purpose=ACCESS), to(CLIENT, ANSWERED, level=1, start=DIR, **answer(value(mode=0o640)))),
], after=cached(values={2: value(mode=0o640)}, hits={2: 6}, missed={LEAF_KEY: 1}))


def purposes(name, kind, **results):
    """A read for each purpose of a last level of this type, and whether it is answered."""
    of = value(kind=kind, mode=0o777)
    numbers = {"lookup": LOOKUP, "stat": STAT, "access": ACCESS, "open": OPEN, "size": SIZE}
    found = to(CLIENT, ANSWERED, level=1, start=DIR, **answer(of))
    hits = sum(results.values())
    count = {"read_answered": hits, "read_missed": len(results) - hits, "copies_sent": len(results)}
    of_cache(name, "D-90 D-94", before=cached(values={2: of}), count={name: n for name, n in count.items() if n},
        steps=[comes(read(purpose=numbers[purpose]), found if told else missed(**AT_LEAF)) for purpose, told in results.items()],
        after=cached(values={2: of}, hits={2: hits}, missed={LEAF_KEY: len(results) - hits}))


purposes("of a file all is answered", 8, lookup=True, stat=True, access=True, open=True, size=True)
purposes("of a directory what its entry knows is answered", 4, lookup=True, stat=False, access=True, open=False, size=False)
purposes("a symlink is not followed", 10, lookup=True, stat=True, access=False, open=False, size=False)
purposes("what is no file has no size and is not opened", 12, lookup=True, stat=True, access=True, open=False, size=False)
of_cache("an open that wants to write is the shard's", "D-90", before=cached(values={2: value(mode=0o777)}), count={"read_missed": 2, "copies_sent": 2},
    steps=[comes(read(purpose=OPEN, wants=wants), missed(**AT_LEAF)) for wants in (2, 6)], after=cached(values={2: value(mode=0o777)}, missed={LEAF_KEY: 2}))
of_cache("a denial has the levels as they came", "D-93", before=cached(values={1: directory(mode=0o600)}), count={"read_denied": 1, "copies_sent": 1},
    steps=[comes(read(requester=CLIENT2), to(CLIENT2, DENIED))], after=cached(values={1: directory(mode=0o600)}, hits={1: 1}))
of_cache("a miss goes to its destination", "D-94", before=Cached(), count={"read_missed": 1, "copies_sent": 1},
    steps=[comes(read(destination=shard(2)), to(shard(2), MISS))], after=Cached(missed={LEAF_KEY: 1}))

# Passes. In all other vectors they are counted as copies tell.
of_cache("each pass but the first is counted", "D-123 D-91", before=PATH, count={"read_answered": 3, "read_missed": 2, "copies_sent": 5, "passes_recirculated": 0 + 1 + 2 + 1 + 0}, steps=[
    comes(read(LEAF_KEY, start=DIR), to(CLIENT, ANSWERED, **answer())),
    comes(read(), FOUND),
    comes(read(start=0), FOUND),
    comes(read(DIR_KEY, OTHER_KEY), missed(**AT_LEAF)),
    comes(read(OTHER_KEY, LEAF_KEY), missed()),
], after=PATH.but(hits={2: 3}, missed={OTHER_KEY: 1, LEAF_KEY: 1}))
of_cache("a pass that has not begun is not counted", "D-123", count={}, steps=[hold("walk", read()), go("walk", read(), waits=True)])
of_cache("a pass is counted when it begins", "D-123", count={"passes_recirculated": 1},
    steps=[hold("walk", read()), go("walk", read(), waits=True), go("walk", read(), waits=True)])
of_cache("passes of changes are one each", "D-123", count={"fill_done": 1, "invalidate_done": 1, "fill_not_there": 1, "copies_sent": 3}, steps=[
    comes(fill(revision=2), to(CONTROLLER, FILLED)),
    comes(invalidate(revision=2), to(shard(0), CLEARED)),
    comes(fill(key=OTHER_KEY), to(CONTROLLER, NOT_THERE)),
], after=cached(stamps={2: (200, 5)}))
