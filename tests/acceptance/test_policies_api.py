"""Schedules and policies as clients meet them: create once, create many, preview, find, explain, backfill,
control."""

import asyncio
import contextlib
import http.client
import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.support.api import ADMIN_KEY, Answer, InProcessApi, RealApi, fleet, in_process_api
from tests.support.postgres import Cluster
from tocsin.domain.ids import ExecutionKey, execution_text, job_text, parse_job_text
from tocsin.domain.instant import parse_instant

NOOP: dict[str, Any] = {"target": {"kind": "noop"}}
BATCH = int(os.environ.get("TOCSIN_BATCH_ITEMS", "10000"))
NDJSON = ((b"content-type", b"application/x-ndjson"),)


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


def with_key(api: InProcessApi, key: str, body: dict[str, Any]) -> Answer:
    return api.call(
        "POST", "/v1/jobs", json.dumps(NOOP | body).encode(), headers=[(b"idempotency-key", key.encode())]
    )


def lines(*jobs: Any) -> bytes:
    return b"\n".join(json.dumps(job).encode() if not isinstance(job, bytes) else job for job in jobs)


def later(**span: float) -> str:
    return (datetime.now(UTC) + timedelta(**span)).isoformat(timespec="seconds")


def count_of(api: InProcessApi, tag: str) -> int:
    return int(api.fetch("SELECT count(*) AS n FROM jobs WHERE tags @> ARRAY[$1]", tag)[0]["n"])


class TestCreatingOnce:
    def test_fifty_at_once_with_one_key_make_one_job_and_get_one_answer(self, api: InProcessApi) -> None:
        body = json.dumps(NOOP | {"schedule": {"in": "1h"}, "tags": ["fifty"]}).encode()

        async def all_at_once() -> list[Answer]:
            headers = [(b"idempotency-key", b"fifty")]
            return await asyncio.gather(
                *(api.ask("POST", "/v1/jobs", body, headers=headers) for _ in range(50))
            )

        answers = api.run(all_at_once())
        assert {answer.status for answer in answers} == {201}
        assert all(answer.json() == answers[0].json() for answer in answers)
        assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
        assert count_of(api, "fifty") == 1

    def test_the_key_may_stand_in_the_body_and_order_and_spelling_do_not_matter(
        self, api: InProcessApi
    ) -> None:
        one = b'{"schedule": {"every": "1h"}, "target": {"kind": "noop"}, "idempotency_key": "in the body", "tags": ["body"]}'
        other = b'{"idempotency_key":"in the body","tags":["body"],"target":{"kind":"noop"},"schedule":{"every":"1h"}}'
        assert api.call("POST", "/v1/jobs", one).json() == api.call("POST", "/v1/jobs", other).json()
        assert count_of(api, "body") == 1

    def test_the_same_key_with_another_body_is_refused_by_name_and_makes_nothing(
        self, api: InProcessApi
    ) -> None:
        assert with_key(api, "mine", {"schedule": {"in": "1h"}, "tags": ["mine"]}).status == 201
        refused = with_key(api, "mine", {"schedule": {"in": "2h"}, "tags": ["mine"]})
        assert refused.status == 422
        assert refused.problem()["field"] == "idempotency_key"
        assert count_of(api, "mine") == 1

    def test_two_different_keys_are_refused(self, api: InProcessApi) -> None:
        body = {"schedule": {"every": "1h"}, "idempotency_key": "one", "tags": ["two keys"]}
        refused = with_key(api, "another", body)
        assert (refused.status, refused.problem()["field"]) == (422, "idempotency_key")
        assert count_of(api, "two keys") == 0
        assert with_key(api, "one", body).status == 201

    def test_a_refused_body_leaves_its_key_free(self, api: InProcessApi) -> None:
        assert with_key(api, "free", {"schedule": {"cron": "61 * * * *"}}).status == 422
        assert with_key(api, "free", {"schedule": {"cron": "1 * * * *"}}).status == 201

    def test_a_repetition_gets_the_first_answer_although_its_schedule_is_over(
        self, api: InProcessApi
    ) -> None:
        ends_at = datetime.now(UTC) + timedelta(seconds=2.5)
        body = {"schedule": {"every": "1s", "ends_at": ends_at.isoformat()}}
        first = with_key(api, "over", body)
        assert first.status == 201
        while datetime.now(UTC) < ends_at:
            time.sleep(0.05)
        again = with_key(api, "over", body)
        assert again.json() == first.json()


