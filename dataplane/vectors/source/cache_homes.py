"""The cache: what homes tell it, and what goes wrong between. D-95 to D-105, and the courses that broke earlier wordings, as far as a switch takes part."""

V1, V2, V3 = value(), value(mode=0o600, cut=2), value(mode=0o666, cut=3)
AT_LEAF = {"level": 1, "start": DIR}
DONE, GONE = to(CONTROLLER, FILLED), to(shard(0), NOT_THERE)


def found(of=V1):
    return to(CLIENT, ANSWERED, level=1, start=DIR, **answer(of))


def missed(**fields):
    return to(shard(0), MISS, **{**AT_LEAF, **fields})


# Fills.
of_cache("a fill of another epoch changes nothing", "D-95", count={"fill_other_epoch": 4, "copies_sent": 4},
    steps=[comes(fill(epoch=epoch, revision=2, value=V2), to(CONTROLLER, OTHER_EPOCH)) for epoch in (6, 8, 0x0107, 0)])
of_cache("epoch 0 is no epoch to a fill", "D-95 D-101", before=Cached(lease=(0, 0), stamps={2: (200, 2)}), count={"fill_other_epoch": 1, "invalidate_other_epoch": 1, "copies_sent": 2},
    steps=[comes(fill(epoch=0), to(CONTROLLER, OTHER_EPOCH)), comes(invalidate(epoch=0), to(shard(0), OTHER_EPOCH))])
of_cache("a fill finds its entry by key, token and number", "D-96", count={"fill_not_there": 5, "copies_sent": 5}, steps=[
    comes(fill(key=OTHER_KEY, revision=2), to(CONTROLLER, NOT_THERE)),
    comes(fill(token=2, revision=2), to(CONTROLLER, NOT_THERE)),
    comes(fill(number=199, revision=2), to(CONTROLLER, NOT_THERE)),
    comes(fill(number=201, revision=2), to(CONTROLLER, NOT_THERE)),
    comes(fill(number=100, revision=2), to(CONTROLLER, NOT_THERE)),
])
of_cache("a fill makes an empty entry say something", "D-97", before=cached(stamps={2: (200, 0)}, values={2: None}), count={"fill_done": 1, "read_answered": 1, "copies_sent": 2},
    steps=[comes(fill(), DONE), comes(read(), found())], after=cached(hits={2: 1}))
of_cache("a newer fill overwrites", "D-97", count={"fill_done": 2, "read_answered": 1, "read_missed": 1, "copies_sent": 4}, steps=[
    comes(fill(revision=2, value=V2), DONE),
    comes(read(purpose=LOOKUP), found(V2)),
    comes(fill(revision=9, value=value(kind=10)), DONE),
    comes(read(purpose=ACCESS), missed()),
], after=cached(stamps={2: (200, 18)}, values={2: value(kind=10)}, hits={2: 1}, missed={LEAF_KEY: 1}))
of_cache("a fill after the invalidate of the one before makes the entry valid", "D-97 D-102", count={"invalidate_done": 1, "fill_done": 1, "read_answered": 1, "copies_sent": 3}, steps=[
    comes(invalidate(), to(shard(0), CLEARED)),
    comes(fill(revision=2, value=V3), DONE),
    comes(read(), found(V3)),
], after=cached(stamps={2: (200, 4)}, values={2: V3}, hits={2: 1}))
of_cache("an older fill, and the same again, change nothing", "D-98", before=cached(stamps={2: (200, 8)}), count={"fill_not_newer": 3, "copies_sent": 3},
    steps=[comes(fill(revision=revision, value=V2), to(CONTROLLER, NOT_NEWER)) for revision in (4, 3, 1)])
