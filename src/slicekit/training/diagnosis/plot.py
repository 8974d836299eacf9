"""The picture of a diagnosis: accuracy, spread against separation, and spectral radii."""

import math
from pathlib import Path
from typing import Any

from slicekit import figures
from slicekit.training.diagnosis.diagnose import Diagnosis
from slicekit.training.diagnosis.horizon import ENOUGH, telling


def plot_diagnosis(diagnosis: Diagnosis, path: Path) -> None:
    """Draw a diagnosis.

    Args:
        diagnosis: what `diagnose` gave.
        path: the picture, a PNG; its folder is made if it is missing.

    Raises:
        ImportError: if matplotlib is missing.
        OSError: if the file can't be written.
    """
    title = f"{diagnosis.task}: {diagnosis.horizon.text}"
    made, (accuracy, geometry, spectra) = figures.figure(3, 13, 4.2, title)
    _draw_accuracy(accuracy, diagnosis)
    _draw_geometry(geometry, diagnosis)
    _draw_spectra(spectra, diagnosis)
    figures.write(made, path)


def _draw_accuracy(axis: Any, diagnosis: Diagnosis) -> None:
    lengths = [reading.length for reading in diagnosis.readings]
    for what, label, style in (("overall", "all positions", "o-"), ("last", "last one", "x--")):
        axis.plot(lengths, [getattr(x, what) for x in diagnosis.readings], style, label=label)
    axis.axhline(ENOUGH, color="grey", linewidth=0.8, linestyle=":")
    horizon = diagnosis.horizon.length
    if horizon is not None and horizon <= 4 * lengths[-1]:
        axis.axvline(horizon, color="black", linewidth=0.8, linestyle="--", label="horizon")
    figures.label(axis, title="accuracy", y="share of right answers")
    axis.set_ylim(-0.02, 1.02)
    figures.over_lengths(axis)
    figures.legend(axis)


def _draw_geometry(axis: Any, diagnosis: Diagnosis) -> None:
    of = telling(diagnosis.readings[0])
    # With two classes the last two are one: a dashed line lets the other be seen.
    lines = {
        "spread": ("spread within a class", "o-"),
        "nearest": ("to the nearest class", "o-"),
        "mean": ("mean between classes", "x--"),
    }
    if of is not None:
        seen = [
            (x.length, getattr(x, of)) for x in diagnosis.readings if getattr(x, of) is not None
        ]
        for what, (label, style) in lines.items():
            values = [_positive(getattr(lying, what)) for _, lying in seen]
            axis.plot([length for length, _ in seen], values, style, markersize=5, label=label)
        figures.logarithmic(axis, "y")
        figures.legend(axis)
    figures.label(axis, title=f"distances of {of or 'states'}", y="distance")
    figures.over_lengths(axis)


def _positive(value: float) -> float:
    """What a logarithmic axis can show; anything else is a gap."""
    return value if math.isfinite(value) and value > 0 else math.nan


def _draw_spectra(axis: Any, diagnosis: Diagnosis) -> None:
    for number, (what, label) in enumerate(
        (("radius", "spectral radius"), ("norm", "largest singular value"))
    ):
        for spectrum in diagnosis.spectra:
            values, place = getattr(spectrum, what), spectrum.layer + 0.2 * (number - 0.5)
            shown = label if spectrum is diagnosis.spectra[0] else None
            axis.vlines(place, values.least, values.most, color=f"C{number}", linewidth=6)
            axis.plot(
                [place],
                [values.median],
                "o",
                color=f"C{number}",
                markeredgecolor="white",
                label=shown,
            )
    axis.axhline(1, color="grey", linewidth=0.8, linestyle=":")
    axis.set_xticks(
        [spectrum.layer for spectrum in diagnosis.spectra], [_layer(x) for x in diagnosis.spectra]
    )
    axis.set_xlim(-0.6, max(len(diagnosis.spectra), 1) - 0.4)
    low, high = axis.get_ylim()
    low, high = min(low, 0.9), max(high, 1.1)
    axis.set_ylim(low, high + 0.25 * (high - low))  # the legend has its place above the bars
    figures.label(axis, title="transitions: least, median and most", y="size")
    figures.legend(axis)


def _layer(spectrum: Any) -> str:
    what = "tokens" if spectrum.tokens else "positions"
    return f"layer {spectrum.layer + 1}\n{spectrum.transitions} {what}"
