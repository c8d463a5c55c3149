"""Tasks of a Django project. Imported by tests, once Django has its settings."""

from typing import Any

from tocsin.contrib.django import framework

if "django_tasks" in framework.BaseTaskBackend.__module__:
    from django_tasks import task
else:
    from django.tasks import task

seen: list[str] = []


class NoSuchOrder(Exception):
    """An error of the project's own."""


@task
def add(first: int, second: int = 1) -> dict[str, int]:
    return {"sum": first + second}


@task(priority=100, queue_name="mail", takes_context=True)
async def send(context: Any, address: str) -> str:
    return f"{address} {context.attempt} {context.task_result.id}"


@task
def fail(order: int) -> None:
    raise NoSuchOrder(f"there is no order {order}")
