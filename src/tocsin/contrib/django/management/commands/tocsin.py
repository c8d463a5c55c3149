"""``manage.py tocsin``: runs Django's tasks until it is told to stop."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import autodiscover_modules

from tocsin.contrib.django.backend import Backend
from tocsin.contrib.django.framework import task_backends
from tocsin.domain.errors import Refused, Unauthorized


class Command(BaseCommand):  # type: ignore[misc]
    """A remote worker of a back end's tasks."""

    help = "Run the tasks that are enqueued in Tocsin, until SIGTERM."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Its options."""
        parser.add_argument("--backend", default="default", help="The alias of the back end in TASKS.")
        parser.add_argument(
            "--queues", help="Queues to serve, separated by commas. Default: all of the back end."
        )
        parser.add_argument("--concurrency", type=int, default=10, help="Tasks at once. Default: 10.")
        parser.add_argument("--grace", type=float, default=25.0, help="Seconds to finish after SIGTERM.")

    def handle(self, **options: Any) -> None:
        """Run until SIGTERM."""
        sys.exit(self.worker(**options).serve())

    def worker(self, **options: Any) -> Any:
        """The worker that these options ask for, of all tasks in the `tasks` modules of installed apps."""
        backend = _backend(options["backend"])
        autodiscover_modules("tasks")
        if not backend.app.tasks:
            raise CommandError("there are no tasks in the modules `tasks` of the installed apps")
        queues = [one.strip() for one in (options["queues"] or ",".join(sorted(backend.queues))).split(",")]
        try:
            return backend.app.worker(
                concurrency=options["concurrency"], queues=tuple(filter(None, queues)), grace=options["grace"]
            )
        except (Refused, Unauthorized) as error:
            raise CommandError(str(error)) from None


def _backend(alias: str) -> Backend:
    backend = task_backends[alias]
    if not isinstance(backend, Backend):
        raise CommandError(f"the back end {alias!r} of TASKS is {type(backend).__name__}, not Tocsin's")
    return backend
