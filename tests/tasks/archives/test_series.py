"""A set of series keeps its cases apart, and an archive pools its two."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from slicekit.tasks.archives import Archive, Series

NAN = float("nan")


def made(*cases: list[float], answers: tuple[int, ...] = ()) -> Series:
    """Series of one channel."""
    labels = answers or (0,) * len(cases)
    return Series.padded([np.array(x)[:, None] for x in cases], labels, ("a", "b"), name="Walks")


def test_padding_is_zero_and_gaps_are_kept() -> None:
    series = made([1, NAN, 3], [4])
    assert series.values[1, 1:].tolist() == [[0], [0]] and series.values[0, 1].isnan().all()
    assert series.valid.tolist() == [[True] * 3, [True, False, False]]


def test_selection_keeps_answers_with_their_cases() -> None:
    series = made([1, 2], [3], [5, 6], answers=(0, 1, 1))
    series = replace(series, times=torch.tensor([[0.0, 1], [2, 0], [3, 4]], dtype=torch.float64))
    chosen = series.select(torch.tensor([2, 0]))
    assert chosen.values[:, 0, 0].tolist() == [5, 1] and chosen.answers.tolist() == [1, 0]
    assert chosen.lengths.tolist() == [2, 2] and len(chosen) == 2 and chosen.name == "Walks"
    assert chosen.times is not None and chosen.times.tolist() == [[3, 4], [0, 1]]


def test_pooling_removes_copies_and_keeps_the_first() -> None:
    train = made([1, 2], [1, NAN, 3], [1, 2], answers=(0, 1, 1))
    test = made([1, NAN, 3], [1], [-0.0, 2], [0.0, 2], answers=(0, 0, 0, 1))
    pooled = Archive("Walks", train, test).pooled()
    # [1] differs from [1, 2] in its length alone, and [-0, 2] equals [0, 2].
    assert pooled.lengths.tolist() == [2, 3, 1, 2]
    assert pooled.answers.tolist() == [0, 1, 0, 0]
    assert pooled.values[:, 0, 0].tolist() == [1, 1, 1, 0]


def test_pooling_pads_to_the_longer_split() -> None:
    for splits in ((made([1]), made([1, 2, 3])), (made([1, 2, 3]), made([1]))):
        pooled = Archive("Walks", *splits).pooled()
        assert pooled.values.shape == (2, 3, 1)
        assert not pooled.values[~pooled.valid].any()


def test_series_at_other_times_are_no_copies() -> None:
    series = made([1, 2], [1, 2])
    times = torch.tensor([[0.0, 1], [0, 2]], dtype=torch.float64)
    timed = replace(series, times=times)
    assert len(Archive("Walks", timed, timed).pooled()) == 2
    assert len(Archive("Walks", series, series).pooled()) == 1


def test_splits_of_an_archive_must_agree() -> None:
    one = made([1, 2])
    with pytest.raises(ValueError, match=r"classes are .* in train, but .* in test of Walks"):
        Archive("Walks", one, replace(one, classes=("a", "c")))
    with pytest.raises(ValueError, match="channels are 1 in train, but 2 in test"):
        Archive("Walks", one, replace(one, values=torch.zeros(1, 2, 2)))


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"values": torch.zeros(2, 3)}, ValueError),
        ({"values": torch.zeros(2, 3, 1).double()}, TypeError),
        ({"lengths": torch.tensor([3, 4])}, ValueError),
        ({"lengths": torch.tensor([3, 0])}, ValueError),
        ({"answers": torch.tensor([0, 2])}, ValueError),
        ({"answers": torch.zeros(2)}, TypeError),
        ({"answers": torch.zeros(3).long()}, ValueError),
        ({"times": torch.zeros(2, 4)}, ValueError),
        ({"times": torch.zeros(2, 3)}, TypeError),
        ({"classes": ()}, TypeError),
    ],
)
def test_parts_that_do_not_fit_are_refused(other: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        replace(made([1, 2, 3], [1, 2, 3]), **other)


def test_no_series_at_all() -> None:
    with pytest.raises(ValueError, match="cases is empty"):
        Series.padded([], [])
