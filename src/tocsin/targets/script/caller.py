"""Runs scripts: opens the secrets that they name, tells them who they are, hands back how they ended.

Only a worker whose walls stand has a caller of this kind (`walls.fallen_walls`).
"""

from typing import Final

from tocsin.clock import Clock
from tocsin.domain.errors import Refused
from tocsin.domain.instant import SECOND, format_instant
from tocsin.domain.outcome import Outcome, Postponed, Verdict, pause_for_newer
from tocsin.domain.script_target import (
    SCRIPT,
    SCRIPT_MARGIN,
    ScriptLimits,
    ScriptRules,
    ScriptTarget,
    check_rules,
    size_of,
    stdin_of,
)
from tocsin.domain.secrets import Redactor, SecretRef
from tocsin.domain.waits import Reason
from tocsin.targets.assignment import Assignment
from tocsin.targets.caller import Host
from tocsin.targets.script.outcome import outcome_of
from tocsin.targets.script.process import Script, run_script
from tocsin.targets.script.sandbox import Limits
from tocsin.targets.secrets import NoSecrets, SecretOfOthers, Secrets, SecretUnavailable

SCRIPT_HOST: Final[Host] = (SCRIPT, 0)
"""Where scripts run, as a host with limited room: this worker."""


class ScriptCaller:
    """One attempt at a script."""

    def __init__(self, rules: ScriptRules, clock: Clock, secrets: Secrets | None = None) -> None:
        self._rules = rules
        self._clock = clock
        self._secrets = secrets or NoSecrets()

    def host(self, target: ScriptTarget) -> Host:  # noqa: ARG002 - wherever it is from
        """All scripts share the room of this worker."""
        return SCRIPT_HOST

    async def call(self, assignment: Assignment, target: ScriptTarget, timeout: float) -> Outcome | Postponed:
        """Run it. A script that this worker's operator does not allow is not run, whatever the API let
        pass."""
        names = [value.secret for value in target.env.values() if isinstance(value, SecretRef)]
        try:
            check_rules(target, self._rules)
            secrets = await self._secrets.values(assignment.tenant_id, names) if names else {}
        except Refused as error:
            return Outcome(Verdict.REJECTED, error=error.detail)
        except SecretUnavailable as error:
            return Outcome(Verdict.FAILED, error=error.detail)
        except SecretOfOthers:
            return Postponed(pause_for_newer(assignment.due_at, self._clock.now()), Reason.KEY)
        given = {
            name: secrets[value.secret] if isinstance(value, SecretRef) else value
            for name, value in target.env.items()
        }
        script = Script(
            target.interpreter,
            target.source.encode(),
            target.args,
            given | _identity(assignment),
            stdin_of(target),
        )
        seconds = max(0.1, timeout - SCRIPT_MARGIN / SECOND)
        output = size_of(target.limits.output, "target.limits.output")
        ended = await run_script(script, _limits(target.limits, seconds), output)
        return outcome_of(ended, seconds, Redactor(secrets.values()))


def _limits(written: ScriptLimits, seconds: float) -> Limits:
    return Limits(
        seconds=seconds,
        memory=size_of(written.memory, "target.limits.memory"),
        processes=written.processes,
        disk=size_of(written.disk, "target.limits.disk"),
        network=written.network,
    )


def _identity(assignment: Assignment) -> dict[str, str]:
    """What an HTTP target is told in headers."""
    return {
        "TOCSIN_EXECUTION": assignment.execution,
        "TOCSIN_JOB": assignment.job,
        "TOCSIN_ATTEMPT": str(assignment.attempt),
        "TOCSIN_FIRE_AT": format_instant(assignment.nominal_fire_at),
        "TOCSIN_IDEMPOTENCY_KEY": assignment.execution,
        "TRACEPARENT": assignment.traceparent,
    }
