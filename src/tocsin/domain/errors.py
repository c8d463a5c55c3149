"""The three families of error, and nothing else to catch.

::

    TocsinError ├── Refused the caller's fault: bad input, wrong state, unknown id → 4xx, nothing written │
    ├── NotFound │ ├── Conflict │ │ └── Unreadable │ ├── Stale │ └── Unauthorized ├── Unavailable try later:
    the database is away, a buffer is full → 503, nothing written │ └── OutcomeUnknown the answer got lost: it
    may have been done → 503 of a type of its own └── OwnershipLost stop now: a lease or claim went to another
    holder; drop what was held in memory
"""


class TocsinError(Exception):
    """Root of every error that Tocsin raises on purpose."""


class Refused(TocsinError):
    """The request cannot be honoured as written. `field` names the culprit, `hint` a way out; `code` says
    which refusal it is, where programs need more than the status."""

    status = 422
    code: str | None = None

    def __init__(
        self, detail: str, *, field: str | None = None, hint: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.hint = hint
        if code is not None:
            self.code = code


class NotFound(Refused):
    """No such thing, or it belongs to another tenant: the two answers are the same on purpose."""

    status = 404


class Conflict(Refused):
    """The thing exists but its state forbids this, or its name is taken."""

    status = 409


class Unreadable(Conflict):
    """What is stored cannot be read by this process: a newer version wrote it, or a key is not here. Others
    may read it."""

    code = "unreadable"


class Stale(Refused):
    """The caller's picture of the thing is out of date: another caller changed it first."""

    status = 412


class Unauthorized(Refused):
    """No key, a wrong key, or a key without the scope."""

    def __init__(self, detail: str, *, status: int = 401) -> None:
        super().__init__(detail)
        self.status = status


class Unavailable(TocsinError):
    """The work cannot be done now but may be later. `retry_after` is in seconds.

    `detail` is for users; `why` is for our own logs and may name hosts, users and databases.
    """

    def __init__(self, detail: str, *, retry_after: int = 1, why: str | None = None) -> None:
        super().__init__(detail if why is None else f"{detail}: {why}")
        self.detail = detail
        self.retry_after = retry_after


class OutcomeUnknown(Unavailable):
    """The work was begun and its answer is lost: it may have been done, and to repeat it may do it twice."""


class OwnershipLost(TocsinError):
    """A lease or claim this node held has passed to another owner."""
