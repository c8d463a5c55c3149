"""A web application that enqueues tasks and runs them itself: FastAPI's lifespan holds the worker.

    pip install tocsin fastapi uvicorn
    TOCSIN_API_KEY=$(cat .tocsin/admin-key) python3 examples/fastapi_tasks.py 8000
    curl -X POST http://127.0.0.1:8000/orders/17/receipt
    curl http://127.0.0.1:8000/receipts/…        # the id that the first one answered

The web application starts even while Tocsin is away; its worker goes on trying. When the web application
ends, its worker finishes what it runs.
"""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from tocsin import App, AsyncClient

app = App("shop")


@app.task
def send_receipt(order: int) -> str:
    """What takes too long for a request."""
    return f"receipt of order {order}"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    """The worker, and a client for requests, live as long as the web application."""
    async with app.worker(concurrency=50), AsyncClient() as client:
        web.state.client = client
        yield


web = FastAPI(lifespan=lifespan)


@web.post("/orders/{order}/receipt", status_code=202)
async def ask_for_receipt(order: int) -> dict[str, str]:
    """Enqueued, and on disk, when this answers."""
    handle = await send_receipt.enqueue_async(order)
    return {"receipt": handle.id}


@web.get("/receipts/{receipt}")
async def receipt(receipt: str) -> dict[str, object]:
    """How far it is, once it is over or after ten seconds."""
    execution = await web.state.client.executions.get(receipt, wait=10)
    return {"state": execution["state"], "text": execution["attempts"][-1]["result"]}


if __name__ == "__main__":
    uvicorn.run(web, port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
