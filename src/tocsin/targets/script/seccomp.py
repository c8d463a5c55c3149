"""The system calls that no script makes: a seccomp filter, built without a library.

The other walls (namespaces, no capabilities, nothing mounted) already make most of these fail. The filter
keeps the code behind them out of reach, since defects in that code are how sandboxes break. It is a list of
what is denied, not of what is allowed: interpreters use new harmless calls with every release.

A denied call fails with EPERM, so a script sees an error and not its end. `clone3` fails with ENOSYS, because
its flags cannot be looked at; libraries then use `clone`, whose flags can.
"""

import platform
import struct
from typing import Final

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_EPERM: Final = 1
_ENOSYS: Final = 38
_EAFNOSUPPORT: Final = 97
_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_EQUAL: Final = 0x15
_JUMP_GREATER_OR_EQUAL: Final = 0x35
_JUMP_SET: Final = 0x45
_RETURN: Final = 0x06
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_FIRST_ARGUMENT: Final = 16
_X32: Final = 0x40000000
_NEW_NAMESPACES: Final = (
    0x7E020080  # CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
)
# What names an address a script may have: its own machine's (1), IPv4 (2), IPv6 (10), and netlink (16), which
# the C library asks for interfaces. Others, such as vsock, lead out of the sandbox.
_FAMILIES: Final = (1, 2, 10, 16)

ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Name: number on x86_64, number on aarch64; None where there is none.
DENIED: Final[dict[str, tuple[int | None, int | None]]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chroot": (161, 51),
    "clock_adjtime": (305, 266), "clock_settime": (227, 112), "delete_module": (176, 106),
    "fanotify_init": (300, 262), "finit_module": (313, 273), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None),
    "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "lookup_dcookie": (212, 18), "mbind": (237, 235), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "migrate_pages": (256, 238), "modify_ldt": (154, None), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180), "msgget": (68, 186),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438), "pivot_root": (155, 41),
    "process_madvise": (440, 440), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "ptrace": (101, 117), "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142),
    "request_key": (249, 218), "semget": (64, 190), "set_mempolicy": (238, 237), "setdomainname": (171, 162),
    "sethostname": (170, 161), "setns": (308, 268), "settimeofday": (164, 170), "shmget": (29, 194),
    "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39),
    "unshare": (272, 97), "userfaultfd": (323, 282), "vhangup": (153, 58),
}  # fmt: skip
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_SOCKET: Final = (41, 198)


def is_supported(machine: str | None = None) -> bool:
    """Whether there is a filter for this kind of machine."""
    return (machine or platform.machine()) in ARCHITECTURES


def seccomp_filter(machine: str | None = None) -> bytes:
    """The program, as the kernel takes it."""
    machine = machine or platform.machine()
    column = list(ARCHITECTURES).index(machine)
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_JUMP_EQUAL, ARCHITECTURES[machine], 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":  # numbers of a second kind, which the list below does not know
        program += _if(_JUMP_GREATER_OR_EQUAL, _X32, _ERRNO | _ENOSYS)
    for numbers in DENIED.values():
        if (number := numbers[column]) is not None:
            program += _if(_JUMP_EQUAL, number, _ERRNO | _EPERM)
    program += _if(_JUMP_EQUAL, _CLONE3[column], _ERRNO | _ENOSYS)
    program += [
        _instruction(_JUMP_EQUAL, _CLONE[column], 0, 4),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        *_if(_JUMP_SET, _NEW_NAMESPACES, _ERRNO | _EPERM),
        _instruction(_RETURN, _ALLOW),
        _instruction(_JUMP_EQUAL, _SOCKET[column], 0, len(_FAMILIES) + 2),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        *(
            _instruction(_JUMP_EQUAL, family, len(_FAMILIES) - number, 0)
            for number, family in enumerate(_FAMILIES)
        ),
        _instruction(_RETURN, _ERRNO | _EAFNOSUPPORT),
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _if(test: int, value: int, answer: int) -> list[bytes]:
    """Answer if the test holds, else go on."""
    return [_instruction(test, value, 0, 1), _instruction(_RETURN, answer)]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
