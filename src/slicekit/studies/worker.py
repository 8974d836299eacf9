"""A process that does runs: python -m slicekit.studies.worker.

Each line of standard input is a plan and a folder, each line of standard output says how it went.
Standard input stays open as long as the study lives. When it closes, the process ends, so that a
study that was killed leaves nothing running behind.
"""

import json
import os
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from queue import Queue
from threading import Thread

import torch

from slicekit.studies.plans import Plan
from slicekit.studies.runs import perform

LOG = "study.log"
"""What a run has printed, in its folder."""


def main() -> None:
    """Do runs until there are no more."""
    torch.set_num_threads(1)
    orders: Queue[str] = Queue()
    Thread(target=_listen, args=(orders,), daemon=True).start()
    answers = sys.stdout
    while True:
        order = json.loads(orders.get())
        fault = _do(Plan.from_dict(order["plan"]), Path(order["folder"]))
        print(json.dumps({"fault": fault}), file=answers, flush=True)


def _listen(orders: Queue[str]) -> None:
    for line in sys.stdin:
        orders.put(line)
    os._exit(0)


def _do(plan: Plan, folder: Path) -> str | None:
    """Do a run; why it failed, if it did. Whatever it is, other runs are not to suffer from it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / LOG, "w") as log, redirect_stdout(log), redirect_stderr(log):
            try:
                perform(plan, folder)
            except Exception:
                traceback.print_exc()
                raise
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


if __name__ == "__main__":
    main()
