"""The plug-in for pytest: the fixtures `tocsin` and `tocsin_eager`.

It is loaded in every session of an environment that has Tocsin, so it imports nothing before a test asks.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tocsin.testing.eager import Eager
    from tocsin.testing.sandbox import Sandbox


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a project may say about its tests."""
    parser.addini("tocsin_apps", "apps whose tasks the fixture `tocsin` runs: module:app", "args", [])


@pytest.fixture(scope="session")
def tocsin_server_url() -> Iterator[str]:
    """Where the PostgreSQL is in which the fixture `tocsin` makes its database: one of its own, kept in the
    user's cache directory. A project that has one overrides this fixture; its login must be a superuser."""
    try:
        from tocsin.testing.database import cache_directory, start_server  # noqa: PLC0415 - see above
    except ImportError as error:
        raise pytest.UsageError(
            f"the fixture `tocsin` needs the server: pip install 'tocsin[server]' ({error})"
        ) from None
    from tocsin.testing.attempts import LoopThread  # noqa: PLC0415 - see above

    loop = LoopThread(name="tocsin database")
    server = loop.run(start_server(cache_directory()))
    yield server.url
    loop.run(server.stop())
    loop.close()


@pytest.fixture(scope="session")
def tocsin_sandbox(tocsin_server_url: str) -> "Iterator[Sandbox]":
    """The sandbox of the session; tests take `tocsin`, which is empty."""
    from tocsin.testing.sandbox import Sandbox  # noqa: PLC0415 - see above

    sandbox = Sandbox.open(tocsin_server_url)
    yield sandbox
    sandbox.close()


@pytest.fixture
def tocsin(
    tocsin_sandbox: "Sandbox", monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> "Sandbox":
    """A fleet on virtual time, in which nothing has happened yet. Every app of the process enqueues here."""
    from tocsin.sdk.command import load  # noqa: PLC0415 - see above

    tocsin_sandbox.reset()
    tocsin_sandbox.adopt(monkeypatch.setattr)
    tocsin_sandbox.serve(*map(load, pytestconfig.getini("tocsin_apps")))
    return tocsin_sandbox


@pytest.fixture
def tocsin_eager(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Eager]":
    """Every app of the process runs its tasks where they are enqueued."""
    from tocsin.sdk.app import App  # noqa: PLC0415 - see above
    from tocsin.testing.eager import Eager  # noqa: PLC0415

    eager = Eager()
    monkeypatch.setattr(App, "client", property(eager.client_of))
    yield eager
    eager.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """A test that fails shows what happened in its sandbox."""
    report = yield
    sandbox: Any = getattr(item, "funcargs", {}).get("tocsin")
    if report.when == "call" and report.failed and hasattr(sandbox, "ledger"):
        told = sandbox.ledger().table()
        report.sections.append((f"tocsin at {sandbox.now:%Y-%m-%d %H:%M:%S}", told))
    return report
