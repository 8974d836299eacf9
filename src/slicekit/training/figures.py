"""Empty figures, and figures as files; matplotlib is imported when it is needed."""

import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from slicekit import files


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def figure(columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure with panels side by side.

    Args:
        columns: how many panels.
        width, height: in inches.

    Returns:
        The figure, and an array of its (columns,) axes.

    Raises:
        ImportError: if matplotlib is missing.
    """
    if not available():
        raise ImportError("plots need matplotlib: pip install 'slicekit[plot]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made, made.subplots(1, columns, squeeze=False)[0]


def over_lengths(axis: Any) -> None:
    """Make lengths the horizontal axis, each doubling as wide as the last."""
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda length, _: f"{length:g}")
    axis.set_xlabel("length")
    axis.grid(alpha=0.3)


def write(made: Any, path: Path) -> None:
    """Write a figure as PNG; its folder is made if it is missing.

    Raises:
        OSError: if the file can't be written.
    """
    picture = io.BytesIO()
    made.savefig(picture, dpi=130, format="png")
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, picture.getvalue())