class TestCreatingMany:
    def test_ten_thousand_with_bad_ones_among_them_have_a_result_each(self, api: InProcessApi) -> None:
        good = json.dumps(NOOP | {"schedule": {"in": "1h"}, "tags": ["many"]}).encode()
        bad = {
            7: (b"{", None),
            1000: (json.dumps(NOOP | {"schedule": {"cron": "0 24 * * *"}}).encode(), "schedule.cron"),
            BATCH - 1: (json.dumps({"schedule": {"in": "1h"}}).encode(), "target"),
        }
        answer = api.call(
            "POST", "/v1/jobs:batch", lines(*(bad.get(n, (good,))[0] for n in range(BATCH))), headers=NDJSON
        )
        assert answer.status == 200
        result = answer.json()
        assert (result["created"], result["refused"]) == (BATCH - 3, 3)
        assert [item["index"] for item in result["items"]] == list(range(BATCH))
        for index, (_, field) in bad.items():
            assert result["items"][index]["problem"].get("field") == field
        made = {item["id"] for item in result["items"] if "id" in item}
        stored = api.fetch("SELECT id FROM jobs WHERE tags @> ARRAY['many']")
        assert made == {job_text(row["id"]) for row in stored}
        hour_24 = result["items"][1000]["problem"]
        assert "24" in hour_24["detail"] + hour_24.get("hint", "")

    @pytest.mark.parametrize(
        "broken", [b"[1]", b'{"schedule": {"every": "1h"}, "target": {"kind": "noop"}, "name": "taken"}']
    )
    def test_all_or_none_leaves_nothing_when_one_is_refused(self, api: InProcessApi, broken: bytes) -> None:
        api.post("/v1/jobs", NOOP | {"schedule": {"every": "1h"}, "name": "taken"})
        before = api.tables()
        good = json.dumps(NOOP | {"schedule": {"every": "1h"}}).encode()
        many = [broken if n == 1500 else good for n in range(2500)]
        answer = api.call("POST", "/v1/jobs:batch?atomic=true", lines(*many), headers=NDJSON)
        assert answer.status == 422
        result = answer.json()
        assert (result["created"], result["refused"]) == (0, 1)
        assert "problem" in result["items"][1500]
        assert api.tables() == before

    def test_all_or_none_writes_all(self, api: InProcessApi) -> None:
        jobs = [NOOP | {"schedule": {"in": "1h"}, "tags": ["whole"]} for _ in range(2500)]
        answer = api.post("/v1/jobs:batch?atomic=true", jobs)
        assert answer.status == 200
        assert answer.json()["created"] == count_of(api, "whole") == 2500

    def test_of_more_than_ten_thousand_lines_the_rest_is_refused_and_what_was_written_is_told(
        self, api: InProcessApi
    ) -> None:
        body = lines(*[NOOP | {"schedule": {"in": "1h"}, "tags": ["too many"]}] * 10_001)
        answer = api.call("POST", "/v1/jobs:batch", body, headers=NDJSON)
        assert (answer.status, answer.json()["complete"]) == (200, False)
        assert answer.json()["created"] == count_of(api, "too many"), "a client can tell what was done"


@pytest.fixture(scope="module")
def real(cluster: Cluster) -> Iterator[RealApi]:
    url = cluster.new_database()
    with fleet(url, engines=0) as api:
        yield api
    cluster.drop(url)


