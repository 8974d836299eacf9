"""Pictures of runs: what is in them, and what can't be drawn."""

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from slicekit import figures
from slicekit.training import Run, Score, plots


def record(step: int, kind: str, loss: float | None, accuracy: float) -> dict[str, Any]:
    return {"step": step, "kind": kind, "loss": loss, "accuracy": accuracy, "seconds": 1.0}


def run(name: str, *records: dict[str, Any]) -> Run:
    return Run(Path(name), {}, records, finished=True)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved, in their order."""
    found: list[Figure] = []
    save = Figure.savefig

    def keep(self: Figure, *arguments: Any, **options: Any) -> None:
        found.append(self)
        save(self, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return found


def points(line: Line2D) -> list[list[float]]:
    """What a line goes through."""
    return np.asarray(line.get_xydata()).tolist()


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def test_curves_hold_the_records_of_every_run(tmp_path: Path, drawn: list[Figure]) -> None:
    first = run(
        "first",
        record(10, "train", 2.0, 0.3),
        record(20, "train", 1.0, 0.6),
        record(20, "validation", 1.5, 0.5),
    )
    second = run("second", record(10, "train", None, 0.1), record(10, "validation", 3.0, 0.2))
    path = tmp_path / "new" / "curves.png"
    plots.plot_curves([first, second], path)
    assert min(size(path)) > 300
    loss, accuracy = drawn[0].axes
    told = [points(line) for line in accuracy.get_lines()]
    assert told == [[[10, 0.3], [20, 0.6]], [[20, 0.5]], [[10, 0.1]], [[10, 0.2]]]
    assert points(loss.get_lines()[1]) == [[20, 1.5]]
    legend = accuracy.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["first", "second"]
    assert loss.get_ylabel() and accuracy.get_ylabel() and loss.get_xlabel() == "step"
    colours = [line.get_color() for line in accuracy.get_lines()]
    assert colours[0] == colours[1] != colours[2] == colours[3]


def test_lengths_show_both_accuracies_and_what_was_trained_on(
    tmp_path: Path, drawn: list[Figure]
) -> None:
    scores = [Score(20, 32, 1.0, 0.9), Score(5120, 32, 0.7, 0.1)]
    path = tmp_path / "lengths.png"
    plots.plot_lengths({"mine": scores}, path, trained=(3, 40))
    assert min(size(path)) > 300
    (axis,) = drawn[0].axes
    overall, last = (points(line) for line in axis.get_lines())
    assert overall == [[20, 1.0], [5120, 0.7]] and last == [[20, 0.9], [5120, 0.1]]
    assert axis.get_xscale() == "log"
    legend = axis.get_legend()
    assert legend is not None
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown == ["trained on", "mine, all positions", "mine, last position"]


def test_the_curves_of_a_run_go_into_its_plots(tmp_path: Path) -> None:
    own = Run(tmp_path, {}, (record(1, "train", 1.0, 0.5),), finished=False)
    plots.curves_if_possible(own)
    assert (tmp_path / "plots" / "curves.png").is_file()


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run has a record"):
        plots.plot_curves([run("empty")], tmp_path / "a.png")
    with pytest.raises(ValueError, match="no score"):
        plots.plot_lengths({"mine": []}, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not figures.available()
    with pytest.raises(ImportError, match=r"pip install 'slicekit\[plot\]'"):
        plots.plot_curves([run("a", record(1, "train", 1.0, 0.5))], tmp_path / "a.png")
    plots.curves_if_possible(run("a", record(1, "train", 1.0, 0.5)))


def test_a_picture_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    with pytest.raises(OSError, match=r"could not write .*a\.png"):
        plots.plot_lengths({"mine": [Score(1, 1, 1.0, 1.0)]}, tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
