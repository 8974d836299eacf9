"""Which models have names? Sizes and training settings for each kind of task, as plain data.

Example:
    >>> from slicekit import catalogue, tasks
    >>> task = tasks.make("parity")
    >>> catalogue.default(task), catalogue.settings("bd-slice", task).steps
    ('projective-slice', 100000)
"""

from slicekit.catalogue.baselines import Baseline, MixerDesign
from slicekit.catalogue.names import MODELS, build, default, names, settings
from slicekit.catalogue.series import SeriesDesign
from slicekit.catalogue.tokens import Design, TokenModel

__all__ = [
    "MODELS",
    "Baseline",
    "Design",
    "MixerDesign",
    "SeriesDesign",
    "TokenModel",
    "build",
    "default",
    "names",
    "settings",
]
