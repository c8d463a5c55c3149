"""Scripts that try to get out of their sandbox, or to take the machine with them.

Each says THROUGH if it got what it wanted. They are told of things on the machine that are theirs to find: a
file, a process, servers, a variable of the worker. `harmless` ones are also run without a sandbox, where they
do get through: a script that could not fail would prove nothing.
"""

from typing import Final

import msgspec

THROUGH: Final = "THROUGH"
CANARY: Final = "canary-7c1f03"
"""In the worker's environment, in the file, in the worker's key ring."""
_PYTHON: Final = f"""
import ctypes, errno, fcntl, os, resource, signal, socket, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
FILE, PID, PORT, UNIX, NAME = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
CANARY = "{CANARY}"
def through(*what): print("{THROUGH}", *what, flush=True)
def attempt(action, *arguments):
    try:
        action(*arguments)
    except Exception as error:
        print(type(error).__name__, error)
    else:
        through(action)
def call(number, *arguments):
    ctypes.set_errno(0)
    return libc.syscall(number, *arguments), ctypes.get_errno()
def reach(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(2)
        s.connect(address)
        s.send(b"x")
def write(path, text):
    with open(path, "w") as file:
        file.write(text)
        file.flush()
"""


class Escape(msgspec.Struct, frozen=True):
    """One script."""

    interpreter: str
    source: str
    harmless: bool = False


def _python(source: str, *, harmless: bool = False) -> Escape:
    return Escape("python3", _PYTHON + source, harmless)


def _bash(source: str, *, harmless: bool = False) -> Escape:
    return Escape("bash", source, harmless)


