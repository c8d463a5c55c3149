"""What people see on a terminal: tables that fit, ids that can be typed, times with their distance."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from tocsin.cli import short_ids, show
from tocsin.cli.cells import cell, distance, flat
from tocsin.cli.client import KEY_FILE
from tocsin.cli.main import cli
from tocsin.cli.tables import Cell, layout, painted, wide
from tocsin.domain import keys
from tocsin.domain.ids import ExecutionKey, execution_text, job_text, new_job_id

NOW = datetime(2030, 1, 7, 12, tzinfo=UTC)
JOB = new_job_id(1_893_456_000_000_000)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_table_fits_and_nothing_of_it_is_lost(width):
    headings = ["ID", "NAME", "STATE", "REASON"]
    texts = [
        ("job_x7f3k2ab", "a name of several words that goes on and on", "active", "日本語のテキスト " * 5),
        ("job_" + "y" * 30, "x" * 70, "dead", "short"),
    ]
    cells = [[Cell(text) for text in row] for row in texts]
    lines = [
        painted(one, colours=False) for one in layout(headings, cells, [False, True, False, True], width)
    ]
    assert all(wide(line) <= width for line in lines)
    written = "".join(lines).replace(" ", "")
    for letter in "xy日":
        assert written.count(letter) == sum(text.count(letter) for row in texts for text in row)


def test_a_table_into_a_pipe_keeps_its_lines_whole():
    cells = [[Cell("x" * 300), Cell("y " * 100)]]
    assert len(layout(["A", "REASON"], cells, [False, True], None)) == 2


def test_cells_hold_words():
    assert cell("alive", True).text == "yes"
    assert cell("roles", ["api", "worker"]).text == "api, worker"
    assert cell("limits", {"rate": 3, "per": {"a": None}}).text == "rate 3, per (a –)"
    assert cell("state", "dead") == Cell("dead", "red")
    assert list(flat({"a": {"b": 1, "c": None}, "d": [{"e": 2}, {"e": 3}], "f": [1]})) == [
        ("a.b", 1), ("d.1.e", 2), ("d.2.e", 3), ("f", [1]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("off", "said"),
    [
        (0, "now"),
        (5, "in 5s"),
        (-65, "1m ago"),
        (7200, "in 2h"),
        (-3 * 86_400, "3d ago"),
        (40 * 86_400, "in 40d"),
    ],
)
def test_times_say_how_far_off_they_are(off, said):
    assert distance(NOW + timedelta(seconds=off), NOW) == said
    assert cell("fire_at", (NOW + timedelta(seconds=off)).isoformat(), NOW).text.endswith(f" ({said})")


def test_ids_that_were_shown_are_taken_back_in_their_short_form(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ids = [job_text(JOB), *(execution_text(ExecutionKey(JOB, 1_000_000 * number)) for number in range(50))]
    shorts = [short_ids.short(one) for one in ids]
    assert len(set(shorts)) == len(ids)
    assert all(len(one) <= 13 for one in shorts)
    assert short_ids.whole(shorts[0]) == shorts[0]  # not shown yet
    short_ids.remember(ids)
    assert [short_ids.whole(one) for one in shorts] == ids
    assert short_ids.whole("job_invoices") == "job_invoices"  # a name
    assert short_ids.short("wrk_short") == "wrk_short"


def test_on_a_terminal_a_table_has_short_ids_and_colours(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(show.sys.stdout, "isatty", lambda: True, raising=False)
    show.rows([("ID", "id"), ("STATE", "state")], [{"id": job_text(JOB), "state": "dead"}])
    shown = capsys.readouterr().out
    assert "\x1b[31mdead\x1b[0m" in shown
    assert job_text(JOB) not in shown
    assert short_ids.whole(short_ids.short(job_text(JOB))) == job_text(JOB)


def test_watching_shows_it_again_until_it_is_interrupted(monkeypatch):
    asked = []

    def get(*path, **_):
        asked.append(path)
        return {"items": []}

    def wait(seconds):
        assert seconds == 2
        if len(asked) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("tocsin.cli.client.Client.get", lambda _, *path, **query: get(*path, **query))
    monkeypatch.setattr(show.time, "sleep", wait)
    outcome = CliRunner().invoke(cli, ["nodes", "--key", "k", "--watch", "2"])
    assert outcome.stdout.count("nothing here") == 3
    assert outcome.exit_code != 0


def test_a_preview_needs_no_server_and_no_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TOCSIN_API_KEY", "TOCSIN_ADMIN_KEY", "TOCSIN_DATA_DIR", "TOCSIN_URL"):
        monkeypatch.delenv(name, raising=False)
    words = ["preview", "--cron", "0 9 * * MON", "--after", "2030-01-01T00:00:00Z", "--limit", "2"]
    answer = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert [fire["at"] for fire in answer["fires"]] == ["2030-01-07T09:00:00Z", "2030-01-14T09:00:00Z"]
    assert "Mon 2030-01-07" in CliRunner().invoke(cli, words).stdout
    wrong = CliRunner().invoke(cli, ["preview", "--cron", "61 * * * *"])
    assert wrong.exit_code == 1
    assert "schedule.cron: minute 61 is out of range" in wrong.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shells_get_their_completion(shell):
    outcome = CliRunner().invoke(cli, ["completion", shell])
    assert outcome.exit_code == 0
    assert "_TOCSIN_COMPLETE" in outcome.stdout


def test_a_call_loads_no_more_than_it_needs():
    code = "import sys, tocsin.cli.main, tocsin.cli.fleet; print([n for n in ('rich', 'msgspec', 'asyncio') if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
    assert KEY_FILE == keys.KEY_FILE
