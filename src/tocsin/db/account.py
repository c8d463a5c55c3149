"""Which account of this system the embedded server runs as. PostgreSQL refuses to run as root."""

import os
import pwd
import shutil
import stat
from pathlib import Path
from typing import Final

from tocsin.domain.errors import Refused

PASSAGE: Final = (
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
    # access(2) forgets capabilities without this, and PostgreSQL asks it whether its own programs may be run.
    "--securebits=+no_setuid_fixup",
)
"""With these setpriv lets a command pass closed directories."""


class Account:
    """Who the server runs as: ourselves, or for root an unprivileged account of this system.

    A cluster keeps the account that made it. That account must be able to reach the binaries and the data
    directory. Where a parent directory is closed to it (a checkout under /root), the server is given the one
    capability of passing closed directories, through setpriv, instead of opening them to all users.
    """

    def __init__(self, entry: pwd.struct_passwd | None, *, needs_passage: bool) -> None:
        self._entry = entry
        self._needs_passage = needs_passage

    @classmethod
    def choose(cls, cluster: Path, program: Path) -> "Account":
        """Who runs `program` over `cluster`."""
        if os.geteuid() != 0:
            return cls(None, needs_passage=False)
        entry = _owner(cluster) or _lookup("postgres") or _lookup("nobody")
        if entry is None:
            raise Refused(
                "PostgreSQL cannot run as root, and there is neither a postgres nor a nobody account"
            )
        closed = [*_closed_parents(cluster), *_closed_parents(program)]
        if closed and shutil.which("setpriv") is None:
            raise Refused(
                f"PostgreSQL runs as {entry.pw_name}, which cannot pass {closed[0]}",
                field="data_dir",
                hint=f"chmod o+x {closed[0]}, or use a --data-dir and an installation outside of it",
            )
        return cls(entry, needs_passage=bool(closed))

    def give(self, path: Path) -> None:
        """Make `path` the account's own."""
        if self._entry is not None:
            os.chown(path, self._entry.pw_uid, self._entry.pw_gid, follow_symlinks=False)

    def claim(self, directory: Path) -> None:
        """Take a directory that may have been there already; one that belongs to another user is refused."""
        found = directory.lstat()
        ours = {os.geteuid(), os.geteuid() if self._entry is None else self._entry.pw_uid}
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in ours:
            raise Refused(f"{directory} belongs to another user", field="data_dir")
        directory.chmod(0o700)
        self.give(directory)

    def wrap(self, command: list[str]) -> list[str]:
        """The command as this account runs it."""
        if self._entry is None or not self._needs_passage:
            return command
        ids = [f"--reuid={self._entry.pw_uid}", f"--regid={self._entry.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids, *PASSAGE, "--pdeathsig=INT", "--", *command]

    def as_user(self) -> dict[str, object]:
        """Arguments for subprocess. The working directory must be one that the account can enter."""
        if self._entry is None or self._needs_passage:
            return {"cwd": "/"}
        return {"cwd": "/", "user": self._entry.pw_uid, "group": self._entry.pw_gid, "extra_groups": []}


def _lookup(account: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(account)
    except KeyError:
        return None


def _owner(cluster: Path) -> pwd.struct_passwd | None:
    """Whose files a cluster consists of, if there is one."""
    try:
        uid = (cluster / "PG_VERSION").stat().st_uid
        return pwd.getpwuid(uid) if uid else None
    except (OSError, KeyError):
        return None


def _closed_parents(path: Path) -> list[Path]:
    """Parent directories that others may not pass."""
    return [
        parent for parent in path.absolute().parents if parent.exists() and not parent.stat().st_mode & 0o001
    ]
