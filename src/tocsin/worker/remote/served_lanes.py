"""The lanes that the workers parked at a gateway serve.

Which lanes those are changes with every request, so all lanes of tasks are remembered, and only those that
some parked worker serves are probed: a task that no worker here serves costs a look nothing.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tocsin.domain.task_target import task_of
from tocsin.queue.claiming.directory import Directory
from tocsin.queue.lanes import Lane


class Wanted(NamedTuple):
    """What a worker serves: one of its tasks in one of its queues, of its tenant alone."""

    tenant_id: int
    queue: str
    route: str


class ServedLanes(Directory):
    """Lanes of tasks, and which of them to probe."""

    def __init__(self) -> None:
        super().__init__(())
        self._all: dict[Lane, None] = {}
        self._wanted: frozenset[Wanted] = frozenset()

    def serve(self, wanted: frozenset[Wanted]) -> None:
        """Probe these from now on."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._set([lane for lane in self._all if self.serves(lane)])

    def serves(self, lane: Lane) -> bool:
        """Whether a parked worker can run what waits in a lane."""
        return Wanted(lane.tenant_id, lane.queue, lane.route) in self._wanted

    def learn(self, answer: Mapping[str, Any]) -> bool:
        """Remember lanes of all tasks; take in those that are served."""
        names = ("new_queues", "new_priorities", "new_tenants", "new_routes")
        new = [lane for lane in map(Lane, *(answer[name] for name in names)) if task_of(lane.route)]
        if self.reads_all:
            self._all = {}
        self._all.update(dict.fromkeys(new))
        return super().learn(answer)
