"""Schedules in code: the jobs that they become, what is refused at import, and the words of a plan."""

from typing import Any

import pytest

from tocsin import App, Limit, Refused, Retry
from tocsin.sdk.command import DECLARE, declare
from tocsin.sdk.plan_words import plan_words
from tocsin.sdk.signature import PayloadError


def shop() -> App:
    app = App("shop")

    @app.schedule("0 3 * * *", time_zone="Europe/Berlin", overlap="skip")
    @app.task
    def nightly() -> None: ...

    @app.task(queue="reports", timeout="10m", retry=Retry(max_attempts=8), limit=Limit("c:{customer}", 2))
    def build_report(customer: str, month: str = "current") -> None: ...

    app.schedule("every 5m", build_report, name="acme", customer="acme")
    return app


def test_a_schedule_becomes_a_job_with_the_options_of_its_task() -> None:
    nightly, report = (one.job for one in shop().schedules.values())
    assert (nightly["name"], nightly["overlap"]) == ("shop.nightly", "skip")
    assert nightly["schedule"] == {"cron": "0 3 * * *", "time_zone": "Europe/Berlin"}
    assert nightly["target"] == {"kind": "task", "task": "shop.nightly", "payload": {}}
    assert (report["name"], report["schedule"]) == ("shop.build_report.acme", {"every": "5m"})
    assert report["target"]["payload"] == {"customer": "acme"}
    assert (report["queue"], report["timeout"], report["retry"]["max_attempts"]) == ("reports", "10m", 8)
    assert report["limit"]["key"] == "c:acme"


def test_what_is_wrong_with_a_schedule_is_told_where_it_is_written() -> None:
    app = shop()
    task = app.tasks["shop.build_report"]
    with pytest.raises(Refused, match="61"):
        app.schedule("61 * * * *", task, customer="x")
    with pytest.raises(PayloadError, match="customer"):
        app.schedule("every 5m", task)
    with pytest.raises(Refused, match="already"):
        app.schedule("every 1h", task, name="acme", customer="acme")
    with pytest.raises(Refused, match="recurring"):
        app.schedule({"in": "5m"}, task, customer="x")
    with pytest.raises(Refused, match="time_zone"):
        app.schedule("every 1h", task, name="other", time_zone="Europe/Berlin", customer="x")


def declared(**more: Any) -> Any:
    fires = {
        "gained": 7, "lost": 1, "moved": 0, "kept": 0, "first_gained": ["2030-01-01T03:00:00Z"],
        "first_lost": ["2030-01-01T02:00:00Z"], "first_moved": [], "until": "2030-01-08T00:00:00Z",
    }  # fmt: skip
    return {
        "owner": "shop", "revision": 4, "applied": True, "superseded": False, "dry_run": False,
        "counts": {"changed": 1, "unchanged": 1, "refused": 1},
        "jobs": [
            {"name": "shop.a", "action": "changed", "fields": [{"field": "schedule", "before": 1, "after": 2}],
             "fires": fires, "paused": True},
            {"name": "shop.same", "action": "unchanged"},
            {"name": "shop.b", "action": "refused", "problem": {"detail": "it is declared by billing"}},
        ],
    } | more  # fmt: skip


def test_a_plan_says_what_changes_and_which_fires() -> None:
    assert list(plan_words(declared(applied=False))) == [
        "shop@4: 1 refused, 1 changed, 1 unchanged (nothing is written)",
        (
            "  ~ shop.a     changes schedule; gains 7 fires, first 2030-01-01T03:00:00Z;"
            " loses 1 fire, first 2030-01-01T02:00:00Z; until 2030-01-08T00:00:00Z; paused, and stays so"
        ),
        "  ! shop.b     refused: it is declared by billing",
    ]
    assert list(plan_words(declared(superseded=True, jobs=[], counts={}))) == [
        "shop: superseded, shop@4 is in force; nothing was changed"
    ]


def test_without_a_revision_nothing_that_exists_is_changed_or_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[dict[str, Any]] = []

    class Client:
        declarations = property(lambda self: self)

        def declare(self, owner: str, **body: Any) -> Any:
            sent.append({"owner": owner} | body)
            return declared(counts={})

    monkeypatch.setattr(App, "client", property(lambda _: Client()))
    assert declare(shop(), {"revision": None, "dry_run": False, "json": False}) == 0
    assert declare(shop(), {"revision": 5, "dry_run": True, "json": False}) == 0
    assert [(one["owner"], one["revision"], one["update"], one["prune"], one["dry_run"]) for one in sent] == [
        ("shop", None, False, False, False), ("shop", 5, True, True, True),
    ]  # fmt: skip
    assert [job["name"] for job in sent[0]["jobs"]] == ["shop.nightly", "shop.build_report.acme"]
    assert DECLARE.name == "declare"
