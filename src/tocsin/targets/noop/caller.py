"""The target that does nothing and succeeds at once: for tests, benchmarks and dry runs of a schedule."""

from tocsin.domain.outcome import SUCCEEDED, Outcome
from tocsin.domain.target import NoopTarget


class NoopCaller:
    """Makes no call."""

    def answer_at_once(self, target: NoopTarget) -> Outcome:  # noqa: ARG002
        """Succeeds, with nothing to tell."""
        return SUCCEEDED
