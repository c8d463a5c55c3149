"""The whole OpenAPI document, drawn from at random with a fixed seed, against a real server: every answer is
promised.

`python -m tests.fuzz` does the same for longer, with all boundary values and with sequences of requests.
"""

from tests.support.api import fleet
from tests.support.openapi_cases import furnish
from tests.support.openapi_fuzz import OPERATIONS, Report, fuzz
from tocsin.domain.sealing import new_master_key


def test_every_answer_to_drawn_requests_is_one_that_the_document_promises(url: str) -> None:
    report = Report()
    with fleet(url, secret_key=new_master_key()) as api:
        fuzz(api, furnish(api), report, seed=1, examples=1, phases=["coverage"], one_in=16)
        fuzz(api, furnish(api, 1), report, seed=1, examples=2, phases=["fuzzing"])
    assert not report.violations, report.words()
    assert {operation for operation, _ in report.answers} == OPERATIONS
    reached = {operation for operation, status in report.answers if status < 300}
    assert len(reached) > 0.8 * len(OPERATIONS), report.table()
