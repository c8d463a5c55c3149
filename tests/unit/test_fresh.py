"""Answers that are shared: for a second, or for longer if they take long again and again."""

import asyncio

from tocsin.api.fresh import Fresh


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at


def test_an_answer_is_shared_for_a_second_and_one_that_takes_long_twice_for_fifty_times_as_long() -> None:
    clock, fresh, made = Clock(), Fresh(), []

    async def make(takes: float) -> int:
        clock.at += takes
        made.append(clock.at)
        return len(made)

    def ask(key: str, takes: float) -> int:
        return asyncio.run(fresh.shared(key, clock, lambda: make(takes)))  # type: ignore[arg-type]

    assert [ask("quick", 0.001), ask("quick", 0.001)] == [1, 1]
    clock.at += 1.01
    assert ask("quick", 0.001) == 2
    assert ask("slow", 0.5) == 3
    clock.at += 1.1
    assert ask("slow", 0.5) == 4, "once is chance"
    clock.at += 24.0
    assert ask("slow", 0.5) == 4
    clock.at += 1.1
    assert ask("slow", 0.001) == 5
    clock.at += 1.1
    assert ask("slow", 0.5) == 6, "what was quick meanwhile is not rested after"
    clock.at += 1.1
    assert ask("slow", 0.5) == 7
