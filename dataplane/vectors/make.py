#!/usr/bin/env python3
"""Makes the vectors of dataplane/SPEC.md from source/*.py.

    dataplane/vectors/make.py           writes *.txt beside this file
    dataplane/vectors/make.py --check   says which of them are not what the source gives; exit status 1 if any

The source says by hand what a packet must do; this program only writes numbers as bytes. It runs no target. The layout of the header is
read from the table of SPEC.md, so that the text, the vectors and the targets cannot differ unnoticed.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
SPEC = (HERE.parent / "SPEC.md").read_text(encoding="utf-8")

# Of each structure name -> (first byte, length), from the rows under "| byte | length | field | meaning |"; the first table begins with what
# all headers have.
TABLES = [
    {name: (int(at), int(length)) for at, length, name in re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", table, re.M)}
    for table in SPEC.split("| byte | length | field | meaning |")[1:]
]
COMMON = {name: field for name, field in TABLES[0].items() if field[0] < 16}
DIRTY_SET, VISIBILITY, READS, FILLS, INVALIDATES = 1, 2, 0x31, 0x32, 0x33
LAYOUT = {DIRTY_SET: TABLES[0], VISIBILITY: {**COMMON, **TABLES[1]}, READS: {**COMMON, **TABLES[2]}, FILLS: {**COMMON, **TABLES[3]}}
LAYOUT[INVALIDATES] = {name: field for name, field in LAYOUT[FILLS].items() if name != "value"}
HEADER_BYTES = {DIRTY_SET: 40, VISIBILITY: 124, READS: 124, FILLS: 124, INVALIDATES: 40}
VALUE = TABLES[4]
for of, layout in LAYOUT.items():
    assert sum(length for _, length in layout.values()) == HEADER_BYTES[of], layout

# The world of the vectors: shards 0 to 3 are at ports 10 to 13, which are hosts', clients 1 and 2 at ports 21 and 22.
CLUSTER = 0x0C1A57E2
UDP_PORT = 4797
MESSAGE = b"the message follows"
QUERY, INSERT, REMOVE = 0x11, 0x12, 0x13
NORMAL, SCATTERED, UNKNOWN, MARKED, FULL, OTHER_EPOCH, REMOVED = range(1, 8)
LOOK, INSTALL, CLEAR = 0x21, 0x22, 0x23
NONE, PENDING, _UNKNOWN, INSTALLED, OLDER, _OTHER_EPOCH, CLEARED, KEPT = range(1, 9)
READ, FILL, INVALIDATE = 0x31, 0x32, 0x33
MISS, ANSWERED, DENIED, FILLED, NOT_NEWER, _OTHER_EPOCH, _CLEARED, NOT_THERE = range(1, 9)
LOOKUP, STAT, ACCESS, OPEN, SIZE = range(1, 6)


def shard(number):
    return 0x01000000 + number


CLIENT, CLIENT2, DATA = 0x03000001, 0x03000002, 0x02000001
HOSTS = (10, 11, 12, 13)
ROUTES = {shard(0): 10, shard(1): 11, shard(2): 12, shard(3): 13, CLIENT: 21, CLIENT2: 22}
# Those of the visibility table have a data node at port 13.
TABLE_ROUTES = {shard(0): 10, shard(2): 12, DATA: 13, CLIENT: 21, CLIENT2: 22}


def metadata(seed):
    """96 bytes that differ everywhere from those of another seed."""
    return bytes((seed + 3 * at) % 256 for at in range(96))


# Those of the cache have the controller at port 15, and client 1 may ask in anybody's name.
CONTROLLER = 0x04000001
CACHE_ROUTES = {shard(0): 10, shard(2): 12, CONTROLLER: 15, CLIENT: 21, CLIENT2: 22}


class Packet:
    """Fields of a header, and what follows it."""

    def __init__(self, fields, message=MESSAGE, of=DIRTY_SET):
        self.fields, self.message, self.of = fields, message, of

    def but(self, message=None, **fields):
        """The same packet with other fields."""
        return Packet({**self.fields, **fields}, self.message if message is None else message, self.of)

    def bytes(self):
        header = bytearray(HEADER_BYTES[self.of])
        for name, value in self.fields.items():
            at, length = LAYOUT[self.of][name]
            header[at : at + length] = value if isinstance(value, bytes) else value.to_bytes(length, "big")
        return bytes(header) + self.message


def query(**fields):
    """Of client 1 to shard 0, in epoch 7, about index 5 and tag 0x50001."""
    base = {"code": QUERY, "epoch": 7, "version": 1, "cluster": CLUSTER, "destination": shard(0), "index": 5, "tag": 0x50001}
    return Packet({**base, **fields})


def insert(**fields):
    """Of shard 2 in term 9 and generation 3, for client 1."""
    return query(**{"code": INSERT, "shard": 2, "destination": CLIENT, "term": 9, "sequence": 3, **fields})


def remove(**fields):
    """Of shard 0 in term 4 with counter 100, to shard 2."""
    return query(**{"code": REMOVE, "shard": 0, "destination": shard(2), "term": 4, "sequence": 100, **fields})


def look(**fields):
    """Of client 1 to shard 0, in epoch 7, about index 5 and fingerprint 0x50001."""
    base = {"code": LOOK, "epoch": 7, "version": 1, "cluster": CLUSTER, "destination": shard(0), "index": 5, "fingerprint": 0x50001}
    return Packet({**base, **fields}, of=VISIBILITY)


def install(**fields):
    """Of the data node for client 1 and the home shard 0, at position 100."""
    return look(**{"code": INSTALL, "destination": CLIENT, "ts": 100, "metadata": metadata(1), **fields})


def clear(**fields):
    """Of shard 0 to the data node, at position 100."""
    return look(**{"code": CLEAR, "destination": DATA, "ts": 100, **fields})


# Keys differ in every place in which they are counted.
def key(number):
    return sum((number + row) << 16 * row for row in range(4))


ROOT, DIR, LEAF = 1, 0x1111000000000011, 0x2222000000000022
ROOT_KEY, DIR_KEY, LEAF_KEY, OTHER_KEY = 0, key(1), key(2), key(5)
NOW, UNTIL = 1000, 5000


def value(**fields):
    """What an entry says; without fields that of a file in DIR that everybody may read."""
    base = {"parent": DIR, "id": LEAF, "kind": 8, "mode": 0o644, "uid": 5, "gid": 50, "nlink": 1, "size": 0x5152535455565758}
    out = bytearray(84)
    for name, number in {**base, "mtime": 3, "ctime": 4, "atime": 5, "blocks_or_rdev": 6, "generation": 7, "cut": 8, **fields}.items():
        at, length = VALUE[name]
        out[at : at + length] = number.to_bytes(length, "big")
    return bytes(out)


def directory(**fields):
    """The same of a directory in the root, which everybody may search."""
    return value(**{"parent": ROOT, "id": DIR, "kind": 4, "mode": 0o755, **fields})


def levels(*names):
    """Keys, or keys with tokens; a key alone has token 1."""
    names = [name if isinstance(name, tuple) else (name, 1) for name in names]
    return b"".join(key.to_bytes(8, "big") + bytes([token]) for key, token in names).ljust(84, b"\0")


def read(*names, **fields):
    """Of client 1 to shard 0, in epoch 7: a stat of the file in DIR from the root's directory on, by uid 9 and gid 90."""
    names = names or (DIR_KEY, LEAF_KEY)
    base = {"code": READ, "epoch": 7, "version": 1, "cluster": CLUSTER, "destination": shard(0), "depth": len(names), "purpose": STAT}
    base |= {"uid": 9, "gid": 90, "start": ROOT, "requester": CLIENT, "levels": levels(*names)}
    return Packet({**base, **fields}, of=READS)


