"""What a person does in `tocsin top`: which row is chosen, which question is open. Keys in, wishes out."""

from typing import Any, Final, Literal

import msgspec

from tocsin.cli.top_picture import Picture

Part = Literal["queues", "running", "ended"]
PARTS: Final[tuple[Part, ...]] = ("queues", "running", "ended")
Deed = Literal["pause", "resume", "cancel", "explain", "quit"]
HELP: Final = "tab next list · ↑ ↓ choose · p pause or resume the queue · c cancel · e explain · q quit"


class Wish(msgspec.Struct, frozen=True):
    """What a person wants done, and with what: a queue's name or an execution's id."""

    deed: Deed
    what: str = ""


class Screen(msgspec.Struct, frozen=True):
    """What is chosen, asked and told."""

    part: Part = "queues"
    row: int = 0
    asked: Wish | None = None
    """A wish that waits for a yes."""
    told: tuple[str, ...] = ()
    """What came of the last wish."""


def pressed(screen: Screen, picture: Picture, key: str) -> tuple[Screen, Wish | None]:
    """What a key does to the screen, and what it wishes for."""
    if screen.asked is not None:
        wish = screen.asked if key == "y" else None
        return msgspec.structs.replace(screen, asked=None, told=()), wish
    match key:
        case "q":
            return screen, Wish("quit")
        case "tab":
            part = PARTS[(PARTS.index(screen.part) + 1) % len(PARTS)]
            return Screen(part), None
        case "up" | "k" | "down" | "j":
            row = screen.row + (1 if key in ("down", "j") else -1)
            return msgspec.structs.replace(screen, row=_within(row, picture, screen.part), told=()), None
        case "p" | "c" | "e" | "enter":
            return _wished(screen, chosen(screen, picture), key)
    return screen, None


def _wished(screen: Screen, item: dict[str, Any] | None, key: str) -> tuple[Screen, Wish | None]:
    """What changes something is asked about first."""
    wish = None if item is None else _wish(screen.part, item, key)
    if wish is None:
        return msgspec.structs.replace(screen, told=(_cannot(key),)), None
    if wish.deed == "explain":
        return msgspec.structs.replace(screen, told=()), wish
    return msgspec.structs.replace(screen, asked=wish, told=()), None


def _wish(part: Part, item: dict[str, Any], key: str) -> Wish | None:
    if part == "queues":
        return Wish("resume" if item["paused"] else "pause", item["name"]) if key == "p" else None
    if key == "c":
        return Wish("cancel", item["id"]) if part == "running" else None
    return Wish("explain", item["id"]) if key in ("e", "enter") else None


def _cannot(key: str) -> str:
    needed = {"p": "a queue", "c": "a running execution"}.get(key, "an execution")
    return f"choose {needed} first; tab leads to the next list"


def chosen(screen: Screen, picture: Picture) -> dict[str, Any] | None:
    """The item that the person has chosen; None in an empty list."""
    items: list[dict[str, Any]] = getattr(picture, screen.part)
    return items[_within(screen.row, picture, screen.part)] if items else None


def _within(row: int, picture: Picture, part: Part) -> int:
    return max(0, min(row, len(getattr(picture, part)) - 1))


def row_of(screen: Screen, picture: Picture) -> int:
    """Which row is chosen; lists become shorter while a person looks."""
    return _within(screen.row, picture, screen.part)
