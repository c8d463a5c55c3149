"""The shell and the files of the dashboard, as browsers and other programs get them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tocsin.api.entrance import Doors
from tocsin.api.request import Request
from tocsin.dashboard.pages import Dashboard
from tocsin.domain.errors import Unauthorized

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    for name in ("main-1.js", "style-2.css"):
        (tmp_path / name).write_bytes(b"content of " + name.encode())
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    (tmp_path / "manifest.json").write_text(json.dumps({"script": "main-1.js", "style": "style-2.css"}))
    return tmp_path


def ask(dashboard: Dashboard, path: str, method: str = "GET", **headers: str) -> Any:
    fields = {"host": "127.0.0.1:8420", "accept": HTML} | {k.replace("_", "-"): v for k, v in headers.items()}
    scope = {
        "method": method, "scheme": "http", "path": path, "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
    }  # fmt: skip

    async def nothing() -> Any:
        raise AssertionError

    return dashboard(Request(scope, nothing))


def test_every_page_is_the_shell_with_a_strict_policy(built: Path) -> None:
    dashboard = Dashboard(Doors(), built)
    for path in ("/", "/jobs", "/jobs/job_1", "/executions/exec_1", "/login"):
        shell = ask(dashboard, path)
        assert shell.status_code == 200
        assert b"/assets/main-1.js" in shell.body
        policy = shell.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy


def test_an_unknown_page_is_ours_and_not_found(built: Path) -> None:
    assert ask(Dashboard(Doors(), built), "/nope").status_code == 404


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/nope", {}),
        ("/nope", {"accept": "*/*"}),
        ("/jobs", {"accept": "application/json"}),
        ("/assets/nope.js", {}),
    ],
)
def test_what_is_not_a_browsers_business_is_left_to_the_api(
    built: Path, path: str, headers: dict[str, str]
) -> None:
    assert ask(Dashboard(Doors(), built), path, **headers) is None
    assert ask(Dashboard(Doors(), built), "/jobs", method="POST") is None


def test_files_come_compressed_to_browsers_that_can_and_are_kept_for_good(built: Path) -> None:
    dashboard = Dashboard(Doors(), built)
    plain = ask(dashboard, "/assets/main-1.js")
    packed = ask(dashboard, "/assets/main-1.js", accept_encoding="gzip, br")
    assert gzip.decompress(packed.body) == plain.body == b"content of main-1.js"
    assert "immutable" in packed.headers["cache-control"]
    assert packed.headers["content-encoding"] == "gzip"


def test_names_with_dots_reach_no_other_file(built: Path) -> None:
    assert ask(Dashboard(Doors(), built), "/assets/../manifest.json") is None
    assert ask(Dashboard(Doors(), built), "/assets/manifest.json") is None


def test_without_built_files_the_page_says_what_to_do(tmp_path: Path) -> None:
    page = ask(Dashboard(Doors(), tmp_path / "missing"), "/")
    assert page.status_code == 200
    assert b"python3 web/build.py" in page.body


def test_behind_a_proxy_files_are_found_below_its_path(built: Path) -> None:
    dashboard = Dashboard(Doors(public_url="https://example.com/tocsin"), built)
    assert b'src="/tocsin/assets/main-1.js"' in ask(dashboard, "/", host="example.com").body


def test_a_foreign_name_gets_no_page(built: Path) -> None:
    with pytest.raises(Unauthorized):
        ask(Dashboard(Doors(loopback_only=True), built), "/", host="evil.example")
