"""What a job's text says to do, read once, where executions enter this process.

Jobs come as text and repeat, so equal texts share one `Work`. Everything that is parsed later is parsed here
for the first time: a text that passes cannot fail in the middle of a batch. A text that does not was written
by a newer version, and its execution is left to others; later versions may widen what a field allows, and
never narrow it.
"""

from functools import lru_cache
from typing import Final

import msgspec

from tocsin.domain.errors import Refused, Unreadable
from tocsin.domain.instant import Span
from tocsin.domain.policy import Limit, Overlap, Policies, Precision
from tocsin.domain.stored_job import read_policies, read_target
from tocsin.domain.target import NoopTarget, Target, route_of, timeout_of

NO_LIMIT: Final = Limit("")
_REMEMBERED: Final = 4096
_LONGEST_REMEMBERED: Final = 4096
"""Characters: a long text is hardly ever another job's too, and is read each time."""
_OVERLAPS: Final = frozenset(Overlap)


class Work(msgspec.Struct, frozen=True):
    """A job's target and policies, and what follows from them."""

    target: Target
    policies: Policies
    timeout: Span
    """How long one call may take in all."""
    route: str
    """Which workers can run it."""
    takes_place: bool
    """Whether a call is waited for, and takes a place on the worker meanwhile."""
    exact: bool
    """Whether it asks for an exact instant."""

    @property
    def limit(self) -> Limit:
        """The limit of its key; one that allows everything if it has none."""
        return self.policies.limit or NO_LIMIT


def work_of(target: str | None, policies: str | None, overlap: str | None) -> Work:
    """What to do for an execution. Of a job that was deleted: nothing. Raises `Unreadable`."""
    if overlap is not None and overlap not in _OVERLAPS:
        raise Unreadable(f"this version does not know the overlap policy {overlap!r}")
    if target is None:
        return NO_WORK
    return (_read if len(target) <= _LONGEST_REMEMBERED else _read.__wrapped__)(target, policies or "{}")


@lru_cache(maxsize=_REMEMBERED)
def _read(target_text: str, policies_text: str) -> Work:
    return _work(read_target(target_text), read_policies(policies_text))


def _work(target: Target, policies: Policies) -> Work:
    try:
        timeout = timeout_of(target, policies.timeout)
    except Refused as error:
        raise Unreadable(f"this version cannot use the target: {error.detail}") from None
    return Work(
        target,
        policies,
        timeout,
        route_of(target),
        takes_place=not target.answers_at_once,
        exact=policies.precision is Precision.EXACT,
    )


NO_WORK: Final = _work(NoopTarget(), Policies())
