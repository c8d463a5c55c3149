"""Files of a bucket that were read lately, on this machine's disk, so that the next page finds them there.

A file is checked against its hash when it is fetched: what decayed in the store is never answered. Files of a
directory are read where they are. Several processes share a cache; a file that one of them removes while
another reads it is there until that is done.
"""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from tocsin.archive.files import digest
from tocsin.archive.objects import Directory, Objects
from tocsin.domain.errors import Unavailable

MOST_BYTES: Final = 1 << 30


class Cache:
    """Files by their names, from one archive."""

    def __init__(self, objects: Objects, where: str, most_bytes: int = MOST_BYTES) -> None:
        self._objects = objects
        self._most_bytes = most_bytes
        key = hashlib.sha256(where.encode()).hexdigest()[:12]
        self._folder = Path(tempfile.gettempdir()) / f"tocsin-archive-cache-{os.getuid()}-{key}"
        self.folders: set[Path] = set()
        """Where files were found."""

    def fetch(self, name: str, sha256: str) -> Path:
        """The file of a name."""
        file = self._found(name, sha256)
        self.folders.add(file.parent)
        return file

    def _found(self, name: str, sha256: str) -> Path:
        if isinstance(self._objects, Directory):
            return self._objects.fetch(name, self._folder)
        kept = self._folder / name.replace("/", "_")
        if kept.exists():
            with contextlib.suppress(OSError):
                os.utime(kept)
            return kept
        self._make_room()
        file = self._objects.fetch(name, self._folder)
        if digest(file) != sha256:
            file.unlink(missing_ok=True)
            raise Unavailable("the archive holds a file that is not what was written", why=name)
        return file

    def _make_room(self) -> None:
        """Remove what was not read for longest. The folder is ours alone: another user's is refused."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._folder.stat().st_uid != os.getuid() or self._folder.is_symlink():
            raise Unavailable("the archive cannot be read", why=f"{self._folder} belongs to another user")
        files = sorted((file.stat().st_mtime, file.stat().st_size, file) for file in self._folder.iterdir())
        total = sum(size for _, size, _ in files)
        for _, size, file in files:
            if total <= self._most_bytes:
                return
            file.unlink(missing_ok=True)
            total -= size
