"""The same calls by callers of every kind; a line each with what came of it. `capabilities.rs` compares two file systems.

Usage: capabilities.py DIR. Needs root."""
import ctypes, errno, os, shutil, stat, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
CHOWN, OVERRIDE, SEARCH, FOWNER, FSETID, MKNOD, ADMIN, SETFCAP = (1 << n for n in (0, 1, 2, 3, 4, 27, 21, 31))
FULL = (1 << 38) - 1
NEWUSER = 0x10000000


def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)


def capset(effective, permitted):
    low, high = 0xFFFFFFFF, 32
    header = struct.pack("Ii", 0x20080522, 0)
    sets = [effective & low, permitted & low, 0, effective >> high, permitted >> high, 0]
    call("capset", header, struct.pack("6I", *sets))


def capget():
    data = ctypes.create_string_buffer(24)
    call("capget", ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0)), data)
    words = struct.unpack("6I", data.raw)
    return words[1] | words[4] << 32


class Caller:
    """real and effective ids, groups, effective and permitted capabilities; in a namespace with these maps (inside, outside, count)."""

    def __init__(self, name, uid, gid, effective=0, permitted=None, groups=(), real=None, maps=None):
        self.name, self.uid, self.gid, self.groups, self.maps = name, uid, gid, list(groups), maps
        self.real = uid if real is None else real
        self.effective = effective
        self.permitted = effective if permitted is None else permitted

    def become(self):
        have = capget()
        call("prctl", 8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.real, self.uid, self.uid)
        capset(self.effective & have, (self.permitted | self.effective) & have)

    def inside(self, outside, kind):
        if not self.maps:
            return outside
        for first, start, count in self.maps[kind]:
            if start <= outside < start + count:
                return outside - start + first
        return 65533


SINGLE = {"chown": CHOWN, "override": OVERRIDE, "search": SEARCH, "fowner": FOWNER, "fsetid": FSETID, "mknod": MKNOD,
          "admin": ADMIN, "setfcap": SETFCAP}


def callers():
    yield Caller("root", 0, 0, FULL)
    yield Caller("root/none", 0, 0)
    yield Caller("root/permitted", 0, 0, 0, FULL)
    for name, bit in SINGLE.items():
        yield Caller("root/" + name, 0, 0, bit)
        yield Caller("user/" + name, 1001, 2001, bit, groups=[2003])
    yield Caller("user", 1001, 2001, groups=[2003])
    yield Caller("user/all", 1001, 2001, FULL)
    yield Caller("user/permitted", 1001, 2001, 0, FULL)
    yield Caller("owner", 1002, 2002)
    yield Caller("owner/fsetid", 1002, 2009, FSETID)
    yield Caller("owner/fowner", 1002, 2009, FOWNER)
    yield Caller("real user, effective root", 0, 0, FULL, real=1001)
    yield Caller("real root, effective user", 1001, 2001, 0, FULL, real=0)
    one = {"uid": [(0, 1002, 1)], "gid": [(0, 2002, 1)]}
    two = {"uid": [(0, 1002, 1), (1, 1003, 1)], "gid": [(0, 2002, 1), (5, 2003, 2)]}
    every = {"uid": [(0, 0, 4294967295)], "gid": [(0, 0, 4294967295)]}
    other = {"uid": [(0, 1002, 2)], "gid": [(0, 2001, 1)]}
    for name, maps in ("one", one), ("two", two), ("every", every), ("other", other):
        yield Caller("namespace of %s" % name, 0, 0, FULL, maps=maps)
        yield Caller("namespace of %s/none" % name, 0, 0, 0, maps=maps)
    yield Caller("user of namespace", 1, 5, 0, maps=two)
    yield Caller("user of namespace/override", 1, 5, OVERRIDE, maps=two)


def opened(path, flags, then=None):
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return then(fd) if then else None
    finally:
        os.close(fd)


ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, perm, who)
    for tag, perm, who in [(1, 6, 0xFFFFFFFF), (2, 4, 1009), (4, 4, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)])
FILE_CAPS = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)


def access(how, effective):
    def ask(me, path):
        if not os.access(path, how, effective_ids=effective):
            return "no"
    return ask


def xattr_of(name, value):
    return lambda me, path: os.setxattr(path, name, value, follow_symlinks=False)