def fill(**fields):
    """Of shard 0 for the file, entry 200, revision 1; the controller hears of it."""
    base = {"code": FILL, "epoch": 7, "version": 1, "cluster": CLUSTER, "destination": CONTROLLER, "token": 1, "number": 200}
    return Packet({**base, "revision": 1, "key": LEAF_KEY, "value": value(), **fields}, of=FILLS)


def invalidate(**fields):
    """The same without a value, and shard 0 hears of it."""
    base = {name: of for name, of in fill().fields.items() if name != "value"}
    return Packet({**base, "code": INVALIDATE, "destination": shard(0), **fields}, of=INVALIDATES)


def answer(of=None):
    """What an answer has in place of levels."""
    return {"levels": value() if of is None else of}


class Cached:
    """Registers and tables of the cache: names (key, token) -> (index, number), stamps and values by index, what was counted."""

    def __init__(self, lease=(7, UNTIL), names=None, stamps=None, values=None, missed=None, sketch=None, reported=(), hits=None, report=None, listed=None):
        self.lease, self.stamps, self.values = lease, stamps or {}, values or {}
        self.names = {} if names is None else names
        # Keys and how often each was missed, each alone in its counters; or the counters (row, place) themselves.
        self.sketch = {(row, name >> 16 * row & 7): n for name, n in (missed or {}).items() for row in range(3)} | (sketch or {})
        self.reported, self.hits, self.report = reported, hits or {}, report
        self.listed = [f"cache.any 21"] if listed is None else listed

    def but(self, **changes):
        """The same with changes: registers at an index, 0 and None take out; whatever else replaces."""
        new = Cached()
        new.__dict__.update(self.__dict__)
        counted = Cached(missed=changes.pop("missed", None)).sketch
        new.sketch = {**self.sketch, **counted}
        for name, of in changes.items():
            kept = getattr(self, name)
            setattr(new, name, {**kept, **of} if isinstance(kept, dict) else of)
        return new

    def lines(self, word):
        if self.lease != (0, 0):
            yield f"{word} cache.lease {self.lease[0]} {self.lease[1]}"
        yield from (f"{word} cache.stamp {at} {n} {s}" for at, (n, s) in sorted(self.stamps.items()) if (n, s) != (0, 0))
        yield from (f"{word} cache.value {at} {of.hex()}" for at, of in sorted(self.values.items()) if of and any(of))
        yield from (f"{word} cache.sketch {row} {at} {n}" for (row, at), n in sorted(self.sketch.items()) if n)
        yield from (f"{word} cache.reported {at}" for at in sorted(self.reported))
        yield from (f"{word} cache.hits {at} {n}" for at, n in sorted(self.hits.items()) if n)

    def tables(self):
        """After the registers: commands look at the epoch."""
        yield f"before cache.clock {NOW}"
        for (of, token), (index, number) in sorted(self.names.items()):
            yield f"before cache.admit {self.lease[0]} {of} {token} {index} {number}"
        yield from (f"before {command}" for command in self.listed)
        if self.report:
            yield f"before cache.report {self.report[0]} {self.report[1]}"


