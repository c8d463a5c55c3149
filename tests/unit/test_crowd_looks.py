"""The crowd of jobs is asked everything that the dashboard asks: no route that lists or shows is left out."""

import re

from bench.crowd_looks import looks, looks_of_operators

from tocsin.api.app import ENDPOINTS

LEFT_OUT = {
    "/v1/events": "a stream",
    "/v1/webhook-secret": "one row",
    "/v1/operations/{operation_id}": "one row by its key",
    "/v1/backfills/{backfill_id}": "one row by its key",
    "/v1/calendars/{name}": "one row by its key",
    "/v1/connections/{name}": "one row by its key",
    "/v1/alert-channels/{name}": "one row by its key",
    "/v1/alert-rules/{name}": "one row by its key",
    "/v1/workers/{worker_id}": "one row by its key",
}


def test_every_route_that_lists_or_shows_is_asked_of_the_crowd_or_says_why_not() -> None:
    asked = [
        look.path
        for look in (
            *looks("job", "quiet", "execution", {"from": ""}, ""),
            *looks_of_operators("acme", "key"),
        )
    ]
    shown = {one.path for one in ENDPOINTS if one.method == "GET"}
    found = {
        path for path in shown if any(re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), one) for one in asked)
    }
    assert shown - found == LEFT_OUT.keys()


def test_looks_have_names_of_their_own() -> None:
    names = [
        look.name
        for look in (
            *looks("job", "quiet", "execution", {"from": ""}, ""),
            *looks_of_operators("acme", "key"),
        )
    ]
    assert len(names) == len(set(names))
