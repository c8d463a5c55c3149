"""Test processes share the files of tests, not the tests of a file."""

import os

import pytest

from tests.support.workloads import load_of


@pytest.fixture(scope="module")
def once_per_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    place = tmp_path_factory.getbasetemp().parent if run else tmp_path_factory.mktemp("alone")
    (place / f"workloads-{run}").touch(exist_ok=False)


@pytest.mark.parametrize("number", range(6))
def test_what_a_module_shares_is_made_once(once_per_run: None, number: int) -> None:
    assert load_of(f"tests/unit/test_a.py::test_b[{number}::c]") == "tests/unit/test_a.py"


def test_the_browsers_tests_are_one_load() -> None:
    assert load_of("tests/browser/test_a.py::test_b") == load_of("tests/browser/test_b.py::test_c")
