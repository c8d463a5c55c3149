"""Operators see how the installation is, and what to do about what is not as it should be."""

import pytest

from tests.support.api import in_process_api


def test_an_installation_without_engines_says_what_to_start(url: str) -> None:
    with in_process_api(url) as api:
        answer = api.get("/v1/system").json()
        checks = {check["name"]: check for check in answer["checks"]}
        assert checks["workers"]["ok"] is False
        assert "tocsin worker" in checks["workers"]["hint"]
        assert checks["shards"]["ok"] is False
        assert checks["connections"]["ok"] is True
        assert checks["connections"]["hint"] is None
        assert answer["database"]["size_bytes"] > 0
        assert answer["database"]["standing"]["kind"] == "alone"
        assert checks["standbys"]["ok"] is True
        assert api.get("/v1/system", key=api.new_key("read", "write")).status == 403


def test_the_second_look_at_a_database_tells_how_many_transactions_it_makes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.api.system._FRESH_S", 0.0)
    with in_process_api(url) as api:
        first, second = (api.get("/v1/system").json()["database"]["transactions_a_second"] for _ in range(2))
    assert first is None
    assert second >= 0
