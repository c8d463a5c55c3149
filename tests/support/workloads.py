"""What a test process is given at a time: a whole file, so that what a module shares is started once.

The browser's tests share one server and one Chromium, and are one load. Loads are handed out in the order of
the folders: the long ones of `acceptance` come first, the short ones of `unit` fill up the end.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_SHARED_BY_FOLDER = "tests/browser/"


class Workloads(LoadScopeScheduling):
    """Files, in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False  # which would begin with the many small tests
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return load_of(nodeid)


def load_of(nodeid: str) -> str:
    """The load that a test belongs to."""
    return _SHARED_BY_FOLDER if nodeid.startswith(_SHARED_BY_FOLDER) else nodeid.partition("::")[0]
