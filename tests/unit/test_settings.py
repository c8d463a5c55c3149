"""Settings: flags win over the environment, which wins over the defaults; what cannot be read is named."""

from pathlib import Path

import msgspec
import pytest

from tocsin.domain.errors import Refused
from tocsin.settings import Settings, load_settings, shown


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in msgspec.structs.fields(Settings):
        monkeypatch.delenv(f"TOCSIN_{field.name.upper()}", raising=False)


def test_without_flags_and_environment_the_defaults_hold() -> None:
    assert load_settings() == Settings()


def test_the_environment_wins_over_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_PORT", "9000")
    monkeypatch.setenv("TOCSIN_DATA_DIR", "/srv/data")
    monkeypatch.setenv("TOCSIN_LEASE_TTL", "2.5")
    monkeypatch.setenv("TOCSIN_ALLOW_LOOPBACK", "true")
    found = load_settings()
    assert (found.port, found.data_dir, found.lease_ttl) == (9000, Path("/srv/data"), 2.5)
    assert found.allow_loopback is True


def test_flags_win_over_the_environment_unless_they_are_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_PORT", "9000")
    monkeypatch.setenv("TOCSIN_HOST", "0.0.0.0")
    found = load_settings(port=9001, host=None)
    assert (found.port, found.host) == (9001, "0.0.0.0")


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_PORT", "")
    assert load_settings().port == Settings().port


def test_lists_are_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_QUEUES", " a, b ,,c,")
    assert load_settings().queues == ("a", "b", "c")


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("1", True), ("false", False), ("0", False)]
)
def test_switches_are_read_in_the_usual_spellings(
    monkeypatch: pytest.MonkeyPatch, text: str, value: bool
) -> None:
    monkeypatch.setenv("TOCSIN_ALLOW_LOOPBACK", text)
    assert load_settings().allow_loopback is value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "high"),
        ("PORT", "80.5"),
        ("LEASE_TTL", "10s"),
        ("ALLOW_LOOPBACK", "perhaps"),
        ("CLAIM_BATCH", ""),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(f"TOCSIN_{name}", text or " ")
    with pytest.raises(Refused) as refused:
        load_settings()
    assert refused.value.field == f"TOCSIN_{name}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "70000"), ("ENGINES", "-2"), ("LEASE_TTL", "0"), ("LEASE_TTL", "-1"), ("LEASE_TTL", "nan"),
        ("LEASE_TTL", "inf"), ("CLAIM_TTL", "0"), ("HORIZON", "-1"), ("CLAIM_AHEAD", "0"), ("CLAIM_BATCH", "0"),
        ("CONCURRENCY", "0"), ("HISTORY_DAYS", "-1"), ("STATEMENT_TIMEOUT", "0"), ("LOG_FORMAT", "xml"),
        ("LOG_LEVEL", "loud"), ("ALLOW_NETWORKS", "10.0.0.0/99"), ("NAME_SERVERS", "dns.test"),
        ("NAME_SERVERS", "10.0.0.2:0"), ("NAME_SERVERS", "10.0.0.2,:53"),
        ("ARCHIVE", "archive"), ("ARCHIVE", "ftp://host/x"), ("ARCHIVE", "s3://"), ("ARCHIVE", "s3://key@bucket"),
        ("ARCHIVE_ENDPOINT", "https://s3.test"),
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(f"TOCSIN_{name}", text)
    with pytest.raises(Refused) as refused:
        load_settings()
    assert refused.value.field == f"TOCSIN_{name}"


def test_settings_are_shown_without_their_secrets() -> None:
    given = Settings(
        database_url="postgresql://user:hunter2@db/tocsin",
        admin_key="hunter2",
        secret_key="hunter2",
        port=9000,
    )
    told = {one.name: one for one in shown(given)}
    assert len(told) == len(Settings.__struct_fields__)
    assert "hunter2" not in str(list(told.values()))
    assert (told["TOCSIN_ADMIN_KEY"].value, told["TOCSIN_ADMIN_KEY"].default) == ("set", False)
    assert (told["TOCSIN_PORT"].value, told["TOCSIN_PORT"].default) == ("9000", False)
    assert (told["TOCSIN_ALLOW_PORTS"].value, told["TOCSIN_ALLOW_PORTS"].default) == ("80, 443", True)
    assert told["TOCSIN_SECRET_KEY_FILE"].value is None


def test_a_setting_that_sounds_like_a_secret_is_treated_as_one() -> None:
    sounds = [
        name
        for name in Settings.__struct_fields__
        if name.endswith(("key", "password", "token", "database_url"))
    ]
    told = {one.name: one.value for one in shown(Settings(**dict.fromkeys(sounds, "hunter2")))}
    assert {told[f"TOCSIN_{name.upper()}"] for name in sounds} == {"set"}