def cached(**changes):
    """The directory and the file have entries 100 and 200 at 1 and 2, which are filled by revision 1."""
    names = {(DIR_KEY, 1): (1, 100), (LEAF_KEY, 1): (2, 200)}
    return Cached(names=names, stamps={1: (100, 2), 2: (200, 2)}, values={1: directory(), 2: value()}).but(**changes)


def to(node, result, **fields):
    """The copy of the packet before that goes to a node."""
    return (node, {"result": result, **fields})


def comes(packet, *outs, port=None, udp_port=UDP_PORT, passes=False):
    """A packet comes in; what goes out. `packet` may be bytes. Without a port inserts and removes come from shard 2, installs from the data
    node, clears from shard 0, all else from client 1."""
    return ("in", packet, outs, port or port_of(packet), udp_port, passes)


def port_of(packet):
    code = None if isinstance(packet, bytes) else packet.fields.get("code")
    return {INSERT: 12, REMOVE: 12, INSTALL: 13, CLEAR: 10, FILL: 10, INVALIDATE: 10}.get(code, 21)


def hold(name, packet, *outs, port=None):
    """A packet comes in and waits between names and stamp."""
    return ("hold", packet, outs, port or port_of(packet), UDP_PORT, name)


def go(name, packet, *outs, waits=False):
    """It goes on; `packet` is the one that was held."""
    return ("go", packet, outs, waits, UDP_PORT, name)


def do(command):
    return ("do", command)


def refused(command):
    return ("refused", command)


def recirculated(step):
    """Passes that a read has taken beyond its first, as its copy tells: each has left one more level behind, or the root (D-91)."""
    if step[0] not in ("in", "go") or not step[2] or isinstance(step[1], bytes) or step[1].of != READS:
        return 0
    came, (_, left) = {"level": 0, **step[1].fields}, step[2][0]
    left = {**came, **left}
    return left["level"] - came["level"] + (came["start"] == 0 and left["start"] != 0)


class State:
    """Registers. Of the dirty set: epoch and complete bit; pairs by shard; tags by (stage, index). Of the visibility table: epoch and
    complete bit; entries (fingerprint, ts, metadata) by index."""

    def __init__(self, epoch=(7, 1), pairs=None, tags=None, visible=(0, 0), entries=None, cache=None):
        self.epoch = epoch
        self.pairs = {0: (4, 99)} if pairs is None else pairs
        self.tags = tags or {}
        self.visible = visible
        self.entries = entries or {}
        self.cache = cache or Cached(lease=(0, 0))

    def but(self, epoch=None, pairs=None, tags=None):
        """The same with changes of the dirty set; 0 and (0, 0) take out."""
        pairs, tags = {**self.pairs, **(pairs or {})}, {**self.tags, **(tags or {})}
        return State(epoch or self.epoch, pairs, tags, self.visible, self.entries)

    def lines(self, word):
        if self.epoch != (0, 0):
            yield f"{word} dirty_set.epoch {self.epoch[0]} {self.epoch[1]}"
        for number, pair in sorted(self.pairs.items()):
            if pair != (0, 0):
                yield f"{word} dirty_set.pair {number} {pair[0]} {pair[1]}"
        for (stage, index), value in sorted(self.tags.items()):
            if value:
                yield f"{word} dirty_set.tag {stage} {index} {value}"
        if self.visible != (0, 0):
            yield f"{word} visibility.epoch {self.visible[0]} {self.visible[1]}"
        for index, (fingerprint, ts, kept) in sorted(self.entries.items()):
            yield f"{word} visibility.entry {index} {fingerprint} {ts} {kept.hex()}"
        yield from self.cache.lines(word)


