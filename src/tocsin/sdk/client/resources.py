"""The operations of the API, asynchronous. Made from the OpenAPI document by `python -m tocsin.api.client_code`: change that, not this file.
The synchronous face (`resources_sync`) is made from this file: `python -m tocsin.sdk.client.faces`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Unpack

from tocsin.sdk.client.core import request_of
from tocsin.sdk.client.sending import AsyncSender, pages

if TYPE_CHECKING:
    from tocsin.sdk.client import types


class AsyncAlertChannels:
    """`alert-channels`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(self) -> types.AlertChannels:
        """All alert channels."""
        answer: types.AlertChannels = await self._client.send(request_of("GET", "alert-channels"))
        return answer

    async def get(self, name: str, /) -> types.AlertChannelView:
        """Show an alert channel."""
        answer: types.AlertChannelView = await self._client.send(request_of("GET", "alert-channels", name))
        return answer

    async def put(
        self, name: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.AlertChannel]
    ) -> types.AlertChannelView:
        """Create an alert channel or replace it."""
        answer: types.AlertChannelView = await self._client.send(
            request_of("PUT", "alert-channels", name, body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def delete(self, name: str, /) -> types.Nothing:
        """Delete an alert channel that no rule names."""
        answer: types.Nothing = await self._client.send(request_of("DELETE", "alert-channels", name))
        return answer

    async def test(self, name: str, /, *, idempotency_key: str | None = None) -> types.AlertChannelTest:
        """Send a test message to an alert channel, by a job."""
        answer: types.AlertChannelTest = await self._client.send(
            request_of("POST", "alert-channels", name, "test", idempotency_key=idempotency_key)
        )
        return answer


class AsyncAlertRules:
    """`alert-rules`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(self) -> types.AlertRules:
        """All alert rules."""
        answer: types.AlertRules = await self._client.send(request_of("GET", "alert-rules"))
        return answer

    async def get(self, name: str, /) -> types.AlertRuleView:
        """Show an alert rule."""
        answer: types.AlertRuleView = await self._client.send(request_of("GET", "alert-rules", name))
        return answer

    async def put(
        self, name: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.AlertRule]
    ) -> types.AlertRuleView:
        """Create an alert rule or replace it."""
        answer: types.AlertRuleView = await self._client.send(
            request_of("PUT", "alert-rules", name, body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def delete(self, name: str, /) -> types.Nothing:
        """Delete an alert rule and what it found."""
        answer: types.Nothing = await self._client.send(request_of("DELETE", "alert-rules", name))
        return answer


class AsyncAlerts:
    """`alerts`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(self, *, limit: int | None = None, state: str | None = None) -> types.Alerts:
        """What alert rules have found: what fires first, then the latest."""
        answer: types.Alerts = await self._client.send(
            request_of("GET", "alerts", query={"limit": limit, "state": state})
        )
        return answer


class AsyncArchives:
    """`archives`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        table: str | None = None,
        from_: str | None = None,
        to: str | None = None,
    ) -> AsyncIterator[types.ArchiveView]:
        """Which files of the archive hold which days, the latest day first."""
        async for item in pages(
            self._client,
            ("archives",),
            {"limit": limit, "cursor": cursor, "table": table, "from": from_, "to": to},
        ):
            yield item


class AsyncAudit:
    """`audit`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        object: str | None = None,
        from_: str | None = None,
        to: str | None = None,
    ) -> AsyncIterator[types.AuditEntry]:
        """Who changed what, latest first."""
        async for item in pages(
            self._client,
            ("audit",),
            {
                "limit": limit,
                "cursor": cursor,
                "actor": actor,
                "action": action,
                "object": object,
                "from": from_,
                "to": to,
            },
        ):
            yield item


class AsyncBackfills:
    """`backfills`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(
        self, job_id: str, /, *, limit: int | None = None, cursor: str | None = None
    ) -> AsyncIterator[types.Backfill]:
        """Backfills of a job, newest first."""
        async for item in pages(
            self._client,
            (
                "jobs",
                job_id,
                "backfills",
            ),
            {"limit": limit, "cursor": cursor},
        ):
            yield item

    async def create(
        self, job_id: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.NewBackfill]
    ) -> types.BackfillAnswer:
        """Run the fire times of a past range; with dry_run, say which (200)."""
        answer: types.BackfillAnswer = await self._client.send(
            request_of("POST", "jobs", job_id, "backfills", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def of_tenant(
        self, *, limit: int | None = None, cursor: str | None = None, state: str | None = None
    ) -> types.BackfillPage:
        """Backfills of all jobs, newest first."""
        answer: types.BackfillPage = await self._client.send(
            request_of("GET", "backfills", query={"limit": limit, "cursor": cursor, "state": state})
        )
        return answer

    async def get(self, backfill_id: str, /) -> types.Backfill:
        """Show a backfill and how far it has come."""
        answer: types.Backfill = await self._client.send(request_of("GET", "backfills", backfill_id))
        return answer

    async def cancel(self, backfill_id: str, /, *, idempotency_key: str | None = None) -> types.Backfill:
        """Stop a backfill; what has started goes on."""
        answer: types.Backfill = await self._client.send(
            request_of("POST", "backfills", backfill_id, "cancel", body={}, idempotency_key=idempotency_key)
        )
        return answer


class AsyncCalendars:
    """`calendars`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(self) -> types.Calendars:
        """All calendars."""
        answer: types.Calendars = await self._client.send(request_of("GET", "calendars"))
        return answer

    async def get(self, name: str, /) -> types.Calendar:
        """Show a calendar."""
        answer: types.Calendar = await self._client.send(request_of("GET", "calendars", name))
        return answer

    async def put(
        self, name: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.CalendarRanges]
    ) -> types.Calendar:
        """Create a calendar or replace its ranges; jobs follow from their next planning on."""
        answer: types.Calendar = await self._client.send(
            request_of("PUT", "calendars", name, body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def delete(self, name: str, /) -> types.Nothing:
        """Delete a calendar that no job names."""
        answer: types.Nothing = await self._client.send(request_of("DELETE", "calendars", name))
        return answer


class AsyncConnections:
    """`connections`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(self) -> types.Connections:
        """All connections."""
        answer: types.Connections = await self._client.send(request_of("GET", "connections"))
        return answer

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[types.NewConnection]
    ) -> types.ConnectionView:
        """Create a connection to a broker."""
        answer: types.ConnectionView = await self._client.send(
            request_of("POST", "connections", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def get(self, name: str, /) -> types.ConnectionView:
        """Show a connection."""
        answer: types.ConnectionView = await self._client.send(request_of("GET", "connections", name))
        return answer

    async def put(
        self, name: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.ConnectionBody]
    ) -> types.ConnectionView:
        """Create a connection or replace it; workers follow within seconds."""
        answer: types.ConnectionView = await self._client.send(
            request_of("PUT", "connections", name, body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def delete(self, name: str, /) -> types.Nothing:
        """Delete a connection that nothing names."""
        answer: types.Nothing = await self._client.send(request_of("DELETE", "connections", name))
        return answer

    async def test(self, name: str, /, *, idempotency_key: str | None = None) -> types.ConnectionTest:
        """Connect to the broker now, from this process, and say whether it worked."""
        answer: types.ConnectionTest = await self._client.send(
            request_of("POST", "connections", name, "test", idempotency_key=idempotency_key)
        )
        return answer


class AsyncDeadLetters:
    """`dead-letters`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        queue: str | None = None,
        job: str | None = None,
        fire_from: str | None = None,
        fire_to: str | None = None,
        finished_from: str | None = None,
        finished_to: str | None = None,
        min_lag: str | None = None,
        error: str | None = None,
        job_name: str | None = None,
        tag: str | None = None,
        node: int | None = None,
        fingerprint: str | None = None,
        cause: str | None = None,
    ) -> AsyncIterator[types.Execution]:
        """Executions that failed for good, latest first."""
        async for item in pages(
            self._client,
            ("dead-letters",),
            {
                "limit": limit,
                "cursor": cursor,
                "queue": queue,
                "job": job,
                "fire_from": fire_from,
                "fire_to": fire_to,
                "finished_from": finished_from,
                "finished_to": finished_to,
                "min_lag": min_lag,
                "error": error,
                "job_name": job_name,
                "tag": tag,
                "node": node,
                "fingerprint": fingerprint,
                "cause": cause,
            },
        ):
            yield item

    async def groups(
        self, *, from_: str | None = None, to: str | None = None, queue: str | None = None
    ) -> types.ErrorGroups:
        """Dead letters by kind of error, the most frequent first."""
        answer: types.ErrorGroups = await self._client.send(
            request_of("GET", "dead-letters", "groups", query={"from": from_, "to": to, "queue": queue})
        )
        return answer

    async def discard(
        self, execution_id: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Reason]
    ) -> types.Execution:
        """Give a dead letter up: it is not listed any more, and stays in history."""
        answer: types.Execution = await self._client.send(
            request_of(
                "POST",
                "dead-letters",
                execution_id,
                "discard",
                body=dict(body),
                idempotency_key=idempotency_key,
            )
        )
        return answer


