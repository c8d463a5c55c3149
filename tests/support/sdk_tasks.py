"""Tasks with everything around them, for the tests of what runs them: children import them from here."""

import ctypes
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tocsin import App, Context, Depends, current

app = App("kitchen", url="http://tocsin.test", api_key="k" * 20)
told: list[str] = []
kept: list[bytearray] = []


class Pot:
    """A resource that says when it is opened and closed."""

    def __init__(self, name: str) -> None:
        self.name = name


@app.lifespan
async def kitchen(app: App) -> AsyncIterator[str]:
    told.append("kitchen opens")
    yield f"state of {app.name} in {os.getpid()}"
    told.append("kitchen closes")
    if (left := os.environ.get("KITCHEN_LEFT")) is not None:
        with Path(left).open("a") as file:
            file.write(f"{os.getpid()}\n")


@app.around
def outer(context: Context) -> Iterator[None]:
    told.append(f"outer {context.task}")
    try:
        yield
    except KeyError:
        told.append("outer swallows")
    finally:
        told.append("outer ends")


@app.around
def inner(context: Context) -> Iterator[None]:
    told.append("inner")
    yield
    told.append("inner ends")


def pot() -> Iterator[Pot]:
    told.append("pot opens")
    yield Pot("pot")
    told.append("pot closes")


async def stove() -> AsyncIterator[Pot]:
    told.append("stove opens")
    yield Pot("stove")
    told.append("stove closes")


@contextmanager
def lid(below: Pot = Depends(pot)) -> Iterator[str]:
    told.append("lid opens")
    yield f"lid of the {below.name}"
    told.append("lid closes")


@app.task
def cook(
    dish: str, over: Pot = Depends(pot), top: str = Depends(lid), heat: Pot = Depends(stove, scope="worker")
) -> str:
    told.append("cook")
    if dish == "nothing":
        raise KeyError(dish)
    return f"{dish} in the {over.name} below the {top} on the {heat.name}"


@app.task
async def bake(dish: str, heat: Pot = Depends(stove)) -> str:
    told.append("bake")
    return f"{dish} on the {heat.name}, {current().state}"


@app.task(run="process")
def measure(over: Pot = Depends(pot)) -> dict[str, Any]:
    return {"state": current().state, "pot": over.name, "pid": os.getpid()}


@app.task(run="process")
def swell(mebibytes: int) -> int:
    """Keep so much memory for as long as the process lives."""
    kept.append(bytearray(os.urandom(1024 * 1024) * mebibytes))
    return os.getpid()


@app.task(run="process")
def hang_in_c() -> None:
    """A call into C that gives no other Python code a turn: no signal handler of Python's runs either."""
    ctypes.PyDLL(None).sleep(600)
