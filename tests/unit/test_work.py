"""A job's text is read once, however many executions it has."""

import json

import pytest

from tocsin.domain.errors import Unreadable
from tocsin.domain.instant import SECOND
from tocsin.queue.work import NO_LIMIT, NO_WORK, work_of

NOOP = '{"kind":"noop"}'
WEBHOOK = '{"kind":"http","url":"https://example.com/"}'
LONG = json.dumps({"kind": "http", "url": "https://example.com/", "body": "x" * 5000})
POLICIES = '{"timeout":"5s","precision":"exact","limit":{"key":"mail","max_parallel":2}}'


def test_equal_texts_share_one_work_and_others_do_not() -> None:
    ours = work_of(WEBHOOK, POLICIES, None)
    assert work_of("".join(WEBHOOK), "".join(POLICIES), "skip") is ours
    assert work_of(WEBHOOK, None, None) is not ours
    assert work_of(WEBHOOK, None, None) is work_of(WEBHOOK, "{}", None)


def test_a_long_text_is_read_each_time() -> None:
    first, second = work_of(LONG, None, None), work_of(LONG, None, None)
    assert (first == second, first is second) == (True, False)


def test_it_says_what_follows_from_target_and_policies() -> None:
    webhook, noop = work_of(WEBHOOK, POLICIES, None), work_of(NOOP, None, None)
    assert (webhook.route, webhook.takes_place, webhook.exact, webhook.timeout) == (
        "http",
        True,
        True,
        5 * SECOND,
    )
    assert (webhook.limit.key, webhook.limit.max_parallel) == ("mail", 2)
    assert (noop.route, noop.takes_place, noop.exact) == ("noop", False, False)
    assert noop.limit is NO_LIMIT


def test_of_a_deleted_job_there_is_nothing_to_do() -> None:
    assert work_of(None, None, None) is NO_WORK
    assert work_of(None, "not even JSON", "queue") is NO_WORK


@pytest.mark.parametrize(
    ("target", "policies", "overlap"),
    [
        (NOOP, "{}", "stack"),
        (None, None, "stack"),
        ('{"kind":"teleport"}', "{}", None),
        (NOOP, '{"gravity":9}', None),
        (NOOP, '{"timeout":"a fortnight"}', None),
    ],
)
def test_what_a_newer_version_wrote_is_unreadable_every_time(
    target: str | None, policies: str | None, overlap: str | None
) -> None:
    for _ in range(2):
        with pytest.raises(Unreadable):
            work_of(target, policies, overlap)
