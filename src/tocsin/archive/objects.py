"""Where files are: a directory, or a bucket of an object store.

A name contains the hash of what the file holds, so a name never means two things, and putting a file twice is
putting it once. When `put` returns, the file survives a crash of the machine: a directory gets it under a
temporary name, synchronized, then renamed; a bucket only whole, and only if nothing has the name. Files are
never listed: the table `archives` knows their names.
"""

import os
import shutil
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from tocsin.domain.errors import Refused, Unavailable

SCHEME: Final = "s3://"
TEMPORARY: Final = ".part"
"""What follows the name of a file that is being written into a directory."""
_EXTRA: Final = "install tocsin[archive]"


class Objects(Protocol):
    """Files by their names. Trouble is `Unavailable`."""

    def put(self, name: str, file: Path) -> None:
        """Keep a file under a name."""

    def fetch(self, name: str, scratch: Path) -> Path:
        """The file of a name on this machine, in `scratch` if it was elsewhere."""

    def remove(self, name: str) -> None:
        """Remove a file, and what a crash left of it; nothing if it is not there."""


def check_archive(where: str | None, endpoint: str | None) -> None:
    """Refuse settings that name no place for an archive."""
    if where is None:
        if endpoint is not None:
            raise Refused("there is no archive: set TOCSIN_ARCHIVE", field="TOCSIN_ARCHIVE_ENDPOINT")
        return
    if "://" in where and not where.startswith(SCHEME):
        raise Refused("a directory, or s3://bucket/prefix", field="TOCSIN_ARCHIVE")
    if where.startswith(SCHEME):
        parts = urlsplit(where)
        if not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc:
            raise Refused("s3://bucket or s3://bucket/prefix", field="TOCSIN_ARCHIVE")
    elif not Path(where).is_absolute():
        raise Refused("a directory is named from the root: /srv/tocsin/archive", field="TOCSIN_ARCHIVE")
    if endpoint is None:
        return
    if not where.startswith(SCHEME):
        raise Refused("only an archive in s3:// has an endpoint", field="TOCSIN_ARCHIVE_ENDPOINT")
    if not endpoint.startswith(("https://", "http://")):
        raise Refused("the URL begins with https://", field="TOCSIN_ARCHIVE_ENDPOINT")


def check_extra() -> None:
    """Refuse an archive where the libraries that it needs are not installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - asked once, where there is an archive

    missing = [name for name in ("duckdb", "obstore") if find_spec(name) is None]
    if missing:
        words = f"this installation cannot archive, for it has no {' and no '.join(missing)}: {_EXTRA}"
        raise Refused(
            words, field="TOCSIN_ARCHIVE", hint="or unset it: then retention drops old days for good"
        )


def open_objects(where: str, endpoint: str | None) -> Objects:
    """What a setting names."""
    if not where.startswith(SCHEME):
        return Directory(Path(where))
    parts = urlsplit(where)
    return Bucket(parts.netloc, parts.path.strip("/"), endpoint)


class Directory:
    """Files on a disk of this machine, or one that all machines share."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, name: str, file: Path) -> None:
        target = self._root / name
        part = target.with_name(target.name + TEMPORARY)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with file.open("rb") as source, part.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
                copy.flush()
                os.fsync(copy.fileno())
            part.rename(target)
            for folder in (target.parent, *target.parent.parents):  # new folders are entries, too
                _synchronize(folder)
                if folder == self._root:
                    break
        except OSError as error:
            raise Unavailable("the archive cannot be written", why=str(error)) from error

    def fetch(self, name: str, scratch: Path) -> Path:  # noqa: ARG002 - it is here already
        file = self._root / name
        if not file.is_file():
            raise Unavailable("the archive cannot be read", why=f"there is no {file}")
        return file

    def remove(self, name: str) -> None:
        target = self._root / name
        try:
            target.with_name(target.name + TEMPORARY).unlink(missing_ok=True)
            target.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable("the archive cannot be tidied", why=str(error)) from error


class Bucket:
    """Files in an object store that speaks S3. Who we are is said by the variables and files that all tools
    for S3 read."""

    def __init__(self, bucket: str, prefix: str, endpoint: str | None) -> None:
        from obstore.store import S3Store  # noqa: PLC0415 - an extra

        options: dict[str, Any] = {} if endpoint is None else {"endpoint": endpoint}
        plain = endpoint is not None and endpoint.startswith("http://")
        self._store: Any = S3Store(
            bucket,
            prefix=prefix or None,
            client_options={"timeout": "60s", "connect_timeout": "5s", "allow_http": plain},
            retry_config={"max_retries": 3},
            **options,
        )

    def put(self, name: str, file: Path) -> None:
        import obstore  # noqa: PLC0415
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415

        try:
            obstore.put(self._store, name, file, mode="create", use_multipart=False)
        except AlreadyExistsError:
            pass  # a try before this one put it; whether it holds what it should is verified anyway
        except Exception as error:
            raise Unavailable("the archive cannot be written", why=_first_line(error)) from error

    def fetch(self, name: str, scratch: Path) -> Path:
        import obstore  # noqa: PLC0415

        file = scratch / name.replace("/", "_")
        part = file.with_name(f"{file.name}.{os.getpid()}{TEMPORARY}")
        try:
            with part.open("wb") as copy:
                for chunk in obstore.get(self._store, name).stream(min_chunk_size=1 << 20):
                    copy.write(chunk)
            part.rename(file)
        except Exception as error:
            part.unlink(missing_ok=True)
            raise Unavailable("the archive cannot be read", why=_first_line(error)) from error
        return file

    def remove(self, name: str) -> None:
        import obstore  # noqa: PLC0415

        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            pass
        except Exception as error:
            raise Unavailable("the archive cannot be tidied", why=_first_line(error)) from error


def _synchronize(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
