"""A process that does runs: it is started by `tether`, which ends it with its study.

Each order is a plan, a folder and a device, each line of standard output says how it went.
"""

import json
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from queue import Queue
from typing import NoReturn

import torch

from slicekit.locks import writing
from slicekit.studies.plans import Plan
from slicekit.studies.runs import perform

LOG = "study.log"
"""What a run has printed, in its folder."""

LOCK = ".study.lock"
"""Held by the worker that does a run, from log to results; `train` has a lock of its own."""

PATIENCE = 30.0
"""Seconds to wait for the worker of a study that was killed, which is about to end."""


def work(orders: Queue[str]) -> NoReturn:
    """Do runs, one after the other.

    Args:
        orders: a JSON object each, with `plan` and `folder`, and perhaps a `device`.
    """
    torch.set_num_threads(1)
    answers = sys.stdout
    while True:
        order = json.loads(orders.get())
        fault = _do(Plan.from_dict(order["plan"]), Path(order["folder"]), order.get("device"))
        print(json.dumps({"fault": fault}), file=answers, flush=True)


def _do(plan: Plan, folder: Path, device: str | None = None) -> str | None:
    """Do a run; why it failed, if it did. Whatever it is, other runs are not to suffer from it."""
    try:
        with (
            writing(folder, LOCK, PATIENCE),
            open(folder / LOG, "w") as log,
            redirect_stdout(log),
            redirect_stderr(log),
        ):
            try:
                perform(plan, folder, device)
            except Exception:
                traceback.print_exc()
                raise
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None
