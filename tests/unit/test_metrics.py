"""Numbers for operators are bounded in their labels and count what they say."""

import pytest

from tocsin.api.metrics import Depth, Numbers, families
from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict, class_of
from tocsin.histograms import MOST_LABELS, SpanHistogram


def samples(histogram: SpanHistogram) -> dict[tuple[str, str, str], float]:
    [family] = histogram.collect()
    return {
        (s.name.rpartition("_")[2], s.labels.get("queue", ""), s.labels.get("le", "")): s.value
        for s in family.samples
    }


@pytest.mark.parametrize("number", [1, 3, 400])
def test_few_and_many_spans_are_counted_alike(number: int) -> None:
    bounds = (SECOND, 2 * SECOND)
    spans = [(7 * n * SECOND) // 10 for n in range(number)]
    together, apart = (SpanHistogram("h", "…", bounds) for _ in range(2))
    together.observe(spans)
    for span in spans:
        apart.observe([span])
    assert samples(together) == samples(apart)


def test_a_span_lies_in_the_bin_of_its_bound_and_is_summed_up() -> None:
    histogram = SpanHistogram("h", "…", (SECOND, 2 * SECOND), "queue")
    histogram.observe([SECOND, SECOND + 1, 9 * SECOND], "mail")
    histogram.add([1, 0, 1], 10 * SECOND, "mail")
    found = samples(histogram)
    assert [found["bucket", "mail", le] for le in ("1.0", "2.0", "+Inf")] == [2, 3, 5]
    assert found["sum", "mail", ""] == pytest.approx(21.000001)


def test_names_beyond_the_first_few_are_counted_together() -> None:
    histogram = SpanHistogram("h", "…", (SECOND,), "queue")
    for number in range(MOST_LABELS + 5):
        histogram.observe([1], f"queue {number}")
    found = {queue: value for (name, queue, le), value in samples(histogram).items() if le == "+Inf"}
    assert len(found) == MOST_LABELS + 1
    assert found["other"] == 5


def test_only_the_deepest_tenants_and_queues_are_named() -> None:
    depths = [Depth(n, f"queue {n}", n, -n * MILLISECOND) for n in range(1, 101)]
    names = {n: f"tenant {n}" for n in range(91, 101)}
    found = {
        family.name: {(s.labels.get("queue") or s.labels.get("tenant")): s.value for s in family.samples}
        for family in families(Numbers(0, depths, names, {}, 64, 0, None, 0, 0, 0, 1, 100, 0.0))
    }
    assert len(found["tocsin_due"]) == 51
    assert found["tocsin_due"]["queue 100"] == 100
    assert found["tocsin_due"]["other"] == sum(range(1, 51))
    assert found["tocsin_oldest_due_seconds"]["other"] == 0.05
    assert len(found["tocsin_tenant_due"]) == 11
    assert sum(found["tocsin_tenant_due"].values()) == sum(range(1, 101))


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (SUCCEEDED, "succeeded"),
        (Outcome(Verdict.SUCCEEDED, detail={"status": 204}), "succeeded"),
        (Outcome(Verdict.FAILED, detail={"status": 503}, failure="503"), "5xx"),
        (Outcome(Verdict.REJECTED, detail={"status": 404}), "4xx"),
        (Outcome(Verdict.FAILED, failure="network"), "network"),
        (Outcome(Verdict.TIMED_OUT, failure="timeout"), "timeout"),
        (Outcome(Verdict.TIMED_OUT), "timed_out"),
        (Outcome(Verdict.FAILED, detail={"status": "NOT_FOUND"}), "failed"),
        (Outcome(Verdict.FAILED, failure="whatever a target made up"), "failed"),
    ],
)
def test_an_outcome_is_counted_under_one_of_few_words(outcome: Outcome, word: str) -> None:
    assert class_of(outcome) == word