FILE_OPS = {
    "open r": lambda me, path: opened(path, os.O_RDONLY),
    "open w": lambda me, path: opened(path, os.O_WRONLY),
    "open rw": lambda me, path: opened(path, os.O_RDWR),
    "open noatime": lambda me, path: opened(path, os.O_RDONLY | os.O_NOATIME),
    "open trunc": lambda me, path: opened(path, os.O_WRONLY | os.O_TRUNC),
    "truncate": lambda me, path: os.truncate(path, 1),
    "access r": access(os.R_OK, False),
    "access w": access(os.W_OK, False),
    "access x": access(os.X_OK, False),
    "effective access r": access(os.R_OK, True),
    "effective access w": access(os.W_OK, True),
    "effective access x": access(os.X_OK, True),
    "chmod": lambda me, path: os.chmod(path, 0o611),
    "chmod setgid": lambda me, path: os.chmod(path, 0o2611),
    "chmod setuid": lambda me, path: os.chmod(path, 0o4755),
    "chown uid": lambda me, path: os.chown(path, me.inside(1003, "uid"), -1),
    "chown gid": lambda me, path: os.chown(path, -1, me.inside(2003, "gid")),
    "chown own gid": lambda me, path: os.chown(path, -1, me.gid),
    "chown both": lambda me, path: os.chown(path, me.inside(1002, "uid"), me.inside(2002, "gid")),
    "touch": lambda me, path: os.utime(path),
    "utime": lambda me, path: os.utime(path, (5, 6)),
    "link": lambda me, path: os.link(path, path + ".link"),
    "unlink": lambda me, path: os.unlink(path),
    "rename": lambda me, path: os.rename(path, path + ".to"),
    "replace": lambda me, path: os.rename(path + ".other", path),
    "set user": xattr_of("user.a", b"x"),
    "get user": lambda me, path: str(os.getxattr(path, "user.old")),
    "set trusted": xattr_of("trusted.a", b"x"),
    "get trusted": lambda me, path: str(os.getxattr(path, "trusted.old")),
    "list": lambda me, path: str(sorted(os.listxattr(path))),
    "set security": xattr_of("security.a", b"x"),
    "set capability": xattr_of("security.capability", FILE_CAPS),
    "remove capability": lambda me, path: os.removexattr(path, "security.capability"),
    "set acl": xattr_of("system.posix_acl_access", ACL),
}
# Of a program with setuid and setgid.
SUID_OPS = {
    "suid write": lambda me, path: opened(path, os.O_WRONLY, lambda fd: os.write(fd, b"x") and None),
    "suid truncate": lambda me, path: os.truncate(path, 1),
    "suid fallocate": lambda me, path: opened(path, os.O_WRONLY, lambda fd: os.posix_fallocate(fd, 0, 9000)),
    "suid copy": lambda me, path: opened(
        path, os.O_WRONLY, lambda to: opened("source", os.O_RDONLY, lambda fd: os.copy_file_range(fd, to, 5000) and None)),
    "suid chown": lambda me, path: os.chown(path, -1, me.inside(2003, "gid")),
}
DIR_OPS = {
    "search": lambda me, path: os.lstat(path + "/file") and None,
    "readdir": lambda me, path: str(sorted(os.listdir(path))),
    "chdir": lambda me, path: os.chdir(path),
    "create": lambda me, path: opened(path + "/new", os.O_CREAT | os.O_EXCL | os.O_WRONLY),
    "mkdir": lambda me, path: os.mkdir(path + "/new"),
    "symlink": lambda me, path: os.symlink("x", path + "/new"),
    "fifo": lambda me, path: os.mkfifo(path + "/new"),
    "device": lambda me, path: os.mknod(path + "/new", stat.S_IFCHR | 0o600, os.makedev(1, 3)),
    "remove": lambda me, path: os.unlink(path + "/file"),
    "rmdir within": lambda me, path: os.rmdir(path + "/dir"),
    "dir set user": xattr_of("user.a", b"x"),
    "dir chmod": lambda me, path: os.chmod(path, 0o2711),
    "dir chown": lambda me, path: os.chown(path, me.inside(1003, "uid"), me.inside(2003, "gid")),
    "dir move": lambda me, path: os.rename(path, "room/" + os.path.basename(path)),
    "setgid program": lambda me, path: os.close(os.open(path + "/new", os.O_CREAT | os.O_WRONLY, 0o2775)),
}
OWNERS = [(0, 0), (1002, 2002), (1003, 2003)]
PLAN = [(FILE_OPS, [0o640, 0o001], "file"), (SUID_OPS, [0o6777], "file"),
        (DIR_OPS, [0o750, 0o3777, 0o1070], "dir")]


