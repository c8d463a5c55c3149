"""An app with a task that tells how far it is, and ends when a file says so."""

import asyncio
import os
from pathlib import Path

from tocsin import App, current

app = App("shop")


@app.task
async def pack(order: int) -> dict[str, int]:
    """Pack an order, as slowly as whoever looks wants it."""
    context = current()
    context.log.info("box 1 packed", order=order)
    context.progress(0.5, "packing")
    while not Path(os.environ["TOCSIN_SHOP_GO"]).exists():
        await asyncio.sleep(0.05)
    context.log.warning("box 2 is heavy")
    return {"parcels": 2}