class AsyncDeclarations:
    """`declarations`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def declare(
        self, owner: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Declaration]
    ) -> types.Declared:
        """Declare all recurring jobs of an owner; with dry_run, say what that does to fields and fires."""
        answer: types.Declared = await self._client.send(
            request_of("PUT", "declarations", owner, body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def release(self, owner: str, /) -> types.Disowned:
        """Forget an owner; its jobs stay."""
        answer: types.Disowned = await self._client.send(request_of("DELETE", "declarations", owner))
        return answer

    async def list(self) -> types.Owners:
        """Who declares jobs, and the revision of each."""
        answer: types.Owners = await self._client.send(request_of("GET", "declarations"))
        return answer


class AsyncExecutions:
    """`executions`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        queue: str | None = None,
        job: str | None = None,
        fire_from: str | None = None,
        fire_to: str | None = None,
        finished_from: str | None = None,
        finished_to: str | None = None,
        min_lag: str | None = None,
        error: str | None = None,
        job_name: str | None = None,
        tag: str | None = None,
        node: int | None = None,
        fingerprint: str | None = None,
        cause: str | None = None,
        state: str | None = None,
        over: str | None = None,
    ) -> AsyncIterator[types.Execution]:
        """List executions: live ones (newest job first), then finished ones (latest first)."""
        async for item in pages(
            self._client,
            ("executions",),
            {
                "limit": limit,
                "cursor": cursor,
                "queue": queue,
                "job": job,
                "fire_from": fire_from,
                "fire_to": fire_to,
                "finished_from": finished_from,
                "finished_to": finished_to,
                "min_lag": min_lag,
                "error": error,
                "job_name": job_name,
                "tag": tag,
                "node": node,
                "fingerprint": fingerprint,
                "cause": cause,
                "state": state,
                "over": over,
            },
        ):
            yield item

    async def count(
        self,
        *,
        queue: str | None = None,
        job: str | None = None,
        fire_from: str | None = None,
        fire_to: str | None = None,
        finished_from: str | None = None,
        finished_to: str | None = None,
        min_lag: str | None = None,
        error: str | None = None,
        job_name: str | None = None,
        tag: str | None = None,
        node: int | None = None,
        fingerprint: str | None = None,
        cause: str | None = None,
        state: str | None = None,
        over: str | None = None,
        cap: int | None = None,
    ) -> types.Count:
        """How many executions match."""
        answer: types.Count = await self._client.send(
            request_of(
                "GET",
                "executions",
                "count",
                query={
                    "queue": queue,
                    "job": job,
                    "fire_from": fire_from,
                    "fire_to": fire_to,
                    "finished_from": finished_from,
                    "finished_to": finished_to,
                    "min_lag": min_lag,
                    "error": error,
                    "job_name": job_name,
                    "tag": tag,
                    "node": node,
                    "fingerprint": fingerprint,
                    "cause": cause,
                    "state": state,
                    "over": over,
                    "cap": cap,
                },
            )
        )
        return answer

    async def logs(
        self, execution_id: str, /, *, limit: int | None = None, cursor: str | None = None
    ) -> AsyncIterator[types.LogView]:
        """What the attempts at an execution logged."""
        async for item in pages(
            self._client,
            (
                "executions",
                execution_id,
                "logs",
            ),
            {"limit": limit, "cursor": cursor},
        ):
            yield item

    async def retry(self, execution_id: str, /, *, idempotency_key: str | None = None) -> types.Execution:
        """Retry a dead, expired or cancelled execution under the same identity."""
        answer: types.Execution = await self._client.send(
            request_of("POST", "executions", execution_id, "retry", body={}, idempotency_key=idempotency_key)
        )
        return answer

    async def rerun(self, execution_id: str, /, *, idempotency_key: str | None = None) -> types.Execution:
        """Run a finished execution again, under a new identity."""
        answer: types.Execution = await self._client.send(
            request_of("POST", "executions", execution_id, "rerun", body={}, idempotency_key=idempotency_key)
        )
        return answer


