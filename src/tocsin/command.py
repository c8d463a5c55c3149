"""The `tocsin` command. With the server installed it is `tocsin.cli`; without, `tocsin tasks` and `tocsin
conformance`, which need nothing but the SDK, and every other command says what is missing."""

import importlib.util
import sys
from typing import Final

_EXTRA: Final = "tocsin[server]"
_NEEDED: Final = ("click", "rich", "asyncpg", "uvloop")


def main() -> None:
    """Entry point."""
    if all(importlib.util.find_spec(name) for name in _NEEDED):
        from tocsin.cli.main import main as server_main  # noqa: PLC0415 - needs the extra

        server_main()
    else:
        sys.exit(_small(sys.argv[1:]))


def _small(words: list[str]) -> int:
    asked_for = next((word for word in words if not word.startswith("-")), None)
    if asked_for == "conformance":
        from tocsin.sdk.conformance.command import run as judge  # noqa: PLC0415

        return judge(words[words.index("conformance") + 1 :])
    if asked_for not in (None, "tasks"):
        print(  # noqa: T201 - a command speaks to its terminal
            f"tocsin {asked_for} needs the server, which is not installed: pip install '{_EXTRA}'",
            file=sys.stderr,
        )
        return 2
    from tocsin.sdk.command import run  # noqa: PLC0415 - a command that is missing needs none of it

    return run(words)