# What else a call may leave, beside its object.
BESIDE = {"link": [".link"], "rename": [".to"], "replace": [".other"], "remove": ["/file"], "rmdir within": ["/dir"]}
MAKING = {"create", "mkdir", "symlink", "fifo", "device", "setgid program"}
WITH_XATTRS = {"get user", "get trusted", "list"}


def prepare(kind, op, path, uid, gid, mode):
    """Makes the object of a call; whether it gets file capabilities."""
    if kind == "dir":
        os.mkdir(path)
        if op in ("rmdir within", "readdir"):
            os.mkdir(path + "/dir")
            os.chown(path + "/dir", 1002, 2002)
        if op in ("remove", "search", "readdir"):
            os.close(os.open(path + "/file", os.O_CREAT))
            os.chown(path + "/file", 1003, 2003)
    else:
        for name in [path] + ([path + ".other"] if op == "replace" else []):
            with open(name, "w") as file:
                file.write("text")
            os.chown(name, 1003, 2003)
        if op in WITH_XATTRS:
            os.setxattr(path, "user.old", b"v")
            os.setxattr(path, "trusted.old", b"v")
    os.chown(path, uid, gid)
    privileged = kind == "file" and mode == 0o640 and (op.split()[0] in ("chown", "truncate", "list", "remove", "open"))
    if privileged:
        os.setxattr(path, "security.capability", FILE_CAPS)
    os.chmod(path, mode)
    return privileged


def seen(op, path, privileged):
    said = []
    for name in [path] + [path + more for more in BESIDE.get(op, ["/new"] if op in MAKING else [])]:
        try:
            found = os.lstat(name)
        except OSError:
            continue
        caps = (privileged or op == "set capability") and "security.capability" in os.listxattr(name)
        said.append("%s %o %d:%d%s" % (name[len(path):], found.st_mode, found.st_uid, found.st_gid, " caps" if caps else ""))
    return ";".join(said)


def in_child(me, work):
    """Calls `work` as the caller, in a process of its own; what it writes."""
    (out, told), (ready, go) = os.pipe(), os.pipe()
    (unshared, say) = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(out)
            if me.maps:
                call("unshare", NEWUSER)
                os.write(say, b"x")
                os.read(ready, 1)
            me.become()
            work(told)
        except BaseException as error:
            os.write(told, ("child: %r\n" % error).encode())
        finally:
            os._exit(0)
    os.close(told)
    if me.maps:
        os.read(unshared, 1)
        for kind in "uid", "gid":
            with open("/proc/%d/%s_map" % (child, kind), "w") as file:
                file.write("".join("%d %d %d\n" % part for part in me.maps[kind]))
        os.write(go, b"x")
    with os.fdopen(out) as file:
        text = file.read()
    os.waitpid(child, 0)
    for fd in ready, go, unshared, say:
        os.close(fd)
    return text.splitlines()


def main(base):
    os.chdir(base)
    os.umask(0)
    for me in callers():
        os.mkdir("area", 0o3777)
        os.chmod("area", 0o1777)
        os.chdir("area")
        os.mkdir("room", 0o777)
        with open("source", "w") as file:
            file.write("s" * 5000)
        targets = []
        for ops, modes, kind in PLAN:
            for op, what in ops.items():
                for mode in modes:
                    for uid, gid in OWNERS:
                        path = "t%d" % len(targets)
                        privileged = prepare(kind, op, path, uid, gid, mode)
                        label = "%s | %s | %o of %d:%d" % (me.name, op, mode, uid, gid)
                        targets.append((path, what, label, op, privileged))

        def work(told):
            here = os.open(".", os.O_PATH)
            for path, what, *_ in targets:
                try:
                    line = what(me, path) or "done"
                except OSError as error:
                    line = errno.errorcode[error.errno]
                os.write(told, (line + "\n").encode())
                os.fchdir(here)

        lines = in_child(me, work)
        assert len(lines) == len(targets), lines[-3:]
        for (path, _, label, op, privileged), line in zip(targets, lines):
            print("%s | %s | %s" % (label, line, seen(op, path, privileged)))
        os.chdir("..")
        shutil.rmtree("area")


main(sys.argv[1])
