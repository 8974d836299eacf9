"""How is it trained? The loop with its settings, checkpoints, metrics and run folders."""

from slicekit.locks import InUse
from slicekit.training.checkpoints import DamagedCheckpoint
from slicekit.training.evaluation import Score, evaluate
from slicekit.training.folder import RunFolder
from slicekit.training.loop import train
from slicekit.training.processes import is_first
from slicekit.training.reports import Diverged, Report, Result, Watcher
from slicekit.training.runs import Run, list_runs, read_run
from slicekit.training.settings import Settings

__all__ = [
    "DamagedCheckpoint",
    "Diverged",
    "InUse",
    "Report",
    "Result",
    "Run",
    "RunFolder",
    "Score",
    "Settings",
    "Watcher",
    "evaluate",
    "is_first",
    "list_runs",
    "read_run",
    "train",
]
