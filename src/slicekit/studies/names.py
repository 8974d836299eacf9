"""Studies that have names, as plain data."""

from slicekit.studies.a5_layers import A5Layers
from slicekit.studies.a5_lengths import A5Lengths
from slicekit.studies.estimator_settings import EstimatorSettings
from slicekit.studies.expressivity import Expressivity
from slicekit.studies.languages import Languages
from slicekit.studies.over_sampling import OverSampling
from slicekit.studies.scan_costs import ScanCosts
from slicekit.studies.stacking import Stacking
from slicekit.studies.study import Study
from slicekit.studies.uea import UEA
from slicekit.studies.word_problems import WordProblems
from slicekit.suggestions import unknown

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        *(A5Layers(), A5Lengths(), WordProblems(), Languages(), UEA(), ScanCosts()),
        *(OverSampling(), Stacking(), Expressivity(), EstimatorSettings()),
    )
}
"""The named studies, in the order to list them in."""


def make(name: str) -> Study:
    """A study by its name.

    Raises:
        ValueError: if there is none; the message suggests the nearest.

    >>> make("a5-lenghts")
    Traceback (most recent call last):
    ValueError: unknown study 'a5-lenghts', did you mean 'a5-lengths'? Choose from a5-layers, \
a5-lengths, word-problems, languages, uea, scan-costs, over-sampling, stacking, \
expressivity, estimator-settings
    """
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    return STUDIES[name]
