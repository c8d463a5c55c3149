"""Who a worker is to the gateways: it registers, and does so again when they have forgotten it.

A worker trusts its claims for nine tenths of a lease after it sent the last heartbeat that was answered, by
its own monotonic clock. After that another worker may have them.
"""

import logging
import threading
from time import monotonic
from typing import Final

from tocsin.domain.errors import Unavailable
from tocsin.domain.protocol import NewWorker, Registered
from tocsin.sdk.worker.link import Link, persistently

_TRUSTED_SHARE: Final = 0.9
_SHOWN: Final = 300
"""Characters of the names of tasks that are told; of more, their number."""
_log = logging.getLogger("tocsin.worker")


class Membership:
    """The latest registration. `over` says that none is wanted any longer."""

    def __init__(self, new: NewWorker, over: threading.Event) -> None:
        self._new = new
        self._over = over
        self._registered: Registered | None = None
        self._known = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._trusted_until = 0.0

    @property
    def terms(self) -> Registered:
        """What the gateway said. There is something once `known`."""
        if self._registered is None:
            raise Unavailable("the worker is not registered yet")
        return self._registered

    @property
    def worker(self) -> str:
        """The worker's id."""
        return self.terms.worker

    @property
    def known(self) -> bool:
        """Whether any gateway has answered yet."""
        return self._known.is_set()

    @property
    def trusted(self) -> bool:
        """Whether what is held is certainly held."""
        return monotonic() < self._trusted_until

    def try_to_register(self, link: Link) -> None:
        """Register, if a gateway is there. Raises what it refuses, or `Unavailable`."""
        sent_at = monotonic()
        self._take(link.register(self._new), sent_at)

    def register(self, link: Link, instead_of: str | None = None) -> None:
        """Register as soon as a gateway is there, unless the worker ends first. `instead_of` is the id that
        gateways have forgotten: of several threads that hear so, one registers."""
        with self._one_at_a_time:
            if self._registered is not None and self._registered.worker != instead_of:
                return
            sent_at = monotonic()
            answer = persistently(lambda: link.register(self._new), lambda: not self._over.is_set())
            if answer is not None:
                self._take(answer, sent_at)

    def wait_until_known(self) -> bool:
        """Wait for the first registration. False: the worker ended first."""
        while not self._known.wait(0.5):
            if self._over.is_set():
                return False
        return True

    def heard(self, sent_at: float) -> None:
        """A heartbeat that was sent then has been answered."""
        self._trusted_until = sent_at + _TRUSTED_SHARE * self.terms.lease_ms / 1000

    def _take(self, answer: Registered, sent_at: float) -> None:
        self._registered = answer
        self.heard(sent_at)
        self._known.set()
        tasks = ", ".join(sorted(offer.name for offer in self._new.tasks))
        shown = tasks if len(tasks) <= _SHOWN else f"{len(self._new.tasks)} tasks"
        queues = ", ".join(self._new.queues)
        words = "registered as %s: runs %s of %s, %d at once"
        _log.info(words, answer.worker, shown, queues, self._new.capacity)
