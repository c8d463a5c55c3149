"""``/v1/jobs/{job_id}/…``: stop it, start it, fire it."""

from functools import partial
from typing import Any

from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.jobs import job_id_of, view
from tocsin.api.pauses import end_of_pause
from tocsin.api.readable import readable
from tocsin.api.repeating import REPEATABLE, carried_out_once
from tocsin.api.wire import control as wire
from tocsin.api.wire.actions import Nothing
from tocsin.api.wire.executions import Execution, execution_view
from tocsin.api.wire.jobs import misfire_of
from tocsin.domain.ids import ExecutionKey, execution_text
from tocsin.domain.instant import format_instant
from tocsin.domain.keys import Scope
from tocsin.domain.policy import Misfire, Policies, check_policies
from tocsin.store.repeats import First, Once


async def cancel(call: ApiCall) -> wire.CancelAnswer:
    """End a job: nothing of it starts any more."""
    job_id = job_id_of(call)
    reason = call.reason() or "cancelled by a user"
    dry_run = _dry_run(call)
    done = await call.context.cancelling.cancel(call.asker.tenant_id, job_id, reason, dry_run=dry_run)
    return wire.CancelAnswer(
        await view(call, job_id), done.cancelled, done.asked_to_stop, done.not_retried, dry_run
    )


async def cancel_queued(call: ApiCall) -> wire.CancelAnswer:
    """Call off what has not started; the job goes on."""
    job_id = job_id_of(call)
    reason = call.reason() or "cancelled by a user"
    dry_run, tenant_id = _dry_run(call), call.asker.tenant_id
    done = await call.context.cancelling.cancel_queued(tenant_id, job_id, reason, dry_run=dry_run)
    call.note(after={"cancelled": done.cancelled, "not_retried": done.not_retried})
    return wire.CancelAnswer(await view(call, job_id), done.cancelled, 0, done.not_retried, dry_run)


async def pause(call: ApiCall) -> wire.PauseAnswer:
    """Hold a job's fires."""
    job_id = job_id_of(call)
    until, dry_run = end_of_pause(call), _dry_run(call)
    held = await call.context.pausing.pause(
        call.asker.tenant_id, job_id, call.reason(), until, dry_run=dry_run
    )
    return wire.PauseAnswer(await view(call, job_id), held, dry_run)


async def resume(call: ApiCall) -> wire.ResumeAnswer:
    """Let a job fire again, or say what that would fire and skip."""
    job_id, now = job_id_of(call), call.context.clock.now()
    dry_run, misfire = _dry_run(call), _misfire(call)
    done = await call.context.pausing.resume(
        call.asker.tenant_id, job_id, now, dry_run=dry_run, misfire=misfire
    )
    return wire.ResumeAnswer(
        await view(call, job_id),
        dry_run,
        len(done.fires),
        sum(skip.count for skip in done.skips),
        [format_instant(fire.at) for fire in done.fires[:100]],
    )


async def run(call: ApiCall) -> Any:
    """Fire a job now."""
    tenant_id, now = call.asker.tenant_id, call.context.clock.now()
    beside = call.body is not None and call.body.override_overlap

    async def act(once: Once | None) -> Execution:
        key = await call.context.firing.run(tenant_id, job_id_of(call), now, beside=beside, once=once)
        call.note(after={"execution": execution_text(key)})
        return execution_view(await call.context.executions.get(tenant_id, key))

    return await carried_out_once(call, "run", act, partial(first_execution, call))


async def first_execution(call: ApiCall, first: First) -> Execution:
    """The execution that an earlier request with the same key made."""
    key = ExecutionKey(first.job_id, int(first.answer or 0))
    row = await call.context.executions.get(call.asker.tenant_id, key)
    with readable(call, "execution"):
        return execution_view(row)


async def skip_next(call: ApiCall) -> Any:
    """Leave the next fire out."""
    job_id = job_id_of(call)

    async def act(once: Once | None) -> wire.SkipAnswer:
        skipped = await call.context.firing.skip_next(call.asker.tenant_id, job_id, once=once)
        call.note(after={"skipped": format_instant(skipped)})
        return wire.SkipAnswer(await view(call, job_id), format_instant(skipped))

    async def again(first: First) -> wire.SkipAnswer:
        return wire.SkipAnswer(await view(call, job_id), format_instant(int(first.answer or 0)))

    return await carried_out_once(call, "skip_next", act, again)


def _dry_run(call: ApiCall) -> bool:
    return call.body is not None and call.body.dry_run


def _misfire(call: ApiCall) -> Misfire | None:
    """The misfire policy for this once, if another than the job's own was asked for."""
    if call.body is None or call.body.misfire is None:
        return None
    misfire = misfire_of(call.body.misfire)
    check_policies(Policies(misfire=misfire))
    return misfire


_JOB = "/v1/jobs/{job_id}"
ENDPOINTS = (
    Endpoint(
        method="POST", path=_JOB + "/cancel", handler=cancel, summary="End a job: nothing of it starts any more",
        answer=wire.CancelAnswer, body=wire.Cancel, body_required=False, scope=Scope.WRITE, refusals=(404, 409),
    ),
    Endpoint(
        method="POST", path=_JOB + "/cancel-queued", handler=cancel_queued,
        summary="Cancel every execution that has not started; the job goes on",
        answer=wire.CancelAnswer, body=wire.Cancel, body_required=False, scope=Scope.WRITE, refusals=(404,),
    ),
    Endpoint(
        method="POST", path=_JOB + "/pause", handler=pause, summary="Hold a job's fires, for good or until an instant",
        answer=wire.PauseAnswer, body=wire.Pause, body_required=False, scope=Scope.WRITE, refusals=(404, 409),
    ),
    Endpoint(
        method="POST", path=_JOB + "/resume", handler=resume,
        summary="Let a paused job fire again; with dry_run, say what that would fire and skip",
        answer=wire.ResumeAnswer, body=wire.Resume, body_required=False, scope=Scope.WRITE, refusals=(404, 409),
    ),
    Endpoint(
        method="POST", path=_JOB + "/run", handler=run, summary="Fire a job now", answer=Execution, status=202,
        body=wire.Run, body_required=False, scope=Scope.WRITE, refusals=(404, 409), **REPEATABLE,
    ),
    Endpoint(
        method="POST", path=_JOB + "/skip-next", handler=skip_next, summary="Leave the next fire out",
        answer=wire.SkipAnswer, body=Nothing, body_required=False, scope=Scope.WRITE, refusals=(404, 409), **REPEATABLE,
    ),
)  # fmt: skip
