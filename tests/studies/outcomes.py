"""Outcomes that no run was needed for."""

from collections.abc import Callable

from slicekit.studies import Outcome, Plan, Tested


def made_up(
    plan: Plan, *, best: float = 0.5, accuracy: Callable[[int], float] = lambda length: 0.5
) -> Outcome:
    """What would have come of a plan, with an accuracy that depends on the longest length."""
    tested = tuple(
        Tested(x.low, x.high, x.sequences, accuracy(x.high), accuracy(x.high)) for x in plan.tests
    )
    return Outcome(plan, 1000, plan.settings.steps, "steps", best, 10, tested, 2.0)
