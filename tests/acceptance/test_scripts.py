"""Scripts on real workers: what they are told, how they end, what becomes of those that nobody may run."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.acceptance.receiver import Place, running
from tests.support.api import ADMIN_KEY, in_process_api
from tests.support.postgres import Cluster
from tests.support.processes import wait_for
from tocsin.cli.main import cli
from tocsin.domain.sealing import new_master_key

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture(scope="module")
def place(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    logs, key = tmp_path_factory.mktemp("scripts"), new_master_key()
    with running(cluster.new_database(), logs, scripts="on", secret_key=key) as place:
        wait_for(lambda: place.logs().count("scripts.ready") == 2, 20, "the sandbox does not stand")
        yield place


def script(source: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "script", "interpreter": "bash", "source": source} | fields


def run(place: Place, target: dict[str, Any], *states: str, **fields: Any) -> dict[str, Any]:
    job = place.api.create(schedule={"now": True}, target=target, **fields)
    place.api.wait_for(job, *(states or ("succeeded",)))
    return place.api.get(f"/v1/executions/{place.api.execution(job)['id']}").json()


def last(execution: dict[str, Any]) -> dict[str, Any]:
    return execution["attempts"][-1]


def test_a_script_gets_its_input_and_its_identity_and_secrets_are_masked_in_what_it_says(
    place: Place,
) -> None:
    place.put_secret("token", "s3cret-value")
    target = script(
        'echo "$1 $(cat) $TOCSIN_ATTEMPT $TOCSIN_FIRE_AT $TOCSIN_EXECUTION $REGION $TOKEN"; echo oops >&2',
        args=["an argument"],
        stdin={"number": 7},
        env={"REGION": "eu", "TOKEN": {"secret": "token"}},
    )
    done = run(place, target)
    said = last(done)["detail"]
    assert said["exit"] == 0
    assert said["stdout"].startswith('an argument {"number":7} 1 20')
    assert said["stdout"].endswith(f"{done['id']} eu ***\n")
    assert said["stderr"] == "oops\n"
    assert "s3cret-value" not in place.logs()


def test_75_is_tried_again_and_other_codes_are_not(place: Place) -> None:
    retry = {"max_attempts": 3, "initial_backoff": "10ms"}
    done = run(place, script("[ $TOCSIN_ATTEMPT = 2 ] || exit 75"), retry=retry)
    assert [one["verdict"] for one in done["attempts"]] == ["failed", "succeeded"]
    dead = run(place, script("echo before; exit 3"), "dead", retry=retry)
    assert [one["verdict"] for one in dead["attempts"]] == ["rejected"]
    assert (last(dead)["error"], last(dead)["detail"]["exit"]) == ("the script exited with 3", 3)


def test_a_script_that_takes_too_long_is_ended_and_what_it_said_is_kept(place: Place) -> None:
    target = script("echo began; sleep 600", limits={"time": "0.5s"})
    dead = run(place, target, "dead", retry={"max_attempts": 1})
    assert (last(dead)["verdict"], last(dead)["detail"]["stdout"]) == ("timed_out", "began\n")


def test_a_cancelled_script_is_asked_to_end_and_leaves_nothing(place: Place) -> None:
    job = place.api.create(schedule={"now": True}, target=script("exec -a tocsin-cancelled sleep 600"))
    wait_for(lambda: _running("tocsin-cancelled"), 20, "the script does not run")
    execution = place.api.execution(job)
    assert place.api.post(f"/v1/executions/{execution['id']}/cancel").status < 300
    place.api.wait_for(job, "cancelled")
    wait_for(lambda: not _running("tocsin-cancelled"), 10, "the script still runs")


def test_the_example_runs_once_by_the_command_line(place: Place) -> None:
    target = (ROOT / "examples" / "script" / "target.json").read_text()
    done = CliRunner().invoke(cli, ["try", "--url", place.api.url, "--key", ADMIN_KEY, "--target", target])
    assert done.exit_code == 0, done.output
    assert "order 7 at 20" in done.output


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"interpreter": "perl"}, "target.interpreter"),
        ({"limits": {"network": True}}, "target.limits.network"),
        ({"limits": {"memory": "8TiB"}}, "target.limits.memory"),
        ({"limits": {"memory": "1MiB"}}, "target.limits.memory"),
        ({"env": {"TOCSIN_JOB": "mine"}}, "target.env.TOCSIN_JOB"),
        ({"source": ""}, "target.source"),
        ({"source": "a\0b"}, None),
    ],
)
def test_what_cannot_run_is_refused_with_its_field(place: Place, fields: Any, field: str | None) -> None:
    answer = place.api.post("/v1/jobs", {"schedule": "@daily", "target": script("true") | fields})
    assert answer.status == 422
    assert answer.problem().get("field") == field or field is None


def test_scripts_are_off_unless_the_operator_turns_them_on(cluster: Cluster) -> None:
    with in_process_api(cluster.new_database()) as api:
        answer = api.post("/v1/jobs", {"schedule": "@daily", "target": script("true")})
    assert (answer.status, answer.problem()["field"]) == (422, "target.kind")
    assert "TOCSIN_SCRIPTS" in json.dumps(answer.problem())


def _running(name: str) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            if (entry / "cmdline").read_bytes().startswith(name.encode() + b"\0"):
                return True
        except OSError:
            continue
    return False
