"""Pictures for the documentation, where a run is asked for them: TOCSIN_SCREENSHOTS=docs/images."""

import os
from pathlib import Path

from playwright.sync_api import Page


def keep(page: Page, name: str) -> None:
    """One picture of what is to be seen now, if pictures are wanted."""
    if directory := os.environ.get("TOCSIN_SCREENSHOTS"):
        page.screenshot(path=Path(directory) / f"dashboard-{name}.png")