of_cache("a fill that was invalidated changes nothing", "D-98", before=cached(stamps={2: (200, 9)}), count={"fill_not_newer": 2, "fill_done": 1, "copies_sent": 3}, steps=[
    comes(fill(revision=4, value=V2), to(CONTROLLER, NOT_NEWER)),
    comes(fill(revision=1, value=V2), to(CONTROLLER, NOT_NEWER)),
    comes(fill(revision=5, value=V3), DONE),
], after=cached(stamps={2: (200, 10)}, values={2: V3}))
of_cache("stamps are compared as they are", "D-98 D-103", before=cached(stamps={2: (200, 0x80000000)}), count={"fill_not_newer": 1, "fill_done": 1, "invalidate_done": 1, "copies_sent": 3}, steps=[
    comes(fill(revision=1, value=V2), to(CONTROLLER, NOT_NEWER)),
    comes(fill(revision=0x40000001, value=V2), DONE),
    comes(invalidate(revision=1), to(shard(0), CLEARED)),
], after=cached(stamps={2: (200, 0x80000002)}, values={2: V2}))
of_cache("a fill whose stamp is another entry's changes nothing", "D-99", before=cached(stamps={2: (201, 2)}), count={"fill_not_there": 1, "copies_sent": 1},
    steps=[comes(fill(revision=9, value=V2), to(CONTROLLER, NOT_THERE))])
of_cache("a fill goes to its destination", "D-100", count={"fill_done": 1, "fill_not_newer": 1, "fill_not_there": 1, "fill_other_epoch": 1, "copies_sent": 4}, steps=[
    comes(fill(revision=2, value=V2, destination=shard(2)), to(shard(2), FILLED)),
    comes(fill(revision=2, destination=CLIENT2), to(CLIENT2, NOT_NEWER)),
    comes(fill(number=9, shard=2), to(CONTROLLER, NOT_THERE)),
    comes(fill(epoch=9, destination=shard(2)), to(shard(2), OTHER_EPOCH)),
], after=cached(stamps={2: (200, 4)}, values={2: V2}))

# Invalidates.
of_cache("an invalidate of another epoch changes nothing", "D-101", count={"invalidate_other_epoch": 4, "read_answered": 1, "copies_sent": 5}, steps=[
    *(comes(invalidate(epoch=epoch), to(shard(0), OTHER_EPOCH)) for epoch in (6, 8, 0x0107, 0)),
    comes(read(), found()),
], after=cached(hits={2: 1}))
of_cache("an invalidate makes the entry say nothing", "D-102", count={"read_answered": 1, "invalidate_done": 2, "read_missed": 1, "copies_sent": 4}, steps=[
    comes(read(), found()),
    comes(invalidate(), to(shard(0), CLEARED)),
    comes(invalidate(), to(shard(0), CLEARED)),
    comes(read(), missed()),
], after=cached(stamps={2: (200, 3)}, hits={2: 1}, missed={LEAF_KEY: 1}))
# The fill was lost, or comes behind.
of_cache("an invalidate may come before its fill", "D-102 D-98", before=cached(stamps={2: (200, 0)}), count={"invalidate_done": 1, "fill_not_newer": 1, "read_missed": 1, "copies_sent": 3}, steps=[
    comes(invalidate(), to(shard(0), CLEARED)),
    comes(fill(), to(CONTROLLER, NOT_NEWER)),
    comes(read(), missed()),
], after=cached(stamps={2: (200, 3)}, missed={LEAF_KEY: 1}))
of_cache("an old invalidate takes nothing back", "D-103", before=cached(stamps={2: (200, 8)}), count={"invalidate_done": 2, "read_answered": 1, "copies_sent": 3}, steps=[
    comes(invalidate(revision=3), to(shard(0), CLEARED)),
    comes(read(), found()),
    comes(invalidate(revision=4), to(shard(0), CLEARED)),
], after=cached(stamps={2: (200, 9)}, hits={2: 1}))
of_cache("an old invalidate does not let old fills in", "D-103 D-98", before=cached(stamps={2: (200, 9)}), count={"invalidate_done": 1, "fill_not_newer": 1, "copies_sent": 2}, steps=[
    comes(invalidate(revision=1), to(shard(0), CLEARED)),
    comes(fill(revision=4, value=V2), to(CONTROLLER, NOT_NEWER)),
])
of_cache("an invalidate finds its entry by key, token and number", "D-104", count={"invalidate_not_there": 5, "read_answered": 1, "copies_sent": 6}, steps=[
    comes(invalidate(key=OTHER_KEY), GONE),
    comes(invalidate(token=2), GONE),
    comes(invalidate(number=199, revision=5), GONE),
    comes(invalidate(number=201, revision=5), GONE),
    comes(invalidate(key=DIR_KEY, revision=5), GONE),
    comes(read(), found()),
], after=cached(hits={2: 1}))
of_cache("an invalidate whose stamp is another entry's changes nothing", "D-104", before=cached(stamps={2: (201, 2)}), count={"invalidate_not_there": 1, "copies_sent": 1},
    steps=[comes(invalidate(revision=9), GONE)])
