"""Gateways, an engine and workers as real processes, whose tasks write down that they ran (`diary`)."""

from collections import Counter
from pathlib import Path

from tests.support.api import ADMIN_KEY, RealApi, with_database
from tests.support.processes import Process, Processes, free_port, wait_for
from tocsin.store.keys import KeyStore


class Shop:
    """Two API processes on one port, an engine, and two workers."""

    def __init__(self, url: str, directory: Path, processes: Processes) -> None:
        with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
        self.database_url = url
        self.api = RealApi(free_port())
        self.pages = directory / "diary"
        self.pages.touch()
        shared = {"database_url": url, "lease_ttl": "3", "share_port": "true"}
        port = str(self.api.port)
        self.gateways = [processes.tocsin(f"api-{n}", "api", "--port", port, **shared) for n in range(2)]
        self.engine = processes.tocsin("engine", "engine", **shared)
        reach = {"url": self.api.url, "api_key": ADMIN_KEY, "diary": str(self.pages)}
        serve = ("tasks", "serve", "tests.acceptance.diary:app", "--lease", "3s", "--concurrency", "8")
        self.workers = [processes.tocsin(f"worker-{n}", *serve, **reach) for n in range(2)]
        for process in (*self.gateways, self.engine, *self.workers):
            process.start()
        self.api.wait_until_ready(self.gateways[0])
        self.wait_for_workers()

    def entries(self) -> list[tuple[int, str, int]]:
        """What ran since the last page was turned: number, execution, attempt."""
        lines = [line.split() for line in self.pages.read_text().splitlines()]
        return [(int(number), execution, int(attempt)) for number, execution, attempt, _ in lines]

    def turn_page(self) -> None:
        """Begin anew, with all workers there."""
        self.wait_for_workers()
        self.pages.write_text("")

    def wait_for_workers(self) -> None:
        def there() -> bool:
            listed = self.api.get("/v1/workers").json()["items"]
            return {str(worker.pid) for worker in self.workers} <= {
                one["name"].split(":")[1] for one in listed
            }

        wait_for(there, 120, "a worker does not register")

    def ended(self, jobs: list[str], state: str) -> int:
        """How many of these have ended like that."""
        listed = self.api.get("/v1/executions", state=state, limit=500).json()["items"]
        return len({one["job_id"] for one in listed} & set(jobs))

    def until_run(self, number: int) -> None:
        wait_for(lambda: len(self.entries()) >= number, 60, f"fewer than {number} tasks ran")

    def replace(self, victim: Process) -> None:
        victim.kill()
        victim.start()

    def repeated(self) -> dict[str, int]:
        """Executions that ran more than once, and how often."""
        runs = Counter(execution for _, execution, _ in self.entries())
        return {execution: times for execution, times in runs.items() if times > 1}

    def unexplained(self) -> list[str]:
        """Those of them of which history does not say why: for each run there is an attempt, and each but the
        last ended because its claim had."""
        return [
            execution for execution, times in self.repeated().items() if not self._explained(execution, times)
        ]

    def _explained(self, execution: str, times: int) -> bool:
        attempts = self.api.get(f"/v1/executions/{execution}").json()["attempts"]
        verdicts = {attempt["verdict"] for attempt in attempts[:-1]}
        return len(attempts) >= times and verdicts <= {"lost"}
