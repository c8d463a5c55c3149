"""Fixtures: a PostgreSQL per test process, a fresh database per test. Tests run their own event loop."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.support.figures import tables
from tests.support.postgres import Cluster, temporary_directory

# Tests start hundreds of processes. Without kept bytecode each of them compiles the whole of Tocsin again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How long an example takes says something about the machine, not about the code.
settings.register_profile("tocsin", deadline=None)
settings.load_profile("tocsin")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    directory = temporary_directory()
    cluster = Cluster(directory)
    cluster.start()
    yield cluster
    cluster.stop()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def url(cluster: Cluster) -> Iterator[str]:
    """The URL of a fresh, migrated database."""
    url = cluster.new_database()
    yield url
    cluster.drop(url)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Without pytest-xdist there is nothing to share out."""
    from tests.support.workloads import Workloads  # noqa: PLC0415 - needs pytest-xdist

    return Workloads(config, log)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last lines of a run have the figures that tests put down, say which brokers messages were published
    to, and that the dashboard could not be looked at if so."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    _show_figures(reporter)
    _tell_brokers(reporter)
    skipped = (
        [report for report in reporter.stats.get("skipped", ()) if "tests/browser/" in report.nodeid]
        if reporter
        else []
    )
    if skipped:
        print(
            f"{len(skipped)} tests of the dashboard were skipped: {skipped[0].longrepr[2].removeprefix('Skipped: ')}"
        )


def _show_figures(reporter: Any) -> None:
    if not reporter:
        return
    reports = [one for reports in reporter.stats.values() for one in reports]
    called = [one for one in reports if getattr(one, "when", None) == "call"]
    for text in tables(row for report in called for row in report.user_properties):
        print(f"\n{text}")


def _tell_brokers(reporter: Any) -> None:
    """Which kinds of brokers passed or failed tests, and which were skipped for want of a server."""
    if not reporter:
        return
    words = []
    for result, said in (("passed", "ran"), ("failed", "failed"), ("skipped", "skipped")):
        ids = [
            report.nodeid for report in reporter.stats.get(result, ()) if "tests/engines/" in report.nodeid
        ]
        kinds = sorted({name for one in ids for name in re.findall(r"\[([a-z_]+)\]$", one)})
        words += [f"{said}: {', '.join(kinds)}"] if kinds else []
    if words:
        print(f"brokers {'; '.join(words)}")
