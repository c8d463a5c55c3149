"""Claims that were asked for and never answered.

The database may have taken and started a batch that its worker does not know of: it would never be called,
and once the deadline had passed each would count as a lost attempt. So the worker asks what it holds under
the claim's token, which only it knows.

A claim statement that timed out here may still run in the database and commit later. So the worker asks for
its token again, less and less often, until longer has passed than a statement may run. A claim is one
transaction: the worker finds all that it took, or nothing.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import structlog

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span
from tocsin.queue.claiming.claiming import Claiming
from tocsin.queue.claims import Claim

_FIRST_WAIT: Final[Span] = 250 * MILLISECOND
_LONGEST_STATEMENT: Final[Span] = 60 * SECOND
_log = structlog.get_logger()


class _Unanswered(NamedTuple):
    since: Instant
    ask_at: Instant


class Found(NamedTuple):
    """What unanswered claims had taken: to be run or held, and what was asked to stop before it began."""

    claims: Sequence[Claim] = ()
    stopped: Sequence[Claim] = ()


class UnansweredClaims:
    """The tokens of one worker's claims without an answer."""

    def __init__(self, claiming: Claiming) -> None:
        self._claiming = claiming
        self._tokens: dict[int, _Unanswered] = {}

    def note(self, token: int, now: Instant) -> None:
        """A claim under this token was not answered."""
        self._tokens[token] = _Unanswered(now, now)

    async def ask_if_due(self, now: Instant) -> Found:
        """Ask for claims that were not asked for a while. Should this have no answer either, the next run
        asks again."""
        return await self._ask([token for token, known in self._tokens.items() if known.ask_at <= now], now)

    async def ask_at_last(self, now: Instant) -> Found:
        """Ask for all of them: the worker stops."""
        return await self._ask(list(self._tokens), now)

    async def _ask(self, tokens: list[int], now: Instant) -> Found:
        if not tokens:
            return Found()
        for token in tokens:
            self._ask_later(
                token, now
            )  # before the answer: if there is none, new claims need not wait for it
        claims, stopped = await self._claiming.recall(tokens)
        found = {claim.token for claim in (*claims, *stopped)}
        for token in tokens:
            if token in found or now - self._tokens[token].since >= _LONGEST_STATEMENT:
                del self._tokens[token]
        for claim in claims:
            if claim.started_at is not None:  # nothing has been called yet
                claim.started_at = claim.fired_at = max(now, claim.started_at)
        if found:
            _log.warning("claims.recalled", count=len(claims) + len(stopped))
        return Found(claims, stopped)

    def _ask_later(self, token: int, now: Instant) -> None:
        since = self._tokens[token].since
        self._tokens[token] = _Unanswered(since, now + max(_FIRST_WAIT, now - since))
