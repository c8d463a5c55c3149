"""`tocsin tasks serve` and gateways as real processes: killed under load, asked to stop, given tasks that
hang."""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.acceptance import diary
from tests.acceptance.task_shop import Shop
from tests.support.api import ADMIN_KEY
from tests.support.postgres import Cluster
from tests.support.processes import Processes, wait_for
from tocsin import Retry, TaskFailed, enqueue_in, enqueue_many_in
from tocsin.sdk.task import Task

NUMBER = 200


@pytest.fixture(scope="module")
def shop(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    url, directory = cluster.new_database(), tmp_path_factory.mktemp("shop")
    with Processes(directory) as processes:
        yield Shop(url, directory, processes)
    cluster.drop(url)


def enqueue(shop: Shop, task: Task[..., int], numbers: range) -> list[str]:
    task.app.reach(shop.api.url, ADMIN_KEY)
    return [handle.job_id for handle in task.enqueue_many(task.args(number) for number in numbers)]


def test_a_task_that_hangs_in_a_child_process_is_ended_and_one_that_is_cancelled_stops(shop: Shop) -> None:
    diary.app.reach(shop.api.url, ADMIN_KEY)
    hanging, waiting = diary.hang.enqueue(60), diary.wait_for_stop.enqueue()
    wait_for(lambda: waiting.progress() is not None, 90, "no progress is told")
    assert waiting.progress() == {"share": 0.5, "note": "waiting"}
    assert waiting.cancel("enough") == "cancel_requested"
    with pytest.raises(TaskFailed, match="cancelled: enough"):
        waiting.result(30)
    began = time.monotonic()
    with pytest.raises(TaskFailed, match="not over within 1 s"):
        hanging.result(60)
    assert time.monotonic() - began < 60
    lines = list(diary.app.client.executions.logs(hanging.id))
    assert [line["message"] for line in lines] == ["hanging"]


def test_a_worker_of_an_older_release_drops_what_a_newer_caller_added_and_fails_what_it_cannot_read(
    shop: Shop,
) -> None:
    diary.app.reach(shop.api.url, ADMIN_KEY)
    newer = diary.app.task_named("diary.write")
    assert newer.enqueue_json({"number": 7, "added_later": {"deep": [1]}}).result(60) == 7
    unreadable = newer.enqueue_json({"renamed": 7}, retry=Retry(max_attempts=1))
    with pytest.raises(TaskFailed, match=r"PayloadError.*number"):
        unreadable.result(60)


def test_what_an_application_commits_runs_and_what_it_rolls_back_does_not(shop: Shop) -> None:
    shop.turn_page()
    diary.app.reach(shop.api.url, ADMIN_KEY)
    login, admin = "diary_app", psycopg.connect(shop.database_url, autocommit=True)
    admin.execute(f"CREATE ROLE {login} LOGIN")
    path = f"/v1/tenants/default/logins/{login}"
    try:
        assert shop.api.call("PUT", path).json()["tenant"] == "default"
        parts = urlsplit(shop.database_url)
        mine = urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))
        with psycopg.connect(mine) as application:
            gone = enqueue_in(application, diary.write, 1)
            application.rollback()
            handles = [enqueue_in(application, diary.write, 2)]
            handles += enqueue_many_in(application, diary.write_async, map(diary.write_async.args, (3, 4)))
            application.commit()
            assert [handle.result(60) for handle in handles] == [2, 3, 4]
        assert sorted(number for number, _, _ in shop.entries()) == [2, 3, 4]
        assert shop.api.get(f"/v1/jobs/{gone.job_id}").status == 404
        listed = shop.api.get("/v1/tenants/default/logins").json()["items"]
        assert [one["login"] for one in listed] == [login]
    finally:
        assert shop.api.delete(path).status == 200
        admin.execute(f"DROP ROLE {login}")
        admin.close()


def test_killing_workers_and_gateways_under_load_loses_nothing_and_every_repetition_has_its_reason(
    shop: Shop,
) -> None:
    shop.turn_page()
    jobs = enqueue(shop, diary.write, range(NUMBER))
    jobs += enqueue(shop, diary.write_async, range(NUMBER, 2 * NUMBER))
    shop.until_run(30)
    shop.replace(shop.workers[0])
    shop.until_run(120)
    shop.replace(shop.gateways[0])
    shop.until_run(200)
    shop.replace(shop.gateways[1])
    shop.replace(shop.workers[1])
    shop.api.wait_until_ready(shop.gateways[1])
    wait_for(lambda: shop.ended(jobs, "succeeded") == len(jobs), 90, "not all tasks succeeded")
    assert {number for number, _, _ in shop.entries()} == set(range(2 * NUMBER))
    assert len({execution for _, execution, _ in shop.entries()}) == len(jobs)
    assert shop.unexplained() == []


@pytest.mark.parametrize("point", ["gateway.claimed", "gateway.begun"])
def test_a_gateway_that_crashes_with_claims_in_hand_loses_none_of_them(shop: Shop, point: str) -> None:
    victim, well = shop.gateways
    well.kill()
    victim.kill()
    victim.start(TOCSIN_FAILPOINTS=f"{point}=crash")
    shop.api.wait_until_ready(victim)
    shop.turn_page()
    jobs = enqueue(shop, diary.write, range(20))
    assert victim.wait(60) == -signal.SIGKILL, victim.last_words()
    assert shop.entries() == [], "an answer was given: the crash came too late"
    victim.start()
    well.start()
    shop.api.wait_until_ready(well)
    wait_for(lambda: shop.ended(jobs, "succeeded") == len(jobs), 90, "not all tasks succeeded")
    runs = shop.entries()
    assert {number for number, _, _ in runs} == set(range(20)), "something was lost"
    repeated = {execution for _, execution, attempt in runs if attempt > 1}
    assert repeated, "the crash took no claim with it"
    for execution, times in Counter(execution for _, execution, _ in runs).items():
        attempts = shop.api.get(f"/v1/executions/{execution}").json()["attempts"]
        verdicts = [attempt["verdict"] for attempt in attempts]
        assert verdicts == ["lost"] * (len(verdicts) - 1) + ["succeeded"], (
            "something ran again without a reason"
        )
        assert len(verdicts) >= times


def test_a_worker_that_is_asked_to_stop_finishes_what_it_has(shop: Shop) -> None:
    shop.turn_page()
    jobs = enqueue(shop, diary.write, range(100))
    shop.until_run(20)
    for worker in shop.workers:
        worker.terminate()
    for worker in shop.workers:
        assert worker.wait(30) == 0, worker.last_words()
    entries = shop.entries()
    assert len(entries) == len({execution for _, execution, _ in entries}), "something ran twice"
    assert shop.ended(jobs, "succeeded") == len(entries) < len(jobs)
    assert all(attempt == 1 for _, _, attempt in entries)
    left = {one["name"].split(":")[1] for one in shop.api.get("/v1/workers").json()["items"]}
    assert not left & {str(worker.pid) for worker in shop.workers}
