"""Where the master key for secrets comes from: a variable, a file, or a file that `serve` made at its first
start.

Every process that writes or opens secrets needs the same key. A process that has none works all the same: it
signs nothing, and refuses what needs a secret.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from tocsin.domain.errors import Refused
from tocsin.domain.sealing import SecretBox, new_master_key, read_master_keys
from tocsin.settings import Settings

SECRET_KEY_FILE: Final = "secret-key"  # noqa: S105 - a name


def secret_box(settings: Settings) -> SecretBox | None:
    """The box of this process, if it has a key."""
    if settings.secret_key is not None:
        return SecretBox(read_master_keys(settings.secret_key, "TOCSIN_SECRET_KEY"))
    if settings.secret_key_file is not None:
        return SecretBox(_read(settings.secret_key_file))
    return None


def ensure_secret_key(settings: Settings) -> Path | None:
    """The file in which the key is, made if no key is configured at all. None: the key is in the
    environment."""
    if settings.secret_key is not None:
        return None
    file = settings.secret_key_file
    if file is None:
        file = settings.data_dir / SECRET_KEY_FILE
        _make(file)
    _read(file)  # say now what the children would only log
    return file


def _make(file: Path) -> None:
    """Readable by the owner only, from its first moment on; one that is there is never replaced."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(new_master_key() + "\n")


def _read(file: Path) -> list[bytes]:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise Refused(f"{file} cannot be read: {reason}", field="TOCSIN_SECRET_KEY_FILE") from None
    return read_master_keys(text, "TOCSIN_SECRET_KEY_FILE")
