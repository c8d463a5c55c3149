"""From the end of a script to an outcome.

Exit code 0 is success. 75, which sendmail's codes call a temporary failure, asks for another attempt; any
other code is the script's own last word and is not tried again. A script that used more memory than it may is
tried again, since its input may differ; so is one whose sandbox broke down.
"""

from typing import Any, Final

from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import TIMEOUT
from tocsin.domain.secrets import Redactor
from tocsin.targets.script.process import Ended, Kept

TEMPORARY: Final = 75
OUT_OF_MEMORY: Final = "out_of_memory"


def outcome_of(ended: Ended, seconds: float, redactor: Redactor) -> Outcome:
    """What a script's end means."""
    detail = _detail(ended, redactor)
    match ended:
        case Ended(timed_out=True):
            return Outcome(Verdict.TIMED_OUT, f"the script ran for {seconds:g} s", detail, failure=TIMEOUT)
        case Ended(out_of_memory=True):
            return Outcome(Verdict.FAILED, f"{OUT_OF_MEMORY}: the script used more than it may", detail)
        case Ended(exit=0):
            return Outcome(Verdict.SUCCEEDED, detail=detail)
        case Ended(exit=None):
            return Outcome(Verdict.FAILED, "the sandbox ended before the script did", detail)
        case Ended(exit=code):
            verdict = Verdict.FAILED if code == TEMPORARY else Verdict.REJECTED
            return Outcome(verdict, f"the script exited with {code}", detail)


def _detail(ended: Ended, redactor: Redactor) -> dict[str, Any]:
    detail: dict[str, Any] = {} if ended.exit is None else {"exit": ended.exit}
    for name, kept in (("stdout", ended.stdout), ("stderr", ended.stderr)):
        if kept.data:
            detail[name] = _text(kept, redactor)
        if kept.cut:
            detail[f"{name}_truncated"] = True
    return detail


def _text(kept: Kept, redactor: Redactor) -> str:
    data = redactor.body(kept.data, truncated=kept.cut) if redactor else kept.data
    # NUL cannot be stored in JSON by PostgreSQL.
    return data.decode("utf-8", "replace").replace("\x00", "\\x00")
