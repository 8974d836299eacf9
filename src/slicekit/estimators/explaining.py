"""Which channels and which times of a series matter to a prediction.

A part of a channel is replaced by a line between its ends, and the change of the prediction is what
the part does. That asks the model nothing but predictions, so that it explains any of them.
"""

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from slicekit import figures
from slicekit.checks import check_whole
from slicekit.estimators.containers import is_frame, unmasked, unpacked
from slicekit.estimators.inputs import channel_names, is_pair


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each part of each channel of a series does.

    Args:
        series: (channels, length) as it was given.
        times: (length,) numbers.
        edges: (parts + 1,) where the parts begin and end, as places in the series.
        effects: (channels, parts) by how much the part raises the prediction.
        label: the class whose decision it is about; None for a number.
    """

    series: np.ndarray
    times: np.ndarray
    edges: np.ndarray
    effects: np.ndarray
    label: Any = None

    @property
    def channels(self) -> np.ndarray:
        """(channels,) how much each matters: the sum of the sizes of its effects."""
        return np.abs(self.effects).sum(1)

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Write a picture, a PNG: the channels, on colours for what their parts do.

        Raises:
            ImportError: if matplotlib is missing.
        """
        count = len(self.series)
        made, axes = figures.figure(1, 8, max(2.5, 1.1 * count + 1))
        axis, most = axes[0], max(np.abs(self.effects).max(), 1e-12)
        ends = np.append(self.times, self.times[-1])[self.edges]
        shown = axis.pcolormesh(
            ends, np.arange(count + 1), self.effects, cmap="RdBu_r", vmin=-most, vmax=most
        )
        for place, x in enumerate(self.series):
            low, high = (np.nanmin(x), np.nanmax(x)) if np.isfinite(x).any() else (0.0, 1.0)
            axis.plot(self.times, place + 0.1 + 0.8 * (x - low) / max(high - low, 1e-12), "k", lw=1)
        about = "the prediction" if self.label is None else f"class {self.label}"
        axis.set_title(f"what speaks for {about}")
        axis.set_xlabel("time")
        axis.set_ylabel("channel")
        axis.set_yticks(np.arange(count) + 0.5, [str(i) for i in range(count)])
        made.colorbar(shown, ax=axis, label="rise of the prediction")
        figures.write(made, Path(path))


def explain(estimator: Any, x: Any, times: Any, parts: int) -> Explanation:
    """Explain what a fitted classifier or regressor says of one series.

    Raises:
        ValueError: if x is no single series, or parts is not positive.
    """
    x, times = _apart(estimator, x, times)
    values = np.array(unmasked(x), dtype=np.float64)
    values = values[None] if values.ndim == 1 else values
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"x has shape {np.shape(x)}; expected one series, (channels, length)")
    check_whole("parts", parts)
    channels, length = values.shape
    edges = np.unique(np.linspace(0, length, min(parts, length) + 1).astype(int))
    changed = [values]
    for channel in range(channels):
        for start, end in pairwise(edges):
            other = values.copy()
            other[channel, start:end] = _line(values[channel], start, end)
            changed.append(other)
    given = None if times is None else [times] * len(changed)
    said, label = _decisions(estimator, changed, given)
    effects = (said[0] - said[1:]).reshape(channels, len(edges) - 1)
    clock = np.arange(length, dtype=float)
    if times is not None:
        clock = estimator._read([values], [times]).clock.numpy()
    return Explanation(values, clock, edges, effects, label)


def _apart(estimator: Any, x: Any, times: Any) -> tuple[Any, Any]:
    """The values and times of a frame, with a row for each time, or of a pair."""
    if is_pair(x, "x"):
        if times is not None:
            raise ValueError("times is given, but x is a pair (series, times) already; give one")
        return x
    if not is_frame(x):
        return x, times
    given = None if times is None else [times]
    (values,), stamps, _ = unpacked([x], given, channel_names(estimator))
    return values, None if stamps is None else stamps[0]


def _line(x: np.ndarray, start: int, end: int) -> np.ndarray:
    """From the value before a part to that after it; at an end, the one that there is."""
    before = x[start - 1] if start > 0 else np.nan
    after = x[end] if end < len(x) else np.nan
    if np.isnan(before) and np.isnan(after):
        return np.full(end - start, np.nanmean(x) if np.isfinite(x).any() else np.nan)
    before = after if np.isnan(before) else before
    after = before if np.isnan(after) else after
    return np.linspace(before, after, end - start + 2)[1:-1]


def _decisions(estimator: Any, series: list[np.ndarray], times: Any) -> tuple[np.ndarray, Any]:
    """What is said of each series, for the class of the first: its log-odds."""
    if not hasattr(estimator, "classes_"):
        said = estimator.predict(series, times=times)
        return said if said.ndim == 1 else said[:, 0], None
    shares = np.clip(estimator.predict_proba(series, times=times), 1e-12, 1 - 1e-12)
    best = int(shares[0].argmax())
    return np.log(shares[:, best]) - np.log1p(-shares[:, best]), estimator.classes_[best]
