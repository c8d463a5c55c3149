"""Operators see how the installation is, and what to do about what is not as it should be."""

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
