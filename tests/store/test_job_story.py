"""A job's id leads to its story in the log, and to nothing that somebody wrote."""

from typing import Any

from structlog.testing import capture_logs

from tests.simulation.workshop import CLAIM_TTL, Workshop, play
from tests.support.api import in_process_api
from tocsin.domain.cells import CELL
from tocsin.domain.ids import job_text
from tocsin.domain.instant import SECOND
from tocsin.failpoints import Failpoints
from tocsin.queue.attempt_log import AttemptLog
from tocsin.queue.reclaiming.reclaiming import Reclaiming
from tocsin.queue.slots.healing import Healing
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.telemetry import Telemetry


def test_creation_and_changes_are_told_with_the_request_and_the_key(url: str) -> None:
    with in_process_api(url) as api, capture_logs() as lines:
        job = api.create(name="a name", schedule={"every": "1h"})
        once = api.create(schedule={"in": "1h"})
        api.call("POST", f"/v1/jobs/{job['id']}/pause", b'{"reason": "somebody\'s words"}')
        api.call("POST", f"/v1/jobs/{job['id']}/pause")  # refused: it is paused
        api.call("PUT", "/v1/calendars/words", b'{"ranges": []}')
        api.call("DELETE", f"/v1/jobs/{job['id']}?dry_run=true")
    story = [
        (line["event"], line.get("action"), line["log_level"]) for line in lines if job["id"] in str(line)
    ]
    assert story == [("job.created", None, "info"), ("change.made", "job.pause", "info")]
    assert [line["log_level"] for line in lines if once["id"] in str(line)] == ["debug"]
    calendar = [line for line in lines if line.get("action") == "calendar.put"]
    assert len(calendar) == 1
    assert not [line for line in lines if "words" in str(line) or "a name" in str(line)]


def test_an_attempt_whose_worker_vanished_is_told_by_the_node_that_takes_it_back(url: str) -> None:
    class Leases:
        workers: frozenset[int] = frozenset()

        def trusted(self) -> dict[int, int]:
            return {0: 1}

    async def story(shop: Workshop) -> None:
        key = await shop.once()
        await shop.claim(shop.worker(41))
        await shop.time.advance(round((CLAIM_TTL + 1) * SECOND))
        leases: Any = Leases()
        reclaimer = Reclaimer(
            Reclaiming(shop.database, CELL), Healing(shop.database, CELL), leases, Telemetry(), Failpoints(),
            claim_ttl=CLAIM_TTL, attempts=AttemptLog(successes=False),
        )  # fmt: skip
        with capture_logs() as lines:
            await reclaimer.run_once(shop.time.now())
        [line] = [line for line in lines if line["event"] == "attempt.finished"]
        assert (line["job"], line["outcome"], line["of_node"]) == (job_text(key.job_id), "lost", 41)

    play(url, story)
