"""One thing from its row. A row that only a newer version can read is refused in words, and is no error of
ours: lists name such rows in `broken` (`listing`)."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from tocsin.api.endpoint import ApiCall
from tocsin.domain.errors import OutcomeUnknown, Unavailable, Unreadable


@contextmanager
def readable(call: ApiCall, what: str) -> Iterator[None]:
    """Read the row of `what` in here. A newer API process may answer what this one cannot; after a change,
    which is made by now, all that can be said is that the answer is lost."""
    try:
        yield
    except (msgspec.DecodeError, Unreadable) as error:
        why = (
            error.detail if isinstance(error, Unreadable) else f"this version cannot read the {what}: {error}"
        )
        family = Unavailable if call.trail is None else OutcomeUnknown
        raise family(f"{why}; a newer version wrote it") from None
