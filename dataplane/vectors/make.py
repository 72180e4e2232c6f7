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
DIRTY_SET, VISIBILITY = 1, 2
LAYOUT = {DIRTY_SET: TABLES[0], VISIBILITY: {**COMMON, **TABLES[1]}}
HEADER_BYTES = {DIRTY_SET: 40, VISIBILITY: 124}
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


def to(node, result, **fields):
    """The copy of the packet before that goes to a node."""
    return (node, {"result": result, **fields})


def comes(packet, *outs, port=None, udp_port=UDP_PORT, passes=False):
    """A packet comes in; what goes out. `packet` may be bytes. Without a port inserts and removes come from shard 2, installs from the data
    node, clears from shard 0, all else from client 1."""
    code = None if isinstance(packet, bytes) else packet.fields.get("code")
    port = port or {INSERT: 12, REMOVE: 12, INSTALL: 13, CLEAR: 10}.get(code, 21)
    return ("in", packet, outs, port, udp_port, passes)


def do(command):
    return ("do", command)


def refused(command):
    return ("refused", command)


class State:
    """Registers. Of the dirty set: epoch and complete bit; pairs by shard; tags by (stage, index). Of the visibility table: epoch and
    complete bit; entries (fingerprint, ts, metadata) by index."""

    def __init__(self, epoch=(7, 1), pairs=None, tags=None, visible=(0, 0), entries=None):
        self.epoch = epoch
        self.pairs = {0: (4, 99)} if pairs is None else pairs
        self.tags = tags or {}
        self.visible = visible
        self.entries = entries or {}

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

    def vector(self, name, rules, steps, count, before=State(), after=None, index_bits=17, stages=10, entry_bits=3, routes=None, hosts=HOSTS):
        """`after` is the state after all steps; None: nothing changed."""
        assert name not in self.names, name
        self.names.add(name)
        routes = ROUTES if routes is None else routes
        add = self.lines.append
        add(f"\nvector {name}")
        add(f"rules {rules}")
        add(f"index_bits {index_bits}")
        add(f"stages {stages}")
        add(f"entry_bits {entry_bits}")
        add(f"cluster {CLUSTER}")
        add(f"udp_port {UDP_PORT}")
        self.lines += before.lines("before")
        self.lines += (f"before route {node} {port}" for node, port in sorted(routes.items()))
        self.lines += (f"before host {port}" for port in hosts)
        for step in steps:
            self.step(step, routes)
        self.lines += (after or before).lines("after")
        self.lines += (f"count {counter} {n}" for counter, n in sorted(count.items()))
        add("end")

    def step(self, step, routes):
        add = self.lines.append
        if step[0] != "in":
            add(f"do {step[1]}")
            if step[0] == "refused":
                add("refused")
            return
        _, packet, outs, port, udp_port, passes = step
        data = packet if isinstance(packet, bytes) else packet.bytes()
        add(f"in {port} {udp_port} {data.hex() or '-'}")
        if passes:
            add("pass")
        for node, fields in outs:
            add(f"out {routes[node]} {packet.but(destination=node, **fields).bytes().hex()}")

    def of_table(self, name, rules, steps, count, before=table(), index_bits=3, stages=2, routes=TABLE_ROUTES, **other):
        """A vector of the visibility table."""
        self.vector(name, rules, steps, count, before, index_bits=index_bits, stages=stages, routes=routes, **other)


def make(source):
    file = File(source.stem)
    names = {**globals(), "vector": file.vector, "of_table": file.of_table}
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