def send_in_pieces(port: int, pieces: Iterator[bytes], size: int | None = None) -> tuple[int, dict[str, Any]]:
    """A batch whose body arrives piece by piece, chunked unless its size is declared."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.putrequest("POST", "/v1/jobs:batch")
        connection.putheader("authorization", f"Bearer {ADMIN_KEY}")
        connection.putheader("content-type", "application/x-ndjson")
        connection.putheader(
            *("transfer-encoding", "chunked") if size is None else ("content-length", str(size))
        )
        connection.endheaders()
        for piece in pieces:
            connection.send(b"%x\r\n%b\r\n" % (len(piece), piece) if size is None else piece)
        if size is None:
            connection.send(b"0\r\n\r\n")
        response = connection.getresponse()
        return response.status, json.loads(response.read())


class TestStreaming:
    def test_lines_are_whole_however_they_are_cut_up_on_the_way(self, real: RealApi) -> None:
        body = (
            lines(*(NOOP | {"schedule": {"in": "1h"}, "name": f"job {n} äöü ✓"} for n in range(400)))
            + b"\r\n\n"
        )
        pieces = (body[at : at + 37] for at in range(0, len(body), 37))
        status, answer = send_in_pieces(real.port, pieces)
        assert (status, answer["created"], answer["refused"]) == (200, 400, 0)

    def test_a_batch_over_the_size_limit_is_refused(self, real: RealApi) -> None:
        line = lines(NOOP | {"schedule": {"in": "1h"}, "description": "x" * 1900}) + b"\n"
        padded = line.rstrip(b"\n") + b" " * 60_000 + b"\n"
        count = (65 << 20) // len(padded)
        try:
            status, answer = send_in_pieces(real.port, iter([padded] * count), len(padded) * count)
        except (BrokenPipeError, ConnectionResetError):
            pytest.fail("a client that only looks when it has sent everything gets to see the answer")
        assert status == 413
        assert "64 MiB" in json.dumps(answer)


class TestFinding:
    def test_filters_and_cursors_are_complete_and_stable_while_jobs_are_added(
        self, api: InProcessApi
    ) -> None:
        def make(n: int, **more: Any) -> str:
            tags = ["find", "even" if n % 2 == 0 else "odd", f"third-{n % 3}"]
            made = api.create(name=f"Find_{n} 100%", schedule={"every": f"{n + 1}h"}, tags=tags, **more)
            return str(made["id"])

        ids = [make(n, queue="heavy" if n % 5 == 0 else "default") for n in range(40)]
        queries: list[tuple[dict[str, Any], list[str]]] = [
            ({"tag": "find"}, ids),
            ({"tag": "find,even"}, ids[::2]),
            ({"tag": "third-0,third-1", "tag_match": "any"}, [job for n, job in enumerate(ids) if n % 3 < 2]),
            ({"tag": "find", "queue": "heavy"}, ids[::5]),
            ({"name": "find_1"}, [job for n, job in enumerate(ids) if str(n).startswith("1")]),
            ({"name": "00%"}, ids),
            ({"name": "d_%"}, []),
            ({"tag": "find", "kind": "once"}, []),
            ({"tag": "find", "state": "active", "target": "noop"}, ids),
        ]
        for number, (query, expected) in enumerate(queries):
            for limit in (7, 500):
                found: list[str] = []
                for page in api.pages("/v1/jobs", limit=limit, **query):
                    found += [item["id"] for item in page]
                    if limit == 7:
                        make(100 + number * 100 + len(found), queue="later")
                assert [job for job in found if job in ids] == expected[::-1], query
                assert len(found) == len(set(found))
        soon = {"tag": "find", "next_fire_to": later(hours=1, seconds=1)}
        found = [item["id"] for page in api.pages("/v1/jobs", limit=3, **soon) for item in page]
        times = {job["id"]: job["next_fire_at"] for page in api.pages("/v1/jobs", tag="find") for job in page}
        assert ids[0] in found
        assert set(found) == {job for job, time in times.items() if time < soon["next_fire_to"]}
        assert len(found) < len(times)

    def test_executions_are_found_by_job_time_state_and_error_over_pages(self, api: InProcessApi) -> None:
        job = api.create(schedule={"every": "1h"})
        rows = (
            "INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at,"
            " started_at, finished_at, attempt, reason) SELECT 0, $1, t, 1, 'default', 5, 'schedule',"
            " CASE WHEN n % 3 = 0 THEN 'dead' ELSE 'succeeded' END, t, t, t + n * interval '1 s', t + interval '1 min', 1,"
            " CASE WHEN n % 3 = 0 THEN 'Connection refused by 10.0.0.' || n END"
            " FROM generate_series(1, 30) AS n, LATERAL (SELECT now() - n * interval '1 h' AS t) AS times"
        )
        api.fetch(rows, parse_job_text(job["id"]))

        def found(**query: Any) -> int:
            items = [
                item for page in api.pages("/v1/executions", limit=4, job=job["id"], **query) for item in page
            ]
            assert len({item["id"] for item in items}) == len(items)
            return len(items)

        assert found() == 30
        assert found(state="dead") == 10
        assert found(error="CONNECTION refused") == 10
        assert found(error="10.0.0.3") == 2
        assert found(fire_from=later(hours=-10.5)) == 10
        assert found(fire_from=later(hours=-20.5), fire_to=later(hours=-10.5)) == 10
        assert found(min_lag="20s") == 11


class TestPreview:
    def test_an_unsaved_schedule_shows_instants_local_times_words_and_warnings(
        self, api: InProcessApi
    ) -> None:
        body = {
            "schedule": {"cron": "30 2 * * *", "time_zone": "Europe/Berlin"},
            "after": "2031-03-28T12:00:00Z",
            "limit": 3,
        }
        answer = api.post("/v1/schedules/preview", body).json()
        assert [(fire["at"], fire["local"]) for fire in answer["fires"]] == [
            ("2031-03-29T01:30:00Z", "2031-03-29T02:30:00+01:00"),
            ("2031-03-30T01:00:00Z", "2031-03-30T03:00:00+02:00"),
            ("2031-03-31T00:30:00Z", "2031-03-31T02:30:00+02:00"),
        ]
        assert "02:30" in answer["explanation"]
        assert any("2031-03-30" in warning for warning in answer["warnings"])

    def test_upcoming_says_what_will_really_fire(self, api: InProcessApi) -> None:
        job = api.create(schedule={"every": "1h", "max_fires": 3})
        fires = [fire["at"] for fire in api.get(f"/v1/jobs/{job['id']}/upcoming").json()["fires"]]
        assert len(fires) == 3
        skipped = api.post(f"/v1/jobs/{job['id']}/skip-next").json()["skipped"]
        assert skipped == fires[0]
        after = [fire["at"] for fire in api.get(f"/v1/jobs/{job['id']}/upcoming").json()["fires"]]
        assert skipped not in after
        assert after[:2] == fires[1:]
        api.post(f"/v1/jobs/{job['id']}/cancel")
        assert api.get(f"/v1/jobs/{job['id']}/upcoming").json()["fires"] == []

    def test_upcoming_counts_what_is_planned_already_among_the_fires_that_are_left(
        self, api: InProcessApi
    ) -> None:
        job = api.create(schedule={"every": "1h", "max_fires": 2})
        fires = api.get(f"/v1/jobs/{job['id']}/upcoming").json()["fires"]
        api.fetch(
            "WITH planned AS (INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, route)"
            " SELECT 0, id, next_fire_at, 1, 'default', 5, next_fire_at, next_fire_at, 'http' FROM jobs WHERE id = $1)"
            " UPDATE jobs SET next_fire_at = next_fire_at + interval '1 h', fire_count = 1 WHERE id = $1",
            parse_job_text(job["id"]),
        )
        assert api.get(f"/v1/jobs/{job['id']}/upcoming").json()["fires"] == fires

    def test_a_jittered_job_shows_the_same_slot_every_time_beside_its_nominal_instants(
        self, api: InProcessApi
    ) -> None:
        job = api.create(schedule={"cron": "0 * * * *", "jitter": "30m"})
        fires = [
            datetime.fromisoformat(f["at"]) for f in api.get(f"/v1/jobs/{job['id']}/upcoming").json()["fires"]
        ]
        slots = {fire - fire.replace(minute=0, second=0, microsecond=0) for fire in fires}
        assert len(slots) == 1
        assert timedelta(0) <= slots.pop() < timedelta(minutes=30)
        run = api.post(f"/v1/jobs/{job['id']}/run").json()
        assert {"fire_at", "due_at"} <= run.keys()


class TestControl:
    def test_resume_foretells_with_dry_run_what_it_then_does(self, api: InProcessApi) -> None:
        job = api.create(schedule={"every": "1s"}, misfire={"policy": "fire_all", "max": 2, "grace": 1})
        path = f"/v1/jobs/{job['id']}"
        assert api.post(path + "/pause", {"reason": "for a look"}).json()["job"]["state"] == "paused"
        api.fetch(
            "UPDATE jobs SET next_fire_at = date_trunc('second', now()) - interval '10 s' WHERE id = $1",
            parse_job_text(job["id"]),
        )
        foretold = api.post(path + "/resume", {"dry_run": True}).json()
        assert foretold["dry_run"] is True
        assert foretold["job"]["state"] == "paused"
        assert foretold["fired"] == len(foretold["fire_times"]) in (3, 4), "two, and what is within its grace"
        assert foretold["skipped"] in (7, 8)
        done = api.post(path + "/resume").json()
        assert done["job"]["state"] == "active"
        assert done["fired"] in (3, 4)
        assert done["skipped"] in (foretold["skipped"], foretold["skipped"] + 1)

    def test_a_backfill_foretells_counts_lists_shows_and_can_be_cancelled(self, api: InProcessApi) -> None:
        job = api.create(schedule={"cron": "0 * * * *"})
        path = f"/v1/jobs/{job['id']}/backfills"
        body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z", "order": "newest_first"}
        foretold = api.post(path, body | {"dry_run": True})
        assert foretold.status == 200
        assert foretold.json()["backfill"] is None
        assert foretold.json()["total"] == 48
        assert foretold.json()["fire_times"][0] == "2026-01-02T23:00:00Z"
        assert api.get(path).json()["items"] == []
        begun = [api.post(path, body).json()["backfill"] for _ in range(3)]
        assert all(one["state"] == "running" and one["total"] == 48 for one in begun)
        listed = [item["id"] for page in api.pages(path, limit=2) for item in page]
        assert listed == [one["id"] for one in begun][::-1]
        cancelled = api.post(f"/v1/backfills/{listed[0]}/cancel")
        assert cancelled.json()["state"] == "cancelled"
        assert api.post(f"/v1/backfills/{listed[0]}/cancel").status == 409
        assert api.get(f"/v1/backfills/{listed[1]}").json()["state"] == "running"

    def test_the_id_of_a_backfill_does_not_tell_how_many_others_made(self, api: InProcessApi) -> None:
        job = api.create(schedule={"cron": "0 * * * *"})
        body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"}
        ids = [api.post(f"/v1/jobs/{job['id']}/backfills", body).json()["backfill"]["id"] for _ in range(3)]
        assert ids == sorted(ids)
        assert all(1 << 40 < one < 1 << 53 for one in ids)
        assert all(after - before > 1 << 3 for before, after in pairwise(ids))

    def test_backfills_of_all_jobs_are_listed_with_their_names_newest_first_by_state(
        self, api: InProcessApi
    ) -> None:
        body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
        jobs = [api.create(name=f"made-up-{n}", schedule={"cron": "0 * * * *"}) for n in range(3)]
        begun = [api.post(f"/v1/jobs/{job['id']}/backfills", body).json()["backfill"]["id"] for job in jobs]
        api.post(f"/v1/backfills/{begun[1]}/cancel")
        listed = [item for page in api.pages("/v1/backfills", limit=2) for item in page]
        assert [(one["id"], one["job_name"]) for one in listed if one["id"] in begun] == [
            (number, f"made-up-{place}") for place, number in reversed(list(enumerate(begun)))
        ]
        cancelled = api.get("/v1/backfills", state="cancelled").json()["items"]
        assert begun[1] in [one["id"] for one in cancelled]
        assert {one["state"] for one in cancelled} == {"cancelled"}
        assert api.get("/v1/backfills", state="lost").status == 422

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"to": "2026-01-01T00:00:00Z"}, "to"),
            ({"to": "2999-01-01T00:00:00Z"}, "to"),
            ({"from": "yesterday"}, "from"),
            ({"pace": "2h"}, "pace"),
            ({"max_parallel": 0}, "max_parallel"),
            ({"mode": "some"}, "mode"),
            ({"from": "1990-01-01T00:00:00Z"}, "from"),
        ],
    )
    def test_a_bad_backfill_is_refused_by_the_name_of_its_fault(
        self, api: InProcessApi, change: dict[str, Any], field: str
    ) -> None:
        job = api.create(schedule={"cron": "* * * * *"})
        body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"} | change
        refused = api.post(f"/v1/jobs/{job['id']}/backfills", body)
        assert refused.status == 422
        assert refused.problem()["field"] == field
        assert api.get(f"/v1/jobs/{job['id']}/backfills").json()["items"] == []

    def test_a_name_is_put_again_and_again_without_a_change(self, api: InProcessApi) -> None:
        body = NOOP | {"schedule": {"cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin"}}

        def put(more: dict[str, Any]) -> Answer:
            return api.call("PUT", "/v1/jobs/by-name/declared", json.dumps(body | more).encode())

        made, again, changed = put({}), put({}), put({"priority": 2})
        assert (made.status, again.status, changed.status) == (201, 200, 200)
        assert again.json()["version"] == made.json()["version"]
        assert changed.json()["version"] == made.json()["version"] + 1
        assert changed.json()["id"] == made.json()["id"]


class TestExplaining:
    def test_each_kind_of_skip_says_why_and_a_fire_time_inside_a_run_of_skips_is_found(
        self, api: InProcessApi
    ) -> None:
        job = api.create(schedule={"cron": "0 0 1 1 *"})
        api.fetch(
            "INSERT INTO history (cell, job_id, fire_at, fire_until, fire_count, tenant_id, queue, priority, cause, state,"
            " due_at, run_at, finished_at, attempt, reason) SELECT 0, $1, t, t + interval '10 s', 11, 1, 'default', 5,"
            " 'schedule', 'skipped', t, t, now(), 1, 'paused' FROM (SELECT timestamptz '2026-05-05T12:00:00Z' AS t) AS x",
            parse_job_text(job["id"]),
        )
        key = ExecutionKey(parse_job_text(job["id"]), parse_instant("2026-05-05T12:00:04Z", ""))
        answer = api.get(f"/v1/executions/{execution_text(key)}/explain").json()
        assert any("paused" in words for words in answer["explanation"])
        assert answer["execution"]["fire_count"] == 11

    def test_a_run_by_hand_and_one_that_waits_say_so(self, api: InProcessApi) -> None:
        job = api.create(schedule={"every": "1h"}, overlap="queue")
        run = api.post(f"/v1/jobs/{job['id']}/run").json()
        words = api.get(f"/v1/executions/{run['id']}/explain").json()["explanation"]
        assert "A person ran the job by hand." in words

    def test_what_is_due_where_no_worker_runs_says_that_and_not_what_else_it_could_be(
        self, api: InProcessApi
    ) -> None:
        job = api.create(schedule={"at": "2026-01-01T00:00:00Z"})
        [execution] = api.get(f"/v1/executions?job={job['id']}").json()["items"]
        answer = api.get(f"/v1/executions/{execution['id']}/explain").json()
        assert answer["explanation"] == [step["words"] for step in answer["steps"]]
        kinds = [step["kind"] for step in answer["steps"]]
        assert kinds == ["origin", "outage"]


class TestCalendars:
    def test_a_calendar_that_jobs_name_cannot_go_and_one_that_is_not_there_cannot_be_named(
        self, api: InProcessApi
    ) -> None:
        excluding = {"schedule": {"every": "1h", "exclude": {"calendars": ["holidays"]}}}
        assert api.post("/v1/jobs", NOOP | excluding).problem()["field"] == "schedule.exclude.calendars"
        ranges = {
            "ranges": [{"from": "2031-12-24T00:00:00Z", "to": "2031-12-27T00:00:00Z", "reason": "Christmas"}]
        }
        put = api.call("PUT", "/v1/calendars/holidays", json.dumps(ranges).encode())
        assert put.json()["ranges"] == ranges["ranges"]
        job = api.create(**excluding)
        assert api.delete("/v1/calendars/holidays").status == 409
        api.delete(f"/v1/jobs/{job['id']}")
        assert api.delete("/v1/calendars/holidays").status == 200
        assert api.get("/v1/calendars/holidays").status == 404
