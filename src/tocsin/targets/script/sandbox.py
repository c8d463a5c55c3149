"""The command that runs a script inside its walls.

The walls, from outside in:

1. An ordinary user: a worker that is root becomes the user `nobody` first, since limits on processes do not
   bind root.
2. bubblewrap: namespaces of its own for users, processes, network, IPC, host name and mounts; no
   capabilities, no further user namespaces, no privileges to be gained. The file system is the machine's
   `/usr`, read-only, and a `/tmp` of a given size. It ends when the worker does.
3. Limits of the kernel per process, and on the number of processes of this sandbox. They are set inside,
   where only this sandbox's processes are counted.
4. A filter of system calls (`seccomp`).

Everything here is pure: it says what to run, and runs nothing. Arguments for bubblewrap go through a file, so
the values of variables do not stand in the machine's list of processes.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

NOBODY: Final = 65534
SOURCE: Final = "/run/script"
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SHARED_MEMORY: Final = 1024 * 1024
_OPEN_FILES: Final = 128
_NICENESS: Final = 10
TOP_LEVEL: Final = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")


class Limits(msgspec.Struct, frozen=True):
    """What a sandbox may use, in bytes and seconds."""

    seconds: float
    memory: int
    processes: int
    disk: int
    network: bool = False


def launcher(*, root: bool) -> list[str]:
    """What starts bubblewrap: with less right to the processors than the worker, and never as root."""
    start = ["nice", "-n", str(_NICENESS)]
    if root:
        ids = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        start += ["setpriv", *ids, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"]
    return start


def sandbox_arguments(
    limits: Limits,
    environment: Mapping[str, str],
    links: Mapping[str, str | None],
    *,
    source: int,
    seccomp: int,
    status: int,
) -> bytes:
    """The arguments of bubblewrap, one after the other, each ended by NUL. `links` says where the machine's
    top-level directories lead; `source`, `seccomp` and `status` are file descriptors."""
    words = [
        *("--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-pid", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *("--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "script"),
        *(() if limits.network else ("--unshare-net",)),
        *("--ro-bind", "/usr", "/usr", *_top_level(links)),
        *_configuration(network=limits.network),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(_SHARED_MEMORY), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
        *("--size", str(limits.disk), "--tmpfs", "/tmp"),  # noqa: S108 - inside the sandbox
        *("--perms", "0444", "--ro-bind-data", str(source), SOURCE),
        *("--remount-ro", "/", "--chdir", "/tmp"),  # noqa: S108
        *("--seccomp", str(seccomp), "--json-status-fd", str(status)),
    ]
    variables = {"PATH": _PATH, "HOME": "/tmp", "LANG": "C.UTF-8"} | dict(environment)  # noqa: S108
    for name, value in variables.items():
        words += ["--setenv", name, value]
    return b"".join(word.encode() + b"\0" for word in words)


def limited_command(limits: Limits, interpreter: str, arguments: Sequence[str]) -> list[str]:
    """What runs inside: the kernel's limits, then the interpreter."""
    seconds = int(limits.seconds) + 2
    bounds = {
        "as": limits.memory,
        "nproc": limits.processes + 1,  # bubblewrap's own first process is counted, too
        "cpu": seconds,
        "fsize": limits.disk,
        "nofile": _OPEN_FILES,
        "core": 0,
        "memlock": 64 * 1024,
        "msgqueue": 0,
        "sigpending": 256,
    }
    flags = [f"--{name}={value}:{value}" for name, value in bounds.items()]
    return ["prlimit", *flags, "--", interpreter, SOURCE, *arguments]


def _top_level(links: Mapping[str, str | None]) -> list[str]:
    """`/bin` and the like: links into `/usr` where the machine has it so, else the directories themselves."""
    words: list[str] = []
    for name, leads_to in links.items():
        words += (
            ["--ro-bind", f"/{name}", f"/{name}"] if leads_to is None else ["--symlink", leads_to, f"/{name}"]
        )
    return words


def _configuration(*, network: bool) -> list[str]:
    """The few files of `/etc` without which programs are not found. They say nothing about users or hosts."""
    paths = ["/etc/alternatives", "/etc/ld.so.cache"]
    if network:
        paths += ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl/certs"]
    return [word for path in paths for word in ("--ro-bind-try", path, path)]
