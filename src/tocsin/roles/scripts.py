"""Whether this process runs scripts: only if it was told to, and only if every wall of the sandbox stands.

A process whose walls do not stand says which, and leaves scripts to others. Nothing else of it suffers.
"""

import structlog

from tocsin.roles.process import Process
from tocsin.targets.script.walls import fallen_walls

_log = structlog.get_logger()


async def try_sandbox(process: Process) -> None:
    """Try the sandbox once, before this process says what it serves."""
    if process.settings.script_rules is None or process.runs_scripts:
        return
    fallen = await fallen_walls()
    process.runs_scripts = not fallen
    if fallen:
        _log.error("scripts.refused", walls=fallen, hint="see the page about scripts: what a machine needs")
    else:
        _log.info("scripts.ready", interpreters=list(process.settings.script_interpreters))