class AsyncFleet:
    """`fleet`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def shards(self) -> types.Shards:
        """Shards and who leases them."""
        answer: types.Shards = await self._client.send(request_of("GET", "shards"))
        return answer

    async def nodes(self) -> types.Nodes:
        """The processes of the fleet."""
        answer: types.Nodes = await self._client.send(request_of("GET", "nodes"))
        return answer


class AsyncForecast:
    """`forecast`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def get(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        step: str | None = None,
        queue: str | None = None,
    ) -> types.Forecast:
        """Expected fires of the coming days, peaks and free minutes."""
        answer: types.Forecast = await self._client.send(
            request_of("GET", "forecast", query={"from": from_, "to": to, "step": step, "queue": queue})
        )
        return answer

    async def fit(self, *, idempotency_key: str | None = None, **body: Unpack[types.FitRequest]) -> types.Fit:
        """Whether a schedule would join a peak, and which minutes near it are free."""
        answer: types.Fit = await self._client.send(
            request_of("POST", "forecast:fit", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer


class AsyncJobs:
    """`jobs`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        tag_match: str | None = None,
        name: str | None = None,
        target: str | None = None,
        created_from: str | None = None,
        created_to: str | None = None,
        next_fire_from: str | None = None,
        next_fire_to: str | None = None,
        overdue: str | None = None,
        sort: str | None = None,
        with_: str | None = None,
    ) -> AsyncIterator[types.Job]:
        """List jobs, newest first."""
        async for item in pages(
            self._client,
            ("jobs",),
            {
                "limit": limit,
                "cursor": cursor,
                "state": state,
                "kind": kind,
                "queue": queue,
                "tag": tag,
                "tag_match": tag_match,
                "name": name,
                "target": target,
                "created_from": created_from,
                "created_to": created_to,
                "next_fire_from": next_fire_from,
                "next_fire_to": next_fire_to,
                "overdue": overdue,
                "sort": sort,
                "with": with_,
            },
        ):
            yield item

    async def count(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        tag_match: str | None = None,
        name: str | None = None,
        target: str | None = None,
        created_from: str | None = None,
        created_to: str | None = None,
        next_fire_from: str | None = None,
        next_fire_to: str | None = None,
        overdue: str | None = None,
        cap: int | None = None,
    ) -> types.Count:
        """How many jobs match."""
        answer: types.Count = await self._client.send(
            request_of(
                "GET",
                "jobs",
                "count",
                query={
                    "state": state,
                    "kind": kind,
                    "queue": queue,
                    "tag": tag,
                    "tag_match": tag_match,
                    "name": name,
                    "target": target,
                    "created_from": created_from,
                    "created_to": created_to,
                    "next_fire_from": next_fire_from,
                    "next_fire_to": next_fire_to,
                    "overdue": overdue,
                    "cap": cap,
                },
            )
        )
        return answer

    async def get_by_name(self, name: str, /) -> types.Job:
        """Show a recurring job by its name."""
        answer: types.Job = await self._client.send(request_of("GET", "jobs", "by-name", name))
        return answer

    async def put_by_name(
        self, name: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.JobBody]
    ) -> types.Job:
        """Create a recurring job, or make the one of this name what the body says (201 when created)."""
        answer: types.Job = await self._client.send(
            request_of("PUT", "jobs", "by-name", name, body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def get(self, job_id: str, /, *, with_: str | None = None) -> types.Job:
        """Show a job."""
        answer: types.Job = await self._client.send(request_of("GET", "jobs", job_id, query={"with": with_}))
        return answer

    async def update(
        self,
        job_id: str,
        /,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[types.JobPatch],
    ) -> types.Job:
        """Change a job in place; what is planned but not started is planned anew."""
        answer: types.Job = await self._client.send(
            request_of(
                "PATCH", "jobs", job_id, body=dict(body), idempotency_key=idempotency_key, if_match=if_match
            )
        )
        return answer

    async def delete(self, job_id: str, /, *, dry_run: str | None = None) -> types.CancelAnswer:
        """Delete a job; its history stays."""
        answer: types.CancelAnswer = await self._client.send(
            request_of("DELETE", "jobs", job_id, query={"dry_run": dry_run})
        )
        return answer

    async def executions(
        self, job_id: str, /, *, limit: int | None = None, cursor: str | None = None
    ) -> AsyncIterator[types.Execution]:
        """Executions of a job, latest first."""
        async for item in pages(
            self._client,
            (
                "jobs",
                job_id,
                "executions",
            ),
            {"limit": limit, "cursor": cursor},
        ):
            yield item

    async def cancel(
        self, job_id: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Cancel]
    ) -> types.CancelAnswer:
        """End a job: nothing of it starts any more."""
        answer: types.CancelAnswer = await self._client.send(
            request_of("POST", "jobs", job_id, "cancel", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def cancel_queued(
        self, job_id: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Cancel]
    ) -> types.CancelAnswer:
        """Cancel every execution that has not started; the job goes on."""
        answer: types.CancelAnswer = await self._client.send(
            request_of(
                "POST", "jobs", job_id, "cancel-queued", body=dict(body), idempotency_key=idempotency_key
            )
        )
        return answer

    async def pause(
        self, job_id: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Pause]
    ) -> types.PauseAnswer:
        """Hold a job's fires, for good or until an instant."""
        answer: types.PauseAnswer = await self._client.send(
            request_of("POST", "jobs", job_id, "pause", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def resume(
        self, job_id: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Resume]
    ) -> types.ResumeAnswer:
        """Let a paused job fire again; with dry_run, say what that would fire and skip."""
        answer: types.ResumeAnswer = await self._client.send(
            request_of("POST", "jobs", job_id, "resume", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def run(
        self, job_id: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Run]
    ) -> types.Execution:
        """Fire a job now."""
        answer: types.Execution = await self._client.send(
            request_of("POST", "jobs", job_id, "run", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def skip_next(self, job_id: str, /, *, idempotency_key: str | None = None) -> types.SkipAnswer:
        """Leave the next fire out."""
        answer: types.SkipAnswer = await self._client.send(
            request_of("POST", "jobs", job_id, "skip-next", body={}, idempotency_key=idempotency_key)
        )
        return answer

    async def upcoming(
        self, job_id: str, /, *, limit: int | None = None, after: str | None = None
    ) -> types.Preview:
        """The next fires of a job, explained, with warnings."""
        answer: types.Preview = await self._client.send(
            request_of("GET", "jobs", job_id, "upcoming", query={"limit": limit, "after": after})
        )
        return answer

    async def calendar(
        self, job_id: str, /, *, from_: str | None = None, to: str | None = None, zone: str | None = None
    ) -> types.JobCalendar:
        """A job's days: what ran, what did not and why, what is expected."""
        answer: types.JobCalendar = await self._client.send(
            request_of("GET", "jobs", job_id, "calendar", query={"from": from_, "to": to, "zone": zone})
        )
        return answer


class AsyncKeys:
    """`keys`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> AsyncIterator[types.Key]:
        """List keys, by id."""
        async for item in pages(self._client, ("keys",), {"limit": limit, "cursor": cursor}):
            yield item

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[types.NewKey]
    ) -> types.FreshKey:
        """Make a key; its text is in this answer only."""
        answer: types.FreshKey = await self._client.send(
            request_of("POST", "keys", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def get(self, key_id: str, /) -> types.Key:
        """Show a key, without its secret."""
        answer: types.Key = await self._client.send(request_of("GET", "keys", key_id))
        return answer

    async def rotate(
        self, key_id: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Rotation]
    ) -> types.FreshKey:
        """Make a key in the place of another, which stays valid for a chosen overlap."""
        answer: types.FreshKey = await self._client.send(
            request_of("POST", "keys", key_id, "rotate", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def revoke(self, key_id: str, /, *, idempotency_key: str | None = None) -> types.Key:
        """End a key at once."""
        answer: types.Key = await self._client.send(
            request_of("POST", "keys", key_id, "revoke", body={}, idempotency_key=idempotency_key)
        )
        return answer


class AsyncLogins:
    """`logins`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(self, tenant: str, /) -> types.BoundLogins:
        """Logins of the database that enqueue for a tenant."""
        answer: types.BoundLogins = await self._client.send(request_of("GET", "tenants", tenant, "logins"))
        return answer

    async def bind(
        self, tenant: str, login: str, /, *, idempotency_key: str | None = None
    ) -> types.BoundLogin:
        """Let a login of the database enqueue for a tenant in its own transactions."""
        answer: types.BoundLogin = await self._client.send(
            request_of("PUT", "tenants", tenant, "logins", login, body={}, idempotency_key=idempotency_key)
        )
        return answer

    async def unbind(self, tenant: str, login: str, /) -> types.Nothing:
        """Take a login's right to enqueue; what it enqueued stays."""
        answer: types.Nothing = await self._client.send(
            request_of("DELETE", "tenants", tenant, "logins", login)
        )
        return answer


class AsyncOperations:
    """`operations`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None, state: str | None = None
    ) -> AsyncIterator[types.Operation]:
        """Operations, newest first."""
        async for item in pages(
            self._client, ("operations",), {"limit": limit, "cursor": cursor, "state": state}
        ):
            yield item

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[types.NewOperation]
    ) -> types.OperationAnswer:
        """Act on all that match, or on many that are named; with dry_run, say on how many and which (200)."""
        answer: types.OperationAnswer = await self._client.send(
            request_of("POST", "operations", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def get(self, operation_id: str, /) -> types.Operation:
        """Show an operation and how far it has come."""
        answer: types.Operation = await self._client.send(request_of("GET", "operations", operation_id))
        return answer

    async def pause(
        self, operation_id: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Reason]
    ) -> types.Operation:
        """Hold an operation: it acts on nothing more until it is resumed."""
        answer: types.Operation = await self._client.send(
            request_of(
                "POST", "operations", operation_id, "pause", body=dict(body), idempotency_key=idempotency_key
            )
        )
        return answer

    async def resume(self, operation_id: str, /, *, idempotency_key: str | None = None) -> types.Operation:
        """Let a paused operation go on, past a brake or a step that failed."""
        answer: types.Operation = await self._client.send(
            request_of("POST", "operations", operation_id, "resume", body={}, idempotency_key=idempotency_key)
        )
        return answer

    async def cancel(
        self, operation_id: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Reason]
    ) -> types.Operation:
        """Stop an operation for good; what it has done stays done."""
        answer: types.Operation = await self._client.send(
            request_of(
                "POST", "operations", operation_id, "cancel", body=dict(body), idempotency_key=idempotency_key
            )
        )
        return answer


class AsyncQueues:
    """`queues`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(self, *, group: str | None = None) -> types.QueueList:
        """Queues: what is due and runs, who serves them, whether they are paused."""
        answer: types.QueueList = await self._client.send(request_of("GET", "queues", query={"group": group}))
        return answer

    async def get(self, queue: str, /, *, group: str | None = None) -> types.QueueDetail:
        """Show a queue with what is due by priority."""
        answer: types.QueueDetail = await self._client.send(
            request_of("GET", "queues", queue, query={"group": group})
        )
        return answer

    async def pause(
        self, queue: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.PauseQueue]
    ) -> types.QueuePaused:
        """Hold a queue, for good or until an instant; nothing in it is lost."""
        answer: types.QueuePaused = await self._client.send(
            request_of("POST", "queues", queue, "pause", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def resume(
        self, queue: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.ResumeQueue]
    ) -> types.QueueResumed:
        """Let a paused queue go on; with dry_run, say what that would start."""
        answer: types.QueueResumed = await self._client.send(
            request_of("POST", "queues", queue, "resume", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer


class AsyncSchedules:
    """`schedules`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def preview(
        self, *, idempotency_key: str | None = None, **body: Unpack[types.PreviewRequest]
    ) -> types.Preview:
        """The next fires of a schedule, explained, with warnings."""
        answer: types.Preview = await self._client.send(
            request_of("POST", "schedules", "preview", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer


class AsyncSecrets:
    """`secrets`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> AsyncIterator[types.Secret]:
        """Names of secrets, in order."""
        async for item in pages(self._client, ("secrets",), {"limit": limit, "cursor": cursor}):
            yield item

    async def put(
        self, name: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.SecretValue]
    ) -> types.Secret:
        """Create a secret or replace its value, which is never shown again."""
        answer: types.Secret = await self._client.send(
            request_of("PUT", "secrets", name, body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def delete(self, name: str, /) -> types.Nothing:
        """Delete a secret; calls that need it are rejected."""
        answer: types.Nothing = await self._client.send(request_of("DELETE", "secrets", name))
        return answer

    async def reseal(
        self, *, idempotency_key: str | None = None, **body: Unpack[types.Reseal]
    ) -> types.ResealAnswer:
        """Encrypt the next secrets and webhook secrets of all tenants anew, under the key that encrypts now."""
        answer: types.ResealAnswer = await self._client.send(
            request_of("POST", "secrets:reseal", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer


class AsyncStats:
    """`stats`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def summary(self) -> types.Summary:
        """How it stands: what runs, waits and ended, how late, and what needs a person."""
        answer: types.Summary = await self._client.send(request_of("GET", "stats", "summary"))
        return answer

    async def series(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        step: str | None = None,
        queue: str | None = None,
        job: str | None = None,
        of: str | None = None,
        group: str | None = None,
    ) -> types.Series:
        """How executions ended and how late they started, over time."""
        answer: types.Series = await self._client.send(
            request_of(
                "GET",
                "stats",
                "series",
                query={
                    "from": from_,
                    "to": to,
                    "step": step,
                    "queue": queue,
                    "job": job,
                    "of": of,
                    "group": group,
                },
            )
        )
        return answer

    async def lag(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        step: str | None = None,
        queue: str | None = None,
        job: str | None = None,
        of: str | None = None,
    ) -> types.LagMap:
        """How many executions started how late, over time."""
        answer: types.LagMap = await self._client.send(
            request_of(
                "GET",
                "stats",
                "lag",
                query={"from": from_, "to": to, "step": step, "queue": queue, "job": job, "of": of},
            )
        )
        return answer

    async def upcoming(self, *, limit: int | None = None, to: str | None = None) -> types.ComingFires:
        """The next fires of all jobs, soonest first."""
        answer: types.ComingFires = await self._client.send(
            request_of("GET", "upcoming", query={"limit": limit, "to": to})
        )
        return answer

    async def timeline(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        state: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        tag_match: str | None = None,
        name: str | None = None,
        target: str | None = None,
        created_from: str | None = None,
        created_to: str | None = None,
        next_fire_from: str | None = None,
        next_fire_to: str | None = None,
        overdue: str | None = None,
        sort: str | None = None,
        from_: str | None = None,
        to: str | None = None,
    ) -> types.Timeline:
        """Past and coming fires of a page of jobs, on one axis."""
        answer: types.Timeline = await self._client.send(
            request_of(
                "GET",
                "timeline",
                query={
                    "limit": limit,
                    "cursor": cursor,
                    "state": state,
                    "kind": kind,
                    "queue": queue,
                    "tag": tag,
                    "tag_match": tag_match,
                    "name": name,
                    "target": target,
                    "created_from": created_from,
                    "created_to": created_to,
                    "next_fire_from": next_fire_from,
                    "next_fire_to": next_fire_to,
                    "overdue": overdue,
                    "sort": sort,
                    "from": from_,
                    "to": to,
                },
            )
        )
        return answer


class AsyncSystem:
    """`system`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def get(self) -> types.System:
        """The database, the fleet's versions, and checks that say what to do."""
        answer: types.System = await self._client.send(request_of("GET", "system"))
        return answer

    async def findings(self) -> types.Diagnosis:
        """What is wrong, the likeliest cause first, with evidence and the command that mends it."""
        answer: types.Diagnosis = await self._client.send(request_of("GET", "system", "findings"))
        return answer


class AsyncTallies:
    """`tallies`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def rebuild(
        self, *, idempotency_key: str | None = None, **body: Unpack[types.TallyHour]
    ) -> types.RebuiltHour:
        """Count the executions of a past hour again, from history."""
        answer: types.RebuiltHour = await self._client.send(
            request_of("POST", "tallies:rebuild", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer


class AsyncTargets:
    """`targets`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def test(
        self, *, idempotency_key: str | None = None, **body: Unpack[types.TargetTrial]
    ) -> types.TrialAnswer:
        """Call a target once, now; nothing is stored."""
        answer: types.TrialAnswer = await self._client.send(
            request_of("POST", "targets", "test", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer


class AsyncTenants:
    """`tenants`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> AsyncIterator[types.Tenant]:
        """List tenants, by name."""
        async for item in pages(self._client, ("tenants",), {"limit": limit, "cursor": cursor}):
            yield item

    async def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[types.NewTenant]
    ) -> types.Tenant:
        """Create a tenant."""
        answer: types.Tenant = await self._client.send(
            request_of("POST", "tenants", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def get(self, tenant: str, /) -> types.Tenant:
        """Show a tenant."""
        answer: types.Tenant = await self._client.send(request_of("GET", "tenants", tenant))
        return answer

    async def update(
        self, tenant: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.TenantPatch]
    ) -> types.Tenant:
        """Change a tenant's weight and limits; within seconds the whole fleet keeps to them."""
        answer: types.Tenant = await self._client.send(
            request_of("PATCH", "tenants", tenant, body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def delete(self, tenant: str, /) -> types.Tenant:
        """Delete a suspended tenant with everything that is its own, for good."""
        answer: types.Tenant = await self._client.send(request_of("DELETE", "tenants", tenant))
        return answer

    async def suspend(
        self, tenant: str, /, *, idempotency_key: str | None = None, **body: Unpack[types.Reason]
    ) -> types.Tenant:
        """Suspend a tenant: its keys are refused, its fires wait, nothing is lost."""
        answer: types.Tenant = await self._client.send(
            request_of("POST", "tenants", tenant, "suspend", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer

    async def resume(self, tenant: str, /, *, idempotency_key: str | None = None) -> types.Tenant:
        """Let a suspended tenant go on."""
        answer: types.Tenant = await self._client.send(
            request_of("POST", "tenants", tenant, "resume", body={}, idempotency_key=idempotency_key)
        )
        return answer


class AsyncWebhookSecret:
    """`webhook-secret`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def get(self) -> types.WebhookSecrets:
        """The secrets that requests are signed with, newest first."""
        answer: types.WebhookSecrets = await self._client.send(request_of("GET", "webhook-secret"))
        return answer

    async def rotate(
        self, *, idempotency_key: str | None = None, **body: Unpack[types.Rotation]
    ) -> types.WebhookSecrets:
        """Make a new secret; the one before stays live for a chosen overlap."""
        answer: types.WebhookSecrets = await self._client.send(
            request_of("POST", "webhook-secret", "rotate", body=dict(body), idempotency_key=idempotency_key)
        )
        return answer


class AsyncWhoami:
    """`whoami`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def get(self) -> types.Identity:
        """The key that asks: its scopes, the tenant it acts for, the limits in force."""
        answer: types.Identity = await self._client.send(request_of("GET", "whoami"))
        return answer


class AsyncWorkers:
    """`workers`: what the API has of it."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None, all: str | None = None
    ) -> AsyncIterator[types.Worker]:
        """List remote workers."""
        async for item in pages(self._client, ("workers",), {"limit": limit, "cursor": cursor, "all": all}):
            yield item

    async def get(self, worker_id: str, /) -> types.Worker:
        """Show a remote worker."""
        answer: types.Worker = await self._client.send(request_of("GET", "workers", worker_id))
        return answer

    async def drain(self, worker_id: str, /, *, idempotency_key: str | None = None) -> types.Worker:
        """Ask a remote worker to end what it has and to take no more."""
        answer: types.Worker = await self._client.send(
            request_of("POST", "workers", worker_id, "drain", body={}, idempotency_key=idempotency_key)
        )
        return answer


class AsyncResources:
    """All of them."""

    def __init__(self, client: "AsyncSender") -> None:
        self.alert_channels = AsyncAlertChannels(client)
        self.alert_rules = AsyncAlertRules(client)
        self.alerts = AsyncAlerts(client)
        self.archives = AsyncArchives(client)
        self.audit = AsyncAudit(client)
        self.backfills = AsyncBackfills(client)
        self.calendars = AsyncCalendars(client)
        self.connections = AsyncConnections(client)
        self.dead_letters = AsyncDeadLetters(client)
        self.declarations = AsyncDeclarations(client)
        self.executions = AsyncExecutions(client)
        self.fleet = AsyncFleet(client)
        self.forecast = AsyncForecast(client)
        self.jobs = AsyncJobs(client)
        self.keys = AsyncKeys(client)
        self.logins = AsyncLogins(client)
        self.operations = AsyncOperations(client)
        self.queues = AsyncQueues(client)
        self.schedules = AsyncSchedules(client)
        self.secrets = AsyncSecrets(client)
        self.stats = AsyncStats(client)
        self.system = AsyncSystem(client)
        self.tallies = AsyncTallies(client)
        self.targets = AsyncTargets(client)
        self.tenants = AsyncTenants(client)
        self.webhook_secret = AsyncWebhookSecret(client)
        self.whoami = AsyncWhoami(client)
        self.workers = AsyncWorkers(client)