ESCAPES: Final = {
    # Files of the machine.
    "reads the accounts": _bash("cat /etc/passwd /etc/shadow && echo THROUGH", harmless=True),
    "reads a file of the machine": _python("attempt(open, FILE)", harmless=True),
    "lists homes": _bash("ls /root /home /var /srv /opt /mnt /boot | grep -q . && echo THROUGH", harmless=True),
    "climbs out by links": _bash('ln -s ../../../../../.. /tmp/out; cat /tmp/out/"$1" /proc/1/root/"$1" /proc/self/root/"$1" '
                                 '/proc/self/cwd/../"$1" && echo THROUGH; cat /proc/1/root/"$1" && echo THROUGH'),
    "opens by handle": _python("""
handle = struct.pack("Ii", 8, 1) + struct.pack("q", 2) + bytes(120)
got, error = call(304, 3, handle, os.O_RDONLY)
if got >= 0 or error != errno.EPERM: through(got, error)"""),
    "writes into programs": _bash("for f in /usr/bin/x /bin/x /lib/x /usr/x /etc/x /x /run/x /dev/x; do echo x > $f && echo THROUGH; done; "
                                  "echo x >> /usr/bin/env && echo THROUGH; rm /usr/bin/env && echo THROUGH"),
    "changes its own source": _bash("echo x >> /run/script && echo THROUGH; chmod 777 /run/script && echo THROUGH"),
    "remounts what is read-only": _bash("mount -o remount,rw /usr && echo THROUGH; mount -o remount,rw / && echo THROUGH"),
    "mounts": _bash("mount -t tmpfs x /tmp && echo THROUGH; mount --bind /proc /tmp && echo THROUGH; umount /tmp && echo THROUGH"),
    "mounts by the new calls": _python("""
for number in (428, 429, 430, 432, 433, 442):
    got, error = call(number, -1, b"/", 0, 0, 0)
    if error != errno.EPERM: through(number, error)"""),
    "changes its root": _python("attempt(os.chroot, '/tmp'); got = call(155, b'/tmp', b'/tmp')\nif got[0] == 0: through()"),
    "reads devices": _python("""
for name in ("sda", "vda", "nvme0n1", "mem", "kmem", "port", "kmsg", "loop0", "kvm", "fuse", "net/tun", "vsock"):
    if os.path.exists("/dev/" + name): through(name)
attempt(os.mknod, "/tmp/device", 0o600 | 0o060000, os.makedev(8, 0))
attempt(os.mknod, "/tmp/memory", 0o600 | 0o020000, os.makedev(1, 1))"""),
    "finds what the worker has open": _python("""
for fd in os.listdir("/proc/self/fd"):
    try: where = os.readlink("/proc/self/fd/" + fd)
    except OSError: continue
    if int(fd) > 2 and "/proc/" not in where: through(fd, where)"""),
    "reads the worker's variables": _python("""
for name in os.listdir("/proc"):
    try: text = open(f"/proc/{name}/environ").read()
    except OSError: continue
    if CANARY in text: through(name)""", harmless=True),
    # Networks.
    "calls the machine itself": _python("attempt(reach, socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', PORT))", harmless=True),
    "calls the machine by IPv6": _python("attempt(reach, socket.AF_INET6, socket.SOCK_STREAM, ('::1', PORT))\n"
                                         "attempt(reach, socket.AF_INET6, socket.SOCK_STREAM, ('::ffff:127.0.0.1', PORT))"),
    "calls the metadata service": _python("attempt(reach, socket.AF_INET, socket.SOCK_STREAM, ('169.254.169.254', 80))"),
    "sends a datagram": _python("attempt(reach, socket.AF_INET, socket.SOCK_DGRAM, ('192.0.2.1', 53))"),
    "resolves a name": _python("attempt(socket.getaddrinfo, 'localhost.localdomain.example.com', 80)"),
    "calls an abstract socket": _python("attempt(reach, socket.AF_UNIX, socket.SOCK_STREAM, chr(0) + NAME)", harmless=True),
    "calls a socket in a file": _python("attempt(reach, socket.AF_UNIX, socket.SOCK_STREAM, UNIX)", harmless=True),
    "opens raw sockets": _python("""
attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW)
attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)""", harmless=True),
    "opens odd kinds of sockets": _python("""
for family in (40, 38, 29, 31, 15, 21, 44):  # vsock, alg, can, bluetooth, key, rds, xdp
    attempt(socket.socket, family, socket.SOCK_STREAM)
    attempt(socket.socket, family, socket.SOCK_DGRAM)
    attempt(socket.socket, family, socket.SOCK_SEQPACKET)"""),
    "configures its network": _python("""
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    attempt(fcntl.ioctl, s, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
    attempt(fcntl.ioctl, s, 0x8916, struct.pack("16sHH4s8x", b"lo", 2, 0, bytes([10, 0, 0, 1])))"""),
    # Other processes.
    "sees other processes": _python("""
if os.path.exists(f"/proc/{PID}") or len([n for n in os.listdir("/proc") if n.isdigit()]) > 4: through()""", harmless=True),
    "stops another process": _python("attempt(os.kill, PID, 0)", harmless=True),
    "kills everything": _bash("kill -9 -1; kill -9 -$PPID; kill -9 $PPID; kill -9 1; sleep 0.2; true"),
    "stops its parent": _bash("kill -STOP $PPID 1; kill -STOP -1; true"),
    "traces": _python("""
got, error = call(101, 0, 0, 0, 0)
if error != errno.EPERM: through("traceme", got, error)
got, error = call(101, 16, os.getppid(), 0, 0)
if error != errno.EPERM: through("attach", got, error)"""),
    "reads another's memory": _python("""
attempt(open, f"/proc/{PID}/mem", "rb+")
got, error = call(310, PID, 0, 0, 0, 0, 0)
if error != errno.EPERM: through("readv")"""),
    "joins other namespaces": _python("""
for kind in ("user", "net", "mnt", "pid"):
    try: fd = os.open(f"/proc/1/ns/{kind}", os.O_RDONLY)
    except OSError as error: print(error); continue
    got, error = call(308, fd, 0)
    if got == 0: through(kind)
got, error = call(308, -1, 0)
if error != errno.EPERM: through("setns", error)"""),
    "attaches shared memory": _python("""
got, error = call(29, 0, 4096, 0o1777)
if error != errno.EPERM: through("shmget", got, error)
got, error = call(64, 0, 1, 0o1777)
if error != errno.EPERM: through("semget", got, error)"""),
    "reads key rings": _python("""
key = ctypes.c_char_p(b"user"), ctypes.c_char_p(b"tocsin-test"), None, -4
got, error = call(249, *key)
if error != errno.EPERM: through("request_key", got, error)
got, error = call(250, 0, -3, 1)
if error != errno.EPERM: through("keyctl", got, error)
got, error = call(248, b"user", b"mine", b"x", 1, -4)
if error != errno.EPERM: through("add_key", got, error)"""),
    # More rights.
    "becomes root": _python("attempt(os.setuid, 0); attempt(os.setgid, 0); attempt(os.setgroups, [0])", harmless=True),
    "uses programs of root": _bash('for p in su sudo mount umount newgrp passwd chsh; do f=$(command -v $p) && [ -u "$f" ] && '
                                   '[ "$(echo | timeout 2 $p -c "id -u" 2>/dev/null)" = 0 ] && echo THROUGH; done; id -u | grep -qx 0 && echo THROUGH'),
    "makes a program of root": _bash('cp /usr/bin/id /tmp/id && chmod 6755 /tmp/id; [ "$(/tmp/id -u)" = 0 ] && echo THROUGH; '
                                     'chown 0:0 /tmp/id && echo THROUGH; setcap cap_sys_admin+ep /tmp/id && echo THROUGH'),
    "nests namespaces": _bash("unshare -Ur true && echo THROUGH; unshare -n true && echo THROUGH; unshare -m true && echo THROUGH; "
                              "bwrap --ro-bind / / true && echo THROUGH", harmless=True),
    "clones with namespaces": _python("""
for flag in (0x10000000, 0x20000000, 0x40000000, 0x00020000, 0x04000000, 0x08000000, 0x02000000):
    got, error = call(56, flag | 17, 0, 0, 0, 0)
    if got == 0: os._exit(0)
    if error != errno.EPERM: through(hex(flag), got, error)
arguments = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0)
got, error = call(435, arguments, 64)
if got == 0: os._exit(0)
if error != errno.ENOSYS: through("clone3", got, error)"""),
    "makes forbidden calls": _python("""
for number in (163,159,321,305,227,176,300,313,175,426,427,425,173,172,312,320,246,212,237,319,447,256,154,279,
               240,68,303,298,135,438,440,311,179,443,169,238,171,170,164,168,167,103,272,323,153):
    got, error = call(number, 0, 0, 0, 0, 0)
    if error != errno.EPERM: through(number, got, error)"""),
    "calls by other numbers": _python("""
got, error = call(0x40000000 + 39)
if got > 0: through("x32", got)"""),
    "raises its limits": _python("""
for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU):
    soft, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY: through(kind, "unlimited")
    attempt(resource.setrlimit, kind, (hard + 1, hard + 1))
attempt(os.nice, -1)"""),
    "writes to the kernel's settings": _python("""
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches",
             "/proc/sys/kernel/ns_last_pid", "/proc/sys/user/max_user_namespaces"):
    attempt(write, path, "1")"""),
    "protects itself from the memory's end": _python("attempt(write, '/proc/self/oom_score_adj', '-1000')"),
    "reads the machine's devices and groups": _python("""
for path in ("/sys/kernel", "/sys/fs/cgroup", "/sys/class", "/sys/firmware"):
    if os.path.exists(path): through(path)""", harmless=True),
    "reads the kernel's log": _bash("dmesg | grep -q . && echo THROUGH", harmless=True),
    "renames the machine": _python("attempt(socket.sethostname, 'mine')\nif socket.gethostname() != 'script': through()"),
    "types into the terminal": _python("""
for path in ("/dev/tty", "/proc/self/fd/0", "/dev/console"):
    try: fd = os.open(path, os.O_RDWR)
    except OSError as error: print(path, error); continue
    try: fcntl.ioctl(fd, 0x5412, b"x")
    except OSError as error: print(path, error)
    else: through(path)"""),
    # Taking more than its share. The runner looks at what is left of the machine and of the worker.
    "forks without end": _python("""
import threading
begun = []
def fork():
    try: pid = os.fork()
    except OSError: return False
    if pid == 0: time.sleep(60)
    begun.append(pid)
    return True
while len(begun) < 200 and fork(): pass
if len(begun) > 33: through(len(begun))"""),
    "bombs": _bash("f() { f | f & }; f; sleep 1; set -- /proc/[0-9]*; [ $# -gt 40 ] && echo THROUGH; exit 0"),
    "takes memory": _python("""
taken = []
try:
    while len(taken) < 400: taken.append(bytearray(1 << 20))
except MemoryError: print("no more")
else: through(len(taken))"""),
    "takes memory with many": _python("""
for _ in range(12):
    if os.fork() == 0:
        hold = bytearray(60 << 20)
        for at in range(0, len(hold), 4096): hold[at] = 1
        time.sleep(60)
time.sleep(8)
through("all of it")"""),
    "fills the disk": _bash("head -c 100M /dev/zero > /tmp/a && echo THROUGH; head -c 40M /dev/zero > /tmp/b; head -c 40M /dev/zero > /tmp/c && echo THROUGH"),
    "fills shared memory": _bash("head -c 8M /dev/zero > /dev/shm/a && echo THROUGH"),
    "makes files without end": _python("""
import itertools
for number in itertools.count():
    if number % 1000 == 0: os.mkdir(f"/tmp/{number // 1000}")
    os.close(os.open(f"/tmp/{number // 1000}/{number}", os.O_CREAT))
    if number == 1_000_000: through()"""),
    "floods its output": _bash("timeout 2 yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; timeout 1 yes >&2; true"),
    "opens files without end": _python("""
opened = []
try:
    while len(opened) < 4096: opened.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error: print(error)
else: through()"""),
    "outlives its time": _bash("trap '' TERM INT HUP QUIT; while :; do sleep 60; done"),
    "leaves an orphan": _python(f"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["{CANARY}", "600"])
    os._exit(0)
time.sleep(0.2)"""),
    "leaves an orphan that holds the output": _bash("(trap '' HUP; setsid sleep 611) & sleep 0.1; exit 0"),
}  # fmt: skip