of_cache("an invalidate goes to its destination", "D-105", count={"invalidate_done": 1, "invalidate_not_there": 1, "invalidate_other_epoch": 1, "copies_sent": 3}, steps=[
    comes(invalidate(destination=shard(2)), to(shard(2), CLEARED)),
    comes(invalidate(destination=CLIENT2, number=9), to(CLIENT2, NOT_THERE)),
    comes(invalidate(shard=2, epoch=9), to(shard(0), OTHER_EPOCH)),
], after=cached(stamps={2: (200, 3)}))

# What goes wrong between. A is the file's name, B another one that gets its index.
ADMIT_B = [do("cache.stamp 7 2 300"), do(f"cache.admit 7 {OTHER_KEY} 1 2 300")]
EVICT_A = [do(f"cache.evict 7 {LEAF_KEY} 1"), do("cache.stamp 7 2 0")]
VB = value(id=77)
EMPTY_A = cached(stamps={2: (200, 0)}, values={2: None})

# A fill names its key: another name has its place by now.
of_cache("a fill that comes after its entry was evicted is not written to the next of that index", "D-96 D-119", before=EMPTY_A,
    count={"fill_not_there": 1, "read_missed": 2, "copies_sent": 3}, steps=[
        *EVICT_A,
        *ADMIT_B,
        comes(fill(), to(CONTROLLER, NOT_THERE)),
        comes(read(DIR_KEY, OTHER_KEY), missed()),
        comes(read(), missed()),
    ], after=EMPTY_A.but(stamps={2: (300, 0)}, missed={OTHER_KEY: 1, LEAF_KEY: 1}))
