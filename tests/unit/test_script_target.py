"""Scripts as they are written: sizes, bounds and times, and what the operator allows."""

from typing import Any

import pytest

from tocsin.domain.errors import Refused
from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import Verdict, fingerprint
from tocsin.domain.script_target import (
    MAX_ARG,
    MAX_ARGS,
    MAX_SOURCE,
    MIB,
    SCRIPT_MARGIN,
    ScriptLimits,
    ScriptRules,
    ScriptTarget,
    check_interpreters,
    check_rules,
    check_script,
    size_of,
    stdin_of,
)
from tocsin.domain.secrets import Redactor, SecretRef
from tocsin.domain.target import timeout_of
from tocsin.targets.script.outcome import outcome_of
from tocsin.targets.script.process import Ended, Kept
from tocsin.targets.script.seccomp import ARCHITECTURES, DENIED, seccomp_filter


def refused(**fields: Any) -> str | None:
    with pytest.raises(Refused) as error:
        check_script(ScriptTarget(**({"interpreter": "sh", "source": "true"} | fields)))
    return error.value.field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"interpreter": "/bin/sh"}, "target.interpreter"),
        ({"interpreter": "../sh"}, "target.interpreter"),
        ({"source": ""}, "target.source"),
        ({"source": "x" * (MAX_SOURCE + 1)}, "target.source"),
        ({"source": "\ud800"}, "target.source"),
        ({"args": ("x",) * (MAX_ARGS + 1)}, "target.args"),
        ({"args": ("a", "x" * (MAX_ARG + 1))}, "target.args[1]"),
        ({"args": ("a\0",)}, "target.args[0]"),
        ({"env": {"A B": "x"}}, "target.env.A B"),
        ({"env": {"TRACEPARENT": "x"}}, "target.env.TRACEPARENT"),
        ({"env": {"A": SecretRef("no such/name")}}, "target.env.A"),
        ({"stdin": "x" * 300_000}, "target.stdin"),
        ({"limits": ScriptLimits(time="2h")}, "target.limits.time"),
        ({"limits": ScriptLimits(memory="8MiB")}, "target.limits.memory"),
        ({"limits": ScriptLimits(disk=1)}, "target.limits.disk"),
        ({"limits": ScriptLimits(output="1GiB")}, "target.limits.output"),
        ({"limits": ScriptLimits(output="much")}, "target.limits.output"),
        ({"limits": ScriptLimits(processes=0)}, "target.limits.processes"),
    ],
)
def test_what_no_worker_could_run_is_refused_with_its_field(fields: dict[str, Any], field: str) -> None:
    assert refused(**fields) == field


def test_sizes_and_input_are_read_as_they_are_written() -> None:
    assert [size_of(text, "f") for text in (7, "64KiB", "256 MiB")] == [7, 65536, 256 * MIB]
    inputs = [stdin_of(ScriptTarget("sh", "x", stdin=value)) for value in (None, "text", {"a": 1})]
    assert inputs == [b"", b"text", b'{"a":1}']


def test_the_shorter_of_the_scripts_time_and_the_jobs_counts_and_leaves_room_to_end_it() -> None:
    target = ScriptTarget("sh", "true", limits=ScriptLimits(time="20s"))
    assert timeout_of(target) == timeout_of(target, "1h") == 20 * SECOND + SCRIPT_MARGIN
    assert timeout_of(target, "5s") == 5 * SECOND + SCRIPT_MARGIN


def test_the_operator_chooses_interpreters_and_network() -> None:
    rules = ScriptRules(("bash",))
    check_rules(ScriptTarget("bash", "x"), rules)
    check_rules(
        ScriptTarget("bash", "x", limits=ScriptLimits(network=True)), ScriptRules(("bash",), network=True)
    )
    for target, allowed in (
        (ScriptTarget("bash", "x"), None),
        (ScriptTarget("sh", "x"), rules),
        (ScriptTarget("bash", "x", limits=ScriptLimits(network=True)), rules),
    ):
        with pytest.raises(Refused):
            check_rules(target, allowed)
    for names in ((), ("/bin/sh",), ("sh", "")):
        with pytest.raises(Refused):
            check_interpreters(names, "f")


def test_every_end_is_an_outcome() -> None:
    def verdict(**how: Any) -> Verdict:
        return outcome_of(
            Ended(**({"exit": None, "stdout": Kept(), "stderr": Kept()} | how)), 1, Redactor(())
        ).verdict

    assert verdict(exit=0) is Verdict.SUCCEEDED
    assert verdict(exit=75) is Verdict.FAILED
    assert verdict(exit=1) is verdict(exit=137) is Verdict.REJECTED
    assert verdict(timed_out=True) is Verdict.TIMED_OUT
    assert verdict(out_of_memory=True) is verdict() is Verdict.FAILED


def test_output_is_decoded_without_nul_and_without_the_beginning_of_a_secret() -> None:
    ended = Ended(0, Kept(b"a\0\xff s3cr", cut=True), Kept(b"my s3cret!"))
    detail = outcome_of(ended, 1, Redactor(["s3cret"])).detail
    assert detail == {"exit": 0, "stdout": "a\\x00\ufffd ***", "stdout_truncated": True, "stderr": "my ***!"}


def test_scripts_that_exit_with_different_codes_are_different_kinds_of_errors() -> None:
    assert fingerprint("the script exited with 1") != fingerprint("the script exited with 2")


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_filter_knows_every_denied_call_of_each_machine(machine: str) -> None:
    program = seccomp_filter(machine)
    assert len(program) % 8 == 0
    assert len(program) // 8 <= 4096
    values = {int.from_bytes(program[at + 4 : at + 8], "little") for at in range(0, len(program), 8)}
    column = list(ARCHITECTURES).index(machine)
    assert {numbers[column] for numbers in DENIED.values() if numbers[column] is not None} <= values
