"""The command line for schedules, policies, imports, backfills and calendars, against a real API and
engine."""

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.support.api import ADMIN_KEY, RealApi, fleet
from tests.support.commands import every_command, leaves
from tests.support.postgres import Cluster
from tocsin.cli import job_lines, short_ids
from tocsin.cli.client import ApiError, Client
from tocsin.cli.job_lines import Item, Unreadable, chunks, read_items
from tocsin.cli.main import cli
from tocsin.cli.schedule_options import changed_schedule

NOTHING: dict[str, Any] = {
    "at": None, "in_": None, "now": False, "every": (), "cron": (), "time_zone": None, "dst": None,
    "starts_at": None, "ends_at": None, "max_fires": None, "jitter": None,
    "exclude_dates": (), "exclude_calendars": (), "exclude_policy": None,
}  # fmt: skip
JOB = {"schedule": {"in": "30d"}, "target": {"kind": "noop"}}
WRONG = {"schedule": {"cron": "99 * * * *"}, "target": {"kind": "noop"}}


class Cli:
    """The command line as a user of one API has it."""

    def __init__(self, api: RealApi) -> None:
        self.api = api
        self.environment = {"TOCSIN_URL": api.url, "TOCSIN_API_KEY": ADMIN_KEY}

    def run(self, *words: str, code: int = 0, given: bytes | None = None) -> Result:
        result = CliRunner(env=self.environment).invoke(cli, words, input=given)
        assert result.exit_code == code, (words, result.output, result.exception)
        return result

    def json(self, *words: str, code: int = 0, given: bytes | None = None) -> Any:
        return json.loads(self.run(*words, "--json", code=code, given=given).stdout)

    def refused(self, *words: str, code: int = 1) -> str:
        """What a command that must fail says about it."""
        return self.run(*words, code=code).stderr

    def on_terminal(self, *words: str, code: int = 0) -> str:
        """What a person sees, on a terminal of 80 columns."""
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "tocsin", *words]
        environment = os.environ | self.environment | {"COLUMNS": "80", "TERM": "xterm"}
        with subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        ) as process:
            os.close(theirs)
            seen = b"".join(_pieces(ours))
        os.close(ours)
        assert process.returncode == code, seen
        return seen.decode()


