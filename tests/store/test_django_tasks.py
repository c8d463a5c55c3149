"""Django's tasks in Tocsin, as Django's framework expects of a back end."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

import django
import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError
from django.db import connections, transaction
from django.test.utils import override_settings
from django.utils import timezone
from psycopg.conninfo import conninfo_to_dict

from tests.support.logins import Bound
from tests.support.postgres import Cluster
from tocsin import App
from tocsin.testing.sandbox import Sandbox

BACKEND = {"BACKEND": "tocsin.contrib.django.Backend", "QUEUES": ["default", "mail"]}
TASKS = {
    "default": {**BACKEND, "OPTIONS": {"max_attempts": 2}},
    "own": {**BACKEND, "OPTIONS": {"database": "bound", "app": "django.own"}},
    "wrong": {**BACKEND, "OPTIONS": {"databse": "bound"}},
}


@pytest.fixture(scope="module")
def opened(cluster: Cluster) -> Iterator[Sandbox]:
    sandbox = Sandbox.open(cluster.server.url)
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def project() -> Iterator[ModuleType]:
    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}}, USE_TZ=True)
        django.setup()
    with override_settings(TASKS=TASKS, USE_TZ=True):
        from tests.support import django_tasks  # noqa: PLC0415 - needs the settings

        yield django_tasks
    sys.modules.pop("tests.support.django_tasks", None)


@pytest.fixture
def sandbox(opened: Sandbox, project: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    opened.reset()
    monkeypatch.setattr(App, "client", property(opened.client_of))
    return opened


def test_a_result_is_ready_and_then_successful(sandbox: Sandbox, project: Any) -> None:
    result = project.add.enqueue(2, second=3)
    assert (result.status, result.args, result.kwargs) == ("READY", [2], {"second": 3})
    assert not result.is_finished
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    sandbox.drain()
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", {"sum": 5}, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    again = project.add.get_result(result.id)
    assert (again.id, again.args, again.task.func) == (result.id, [2], project.add.func)


def test_an_async_task_takes_its_context_and_waits_until_it_may_run(sandbox: Sandbox, project: Any) -> None:
    later = project.send.using(run_after=timezone.now() + timedelta(days=3650))
    result = asyncio.run(later.aenqueue("a@example.org"))
    [waiting] = sandbox.client.executions.list()
    assert (waiting["queue"], waiting["priority"]) == ("mail", 0)
    assert len(sandbox.drain()) == 0
    sandbox.advance("3660d")
    result.refresh()
    assert result.return_value == f"a@example.org 1 {result.id}"


def test_a_failure_tells_its_exception_after_all_attempts(sandbox: Sandbox, project: Any) -> None:
    result = project.fail.enqueue(17)
    sandbox.advance("1h")
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 2)
    assert [error.exception_class for error in result.errors] == [project.NoSuchOrder] * 2
    assert "there is no order 17" in result.errors[0].traceback
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_signals_and_refusals_are_those_of_the_framework(sandbox: Sandbox, project: Any) -> None:
    from tocsin.contrib.django import framework  # noqa: PLC0415 - needs the settings

    heard: list[tuple[str, str]] = []

    def hear(signal: Any, name: str) -> Any:
        def listener(sender: Any, task_result: Any, **_: Any) -> None:
            heard.append((name, str(task_result.status)))

        signal.connect(listener, weak=False)
        return lambda: signal.disconnect(listener)

    signals = ("task_enqueued", "task_started", "task_finished")
    ends = [hear(getattr(framework, name), name) for name in signals]
    result = project.add.enqueue(1)
    sandbox.drain()
    for end in ends:
        end()
    assert heard == list(zip(signals, ("READY", "RUNNING", "SUCCESSFUL"), strict=True))
    for unknown in ("job_00000000000000000000000000", "nonsense"):
        with pytest.raises(framework.TaskResultDoesNotExist):
            project.add.get_result(unknown)
    with pytest.raises(Exception, match="does not match"):
        project.fail.get_result(result.id)
    with pytest.raises(Exception, match="Queue 'other' is not valid"):
        project.add.using(queue_name="other")
    with pytest.raises(TypeError):
        project.add.enqueue(object())
    [error] = framework.task_backends["wrong"].check()
    assert "databse" in error.msg


def test_with_a_database_a_task_is_there_if_the_commit_is(cluster: Cluster, project: Any) -> None:
    bound = Bound(cluster)
    given = conninfo_to_dict(bound.url)
    where = {"NAME": given["dbname"], "USER": given["user"], "HOST": given["host"]}
    connections.databases["bound"] = {**connections["default"].settings_dict, **where}
    task = project.add.using(backend="own")

    def rolled_back() -> None:
        with transaction.atomic("bound"):
            task.enqueue(1)
            raise ZeroDivisionError

    try:
        with pytest.raises(ZeroDivisionError):
            rolled_back()
        with transaction.atomic("bound"):
            kept = task.enqueue(2)
    finally:
        connections["bound"].close()
        del connections.databases["bound"]
    with psycopg.connect(bound.owner_url) as owner:
        payloads = [row[0] for row in owner.execute("SELECT target -> 'payload' FROM tocsin.jobs")]
    assert payloads == [{"args": [2], "kwargs": {}}]
    assert kept.id.startswith("job_")


def test_the_command_makes_a_worker_of_the_back_ends_queues(sandbox: Sandbox, project: Any) -> None:
    from tocsin.contrib.django import framework  # noqa: PLC0415 - needs the settings
    from tocsin.contrib.django.management.commands.tocsin import Command  # noqa: PLC0415

    worker = Command().worker(backend="default", queues=None, concurrency=3, grace=1.0)
    assert worker is not None
    package = framework.BaseTaskBackend.__module__.partition(".backends")[0]
    dummy = {"default": {"BACKEND": f"{package}.backends.dummy.DummyBackend"}}
    with override_settings(TASKS=dummy), pytest.raises(CommandError, match="not Tocsin's"):
        Command().worker(backend="default", queues=None, concurrency=3, grace=1.0)
