"""Many requests drawn from the OpenAPI document, against a running fleet: `python -m tests.fuzz --requests
20000 --seed 1`.

First all boundary values of all operations, then round after round of random requests and of sequences of
requests, each round with fresh things in the database, until as many were made as asked for. What makes an
answer a violation is told in `tests.support.openapi_fuzz`. The exit code is 0 if there was none.
"""

import argparse
import itertools
import shutil
import sys
import time

from tests.support.api import RealApi, fleet
from tests.support.openapi_cases import furnish
from tests.support.openapi_fuzz import Report, fuzz
from tests.support.postgres import Cluster, temporary_directory
from tocsin.domain.sealing import new_master_key

EXAMPLES = 50


def run(api: RealApi, wanted: int, seed: int) -> Report:
    report = Report()
    fuzz(api, furnish(api), report, seed=seed, examples=1, phases=["coverage"])
    say(f"boundary values: {report.requests} requests, {len(report.violations)} violations")
    for number in itertools.count(1):
        if report.requests >= wanted:
            return report
        for phase in ("fuzzing", "stateful"):
            known = furnish(api, 2 * number + (phase == "stateful"))
            fuzz(api, known, report, seed=seed + number, examples=EXAMPLES, phases=[phase])
        say(f"round {number}: {report.requests} requests, {len(report.violations)} violations")
    raise AssertionError


def say(words: str) -> None:
    """A line with the time."""
    print(f"{time.strftime('%H:%M:%S')}  {words}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    directory = temporary_directory()
    cluster = Cluster(directory / "database")
    try:
        cluster.start()
        with fleet(cluster.new_database(), secret_key=new_master_key()) as api:
            report = run(api, arguments.requests, arguments.seed)
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)
    print(report.table())
    print("refused for reasons that no schema can give:")
    for reason, count in report.excused.most_common():
        print(f"{count:>8}  {reason}")
    print(f"{report.requests} requests, {len(report.violations)} violations")
    print(report.words())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
