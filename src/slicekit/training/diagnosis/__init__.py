"""How far can a trained model be trusted? What is seen at each length, and where it will end."""

from slicekit.training.diagnosis.diagnose import Diagnosis, diagnose
from slicekit.training.diagnosis.geometry import Classes
from slicekit.training.diagnosis.horizon import Horizon
from slicekit.training.diagnosis.plot import plot_diagnosis
from slicekit.training.diagnosis.readings import Reading
from slicekit.training.diagnosis.spectra import Range, Spectrum

__all__ = [
    "Classes",
    "Diagnosis",
    "Horizon",
    "Range",
    "Reading",
    "Spectrum",
    "diagnose",
    "plot_diagnosis",
]
