"""Eager tasks: run where they are enqueued, and nothing else is different."""

from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from tocsin import App, Conflict, Depends, Rejected, Retry, Skip, current
from tocsin.sdk.signature import PayloadError
from tocsin.testing.eager import Eager


class Order(msgspec.Struct):
    number: int


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Eager]:
    made = Eager()
    monkeypatch.setattr(App, "client", property(made.client_of))
    yield made
    made.close()


def test_an_enqueued_task_has_run_with_what_travels_as_json(eager: Eager) -> None:
    app = App("shop")

    @app.task
    def pack(order: Order) -> Order:
        assert type(order) is Order
        return Order(order.number + current().attempt)

    handle = pack.having(delay="1h", queue="slow").enqueue(Order(17))
    assert (handle.result(), handle.state()) == (Order(18), "succeeded")
    assert [called.payload for called in eager.of(pack)] == [{"order": {"number": 17}}]
    with pytest.raises(PayloadError, match="no JSON"):
        pack.enqueue(object())  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="ran when it was enqueued"):
        handle.cancel()


def test_async_tasks_run_with_their_lifespan_and_dependencies(eager: Eager) -> None:
    app = App("shop")

    async def region() -> str:
        return "eu"

    @app.lifespan
    async def resources(_: App) -> AsyncIterator[str]:
        yield "state"

    @app.task
    async def tell(name: str, place: str = Depends(region, scope="worker")) -> str:
        return f"{name} {place} {current().state}"

    assert tell.enqueue("a").result() == "a eu state"
    assert [one.result() for one in tell.enqueue_many(tell.args(name) for name in "bc")] == [
        "b eu state",
        "c eu state",
    ]


def test_errors_surface_at_once_and_after_retries_by_choice(eager: Eager) -> None:
    app = App("shop")
    attempts: list[int] = []

    @app.task(retry=Retry(max_attempts=3, never=[KeyError]))
    def flaky(error: str) -> int:
        attempts.append(current().attempt)
        if error == "skip":
            raise Skip("empty")
        if error == "reject":
            raise Rejected("no")
        if error == "key":
            raise KeyError("no")
        if current().attempt < 3:
            raise OSError("once more")
        return current().attempt

    with pytest.raises(OSError, match="once more"):
        flaky.enqueue("os")
    eager.retries = True
    assert flaky.enqueue("os").result() == 3
    assert flaky.enqueue("skip").state() == "skipped"
    for error, kind in (("reject", Rejected), ("key", KeyError)):
        with pytest.raises(kind):
            flaky.enqueue(error)
    assert attempts == [1, 1, 2, 3, 1, 1, 1]


def test_a_key_is_one_call_and_a_task_of_others_is_noted(eager: Eager) -> None:
    app = App("shop")

    @app.task
    def count() -> None: ...

    first, second = (count.having(idempotency_key="a").enqueue() for _ in range(2))
    assert first.id == second.id
    other = app.task_named("billing.charge").enqueue_json({"order": 17})
    assert other.state() == "queued"
    with pytest.raises(TimeoutError, match="no task of this app"):
        other.result()
    assert [called.task for called in eager.calls] == ["shop.count", "billing.charge"]