# A fill of an epoch that is over.
of_cache("a fill of the epoch before is refused", "D-95 D-112", before=EMPTY_A, count={"fill_other_epoch": 1, "read_missed": 1, "copies_sent": 2}, steps=[
    do("cache.off"),
    do("cache.empty"),
    do(f"cache.begin 8 {UNTIL}"),
    do("cache.stamp 8 2 300"),
    do(f"cache.admit 8 {LEAF_KEY} 1 2 300"),
    comes(fill(revision=9), to(CONTROLLER, OTHER_EPOCH)),
    comes(read(LEAF_KEY, epoch=8, start=DIR), to(shard(0), MISS)),
], after=Cached(lease=(8, UNTIL), stamps={2: (300, 0)}, values={1: directory()}, missed={LEAF_KEY: 1}))
# A token of another epoch.
of_cache("a token of the epoch before does not find the key that has it now", "D-76 D-112", count={"fill_done": 1, "read_other_epoch": 1, "read_answered": 1, "copies_sent": 3}, steps=[
    do("cache.off"),
    do("cache.empty"),
    do(f"cache.begin 8 {UNTIL}"),
    do("cache.stamp 8 2 300"),
    do(f"cache.admit 8 {LEAF_KEY} 1 2 300"),
    comes(fill(epoch=8, number=300, value=VB), DONE),
    comes(read(LEAF_KEY, start=DIR), to(shard(0), MISS)),
    comes(read(LEAF_KEY, start=DIR, epoch=8), to(CLIENT, ANSWERED, **answer(VB))),
], after=Cached(lease=(8, UNTIL), stamps={2: (300, 2)}, values={1: directory(), 2: VB}, hits={2: 1}))
# What waits between names and stamp meets an entry that was admitted meanwhile.
A = read(LEAF_KEY, start=DIR)
of_cache("a read that waits between name and stamp does not take the value of who got the index", "D-81", count={"fill_done": 1, "read_missed": 1, "copies_sent": 2}, steps=[
    hold("a", A),
    *EVICT_A,
    *ADMIT_B,
    comes(fill(key=OTHER_KEY, number=300, value=VB), DONE),
    go("a", A, to(shard(0), MISS)),
], after=cached(stamps={2: (300, 2)}, values={2: VB}, missed={LEAF_KEY: 1}))
LATE = fill(revision=2, value=V2)
of_cache("a fill that waits is not written after the invalidate that overtakes it", "D-98 D-102", count={"invalidate_done": 1, "fill_not_newer": 1, "read_missed": 1, "copies_sent": 3}, steps=[
    hold("fill", LATE),
    comes(invalidate(revision=2), to(shard(0), CLEARED)),
    go("fill", LATE, to(CONTROLLER, NOT_NEWER)),
    comes(read(), missed()),
], after=cached(stamps={2: (200, 5)}, missed={LEAF_KEY: 1}))
of_cache("a fill that waits is not written to who got its index", "D-99", count={"fill_not_there": 1, "copies_sent": 1}, steps=[
    hold("fill", LATE),
    *EVICT_A,
    *ADMIT_B,
    go("fill", LATE, to(CONTROLLER, NOT_THERE)),
], after=cached(stamps={2: (300, 0)}))
of_cache("an invalidate that waits does not clear who got its index", "D-104", count={"fill_done": 1, "invalidate_not_there": 1, "copies_sent": 2}, steps=[
    hold("clear", invalidate(revision=5)),
    *EVICT_A,
    *ADMIT_B,
    comes(fill(key=OTHER_KEY, number=300, value=VB), DONE),
    go("clear", invalidate(revision=5), GONE),
], after=cached(stamps={2: (300, 2)}, values={2: VB}))
# The epoch was looked at before it ended.
of_cache("a fill that has passed the epoch finds an entry of another number", "D-99 D-112", before=EMPTY_A, count={"fill_not_there": 1, "read_missed": 1, "copies_sent": 2}, steps=[
    hold("fill", LATE),
    do("cache.off"),
    do("cache.empty"),
    do(f"cache.begin 8 {UNTIL}"),
    do("cache.stamp 8 2 300"),
    do(f"cache.admit 8 {LEAF_KEY} 1 2 300"),
    go("fill", LATE, to(CONTROLLER, NOT_THERE)),
    comes(read(LEAF_KEY, start=DIR, epoch=8), to(shard(0), MISS)),
], after=Cached(lease=(8, UNTIL), stamps={2: (300, 0)}, values={1: directory()}, missed={LEAF_KEY: 1}))
of_cache("a read that has passed the epoch is not answered of an emptied cache", "D-81 D-116", count={"read_missed": 1, "copies_sent": 1}, steps=[
    hold("a", A),
    do("cache.off"),
    do("cache.empty"),
    do(f"cache.begin 8 {UNTIL}"),
    go("a", A, to(shard(0), MISS)),
], after=Cached(lease=(8, UNTIL), values={1: directory(), 2: value()}, missed={LEAF_KEY: 1}))
# The entry is dropped for its home, which has restarted; what waits must not bring it back.
of_cache("what waits while an entry is dropped does not bring it back", "D-99 D-81 D-117", count={"fill_not_there": 1, "read_missed": 1, "copies_sent": 2}, steps=[
    hold("fill", LATE),
    hold("a", A),
    *EVICT_A,
    go("fill", LATE, to(CONTROLLER, NOT_THERE)),
    go("a", A, to(shard(0), MISS)),
], after=cached(stamps={2: (0, 0)}, missed={LEAF_KEY: 1}))
# What the home was lent to in the end is not the entry that there is.
of_cache("an invalidate of the entry before leaves that of now", "D-104 D-96", count={"fill_done": 1, "invalidate_not_there": 1, "fill_not_there": 1, "read_answered": 1, "copies_sent": 4}, steps=[
    do(f"cache.evict 7 {LEAF_KEY} 1"),
    do("cache.stamp 7 2 0"),
    do("cache.stamp 7 3 201"),
    do(f"cache.admit 7 {LEAF_KEY} 1 3 201"),
    comes(fill(number=201), DONE),
    comes(invalidate(number=200, revision=7), GONE),
    comes(fill(number=200, revision=7, value=V2), to(CONTROLLER, NOT_THERE)),
    comes(read(), found()),
], after=cached(stamps={2: (0, 0), 3: (201, 2)}, values={3: V1}, hits={3: 1}))
# The mark went with the eviction, a fill is under way, and the name is admitted again.
of_cache("a fill of before an eviction does not fill what is admitted again", "D-96 D-119", before=EMPTY_A, count={"fill_not_there": 1, "fill_done": 1, "read_answered": 1, "copies_sent": 3}, steps=[
    *EVICT_A,
    do("cache.stamp 7 2 300"),
    do(f"cache.admit 7 {LEAF_KEY} 1 2 300"),
    comes(fill(revision=9), to(CONTROLLER, NOT_THERE)),
    comes(fill(number=300, value=V2), DONE),
    comes(read(purpose=LOOKUP), found(V2)),
], after=cached(stamps={2: (300, 2)}, values={2: V2}, hits={2: 1}))
# A walk is each level as it was at some moment: the directory is closed when it was passed.
of_cache("between two passes what was passed may change", "D-91 D-102", count={"invalidate_done": 1, "fill_done": 1, "read_answered": 1, "read_denied": 1, "copies_sent": 4}, steps=[
    hold("walk", read()),
    go("walk", read(), waits=True),
    comes(invalidate(key=DIR_KEY, number=100), to(shard(0), CLEARED)),
    comes(fill(key=DIR_KEY, number=100, revision=2, value=directory(mode=0o600)), DONE),
    go("walk", read(), waits=True),
    go("walk", read(), found()),
    comes(read(), to(CLIENT, DENIED)),
], after=cached(stamps={1: (100, 4)}, values={1: directory(mode=0o600)}, hits={1: 1, 2: 1}))
of_cache("between two passes what is ahead may be cleared, evicted and admitted", "D-80 D-82", count={"invalidate_done": 1, "fill_done": 1, "read_missed": 1, "read_answered": 1, "copies_sent": 4}, steps=[
    hold("first", read()),
    hold("second", read()),
    go("first", read(), waits=True),
    go("second", read(), waits=True),
    go("first", read(), waits=True),
    comes(invalidate(), to(shard(0), CLEARED)),
    go("first", read(), missed()),
    *EVICT_A,
    do("cache.stamp 7 3 201"),
    do(f"cache.admit 7 {LEAF_KEY} 1 3 201"),
    comes(fill(number=201, value=V3), DONE),
    go("second", read(), waits=True),
    go("second", read(), found(V3)),
], after=cached(stamps={2: (0, 0), 3: (201, 2)}, values={3: V3}, hits={3: 1}, missed={LEAF_KEY: 1}))
# Lease and epoch are looked at when a packet comes in.
of_cache("a walk that has begun goes on when the epoch ends", "D-73 D-91", count={"read_answered": 1, "copies_sent": 1}, steps=[
    hold("walk", read()),
    do(f"cache.clock {UNTIL}"),
    do("cache.off"),
    go("walk", read(), waits=True),
    go("walk", read(), waits=True),
    go("walk", read(), found()),
], after=cached(lease=(0, UNTIL), hits={2: 1}))
