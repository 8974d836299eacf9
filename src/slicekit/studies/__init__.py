"""What did the paper measure? One file for each table or figure: what to run, how to show it.

Example:
    conduct(make("languages"), Choice(seeds=(0,), steps=1000), Path("languages")) does the runs, and
    writes results.json, results.md and results.png there. Done again, it goes on where it stopped.
"""

from slicekit.studies.grid import GridWatcher, Standing
from slicekit.studies.names import STUDIES, make
from slicekit.studies.plans import Choice, Outcome, Plan, Test, Tested
from slicekit.studies.study import Study, conduct
from slicekit.studies.tables import Table

__all__ = [
    "STUDIES",
    "Choice",
    "GridWatcher",
    "Outcome",
    "Plan",
    "Standing",
    "Study",
    "Table",
    "Test",
    "Tested",
    "conduct",
    "make",
]