def table(*entries, visible=(7, 1)):
    """A state whose entry 5 is so, or whose entries are; the dirty set is empty."""
    if entries and not isinstance(entries[0], dict):
        entries = ({5: entries},)
    return State(epoch=(0, 0), pairs={}, visible=visible, entries=entries[0] if entries else {})


class File:
    """The vectors of one file of the source."""

    def __init__(self, name):
        self.lines = [f"# Made by make.py from source/{name}.py; the format is in ../SPEC.md."]
        self.names = set()

    def vector(self, name, rules, steps, count, before=State(), after=None, index_bits=17, stages=10, entry_bits=3, cache_bits=0, routes=None, hosts=HOSTS):
        """`after` is the state after all steps; None: nothing changed. Passes are counted as copies tell, unless `count` says how many."""
        assert name not in self.names, name
        self.names.add(name)
        passes = sum(recirculated(step) for step in steps)
        if passes:
            count = {"passes_recirculated": passes, **count}
        routes = ROUTES if routes is None else routes
        add = self.lines.append
        add(f"\nvector {name}")
        add(f"rules {rules}")
        add(f"index_bits {index_bits}")
        add(f"stages {stages}")
        add(f"entry_bits {entry_bits}")
        if cache_bits:
            add(f"cache_bits {cache_bits}")
        add(f"cluster {CLUSTER}")
        add(f"udp_port {UDP_PORT}")
        self.lines += before.lines("before")
        self.lines += (f"before route {node} {port}" for node, port in sorted(routes.items()))
        self.lines += (f"before host {port}" for port in hosts)
        if cache_bits:
            self.lines += before.cache.tables()
        for step in steps:
            self.step(step, routes)
        self.lines += (after or before).lines("after")
        self.lines += (f"count {counter} {n}" for counter, n in sorted(count.items()) if n)
        add("end")

    def step(self, step, routes):
        add = self.lines.append
        if step[0] not in ("in", "hold", "go"):
            add(f"do {step[1]}")
            if step[0] == "refused":
                add("refused")
            return
        kind, packet, outs, port, udp_port, passes = step
        data = packet if isinstance(packet, bytes) else packet.bytes()
        if kind == "go":
            add(f"go {passes}")
        elif kind == "hold":
            add(f"hold {passes} {port} {udp_port} {data.hex()}")
        else:
            add(f"in {port} {udp_port} {data.hex() or '-'}")
        if kind == "go" and port:
            add("waits")
        if kind == "in" and passes:
            add("pass")
        for node, fields in outs:
            add(f"out {routes[node]} {packet.but(destination=node, **fields).bytes().hex()}")

    def of_table(self, name, rules, steps, count, before=table(), index_bits=3, stages=2, routes=TABLE_ROUTES, **other):
        """A vector of the visibility table."""
        self.vector(name, rules, steps, count, before, index_bits=index_bits, stages=stages, routes=routes, **other)

    def of_cache(self, name, rules, steps, count, before=None, after=None, routes=CACHE_ROUTES, cache_bits=3, **other):
        """A vector of the cache; before and after are what it has."""
        whole = lambda cache: State(epoch=(0, 0), pairs={}, cache=cache)
        before = cached() if before is None else before
        after = whole(before if after is None else after)
        self.vector(name, rules, steps, count, whole(before), after, index_bits=3, stages=2, cache_bits=cache_bits, routes=routes, **other)


def make(source):
    file = File(source.stem)
    names = {**globals(), "vector": file.vector, "of_table": file.of_table, "of_cache": file.of_cache}
    exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), names)
    return "\n".join(file.lines) + "\n"


def main():
    check, bad = sys.argv[1:] == ["--check"], []
    for source in sorted((HERE / "source").glob("*.py")):
        target, text = HERE / f"{source.stem}.txt", make(source)
        if not check:
            target.write_text(text, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != text:
            bad.append(target.name)
    if bad:
        sys.exit(f"not what the source gives: {', '.join(bad)}; run dataplane/vectors/make.py")


if __name__ == "__main__":
    main()
