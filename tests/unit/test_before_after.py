"""How two checkouts are compared."""

from bench.before_after import compared


def test_a_ratio_below_one_is_worse_whether_more_or_less_is_better() -> None:
    before = {
        "drain: per second": [100.0, 90.0, 110.0],
        "herd: p99, ms": [10.0, 20.0, 30.0],
        "gone, ms": [1.0],
    }
    after = {"drain: per second": [80.0, 70.0, 200.0], "herd: p99, ms": [40.0, 40.0, 40.0]}
    assert {row.what: row.ratio for row in compared(before, after)} == {
        "drain: per second": 0.8,
        "herd: p99, ms": 0.5,
    }
