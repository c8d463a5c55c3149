"""What the standbys of a primary say about a failover."""

import pytest

from tocsin.domain.standing import standing_of


@pytest.mark.parametrize(
    ("states", "wanted", "commit", "kind"),
    [
        ([], False, "on", "alone"),
        (["async", "async"], False, "on", "asynchronous"),
        (["sync", "async"], True, "on", "synchronous"),
        (["quorum", "quorum"], True, "remote_write", "synchronous"),
        (["sync"], True, "local", "asynchronous"),
        (["potential"], True, "on", "waiting"),
        ([], True, "on", "waiting"),
        ([None], True, "on", "unknown"),
    ],
)
def test_only_a_standby_that_commits_wait_for_makes_a_failover_safe(
    states: list[str | None], wanted: bool, commit: str, kind: str
) -> None:
    standing = standing_of(states, wanted=wanted, synchronous_commit=commit)
    assert standing.kind == kind
    assert standing.safe == (kind == "synchronous")
    assert standing.standbys == len(states)
    assert standing.words
