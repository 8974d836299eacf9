"""A process that does runs: `slicekit.engines.tether` starts it, and ends it with its parent.

Each line of standard input is an order, each line of standard output says how it went.
"""

import json
import socket
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from queue import Queue
from typing import NoReturn

import torch

from slicekit.engines import Order
from slicekit.locks import InUse, writing
from slicekit.studies.one_run import perform
from slicekit.studies.plans import Plan

LOG = "study.log"
"""What a run has printed, in its folder."""

LOCK = ".study.lock"
"""Held by the worker that does a run, from log to results; `train` has a lock of its own."""

PATIENCE = 30.0
"""Seconds to wait for the worker of a study that was killed, which is about to end."""

ATTENTION = 10.0
"""Seconds in which a file of another machine should be seen here."""


def work(orders: Queue[str]) -> NoReturn:
    """Do runs, one after the other.

    Args:
        orders: a JSON object each, as `slicekit.engines` describes them.
    """
    torch.set_num_threads(1)
    answers = sys.stdout
    while True:
        fault, lost = _do(json.loads(orders.get()))
        print(json.dumps({"fault": fault, "lost": lost}), file=answers, flush=True)


def _do(order: Order) -> tuple[str | None, bool]:
    """Do a run; whatever is wrong with it, other runs are not to suffer from it.

    Returns:
        Why it failed, if it did, and whether it could go on elsewhere or later.
    """
    folder = Path(order["folder"])
    try:
        _check_seen(order.get("seen"))
        with (
            writing(folder, LOCK, order.get("patience", PATIENCE)),
            open(folder / LOG, "w") as log,
            redirect_stdout(log),
            redirect_stderr(log),
        ):
            try:
                perform(Plan.from_dict(order["plan"]), folder, order.get("device"))
            except Exception:
                traceback.print_exc()
                raise
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}", isinstance(error, InUse)
    return None, False


def _check_seen(seen: dict[str, str] | None) -> None:
    """Raise unless a file that the study has written is there, with its content."""
    if seen is None:
        return
    path, end = Path(seen["path"]), time.monotonic() + ATTENTION
    while time.monotonic() < end:
        with suppress(OSError):
            if path.read_text(errors="replace") == seen["content"]:
                return
        time.sleep(0.1)
    raise FileNotFoundError(
        f"{socket.gethostname()} does not see {path.parent} as the study does: the folder of a "
        "study on a cluster must be on a file system that its nodes share"
    )
