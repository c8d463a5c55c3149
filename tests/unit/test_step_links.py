"""Where each step of an explanation leads."""

from typing import Any
from uuid import UUID

import pytest

from tocsin.api.step_links import link_of
from tocsin.domain.explain import Step
from tocsin.domain.ids import ExecutionKey, execution_text, job_text
from tocsin.domain.waits import Reason

JOB = UUID("01900000-0000-7000-8000-000000000001")
ROW = {
    "job_id": JOB, "queue": "mail.night", "reason": None, "error_fingerprint": "a b", "origin_fire_at": None, "backfill_id": None,
}  # fmt: skip
PAGE = f"/jobs/{job_text(JOB)}"
EARLIER = f"/executions/{execution_text(ExecutionKey(JOB, 7))}"


@pytest.mark.parametrize(
    ("kind", "row", "link"),
    [
        (Reason.QUEUE_PAUSED, {}, "/queues/mail.night"),
        (Reason.TENANT_LIMIT, {}, "/tenants/acme"),
        (Reason.SLOT, {}, f"{PAGE}?tab=definition"),
        (Reason.HOST, {}, f"{PAGE}?tab=definition"),
        (Reason.PLACE, {}, "/fleet"),
        ("unserved", {}, "/fleet"),
        (Reason.TURN, {}, EARLIER),
        ("dead", {}, "/dead-letters?fingerprint=a%20b"),
        ("skipped", {"reason": "blackout"}, "/calendars"),
        ("skipped", {"reason": "overlap"}, f"{PAGE}?tab=runs"),
        ("origin", {"origin_fire_at": 7}, EARLIER),
        ("origin", {"backfill_id": 3}, "/operations"),
        ("origin", {}, None),
        ("started", {}, None),
    ],
)
def test_a_step_leads_to_what_it_is_about(kind: str, row: dict[str, Any], link: str | None) -> None:
    assert link_of(Step(kind, ""), ROW | row, "acme", 7) == link


def test_a_turn_that_was_waited_for_leads_to_the_runs_of_the_job() -> None:
    assert link_of(Step(Reason.TURN, "", 1, 2), ROW, "acme", 7) == f"{PAGE}?tab=runs"
    assert link_of(Step(Reason.TURN, ""), ROW, "acme") == f"{PAGE}?tab=runs"
