"""What a node of a cluster does with an order: a process of its own does the run.

So a run neither shares torch's random numbers, its threads and its standard output with another on
the same node, nor survives the cluster's own process, nor needs torch in that. This file is all
that a cluster's process imports of slicekit, and it is imported there before any order comes.
"""

import time
from collections.abc import Callable
from typing import Any

from slicekit.engines.base import Answer, Order
from slicekit.engines.workers import Worker, WorkerJob

PAUSE = 0.1
"""Seconds between two looks at the process."""


def never() -> bool:
    """For clusters that end what is no longer wanted themselves."""
    return False


def do(order: Order, unwanted: Callable[[], bool] = never) -> dict[str, Any]:
    """Do a run on this node.

    Args:
        order: what to do.
        unwanted: whether nobody waits for it any more; it is asked from time to time.

    Returns:
        The fields of an `Answer`.
    """
    worker = Worker()
    try:
        job = WorkerJob(worker, order)
        while (answer := job.answer()) is None:
            if unwanted():
                answer = Answer("nobody waits for it any more", lost=True)
                break
            time.sleep(PAUSE)
    finally:
        worker.stop()
    return {"fault": answer.fault, "lost": answer.lost}
