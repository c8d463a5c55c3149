"""Makes the synchronous face of the client from the asynchronous one, word by word. `--check` fails where
they differ."""

import re
import sys
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
_WORDS: Final = (
    (r"^\"\"\".*?\"\"\"", '"""The synchronous face. Made from `{name}` by `python -m tocsin.sdk.client.faces`: change that file."""'),
    (r"\basync (def|with|for) ", r"\1 "),
    (r"\bawait ", ""),
    (r"asyncio\.sleep", "sleep"),
    (r"import asyncio\n", ""),
    (r"import monotonic\n", "import monotonic, sleep\n"),
    (r"client import resources\n", "client import resources_sync as resources\n"),
    (r"client\.(sending|resources) import", r"client.\1_sync import"),
    (r"AsyncBaseTransport", "BaseTransport"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\.aclose\(", ".close("),
    (r"\bAsync(\w+)", r"\1"),
)  # fmt: skip


_FILES: Final = {"aio": "sync", "resources": "resources_sync", "sending": "sending_sync"}


def sync_faces() -> dict[Path, str]:
    """What the files of the synchronous face must be."""
    return {_HERE / f"{sync}.py": _sync(name) for name, sync in _FILES.items()}


def _sync(name: str) -> str:
    text = (_HERE / f"{name}.py").read_text()
    for pattern, by in _WORDS:
        text = re.sub(pattern, by.replace("{name}", name), text, flags=re.DOTALL if "?" in pattern else 0)
    return text


def main() -> None:
    """Write the files, or compare them."""
    for path, text in sync_faces().items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit("run python -m tocsin.sdk.client.faces")


if __name__ == "__main__":
    main()
