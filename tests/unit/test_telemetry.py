"""What a node counts is what it does, and nothing else."""

import msgspec

from tocsin.telemetry import Telemetry, merge


def names(telemetry: Telemetry) -> set[str]:
    families = msgspec.json.decode(telemetry.snapshot())
    return {sample for _, _, _, samples in families for sample, _, _ in samples}


def test_a_node_shows_gauges_of_its_own_roles_only() -> None:
    assert "tocsin_worker_saturation" not in names(Telemetry(("api",)))
    assert "tocsin_shards_held" not in names(Telemetry(("api", "worker")))
    everything = {"tocsin_worker_saturation", "tocsin_executions_running", "tocsin_shards_held"}
    assert everything <= names(Telemetry(("scheduler", "worker")))


def test_a_gauge_that_is_not_shown_can_be_set_all_the_same() -> None:
    Telemetry(("api",)).shards_held.set(3)


def test_no_series_tells_when_a_counter_was_made() -> None:
    telemetry = Telemetry()
    telemetry.finished.labels("dead").inc()
    assert not [name for name in names(telemetry) if name.endswith("_created")]


def test_nor_one_that_a_node_of_another_version_sent() -> None:
    sent = [
        [
            "tocsin_planned",
            "counter",
            "…",
            [["tocsin_planned_total", {}, 1], ["tocsin_planned_created", {}, 2]],
        ]
    ]
    [family] = merge([("7", msgspec.json.encode(sent).decode())])
    assert [sample.name for sample in family.samples] == ["tocsin_planned_total"]
