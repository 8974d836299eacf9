"""What all figures share: looks that differ, bars on ticks, squares, labels that do not overlap."""

import math
from itertools import pairwise

import pytest

pytest.importorskip("matplotlib")

from slicekit import figures


def test_no_two_lines_and_no_two_bars_look_alike() -> None:
    for look in (figures.line, figures.bar):
        assert len({tuple(look(number).items()) for number in range(40)}) == 40


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_bars_are_centred_on_their_tick_and_do_not_overlap(count: int) -> None:
    places = [figures.beside(number, count) for number in range(count)]
    assert sum(shift for shift, _ in places) == pytest.approx(0)
    edges = [(shift - width / 2, shift + width / 2) for shift, width in places]
    assert all(a[1] <= b[0] for a, b in pairwise(edges))
    assert edges[0][0] > -0.5 and edges[-1][1] < 0.5


@pytest.mark.parametrize("ends", [(0.3, 4.0), (0.8, 1.2), (1e-6, 1e3), (2.0, 600.0)])
def test_labels_of_a_logarithmic_axis_do_not_overlap(ends: tuple[float, float]) -> None:
    made, (axis,) = figures.figure(1, 6, 4)
    axis.plot([1, 2], ends)
    figures.logarithmic(axis, "y")
    made.canvas.draw()
    labels = [x for x in axis.get_yticklabels(which="both") if x.get_text()]
    inside = [x.get_window_extent() for x in labels]
    shown = sorted((x.y0, x.y1) for x in inside if x.y0 > 0 and x.y1 < made.bbox.height)
    assert len(shown) >= 2
    assert all(a[1] <= b[0] for a, b in pairwise(shown))


def test_there_is_no_legend_of_nothing_and_a_long_one_stands_outside() -> None:
    made, (axis,) = figures.figure(1, 6, 4)
    figures.legend(axis)
    assert axis.get_legend() is None
    for number in range(figures.MANY + 1):
        axis.plot([1, 2], [number, number], label=str(number))
    figures.legend(axis)
    made.canvas.draw()
    legend = axis.get_legend()
    assert legend is not None
    assert legend.get_window_extent().x0 >= axis.get_window_extent().x1


@pytest.mark.parametrize("ends", [(20, 40), (100, 130), (3, 9), (20, 5120)])
def test_lengths_are_labelled_by_whole_numbers(ends: tuple[int, int]) -> None:
    made, (axis,) = figures.figure(1, 5, 4)
    axis.plot(ends, [0.1, 0.9])
    figures.over_lengths(axis)
    made.canvas.draw()
    labels = [label.get_text() for label in axis.get_xticklabels()]
    assert len(labels) > 2 and all(float(x).is_integer() for x in labels if x)


def test_squares_say_their_words_and_are_white_where_nothing_is_known() -> None:
    made, (axis,) = figures.figure(1, 5, 3)
    values = [[0.0, 100.0], [math.nan, 60.0]]
    words = [["0", "100"], ["", "60 (20)"]]
    figures.squares(axis, ["a", "b"], ["one of two words", "two"], values, words, low=0, high=100)
    made.canvas.draw()
    assert [text.get_text() for text in axis.texts] == ["0", "100", "", "60 (20)"]
    assert [text.get_color() for text in axis.texts] == ["black", "white", "black", "white"]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["a", "b"]
    first, second = (label.get_window_extent() for label in axis.get_xticklabels())
    assert first.x1 <= second.x0
    (image,) = axis.get_images()
    white = image.to_rgba(image.get_array())[1, 0]
    assert white[3] == 0, "transparent"
