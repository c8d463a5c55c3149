"""Judges what a run left behind. Pure: records in, violations out.

Every rule is one function over the records. None of them asks the product what should have happened: fire
times come from the simulation's own arithmetic, the legal ways through the states from the one table of the
lifecycle, and everything else from what triggers and the target wrote down.
"""

from tests.simulation import rules_of_attempts, rules_of_control, rules_of_fires
from tests.simulation.records import Records
from tests.simulation.verdict import Look, Violation

RULES = (
    rules_of_fires.one_row_per_fire_time,
    rules_of_fires.skipped_because_missed,
    rules_of_fires.nothing_left,
    rules_of_fires.never_early,
    rules_of_fires.never_too_late,
    rules_of_fires.epochs_grow,
    rules_of_fires.plans_by_holders,
    rules_of_attempts.legal_paths,
    rules_of_attempts.claims_in_turn,
    rules_of_attempts.attempts_in_order,
    rules_of_attempts.calls_explained,
    rules_of_attempts.ends_are_true,
    rules_of_control.cancellations_kept,
    rules_of_control.cancelled_by_somebody,
    rules_of_control.no_overlap,
    rules_of_control.limits_kept,
)


def check(records: Records) -> list[Violation]:
    """All violations, in a fixed order."""
    look = Look(records)
    errors = [Violation("service", words) for words in records.errors]
    return errors + [violation for rule in RULES for violation in rule(look)]
