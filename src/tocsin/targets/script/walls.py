"""Whether the sandbox stands on this machine: tried once, before a worker takes scripts.

A script inside looks at each wall from within and names those that hold. A wall that it does not name does
not stand, and then no script runs here: there is no way to run one without.
"""

import platform
import shutil
from typing import Final

from tocsin.targets.script.process import Script, run_script
from tocsin.targets.script.sandbox import Limits
from tocsin.targets.script.seccomp import is_supported

_PROGRAMS: Final = ("bwrap", "nice", "setpriv", "prlimit", "unshare")
_LIMITS: Final = Limits(seconds=10.0, memory=128 * 1024 * 1024, processes=8, disk=1024 * 1024)
_OUTPUT: Final = 8192
WALLS: Final = {
    "network": "its own network, with nothing in it but the loopback",
    "files": "no file of the machine but programs",
    "read-only": "nothing to write but a /tmp of its own",
    "disk": "a /tmp of a bounded size",
    "processes": "no process of the machine in sight",
    "privileges": "no capabilities, and none to be gained",
    "system calls": "a filter of system calls",
    "namespaces": "no further namespaces",
    "fork": "a bounded number of processes",
}
"""What is tried, and what it means."""
# Two files, of which each alone has room: the kernel bounds a file, but only /tmp bounds all of them.
# The bound on processes is tried last: when it is reached, a shell can start nothing more.
_PROBE: Final = rb"""
has() { grep -q "^$1:[[:space:]]*$2\$" /proc/self/status; }
[ "$(grep -c : /proc/net/dev)" = 1 ] && grep -q '^ *lo:' /proc/net/dev && echo network
[ ! -e /etc/passwd ] && [ ! -e /root ] && [ ! -e /home ] && [ ! -e /var ] && echo files
! (: > /usr/tocsin) 2>/dev/null && ! (: > /tocsin) 2>/dev/null && : > /tmp/tocsin && echo read-only
fill() { head -c 700000 /dev/zero 2>/dev/null > /tmp/$1; }
! { fill tocsin && fill more; } && rm /tmp/tocsin /tmp/more && echo disk
set -- /proc/[0-9]*; [ $# -lt 9 ] && [ $$ -lt 20 ] && echo processes
has CapEff 0000000000000000 && has CapBnd 0000000000000000 && has NoNewPrivs 1 && echo privileges
has Seccomp 2 && echo 'system calls'
! unshare --user true 2>/dev/null && ! unshare --net true 2>/dev/null && echo namespaces
(i=0; while [ $i -lt 16 ]; do sleep 9 & i=$((i+1)); done) 2>/dev/null
set -- /proc/[0-9]*; [ $# -lt 12 ] && echo fork
exit 0
"""


async def fallen_walls() -> dict[str, str]:
    """Why scripts cannot run here, by wall; nothing if all stand."""
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return {"programs": f"not found: {', '.join(missing)}"}
    if not is_supported():
        return {"system calls": f"there is no filter for {platform.machine()}"}
    try:
        ended = await run_script(Script("sh", _PROBE), _LIMITS, _OUTPUT)
    except OSError as error:
        return {"sandbox": f"did not start: {error}"}
    if ended.exit != 0 and not ended.stdout.data:
        said = ended.stderr.data.decode("utf-8", "replace").strip()[:400]
        return {"sandbox": f"did not start: {said or 'it said nothing'}"}
    stood = set(ended.stdout.data.decode("utf-8", "replace").splitlines())
    return {wall: f"does not stand: {words}" for wall, words in WALLS.items() if wall not in stood}
