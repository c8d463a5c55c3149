"""Tasks by name, with the workers that take them."""

from typing import Any

from tocsin.cli.served_tasks import served


def _worker(**more: Any) -> dict[str, Any]:
    return {"state": "active", "queues": ["default"], "revision": "1", "tasks": ["shop.mail"]} | more


def test_a_task_counts_the_workers_that_take_it_with_their_queues_and_revisions() -> None:
    fresh = _worker(revision="2", queues=["mail", "default"], tasks=["shop.new", "shop.mail"])
    both = ["default", "mail"]
    assert served([_worker(), fresh]) == [
        {"task": "shop.mail", "workers": 2, "queues": both, "revisions": ["1", "2"]},
        {"task": "shop.new", "workers": 1, "queues": both, "revisions": ["2"]},
    ]


def test_a_task_that_only_draining_workers_know_is_taken_by_none() -> None:
    assert served([_worker(state="draining", revision=None)]) == [
        {"task": "shop.mail", "workers": 0, "queues": [], "revisions": []}
    ]
