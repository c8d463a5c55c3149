"""HTTP statuses as users write them: a code (``204`` or ``"204"``), or a class (``"2xx"``)."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tocsin.domain.errors import Refused
from tocsin.domain.written import STATUS_TEXT

MAX_PATTERNS: Final = 32
_PATTERN: Final = re.compile(STATUS_TEXT)


def matches(patterns: Iterable[int | str], status: int) -> bool:
    """Whether a status is one of the codes, or of one of the classes."""
    return any(str(pattern) in (str(status), f"{status // 100}xx") for pattern in patterns)


def check_statuses(patterns: Sequence[int | str], field: str, also: Sequence[str] = ()) -> None:
    """Refuse what names no status. `also` are other words that may stand in the list."""
    if len(patterns) > MAX_PATTERNS:
        raise Refused(f"at most {MAX_PATTERNS} entries", field=field)
    for pattern in patterns:
        if pattern not in also and not _PATTERN.fullmatch(str(pattern)):
            words = "".join(f", {word}" for word in also)
            raise Refused(
                f"{str(pattern)[:20]!r} is not a status such as 204 or a class such as 2xx{words}",
                field=field,
            )
