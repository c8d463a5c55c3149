"""PgQueuer: jobs in PostgreSQL, workers in Python."""

from bench.peers.driven import PostgresPeer
from bench.peers.environment import python_project


class PgQueuer(PostgresPeer):
    name = "PgQueuer"
    version = "1.6.0"
    settings = "2 processes, batch_size 1000 (default 10), uvloop"
    unfair = (
        "an instant is given as a delay that the server adds to its clock, so its lag counts from the instant that it"
        " stored; recurring schedules are given at the start of the process"
    )
    processes = 2
    clients = 8
    count_pending = "SELECT count(*) FROM pgqueuer"

    async def install(self) -> None:
        self.command, self.home = await python_project("pgqueuer")
