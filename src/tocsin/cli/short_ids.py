"""Short forms of ids: what tables on a terminal show, and commands take back.

A short id is the prefix and eight letters. Those of jobs are the end of the id, which is random. An
execution's id ends with its fire time, which many share, so its letters are a digest. No server can tell
which id is meant: this machine remembers the ids that it showed last, in one small file.
"""

import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

_ID: Final = re.compile(r"(job_|exec_|wrk_)([0-9a-z]{13,39})")
_SHORT: Final = re.compile(r"(?:job_|exec_|wrk_)[0-9a-z]{8}")
_LETTERS: Final = 8
_MOST: Final = 5000


def short(text: str) -> str:
    """The short form of an id; any other text stays as it is."""
    found = _ID.fullmatch(text)
    if found is None:
        return text
    prefix, letters = found.groups()
    tail = blake2b(letters.encode(), digest_size=4).hexdigest() if prefix == "exec_" else letters[-_LETTERS:]
    return prefix + tail


def whole(text: str) -> str:
    """The id whose short form this is, if it was shown on this machine; any other text stays as it is."""
    if not _SHORT.fullmatch(text):
        return text
    return next((one for one in reversed(_remembered()) if short(one) == text), text)


def remember(ids: Iterable[str]) -> None:
    """Keep ids that were shown. Where nothing can be written, short ids are not taken back: no more."""
    shown = [one for one in ids if _ID.fullmatch(one)]
    if not shown:
        return
    kept = list(dict.fromkeys([*(one for one in _remembered() if one not in set(shown)), *shown]))[-_MOST:]
    file = _file()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as draft:
            draft.write("\n".join(kept))
        Path(draft.name).replace(file)


def _remembered() -> list[str]:
    try:
        return _file().read_text().split()
    except (OSError, ValueError):
        return []


def _file() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tocsin" / "ids"
