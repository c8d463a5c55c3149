"""The steps of section (m): a day of history made into files, beside `COPY` of the same rows."""

from collections.abc import Iterator

from bench import archive as archives
from bench.drain import ENGINES
from bench.report import OURS, Measured
from bench.sections import PER_SECOND, Bench, Sizes, Step, rate_row

SECTION = "m"
FILES = "A day of history made into files"
BESIDE = "Executions drained while a day is archived"
MEMORY = "Memory of the archive's processes"
LOOKS = "One archived execution, asked of the API"


def archive_steps(sizes: Sizes) -> Iterator[Step]:
    """What is measured of ours."""
    yield Step(SECTION, FILES, "archive", 60 + sizes.archived / 5000, _archive)
    seconds = sizes.runs * 2 * (20 + sizes.drain / 10_000) + sizes.archived_beside * sizes.runs / 50_000
    yield Step(SECTION, BESIDE, "drain beside the archive", seconds, _beside)


async def _archive(bench: Bench) -> list[Measured]:
    sizes = bench.sizes
    found = await archives.archive(bench.place, sizes.archived, sizes.archive_looks)
    command = f"python -m bench.archive --rows {sizes.archived} --looks {sizes.archive_looks} --runs 0"
    size = f"{sizes.archived:,} rows"
    memory = {"MB, first quarter": [found.first_mb], "MB, last quarter": [found.last_mb]}
    return [
        rate_row(
            SECTION, FILES, OURS, [found.archived], command, headline=True, note=f"{size}, without its rests"
        ),
        rate_row(SECTION, FILES, "`COPY` of the same rows, thrown away", [found.copied], command, ours=False),
        Measured(SECTION, MEMORY, OURS, memory, command, ours=True, note=size),
        Measured(
            SECTION, LOOKS, OURS, {"ms": found.looks}, command, ours=True, note="of a day that was dropped"
        ),
    ]


async def _beside(bench: Bench) -> list[Measured]:
    sizes = bench.sizes
    alone, both = [], []
    for run in range(sizes.runs):
        for old in (0, sizes.archived_beside) if run % 2 else (sizes.archived_beside, 0):
            rate = await archives.beside(bench.place, sizes.drain, old)
            (both if old else alone).append(rate)
        bench.tell(f"{both[-1]:,.0f} {PER_SECOND}, alone {alone[-1]:,.0f}")
    command = (
        f"python -m bench.archive --rows {sizes.archived_beside} --count {sizes.drain} --runs {sizes.runs}"
    )
    return [
        rate_row(SECTION, BESIDE, f"{OURS}, with an archive", both, command, note=f"{ENGINES} engines"),
        rate_row(SECTION, BESIDE, f"{OURS}, nothing to archive", alone, command),
    ]
