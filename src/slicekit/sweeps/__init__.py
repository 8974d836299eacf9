"""Which settings are best? Trials over a grid, at random or by Optuna, on any engine.

Example:
    conduct_sweep(read_sweep(Path("rates.toml")), Path("rates")) does the trials, and writes
    results.json, results.md, results.png and best.toml there. Done again, it goes on where it
    stopped.
"""

from slicekit.sweeps.conducting import Found, conduct_sweep
from slicekit.sweeps.results import tables
from slicekit.sweeps.sweep import Sweep, read_sweep
from slicekit.sweeps.trials import Trial

__all__ = ["Found", "Sweep", "Trial", "conduct_sweep", "read_sweep", "tables"]
