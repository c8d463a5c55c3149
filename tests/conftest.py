"""Fixtures: a PostgreSQL per test process, a fresh database per test. Tests run their own event loop."""

import shutil
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.postgres import Cluster, temporary_directory

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


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of a run that could not look at the dashboard says so."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = (
        [report for report in reporter.stats.get("skipped", ()) if "tests/browser/" in report.nodeid]
        if reporter
        else []
    )
    if skipped:
        print(
            f"{len(skipped)} tests of the dashboard were skipped: {skipped[0].longrepr[2].removeprefix('Skipped: ')}"
        )