def _pieces(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(terminal, 65536)
        except OSError:  # its last user has gone
            return


@pytest.fixture(scope="module")
def tocsin(cluster: Cluster) -> Iterator[Cli]:
    url = cluster.new_database()
    with fleet(url) as api:
        yield Cli(api)
    cluster.drop(url)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A job's name of the test's own."""
    return str(request.node.name)


# --- jobs create, put, update


def test_every_option_of_create_reaches_the_definition(tocsin: Cli, name: str) -> None:
    job = tocsin.json(
        "jobs", "create", "--name", name, "--description", "why", "--cron", "0 9 * * MON",
        "--time-zone", "Europe/Berlin", "--dst", "once", "--starts-at", "2030-01-01T00:00:00Z",
        "--ends-at", "2031-01-01T00:00:00Z", "--max-fires", "9", "--jitter", "5m",
        "--exclude-date", "2030-12-25", "--exclude-date", "2030-12-26", "--exclude-policy", "hold",
        "--target-url", "http://127.0.0.1:1/", "--method", "put", "--header", "X-Team: billing",
        "--body", '{"user": 7}', "--target-timeout", "3s", "--expect", "204", "--expect", "3xx",
        "--bearer-secret", "token", "--timeout", "20s", "--start-within", "10m",
        "--queue", "mail", "--priority", "0", "--tag", "a", "--tag", "b",
        "--max-attempts", "3", "--initial-backoff", "2s", "--max-backoff", "1m", "--backoff-multiplier", "3",
        "--backoff-jitter", "0", "--retry-on", "network", "--retry-on", "404", "--retry-max-age", "2h", "--misfire", "fire_all", "--lookback", "2h", "--misfire-max", "7",
        "--misfire-pace", "1s", "--misfire-grace", "90s", "--overlap", "skip",
        "--limit-key", "smtp", "--limit-parallel", "2", "--limit-rate", "10", "--limit-per", "1m",
    )  # fmt: skip
    expected = {
        "name": name,
        "description": "why",
        "schedule": {
            "cron": "0 9 * * MON", "time_zone": "Europe/Berlin", "dst": "once",
            "starts_at": "2030-01-01T00:00:00Z", "ends_at": "2031-01-01T00:00:00Z", "max_fires": 9, "jitter": "5m",
            "exclude": {"dates": ["2030-12-25", "2030-12-26"], "policy": "hold"},
        },
        "target": {
            "kind": "http", "url": "http://127.0.0.1:1/", "method": "PUT", "headers": {"X-Team": "billing"},
            "body": {"user": 7}, "timeout": "3s", "expect": ["204", "3xx"],
            "auth": {"kind": "bearer", "token": {"secret": "token"}},
        },
        "timeout": "20s",
        "start_within": "10m",
        "queue": "mail",
        "priority": 0,
        "tags": ["a", "b"],
        "retry": {"max_attempts": 3, "initial_backoff": "2s", "max_backoff": "1m", "multiplier": 3.0, "jitter": 0.0,
                  "on": ["network", "404"], "max_age": "2h"},
        "misfire": {"policy": "fire_all", "lookback": "2h", "max": 7, "pace": "1s", "grace": "90s"},
        "overlap": "skip",
        "limit": {"key": "smtp", "max_parallel": 2, "rate": 10, "per": "1m"},
    }  # fmt: skip
    assert {field: job[field] for field in expected} == expected
    assert tocsin.json("jobs", "show", name)["id"] == job["id"]


def test_several_rules_are_one_job(tocsin: Cli, name: str) -> None:
    job = tocsin.json(
        "jobs", "create", "--name", name, "--cron", "0 9 * * *", "--cron", "0 12 * * SAT", "--every", "7h",
        "--time-zone", "Europe/Berlin", "--starts-at", "2030-01-01T00:00:00Z", "--exclude-date", "2030-12-25",
        "--noop",
    )  # fmt: skip
    assert job["schedule"] == {
        "any_of": [
            {"cron": "0 9 * * *", "time_zone": "Europe/Berlin"},
            {"cron": "0 12 * * SAT", "time_zone": "Europe/Berlin"},
            {"every": "7h", "starts_at": "2030-01-01T00:00:00Z"},
        ],
        "starts_at": "2030-01-01T00:00:00Z",
        "time_zone": "Europe/Berlin",
        "exclude": {"dates": ["2030-12-25"]},
    }


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--noop"], "give exactly one of at, in, now, every, cron"),
        (["--cron", "0 24 * * *", "--noop"], "hour 24 is out of range"),
        (["--every", "5m", "--jitter", "soon", "--noop"], "schedule.jitter: 'soon' is not a duration"),
        (["--in", "5m", "--max-fires", "3", "--noop"], "max_fires only applies to recurring"),
        (["--every", "5m", "--exclude-calendar", "none", "--noop"], "no calendar 'none'"),
        (["--every", "5m", "--lookback", "2y", "--noop"], "misfire.lookback"),
        (["--every", "5m", "--method", "PUT", "--noop"], "unknown field 'method'"),
        (["--every", "5m", "--limit-rate", "3", "--noop"], "limit.key"),
    ],
)
def test_create_names_the_field_that_is_wrong(tocsin: Cli, words: list[str], complaint: str) -> None:
    assert complaint in tocsin.refused("jobs", "create", *words)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--every", "5m"], "give --target-url, --task or --target, or --noop"),
        (["--every", "5m", "--overlap", "maybe", "--noop"], "'maybe' is not one of"),
        (["--every", "5m", "--target-url", "http://x/", "--header", "oops"], "has no colon"),
        (["--every", "5m", "--target-url", "http://x/", "--body", "[" * 100_000], "nested too deeply"),
    ],
)
def test_create_refuses_wrong_usage_by_itself(tocsin: Cli, words: list[str], complaint: str) -> None:
    assert complaint in tocsin.refused("jobs", "create", *words, code=2)


def test_an_idempotency_key_creates_one_job(tocsin: Cli, name: str) -> None:
    create = ("jobs", "create", "--in", "30d", "--noop", "--idempotency-key", name)
    assert tocsin.json(*create)["id"] == tocsin.json(*create)["id"]
    assert "used for another request" in tocsin.refused(*create, "--queue", "other")


def test_put_creates_then_replaces_the_job_of_a_name(tocsin: Cli, name: str) -> None:
    first = tocsin.json("jobs", "put", name, "--every", "5m", "--overlap", "skip", "--noop")
    same = tocsin.json("jobs", "put", name, "--every", "5m", "--overlap", "skip", "--noop")
    other = tocsin.json("jobs", "put", name, "--every", "6m", "--noop")
    assert (first["id"], first["version"]) == (same["id"], same["version"])
    assert (other["id"], other["schedule"], other["overlap"]) == (first["id"], {"every": "6m"}, "allow")
    assert "only recurring jobs" in tocsin.refused("jobs", "put", name, "--in", "5m", "--noop")


def test_update_changes_what_is_said_and_nothing_else(tocsin: Cli, name: str) -> None:
    before = tocsin.json(
        "jobs", "create", "--name", name, "--cron", "0 9 * * *", "--time-zone", "Asia/Tokyo", "--jitter", "5m",
        "--misfire", "fire_all", "--misfire-max", "7", "--target-url", "http://127.0.0.1:1/", "--tag", "old",
        "--limit-key", "k", "--limit-rate", "3",
    )  # fmt: skip
    after = tocsin.json(
        "jobs", "update", name, "--lookback", "6h", "--cron", "0 10 * * *", "--method", "GET", "--tag", "new",
        "--limit-rate", "4", "--clear", "jitter", "--priority", "0",
    )  # fmt: skip
    changed = {field for field in before if before[field] != after[field]}
    assert changed >= {"schedule", "misfire", "target", "tags", "limit", "priority", "version"}
    assert not changed & {"name", "retry", "overlap", "queue", "description"}
    assert after["schedule"] == {"cron": "0 10 * * *", "time_zone": "Asia/Tokyo"}
    assert after["misfire"] == before["misfire"] | {"lookback": "6h"}
    assert after["target"] == {"kind": "http", "url": "http://127.0.0.1:1/", "method": "GET"}
    assert after["limit"] == {"key": "k", "rate": 4}
    cleared = tocsin.json("jobs", "update", name, "--clear", "limit", "--clear", "tags", "--noop")
    assert (cleared["limit"], cleared["tags"], cleared["target"]) == (None, [], {"kind": "noop"})


def test_update_with_an_old_version_loses_nothing(tocsin: Cli, name: str) -> None:
    tocsin.run("jobs", "put", name, "--every", "5m", "--noop")
    tocsin.run("jobs", "update", name, "--queue", "first", "--if-version", "1")
    assert "version 2, not 1" in tocsin.refused(
        "jobs", "update", name, "--queue", "second", "--if-version", "1"
    )
    assert tocsin.json("jobs", "show", name)["queue"] == "first"
    assert "nothing to change" in tocsin.refused("jobs", "update", name, code=2)
    assert "give one of" in tocsin.refused(
        "jobs", "update", name, "--noop", "--target-url", "http://127.0.0.1:1/", code=2
    )
    assert "cannot become recurring" in tocsin.refused("jobs", "update", name, "--in", "5m")


def test_update_meets_another_change_and_keeps_both(
    tocsin: Cli, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tocsin.run("jobs", "put", name, "--every", "5m", "--noop")
    patch, others = Client.patch, [{"misfire": "skip"}]

    def later(client: Client, *path: str, body: Any, version: int) -> Any:
        if others:
            patch(client, *path, body=others.pop(), version=version)
        return patch(client, *path, body=body, version=version)

    monkeypatch.setattr(Client, "patch", later)
    after = tocsin.json("jobs", "update", name, "--lookback", "6h")
    assert (after["misfire"]["policy"], after["misfire"]["lookback"]) == ("skip", "6h")


@pytest.mark.parametrize(
    ("current", "options", "after"),
    [
        ({"every": "1h", "jitter": "5m"}, {"cron": ("0 9 * * *",)}, {"cron": "0 9 * * *", "jitter": "5m"}),
        ({"cron": "0 9 * * *", "time_zone": "Asia/Tokyo", "dst": "once"}, {"every": ("1h",)}, {"every": "1h"}),
        ({"at": "2030-01-01T00:00:00Z"}, {"in_": "5m"}, {"in": "5m"}),
        (
            {"cron": "0 9 * * *", "exclude": {"dates": ["2030-12-25"], "policy": "hold"}, "time_zone": "Asia/Tokyo"},
            {"every": ("1h",), "exclude_calendars": ("freeze",)},
            {
                "every": "1h",
                "exclude": {"dates": ["2030-12-25"], "policy": "hold", "calendars": ("freeze",)},
                "time_zone": "Asia/Tokyo",
            },
        ),
        (
            {"any_of": [{"cron": "0 9 * * *"}, {"cron": "0 8 * * *", "time_zone": "Asia/Tokyo"}, {"every": "7h"}]},
            {"time_zone": "Europe/Berlin", "starts_at": "2030-01-01T00:00:00Z"},
            {
                "any_of": [
                    {"cron": "0 9 * * *", "time_zone": "Europe/Berlin"},
                    {"cron": "0 8 * * *", "time_zone": "Europe/Berlin"},
                    {"every": "7h", "starts_at": "2030-01-01T00:00:00Z"},
                ],
                "starts_at": "2030-01-01T00:00:00Z",
            },
        ),
    ],
)  # fmt: skip
def test_new_rules_keep_what_still_fits_them(current: Any, options: Any, after: Any) -> None:
    assert changed_schedule(current, NOTHING | options) == after


def test_new_rules_do_not_guess_between_time_zones() -> None:
    current = {"any_of": [{"cron": "0 9 * * *"}, {"cron": "0 8 * * *", "time_zone": "Asia/Tokyo"}]}
    with pytest.raises(click.UsageError, match="--time-zone"):
        changed_schedule(current, NOTHING | {"cron": ("0 7 * * *",)})


# --- find and control


def test_a_job_goes_by_its_name_and_its_id(tocsin: Cli) -> None:
    job = tocsin.json("jobs", "put", "job_by_name", "--every", "5m", "--noop")
    for given in ("job_by_name", job["id"]):
        assert tocsin.json("jobs", "show", given)["id"] == job["id"]
    assert "tocsin jobs list --name" in tocsin.refused("jobs", "show", "nobody")
    assert "no job" in tocsin.refused("jobs", "pause", "job_" + "0" * 26)
    assert "JOB is empty" in tocsin.refused("jobs", "show", "", code=2)


def test_list_has_a_filter_for_every_parameter(tocsin: Cli, name: str) -> None:
    kept = tocsin.json(
        "jobs", "create", "--name", f"The {name}", "--every", "1h", "--queue", name.replace("_", "-"), "--noop",
        "--tag", "one", "--tag", "two",
    )  # fmt: skip
    queue = ("--queue", kept["queue"])
    past, future = "2020-01-01T00:00:00Z", "2040-01-01T00:00:00Z"
    for matching, other in [
        (["--name", name.upper()], ["--name", "no such name"]),
        (["--state", "active"], ["--state", "paused"]),
        (["--kind", "recurring"], ["--kind", "once"]),
        (["--target", "noop"], ["--target", "http"]),
        (["--tag", "one", "--tag", "two"], ["--tag", "one", "--tag", "three"]),
        (["--tag", "one", "--tag", "three", "--any-tag"], ["--tag", "three", "--any-tag"]),
        (["--created-from", past], ["--created-from", future]),
        (["--created-to", future], ["--created-to", past]),
        (["--next-fire-from", past], ["--next-fire-from", future]),
        (["--next-fire-to", future], ["--next-fire-to", past]),
    ]:
        found = tocsin.json("jobs", "list", *queue, *matching)["items"]
        assert [job["id"] for job in found] == [kept["id"]], matching
        assert tocsin.json("jobs", "list", *queue, *other)["items"] == [], other
    assert "nothing here" in tocsin.run("jobs", "list", *queue, "--state", "paused").stdout
    assert "created_from: 'yesterday'" in tocsin.refused("jobs", "list", "--created-from", "yesterday")
    assert "comma" in tocsin.refused("jobs", "list", "--tag", "a,b", code=2)


def test_pause_has_an_end_and_resume_a_dry_run(tocsin: Cli, name: str) -> None:
    tocsin.run("jobs", "put", name, "--every", "1s", "--misfire", "skip", "--noop")
    paused = tocsin.json("jobs", "pause", name, "--until", "2040-01-01T00:00:00Z", "--reason", "moving")[
        "job"
    ]
    assert (paused["state"], paused["paused_until"]) == ("paused", "2040-01-01T00:00:00Z")
    assert "would run 0 missed fires" in tocsin.run("jobs", "resume", name, "--dry-run").stdout
    assert tocsin.json("jobs", "show", name)["state"] == "paused"
    assert "resumed; 0 missed fires" in tocsin.run("jobs", "resume", name).stdout
    assert "cannot resume" in tocsin.refused("jobs", "resume", name)
    assert "passed already" in tocsin.refused("jobs", "pause", name, "--until", "2020-01-01T00:00:00Z")
    tocsin.run("jobs", "delete", name)


def test_run_skip_next_and_cancel_queued(tocsin: Cli, name: str) -> None:
    tocsin.run("jobs", "put", name, "--cron", "0 0 1 1 *", "--overlap", "skip", "--noop")
    assert tocsin.json("jobs", "run", name, "--override-overlap")["cause"] == "manual"
    first, second = (fire["at"] for fire in tocsin.json("jobs", "upcoming", name, "--limit", "2")["fires"])
    assert first in tocsin.run("jobs", "skip-next", name).stdout
    assert tocsin.json("jobs", "show", name)["next_fire_at"] == second
    assert "executions called off; the job goes on" in tocsin.run("jobs", "cancel-queued", name).stdout
    assert tocsin.json("jobs", "cancel", name, "--reason", "done")["job"]["state"] == "cancelled"
    assert "cannot run" in tocsin.refused(
        "jobs", "run", tocsin.json("jobs", "list", "--name", name)["items"][0]["id"]
    )
    once = tocsin.json("jobs", "create", "--in", "30d", "--noop")["id"]
    assert "cannot skip" in tocsin.refused("jobs", "skip-next", once)
    assert "no job 'nobody'" in tocsin.refused("jobs", "cancel-queued", "nobody")


def test_upcoming_starts_where_it_is_told(tocsin: Cli, name: str) -> None:
    tocsin.run("jobs", "put", name, "--cron", "30 2 * * *", "--time-zone", "Europe/Berlin", "--noop")
    shown = tocsin.run("jobs", "upcoming", name, "--limit", "2", "--after", "2030-01-01T12:00:00Z").stdout
    assert "at 02:30 every day (Europe/Berlin)" in shown
    assert "2030-01-02T01:30:00Z  Wed 2030-01-02 02:30:00+01:00" in shown
    assert "2030-01-04" not in shown
    assert "after: 'soon'" in tocsin.refused("jobs", "upcoming", name, "--after", "soon")


def test_preview_explains_and_warns(tocsin: Cli) -> None:
    shown = tocsin.run(
        "preview", "--cron", "30 2 * * *", "--time-zone", "Europe/Berlin", "--limit", "1",
        "--after", "2030-03-30T12:00:00Z",
    ).stdout  # fmt: skip
    assert "at 02:30 every day (Europe/Berlin)" in shown
    assert "2030-03-31T01:00:00Z  Sun 2030-03-31 03:00:00+02:00" in shown
    assert "warning: 2030-03-31: clocks in Europe/Berlin go forward" in shown
    assert len(tocsin.json("preview", "--every", "1h", "--every", "7h")["fires"]) == 10
    assert "schedule.time_zone" in tocsin.refused(
        "preview", "--cron", "0 9 * * *", "--time-zone", "Mars/Base"
    )


# --- jobs import


def test_import_reads_lines_and_says_which_were_refused(tocsin: Cli, tmp_path: Path) -> None:
    file = tmp_path / "jobs.ndjson"
    file.write_text(f"{json.dumps(JOB)}\n\n{json.dumps(WRONG)}\n{{oops\n{json.dumps(JOB)}")
    report = tocsin.json("jobs", "import", str(file), code=1)
    assert (report["created"], report["refused"], report["left_out"]) == (2, 2, 0)
    assert [(problem["line"], problem.get("field")) for problem in report["problems"]] == [
        (3, "schedule.cron"),
        (4, None),
    ]
    shown = tocsin.run("jobs", "import", str(file), code=1)
    assert "2 created, 2 refused" in shown.stdout
    assert "minute 99 is out of range" in shown.stdout
    assert shown.stderr == "", "no progress bar without a terminal"


def test_import_reads_an_array_from_standard_input(tocsin: Cli) -> None:
    text = "\ufeff" + json.dumps(
        [JOB, {**JOB, "description": "zwei\nZeilen – ü"}, 5], indent=2, ensure_ascii=False
    )
    report = tocsin.json("jobs", "import", "-", given=text.encode(), code=1)
    assert (report["created"], report["refused"]) == (2, 1)
    assert [problem["line"] for problem in report["problems"]] == [text[: text.index("5")].count("\n") + 1]
    newest = tocsin.json("jobs", "list", "--limit", "2")["items"]
    assert "zwei\nZeilen – ü" in {job["description"] for job in newest}
    assert tocsin.json("jobs", "import", "-", given=b"")["created"] == 0


def test_an_atomic_import_creates_all_or_none_of_a_request(
    tocsin: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lines, "MOST_LINES", 2)
    lines = "\n".join(map(json.dumps, [JOB, JOB, JOB, WRONG, JOB])).encode()
    report = tocsin.json("jobs", "import", "-", "--atomic", given=lines, code=1)
    assert (report["created"], report["refused"], report["left_out"]) == (3, 1, 1)
    assert [problem["line"] for problem in report["problems"]] == [4]


def test_a_dry_run_only_looks(tocsin: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Client, "batch")
    lines = b'{"schedule": 1, "target": 2}\n{"schedule": 1}\n[1]\n{oops\n'
    report = tocsin.json("jobs", "import", "-", "--dry-run", given=lines, code=1)
    assert (report["fit"], report["refused"]) == (1, 3)
    assert [problem["detail"] for problem in report["problems"]][:2] == ["no target", "not a JSON object"]
    assert "1 of 1 look like jobs; nothing was created" in tocsin.run(
        "jobs", "import", "-", "--dry-run", given=json.dumps([JOB]).encode()
    ).stdout  # fmt: skip


def test_an_import_that_breaks_off_says_where(tocsin: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_lines, "MOST_LINES", 2)
    batch, calls = Client.batch, [1]

    def once(client: Client, lines: Any, *, atomic: bool) -> Any:
        if not calls:
            raise ApiError("nothing answers")
        calls.clear()
        return batch(client, lines, atomic=atomic)

    monkeypatch.setattr(Client, "batch", once)
    report = tocsin.json("jobs", "import", "-", given=b"\n".join([json.dumps(JOB).encode()] * 4), code=1)
    assert (report["created"], report["next_line"]) == (2, 3)
    assert report["stopped"] == "lines 3 to 4: nothing answers; some of these may have been created"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'[{"a": 1} {"b": 2}]', "line 1: expected a comma"),
        (b'[{"a": 1},\n{"b" 2}]', "line 2: not JSON"),
        (b'[{"a": 1},\n', "line 2: not JSON"),
        (b"[]\n\n[]", "line 3: something follows"),
        (b'[{"a": "\xff"}]', "line 1: not UTF-8"),
        (b'{"a": 1}\n' + b"x" * (1 << 20) + b"x\n", "line 2: longer than 1 MiB"),
    ],
)
def test_an_import_stops_at_what_cannot_be_read(tocsin: Cli, text: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        list(read_items(io.BytesIO(text)))
    assert why in tocsin.run("jobs", "import", "--dry-run", "-", given=text, code=1).stdout


@pytest.mark.parametrize("step", [1, 2, 7, 64])
def test_items_survive_any_cut_of_the_file(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [{"a": '[{é\\"]'}, 12345, "tück,e", None, [[1], {}], 1e-7, True, {"n": 10**30}]
    monkeypatch.setattr(job_lines, "_READ", step)
    for indent in (None, 1):
        text = json.dumps(values, indent=indent, ensure_ascii=False)
        items = list(read_items(io.BytesIO(text.encode())))
        assert [json.loads(item.raw) for item in items] == values
        assert not any(b"\n" in item.raw for item in items)
    lines = "\r\n".join(json.dumps(value) for value in values[:1] * 3).encode()
    assert [item.line for item in read_items(io.BytesIO(lines))] == [1, 2, 3]


def test_chunks_fit_into_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_lines, "MOST_LINES", 3)
    monkeypatch.setattr(job_lines, "MOST_BYTES", 10)
    items = [Item(number, b"x" * size) for number, size in enumerate([1, 1, 1, 1, 9, 2, 20, 1])]
    assert [[item.line for item in chunk] for chunk in chunks(items)] == [[0, 1, 2], [3, 4], [5], [6], [7]]


def test_an_import_shows_a_bar_on_a_terminal(tocsin: Cli, tmp_path: Path) -> None:
    file = tmp_path / "jobs.ndjson"
    file.write_text("\n".join([json.dumps(JOB)] * 50))
    seen = tocsin.on_terminal("jobs", "import", str(file))
    assert "importing" in seen
    assert "100%" in seen
    assert "50 created, 0 refused" in seen


# --- executions


def test_rerun_and_explain_an_execution(tocsin: Cli, name: str) -> None:
    job = tocsin.json("jobs", "put", name, "--cron", "0 0 1 1 *", "--noop")
    first = tocsin.json("jobs", "run", name)["id"]
    tocsin.api.wait_for(job, "succeeded")
    again = tocsin.json("executions", "rerun", first)
    assert (again["cause"], again["rerun_of"]) == ("rerun", first)
    tocsin.api.wait_for(job, "succeeded")
    shown = tocsin.run("executions", "explain", first).stdout.splitlines()
    assert shown[0] == "A person ran the job by hand."
    assert shown[-1] == "Attempt 1 succeeded."
    assert "no execution" in tocsin.refused("executions", "explain", "exec_nope")
    waiting = tocsin.json("jobs", "create", "--in", "1h", "--noop")
    queued = tocsin.json("executions", "list", "--job", waiting["id"])["items"][0]["id"]
    assert "again that is queued" in tocsin.refused("executions", "rerun", queued)


def test_executions_have_a_filter_for_every_parameter(tocsin: Cli, name: str) -> None:
    queue = name.replace("_", "-")
    job = tocsin.json("jobs", "put", name, "--cron", "0 0 1 1 *", "--queue", queue, "--max-attempts", "1",
                      "--target-url", "http://127.0.0.1:1/")  # fmt: skip
    tocsin.run("jobs", "run", name)
    dead = tocsin.api.wait_for(job, "dead")["id"]
    past, future = "2020-01-01T00:00:00Z", "2040-01-01T00:00:00Z"
    filters: list[tuple[list[str], list[str]]] = [
        (["--job", name], ["--job", tocsin.json("jobs", "create", "--in", "30d", "--noop")["id"]]),
        (["--queue", queue], ["--queue", "nobody"]),
        (["--fire-from", past], ["--fire-from", future]),
        (["--fire-to", future], ["--fire-to", past]),
        (["--min-lag", "0s"], ["--min-lag", "1h"]),
        (["--error", "COULD NOT CONNECT"], ["--error", "no such words"]),
    ]
    for command in (["executions", "list", "--state", "dead"], ["dead-letters", "list"]):
        for matching, other in filters:
            found = tocsin.json(*command, "--job", name, *matching)["items"]
            assert [execution["id"] for execution in found] == [dead], (command, matching)
            assert tocsin.json(*command, "--queue", queue, *other)["items"] == [], (command, other)
    assert "min_lag: 'late'" in tocsin.refused("executions", "list", "--min-lag", "late")
    assert "fire_to" in tocsin.refused("dead-letters", "list", "--fire-to", "soon")


# --- backfills


RANGE = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-04T00:00:00Z")


def test_a_backfill_is_planned_run_and_followed(tocsin: Cli, name: str) -> None:
    tocsin.run("jobs", "put", name, "--cron", "0 12 * * *", "--noop")
    shown = tocsin.run("backfills", "create", name, *RANGE, "--dry-run").stdout
    assert "the range has 3 fire times" in shown
    assert tocsin.json("backfills", "list", name)["items"] == []
    done = tocsin.json("backfills", "create", name, *RANGE, "--order", "newest_first", "--follow")["backfill"]
    assert (done["state"], done["finished"], done["order"]) == ("completed", 3, "newest_first")
    assert tocsin.json("backfills", "list", name)["items"] == [done]
    assert tocsin.json("backfills", "show", str(done["id"])) == done


def test_a_backfill_can_be_cancelled(tocsin: Cli, name: str) -> None:
    tocsin.run("jobs", "put", name, "--cron", "0 12 * * *", "--noop")
    create = ("backfills", "create", name, *RANGE, "--mode", "all", "--pace", "1h", "--max-parallel", "1")
    begun = tocsin.json(*create)["backfill"]
    assert (begun["mode"], begun["pace"], begun["max_parallel"]) == ("all", "1h", 1)
    number = str(begun["id"])
    assert tocsin.json("backfills", "cancel", number)["state"] == "cancelled"
    assert "cannot cancel" in tocsin.refused("backfills", "cancel", number)
    assert tocsin.json("backfills", "show", number, "--follow", code=1)["state"] == "cancelled"


def test_a_backfill_shows_a_bar_on_a_terminal(tocsin: Cli, name: str) -> None:
    tocsin.run("jobs", "put", name, "--cron", "0 12 * * *", "--noop")
    seen = tocsin.on_terminal("backfills", "create", name, *RANGE, "--follow")
    assert "3 of 3, 0 live" in seen
    assert "completed" in seen


@pytest.mark.parametrize(
    ("words", "complaint", "code"),
    [
        (["--from", "2026-01-01T00:00:00Z", "--to", "2126-01-01T00:00:00Z"], "a backfill is for the past", 1),
        (["--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"], "ends after it begins", 1),
        (["--from", "monday", "--to", "2026-01-01T00:00:00Z"], "from: 'monday'", 1),
        ([*RANGE, "--pace", "2h"], "pace is at most an hour", 1),
        ([*RANGE, "--dry-run", "--follow"], "nothing to --follow", 2),
        (["--from", "2026-01-01T00:00:00Z"], "Missing option '--to'", 2),
    ],
)
def test_a_backfill_names_what_is_wrong(tocsin: Cli, words: list[str], complaint: str, code: int) -> None:
    tocsin.run("jobs", "put", "refuses_backfills", "--every", "1h", "--noop")
    assert complaint in tocsin.refused("backfills", "create", "refuses_backfills", *words, code=code)
    assert "no backfill" in tocsin.refused("backfills", "show", "99999")


# --- calendars


def test_a_calendar_is_kept_used_and_deleted(tocsin: Cli, name: str, tmp_path: Path) -> None:
    first = "2030-01-02T00:00:00Z/2030-01-03T00:00:00Z/a/b test"
    put = tocsin.json(
        "calendars", "put", "freeze", "--range", first, "--range", "2031-01-01T00:00:00Z/2031-01-02T00:00:00Z"
    )
    assert put["ranges"][0] == {
        "from": "2030-01-02T00:00:00Z",
        "to": "2030-01-03T00:00:00Z",
        "reason": "a/b test",
    }
    shown = tocsin.run("preview", "--cron", "0 9 * * *", "--exclude-calendar", "freeze", "--limit", "2",
                       "--after", "2030-01-01T00:00:00Z").stdout  # fmt: skip
    assert "2030-01-01T09:00:00Z" in shown
    assert "2030-01-03T09:00:00Z" in shown
    tocsin.run("jobs", "put", name, "--cron", "0 9 * * *", "--exclude-calendar", "freeze", "--noop")
    assert "used by jobs" in tocsin.refused("calendars", "delete", "freeze")
    tocsin.run("jobs", "update", name, "--clear", "exclude")
    copy = tmp_path / "calendar.json"
    copy.write_text(json.dumps(tocsin.json("calendars", "show", "freeze")))
    tocsin.run("calendars", "put", "copy", "--file", str(copy))
    assert tocsin.json("calendars", "show", "copy")["ranges"] == put["ranges"]
    listed = tocsin.run("calendars", "list").stdout
    assert "freeze" in listed
    assert "copy" in listed
    for calendar in ("freeze", "copy"):
        assert tocsin.run("calendars", "delete", calendar).stdout == "deleted\n"
    assert "no calendar 'copy'" in tocsin.refused("calendars", "delete", "copy")
    assert "no calendar 'copy'" in tocsin.refused("calendars", "show", "copy")


def test_a_calendar_names_what_is_wrong(tocsin: Cli, tmp_path: Path) -> None:
    assert "is not an RFC 3339 instant" in tocsin.refused(
        "calendars", "put", "x", "--range", "2030-12-24/2030-12-27"
    )
    assert "give --range" in tocsin.refused("calendars", "put", "x", code=2)
    assert "has no slash" in tocsin.refused("calendars", "put", "x", "--range", "2030", code=2)
    file = tmp_path / "no.json"
    file.write_text("never")
    assert "is not JSON" in tocsin.refused("calendars", "put", "x", "--file", str(file))
    file.write_text("{}")
    assert "ranges" in tocsin.refused("calendars", "put", "x", "--file", str(file))


# --- all of them


def test_tables_fit_a_narrow_terminal_and_short_ids_are_taken_back(
    tocsin: Cli, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    job = tocsin.json(
        "jobs", "put", name, "--every", "1h", "--queue", "a-queue-with-a-very-long-name", "--noop"
    )
    seen = tocsin.on_terminal("jobs", "list", "--name", name)
    short = short_ids.short(job["id"])
    assert short in seen
    assert job["state"] in seen
    assert tocsin.json("jobs", "show", short)["id"] == job["id"]


def test_every_command_that_asks_the_api_can_answer_in_json() -> None:
    for path, command in leaves():
        options = {option for parameter in command.params for option in parameter.opts}
        assert command.help, path
        # An export is JSON lines as it is; a worker and a relay go on until they are stopped.
        exempt = path.endswith(" export") or path in ("tocsin tasks serve", "tocsin outbox relay")
        assert "--json" in options or "--url" not in options or exempt, path
    for group in (command for _, command in every_command() if isinstance(command, click.Group)):
        assert "Examples:" in (group.help or ""), group.name
