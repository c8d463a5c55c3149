"""The command line over HTTP: every command, as a table and as JSON, and what it says when something is
wrong."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import click
import pytest
from click.testing import CliRunner, Result

from tests.support.api import ADMIN_KEY, RealApi, fleet
from tests.support.commands import every_command
from tests.support.postgres import Cluster
from tests.support.processes import free_port
from tocsin.cli import contents
from tocsin.cli.cells import cell
from tocsin.cli.contents import ENTRIES
from tocsin.cli.main import cli
from tocsin.domain.ids import ExecutionKey, execution_text, job_text
from tocsin.domain.shard import DEFAULT_SHARDS

NO_ID = UUID("01900000-0000-7000-8000-000000000000")
NO_JOB = job_text(NO_ID)
NO_EXECUTION = execution_text(ExecutionKey(NO_ID, 0))


class Terminal:
    """Runs commands as a user would, with a key in the environment."""

    def __init__(self, api: RealApi) -> None:
        self.api = api
        self.environment: dict[str, str | None] = {
            "TOCSIN_URL": api.url, "TOCSIN_API_KEY": ADMIN_KEY, "TOCSIN_ADMIN_KEY": None, "TOCSIN_DATA_DIR": None,
            "TZ": "UTC",
        }  # fmt: skip

    def __call__(self, *words: str, **environment: str | None) -> Result:
        result = CliRunner().invoke(cli, words, env=self.environment | environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception  # a traceback on the user's terminal
        return result

    def shows(self, *words: str) -> str:
        """What a command that succeeds prints."""
        result = self(*words)
        assert result.exit_code == 0, result.output
        return result.output

    def json(self, *words: str) -> Any:
        return json.loads(self.shows(*words, "--json"))

    def refuses(self, *words: str, code: int = 1, **environment: str | None) -> str:
        """What a command that fails says, on standard error and nowhere else."""
        result = self(*words, **environment)
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        return result.stderr


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[RealApi]:
    url = cluster.new_database()
    with fleet(url) as api:
        yield api
    cluster.drop(url)


@pytest.fixture
def tocsin(api: RealApi) -> Terminal:
    return Terminal(api)


@pytest.mark.parametrize("path", [pytest.param(path, id=" ".join(path)) for path, _ in every_command()])
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    for flag in ("--help", "-h"):
        result = CliRunner().invoke(cli, [*path, flag])
        assert result.exit_code == 0
        assert f"{' '.join(path)} " in result.output.splitlines()[0]
    command = dict(every_command())[path]
    assert command.help, "a command without a word about it"
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name not in (
            "reason",
            "queue",
            "state",
            "kind",
            "tag",
            "limit",
        ):
            assert parameter.help, parameter.name


def test_the_commands_that_were_promised_are_there() -> None:
    known = {" ".join(path) for path, _ in every_command()}
    assert {
        "serve", "api", "scheduler", "worker", "migrate", "jobs create", "jobs list", "jobs show", "jobs cancel",
        "jobs pause", "jobs resume", "jobs run", "executions list", "executions show",
    } <= known  # fmt: skip


def test_the_list_of_commands_is_whole_and_imports_none_of_them() -> None:
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=80).output.splitlines()
    for name, entry in ENTRIES.items():
        assert f"  {name:<14}  {entry.words}" in shown, "too long for a line"
    modules = {path.stem for path in Path(contents.__file__).parent.glob("*.py")}
    assert {entry.module for entry in ENTRIES.values()} <= modules
    asked = "import sys; from tocsin.cli.main import cli; cli(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not {f"tocsin.cli.{entry.module}" for entry in ENTRIES.values()} & loaded


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=" ".join(p)) for p, c in every_command() if isinstance(c, click.Group)]
)
def test_no_help_is_cut(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*path, "--help"], terminal_width=80).output
    assert "..." not in shown.replace("[ARGS]...", "")


def test_a_command_that_there_is_not_is_told_with_what_was_meant(tocsin: Terminal) -> None:
    assert "Did you mean jobs?" in tocsin("job", "list").output


def test_the_version_is_told() -> None:
    assert re.fullmatch(r"tocsin, version \d+\.\d+\.\d+\n", CliRunner().invoke(cli, ["--version"]).output)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (["--now"], "once"),
        (["--in", "1h"], "once"),
        (["--at", "2090-01-01T00:00:00Z"], "once"),
        (["--every", "1h"], "recurring"),
        (["--cron", "0 9 * * MON", "--time-zone", "Europe/Berlin"], "recurring"),
    ],
)
def test_a_job_is_created_by_any_schedule(tocsin: Terminal, options: list[str], kind: str) -> None:
    job = tocsin.json("jobs", "create", "--noop", *options)
    assert job["kind"] == kind
    assert tocsin.api.job(job)["id"] == job["id"]


def test_a_job_is_created_with_everything_that_can_be_said_about_it(tocsin: Terminal) -> None:
    words = [
        "--name", "all of it", "--in", "1h", "--target-url", "http://127.0.0.1:9/x", "--method", "put",
        "--header", "X-A: 1", "--header", "X-B:b:c", "--body", '{"a": [1]}', "--timeout", "5s", "--queue", "q",
        "--priority", "0", "--tag", "one", "--tag", "two", "--max-attempts", "7",
    ]  # fmt: skip
    job = tocsin.json("jobs", "create", *words)
    assert job["target"] == {
        "kind": "http", "url": "http://127.0.0.1:9/x", "method": "PUT", "headers": {"X-A": "1", "X-B": "b:c"},
        "body": {"a": [1]},
    }  # fmt: skip
    assert (job["name"], job["queue"], job["priority"], job["tags"]) == ("all of it", "q", 0, ["one", "two"])
    assert (job["timeout"], job["retry"]["max_attempts"]) == ("5s", 7)


@pytest.mark.parametrize(
    ("text", "body"), [("plain words", "plain words"), ("NaN", "NaN"), ("[1", "[1"), ("7", 7)]
)
def test_a_body_is_json_if_it_is_json_else_text(tocsin: Terminal, text: str, body: Any) -> None:
    job = tocsin.json("jobs", "create", "--in", "1h", "--target-url", "http://127.0.0.1:9/", "--body", text)
    assert job["target"]["body"] == body


def test_the_life_of_a_job_is_told_in_tables(tocsin: Terminal) -> None:
    job = tocsin.json("jobs", "create", "--name", "told in tables", "--every", "1h", "--noop")
    listed = tocsin.shows("jobs", "list", "--name", "told in")
    heading, row = listed.splitlines()
    assert heading.split() == ["ID", "NAME", "KIND", "STATE", "NEXT", "FIRE", "QUEUE"]
    assert row.startswith(f"{job['id']}  told in tables  recurring  active")
    assert re.search(r"^state +active$", tocsin.shows("jobs", "show", job["id"]), re.MULTILINE)
    ran = tocsin.json("jobs", "run", job["id"])
    assert ran["cause"] == "manual"
    tocsin.api.wait_for(job, "succeeded")
    assert ran["id"] in tocsin.shows("executions", "list", "--job", job["id"])
    shown = tocsin.shows("executions", "show", ran["id"])
    assert re.search(r"^state +succeeded$", shown, re.MULTILINE)
    assert re.search(r"^attempts\.1\.verdict +succeeded$", shown, re.MULTILINE)
    assert tocsin.shows("jobs", "pause", job["id"], "--reason", "a while").startswith("paused; ")
    assert "a while" in tocsin.shows("jobs", "show", job["id"])
    assert tocsin.shows("jobs", "resume", job["id"]).startswith("resumed; ")
    assert tocsin.shows("jobs", "cancel", job["id"]).startswith("cancelled; ")
    assert tocsin.shows("jobs", "delete", job["id"]).startswith("deleted; ")
    assert "no job" in tocsin.refuses("jobs", "show", job["id"])


def test_executions_are_cancelled_and_dead_ones_retried(tocsin: Terminal) -> None:
    nobody = f"http://127.0.0.1:{free_port()}/"
    job = tocsin.json(
        "jobs", "create", "--now", "--target-url", nobody, "--max-attempts", "1", "--queue", "dying"
    )
    dead = tocsin.api.wait_for(job, "dead")
    assert dead["id"] in tocsin.shows("dead-letters", "list", "--queue", "dying")
    assert tocsin.json("executions", "retry", dead["id"])["attempt"] == 2
    assert len(tocsin.api.wait_for(job, "dead")["attempts"]) == 2
    waiting = tocsin.json("jobs", "create", "--in", "1h", "--noop")
    execution = tocsin.api.execution(waiting)
    cancelled = tocsin.json("executions", "cancel", execution["id"], "--reason", "no need")
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "no need")
    assert "cannot cancel" in tocsin.refuses("executions", "cancel", execution["id"])


def test_a_crontab_is_taken_over_once_however_often_it_is_imported(tocsin: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text(
        "0 9 * * * curl https://imported.example/a\n"
        "0 9 * * * wget -q https://imported.example/b\n"
        "0 9 * * * /opt/local.sh\n"
    )

    def outcomes(*options: str) -> tuple[dict[str, str], list[str]]:
        result = tocsin("import", "crontab", *options, "--json", str(file))
        assert result.exit_code == 1  # the script is left
        answer = json.loads(result.stdout)
        return {one["name"]: one["outcome"] for one in answer["jobs"]}, [
            one["why"] for one in answer["not_taken_over"]
        ]

    first, second = "imported.example/a", "imported.example/b"
    taken, left = outcomes()
    assert taken == {first: "created", second: "created"}
    assert "this installation runs no scripts" in left[0]
    assert outcomes()[0] == {first: "unchanged", second: "unchanged"}
    file.write_text(file.read_text().replace("0 9", "0 10", 1))
    assert outcomes()[0] == {first: "changed", second: "unchanged"}
    tocsin.json("jobs", "put", first, "--every", "1h", "--noop")
    taken, left = outcomes()
    assert first not in taken
    assert any("another job has this name" in why for why in left)
    assert outcomes("--overwrite")[0][first] == "changed"


def test_a_file_of_jobs_is_planned_applied_and_exported(tocsin: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"

    def written(*jobs: str) -> None:
        file.write_text(
            "owner: filed\njobs:\n" + "".join(f"  {job}, target: {{kind: noop}}}}\n" for job in jobs)
        )

    def counts(code: int, *words: str) -> dict[str, int]:
        result = tocsin(words[0], str(file), *words[1:], "--json")
        assert result.exit_code == code, result.output
        found: dict[str, int] = json.loads(result.stdout)["counts"]
        return found

    written("filed-a: {schedule: 0 3 * * *", "filed-b: {schedule: 0 * * * *, priority: 2")
    assert counts(3, "plan") == {"created": 2}
    assert "confirm with --yes" in tocsin.refuses("apply", str(file), code=2)
    assert counts(0, "apply", "--yes") == {"created": 2}
    assert counts(0, "plan") == counts(0, "apply", "--yes") == {"unchanged": 2}
    written("filed-a: {schedule: 0 4 * * *")
    shown = tocsin("plan", str(file), "--prune")
    assert shown.exit_code == 3
    assert "~ filed-a: changed" in shown.stdout
    assert "schedule: cron 0 3 * * * → cron 0 4 * * *" in shown.stdout
    assert "moved" in shown.stdout
    assert "- filed-b: removed" in shown.stdout
    assert counts(0, "apply", "--prune", "--yes") == {"changed": 1, "removed": 1}
    exported = tocsin.shows("export", "--owner", "filed")
    file.write_text(exported)
    assert counts(0, "plan", "--prune") == {"unchanged": 1}
    file.write_text(exported.replace("filed\n", "another\n", 1))
    assert counts(1, "plan") == {"refused": 1}
    assert "refused, nothing was written" in tocsin("apply", str(file), "--yes").stdout


def test_listings_go_on_by_cursor(tocsin: Terminal) -> None:
    for _ in range(3):
        tocsin.shows("jobs", "create", "--in", "1h", "--noop", "--tag", "cursor")
    first = tocsin.shows("jobs", "list", "--tag", "cursor", "--limit", "2")
    (cursor,) = re.findall(r"more: --cursor (\S+)", first)
    second = tocsin.shows("jobs", "list", "--tag", "cursor", "--limit", "2", "--cursor", cursor)
    assert (first.count("job_"), second.count("job_"), "more:" in second) == (2, 1, False)


def test_an_empty_listing_says_so(tocsin: Terminal) -> None:
    assert tocsin.shows("jobs", "list", "--queue", "nobody") == "nothing here\n"
    assert tocsin.json("jobs", "list", "--queue", "nobody") == {"next_cursor": None, "items": []}


def test_top_prints_one_picture_where_nobody_can_press_keys(tocsin: Terminal) -> None:
    tocsin.json("jobs", "create", "--in", "1h", "--noop", "--queue", "quiet")
    shown = tocsin.shows("top")
    assert "running 0" in shown
    assert "quiet" in shown
    assert "running" in tocsin.json("top", "--once")["summary"]


def test_the_fleet_is_shown(tocsin: Terminal) -> None:
    assert len(tocsin.shows("shards").splitlines()) == 1 + DEFAULT_SHARDS
    nodes = tocsin.shows("nodes")
    assert "scheduler" in nodes
    assert "yes" in nodes


@pytest.mark.parametrize(
    "name",
    ["[red]markup[/red]", "[/]", "deploy:boom:now", "back\\slash\\", "[link=http://x]y", "x" * 200, "日本語"],
)
def test_a_name_is_shown_as_it_is(tocsin: Terminal, name: str) -> None:
    job = tocsin.json("jobs", "create", "--name", name, "--in", "1h", "--noop")
    assert name in tocsin.shows("jobs", "list", "--name", name)
    assert name in tocsin.shows("jobs", "show", job["id"])


def test_what_a_target_answered_cannot_command_the_terminal() -> None:
    for hostile in ("\x1b[2J", "\x9b2J", "\x07", "\r", "\x7f"):
        for value in (hostile, {"body": hostile}, [hostile]):
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", cell("detail", value).text)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_instants_at_the_edge_of_time_are_shown_in_any_zone(tocsin: Terminal, zone: str) -> None:
    for at in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        result = tocsin("jobs", "create", "--at", at, "--noop", "--queue", "edge", TZ=zone)
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobs", "show", NO_JOB], f"Error: no job {NO_JOB} (404)"),
        (["jobs", "show", "nonsense"], "'nonsense' (404)"),
        (["jobs", "show", "../nodes"], "(404)"),
        (["jobs", "show", "a b\nc"], "(404)"),
        (["jobs", "show", "x?limit=1#"], "(404)"),
        (["jobs", "delete", "ü%2f"], "(404)"),
        (["executions", "show", NO_EXECUTION], "no execution"),
        (["executions", "retry", NO_JOB], "(404)"),
        (["jobs", "create", "--noop"], "schedule: "),
        (["jobs", "create", "--noop", "--now", "--in", "1s"], "schedule: "),
        (["jobs", "create", "--noop", "--in", "soon"], "schedule.in: "),
        (["jobs", "create", "--noop", "--now", "--name", "a\nb"], "name: "),
        (["jobs", "create", "--noop", "--now", "--queue", "Q"], "queue: "),
        (["jobs", "create", "--now", "--target-url", "http://10.0.0.1/"], "target.url: "),
        (
            ["jobs", "create", "--now", "--target-url", "http://x/", "--header", "Host: y"],
            "target.headers.Host: ",
        ),
        (["jobs", "create", "--noop", "--now", "--max-attempts", "0"], "retry.max_attempts: "),
        (["jobs", "list", "--cursor", "x"], "cursor: "),
    ],
)
def test_a_refusal_of_the_api_is_told_in_its_words_and_ends_with_1(
    tocsin: Terminal, words: list[str], said: str
) -> None:
    assert said in tocsin.refuses(*words)


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["jobs"],
        ["jobs", "nonsense"],
        ["jobs", "show"],
        ["jobs", "show", ""],
        ["jobs", "create", "--now"],
        ["jobs", "create", "--now", "--noop", "--target-url", "http://x/"],
        ["jobs", "create", "--now", "--noop", "--priority", "10"],
        ["jobs", "create", "--now", "--target-url", "http://x/", "--header", "no colon"],
        ["jobs", "list", "--state", "lazy"],
        ["jobs", "list", "--limit", "0"],
        ["executions", "list", "--limit", "501"],
        ["worker", "--concurrency", "0"],
        ["serve", "--port", "high"],
        ["serve", "--engines", "-1"],
    ],
)
def test_a_wrong_command_line_is_told_with_its_usage_and_ends_with_2(
    tocsin: Terminal, words: list[str]
) -> None:
    result = tocsin(*words)
    assert result.exit_code == 2
    assert "Usage: " in result.output


def test_a_wrong_key_is_told(tocsin: Terminal) -> None:
    said = tocsin.refuses("jobs", "list", "--key", "wrong")
    assert "not valid (401)" in said
    assert "the key came from --key" in said
    said = tocsin.refuses("jobs", "list", TOCSIN_API_KEY="wrong")
    assert "not valid (401)" in said
    assert "the key came from TOCSIN_API_KEY" in said


def test_no_key_at_all_is_told_with_the_ways_to_give_one(tocsin: Terminal, tmp_path: Path) -> None:
    said = tocsin.refuses("jobs", "list", TOCSIN_API_KEY=None, TOCSIN_DATA_DIR=str(tmp_path))
    assert "--key" in said
    assert "TOCSIN_API_KEY" in said


def test_a_key_that_no_header_can_carry_is_told(tocsin: Terminal) -> None:
    for key in ("a\nb", "schlüssel", "a\0b"):
        assert "ASCII" in tocsin.refuses("jobs", "list", "--key", key, code=2)


def test_the_key_is_found_in_the_data_directory(tocsin: Terminal, tmp_path: Path) -> None:
    (tmp_path / "admin-key").write_text(f"{ADMIN_KEY}\n")
    result = tocsin("jobs", "list", TOCSIN_API_KEY=None, TOCSIN_DATA_DIR=str(tmp_path))
    assert result.exit_code == 0, result.output


def test_the_key_is_found_in_the_working_directory(
    tocsin: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".tocsin").mkdir()
    (tmp_path / ".tocsin" / "admin-key").write_text(ADMIN_KEY)
    monkeypatch.chdir(tmp_path)
    assert tocsin("jobs", "list", TOCSIN_API_KEY=None).exit_code == 0


def test_flags_win_over_the_environment(tocsin: Terminal) -> None:
    result = tocsin("jobs", "list", "--url", tocsin.api.url, "--key", ADMIN_KEY, TOCSIN_URL="http://127.0.0.1:1", TOCSIN_API_KEY="x")  # fmt: skip
    assert result.exit_code == 0, result.output


def test_nobody_there_is_told_with_a_hint(tocsin: Terminal) -> None:
    said = tocsin.refuses("jobs", "list", "--url", f"http://127.0.0.1:{free_port()}")
    assert "nothing answers at" in said
    assert "tocsin serve" in said


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "ftp://x",
        "http://",
        "http://127.0.0.1:port",
        "file:///etc/passwd",
        "http://a b/",
        "http://x:1:2",
    ],
)
def test_a_url_that_is_none_is_told(tocsin: Terminal, url: str) -> None:
    result = tocsin("jobs", "list", "--url", url)
    assert result.exit_code in (1, 2)
    assert url in result.stderr


class Stranger(BaseHTTPRequestHandler):
    """Something else on the port that was given. The first part of the path says how it answers."""

    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        status, body = {
            "text": (200, b"hello"),
            "number": (200, b"200"),
            "list": (500, b"[1, 2]"),
            "redirect": (302, b""),
            "nothing": (200, b""),
            "noise": (200, b"\xff\xfe"),
        }[self.path.split("/")[1]]
        self.send_response(status)
        self.send_header("location", "/stolen")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("answer", ["text", "number", "list", "redirect", "nothing", "noise"])
def test_something_else_that_answers_is_told_and_does_not_get_the_key_sent_on(
    tocsin: Terminal, stranger: str, answer: str
) -> None:
    said = tocsin.refuses("jobs", "list", "--url", f"{stranger}/{answer}")
    assert "not a Tocsin API" in said or "500" in said or "302" in said
    assert Stranger.seen[-1] == f"/{answer}/v1/jobs?limit=50"
