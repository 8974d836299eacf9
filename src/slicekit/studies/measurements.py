"""Runs of a study that train nothing: they measure, and say what they found as plain data."""

import time
from collections.abc import Callable
from typing import Any

from slicekit.studies import (
    group_actions,
    loop_fits,
    path_fits,
    scan_race,
    settings_race,
    word_ranks,
)
from slicekit.studies.plans import Outcome, Plan

MEASURED = "measured"
"""Why such a run ends."""

MEASUREMENTS: dict[str, Callable[[Plan], tuple[int, dict[str, Any]]]] = {
    "scan-costs": scan_race.measure,
    "word-ranks": word_ranks.measure,
    "path-fits": path_fits.measure,
    "loop-fits": loop_fits.measure,
    "group-actions": group_actions.measure,
    "estimator-settings": settings_race.measure,
}
"""By the task of a plan: a number of parameters, and what was found."""


def perform(plan: Plan) -> Outcome:
    """Measure what a plan asks for."""
    start = time.perf_counter()
    parameters, measured = MEASUREMENTS[plan.task](plan)
    seconds = time.perf_counter() - start
    steps = plan.settings.steps
    return Outcome(plan, parameters, steps, MEASURED, None, 0, (), seconds, measured=measured)
