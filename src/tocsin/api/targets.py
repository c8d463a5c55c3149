"""``/v1/targets/test``: call a target once, before a job relies on it."""

from tocsin.api.connections import check_connection_of
from tocsin.api.definitions import check_callable
from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.grpc_targets import described
from tocsin.api.trials import Trial
from tocsin.api.wire.targets import TargetTrial, TrialAnswer
from tocsin.domain.errors import Refused
from tocsin.domain.explain import HELD
from tocsin.domain.instant import MILLISECOND, SECOND, parse_span
from tocsin.domain.job import MAX_NAME, check_text
from tocsin.domain.keys import Scope
from tocsin.domain.outcome import Outcome, Postponed
from tocsin.domain.target import MAX_TIMEOUT, check_name_is_there, timeout_of


async def test(call: ApiCall) -> TrialAnswer:
    """One call now. Nothing is stored but who asked for it."""
    body: TargetTrial = call.body
    check_text(body.name, "name", MAX_NAME)
    check_callable(body.target, call)
    await check_connection_of(body.target, call)
    check_name_is_there(body.target, body.name)
    if body.timeout is not None and not SECOND // 10 <= parse_span(body.timeout, "timeout") <= MAX_TIMEOUT:
        raise Refused("a timeout lies between 0.1s and 24h", field="timeout")
    timeout = timeout_of(body.target, body.timeout)
    target = await described(body.target, call)
    trial = await call.context.trials.make(call.asker.tenant_id, target, body.name, timeout)
    answer = _answer(trial)
    kind = str(body.target.__struct_config__.tag)
    call.note(f"target:{kind}", after={"called": answer.called, "verdict": answer.verdict})
    return answer


def _answer(trial: Trial) -> TrialAnswer:
    took = round(trial.took / MILLISECOND, 3)
    match trial.outcome:
        case Postponed(_, reason):
            why = f"no call was made: {HELD[reason]}"
            return TrialAnswer(False, None, why, None, took, trial.execution)  # noqa: FBT003 - a field's value
        case Outcome(verdict, error, detail):
            return TrialAnswer(True, verdict, error, detail, took, trial.execution)  # noqa: FBT003 - the same


ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/targets/test", handler=test, body=TargetTrial, answer=TrialAnswer, scope=Scope.WRITE,
        summary="Call a target once, now; nothing is stored", waits=True, shown_once=True,
    ),
)  # fmt: skip
