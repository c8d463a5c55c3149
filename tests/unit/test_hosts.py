"""Which hosts a database URL names, in which order they are tried, and what is wrong with a URL."""

from pathlib import Path

import pytest

from tocsin.db.hosts import hosts_of, in_order
from tocsin.domain.errors import Refused


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u:p@a/db", {"a": "postgresql://u:p@a/db"}),
        (
            "postgresql://u@a:1,b:2/db?sslmode=require&target_session_attrs=read-write",
            {"a:1": "postgresql://u@a:1/db?sslmode=require", "b:2": "postgresql://u@b:2/db?sslmode=require"},
        ),
        (
            "postgres://a,b/db?port=6000",
            {"a:6000": "postgres://a:6000/db", "b:6000": "postgres://b:6000/db"},
        ),
        ("postgres:///db?host=a,b&port=1,2", {"a:1": "postgres://a:1/db", "b:2": "postgres://b:2/db"}),
        (
            "postgresql://u@a:1,[::1]:5433/db",
            {"a:1": "postgresql://u@a:1/db", "[::1]:5433": "postgresql://u@[::1]:5433/db"},
        ),
        (
            "postgresql://u@/db?host=%2Ftmp%2Frun&port=5433",
            {"/tmp/run": "postgresql://u@/db?host=%2Ftmp%2Frun&port=5433"},
        ),
        ("postgresql://u@%2Ftmp%2Frun/db", {"/tmp/run": "postgresql://u@/db?host=%2Ftmp%2Frun"}),
        ("postgresql:///db?user=u%20v", {"default": "postgresql:///db?user=u%20v"}),
    ],
)
def test_each_host_of_a_url_has_a_url_of_its_own(url: str, hosts: dict[str, str]) -> None:
    assert {host.name: host.url for host in hosts_of(url)} == hosts


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://a/db", "postgresql://"),
        ("postgresql://a:port/db", "'port' is not a port"),
        ("postgresql://a:70000/db", "70000"),
        ("postgresql://a,,b/db", "is not a host"),
        ("postgresql://a,b/db?port=1,2,3", "2 hosts and 3 ports"),
        ("postgresql://a/db?sslmode", "parameters"),
        ("postgresql://a/db?target_session_attrs=standby", "use read-write"),
        ("postgresql://a/db?sslrootcert=/nowhere/ca.crt", "sslrootcert: there is no file"),
    ],
)
def test_a_wrong_url_is_refused_and_says_what_is_wrong(url: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        hosts_of(url)
    assert caught.value.field == "database_url"


def test_names_for_logs_have_no_password_and_certificates_that_exist_are_fine(tmp_path: Path) -> None:
    certificate = tmp_path / "ca.crt"
    certificate.touch()
    (host,) = hosts_of(f"postgresql://u:secret@a/db?sslrootcert={certificate}")
    assert "secret" not in host.name


def test_the_host_that_was_good_comes_first_and_the_others_keep_their_order() -> None:
    assert in_order(3, None) == [0, 1, 2]
    assert in_order(3, 2) == [2, 0, 1]
    assert in_order(1, 0) == [0]
