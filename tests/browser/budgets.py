"""Budgets of time, for a quiet machine. On a busy one tests hold a multiple of them, and print what they saw.
TOCSIN_STRICT_BUDGETS=1 holds them as they are."""

import os

STRICT = os.environ.get("TOCSIN_STRICT_BUDGETS") == "1"
# A browser that shares two cores with other tests is slower by far more than what waits for a clock.
_BUSY = {"s": 4, "ms": 10, "%": 10}


def most(budget: float, unit: str = "s") -> float:
    """The most that something with this budget may take here."""
    return budget if STRICT else budget * _BUSY[unit]


def hold(what: str, took: float, budget: float, unit: str = "ms") -> None:
    """Print what something took, and fail if that is too much."""
    words = f"{what}: {took:.1f} {unit} (budget {budget:.3g})"
    print(words)
    assert took <= most(budget, unit), words
