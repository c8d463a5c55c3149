"""Trials of targets: what to call, and what came of it."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tocsin.api.wire.scalars import Name
from tocsin.domain.ids import ExecutionText
from tocsin.domain.outcome import Verdict
from tocsin.domain.target import Target
from tocsin.domain.written import WrittenTimeout


class TargetTrial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A target to call once."""

    target: Annotated[Target, Meta(description="What is called")]
    name: Name | None = None
    """What `{name}` is filled in with."""
    timeout: WrittenTimeout | None = None


class TrialAnswer(msgspec.Struct, frozen=True):
    """How the call ended."""

    called: bool
    """Whether a call was made; false if it had to be put off, as a worker would put it off. `error` says
    why."""
    verdict: Verdict | None
    error: str | None
    detail: dict[str, Any] | None
    """What the target answered, as an attempt keeps it."""
    duration_ms: float
    execution: ExecutionText
    """The id that the target was told. There is no such execution."""
