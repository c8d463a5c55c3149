"""Which job a user means: by id, or by name for recurring jobs, whose names are unique."""

import re
from typing import Any, Final

import click

from tocsin.cli.client import ApiError, Client
from tocsin.cli.short_ids import whole

_ID: Final = re.compile(r"job_[0-9a-z]{26}", re.IGNORECASE)


def job_id(client: Client, job: str) -> str:
    """The id of a job given by id, short id or name."""
    job = whole(job)
    if _ID.fullmatch(job):
        return job
    found: str = find_job(client, job)["id"]
    return found


def find_job(client: Client, job: str) -> Any:
    """The job itself."""
    job = whole(job)
    if _ID.fullmatch(job):
        return client.get("jobs", job)
    if not job:
        raise click.UsageError("JOB is empty; give a job's id or name")
    try:
        return client.get("jobs", "by-name", job)
    except ApiError as error:
        if error.status != 404:
            raise
        hint = f"give an id, or the name of a recurring job; tocsin jobs list --name {job!r} looks for it"
        raise ApiError(f"no job {job!r} (404)\nHint: {hint}", 404) from None
