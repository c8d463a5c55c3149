"""What a failover of the database would cost: whether anything else has what it acknowledged."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

Kind = Literal["alone", "asynchronous", "synchronous", "waiting", "unknown"]
_IN_STEP: Final = ("sync", "quorum")
_WAITS_FOR_STANDBY: Final = ("on", "remote_write", "remote_apply")
_WORDS: Final[dict[Kind, str]] = {
    "alone": "there is no standby: what this server loses is lost",
    "asynchronous": "standbys follow asynchronously: a failover may lose the last moments before it",
    "synchronous": "what was acknowledged is on a standby, too",
    "waiting": "commits wait for a synchronous standby, and none is connected",
    "unknown": "this login may not see the standbys; grant it pg_monitor",
}


class Standing(msgspec.Struct, frozen=True):
    """How the primary stands among its standbys."""

    kind: Kind
    standbys: int
    in_step: int
    """Standbys that commits wait for."""
    behind_bytes: int | None = None
    """What the standby that is last has not replayed yet; None if there is none, or it is not for us to
    see."""
    behind_s: float | None = None
    """The same in seconds, while something is written."""

    @property
    def words(self) -> str:
        """The same for people."""
        return _WORDS[self.kind]

    @property
    def safe(self) -> bool:
        """Whether a failover loses nothing that was acknowledged."""
        return self.kind == "synchronous"


def standing_of(states: Sequence[str | None], *, wanted: bool, synchronous_commit: str) -> Standing:
    """The standing of a primary with standbys in these states of synchronisation (None: not for us to see),
    which is told to wait for some of them (`wanted`), and of sessions that commit in this way."""
    in_step = sum(state in _IN_STEP for state in states)
    return Standing(
        _kind(states, in_step, wanted and synchronous_commit in _WAITS_FOR_STANDBY), len(states), in_step
    )


def _kind(states: Sequence[str | None], in_step: int, waits: bool) -> Kind:  # noqa: FBT001 - one of three facts
    if states and all(state is None for state in states):
        return "unknown"
    if waits:
        return "synchronous" if in_step else "waiting"
    return "asynchronous" if states else "alone"
