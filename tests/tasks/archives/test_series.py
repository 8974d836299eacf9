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
    return Series.of([np.array(x)[:, None] for x in cases], labels, ("a", "b"), name="Walks")


def test_padding_is_zero_and_gaps_are_kept() -> None:
    series = made([1, NAN, 3], [4])
    assert series.values[1, 1:].tolist() == [[0], [0]] and series.values[0, 1].isnan().all()
    assert series.positions.tolist() == [0, 1, 2, 0] and series.case(-1).tolist() == [[4]]


def test_selection_keeps_answers_with_their_cases() -> None:
    series = made([1, 2], [3], [5, 6], answers=(0, 1, 1))
    series = replace(series, times=torch.tensor([0.0, 1, 2, 3, 4], dtype=torch.float64))
    chosen = series.select(torch.tensor([2, 0]))
    assert chosen.values[:, 0, 0].tolist() == [5, 1] and chosen.answers.tolist() == [1, 0]
    assert chosen.lengths.tolist() == [2, 2] and len(chosen) == 2 and chosen.name == "Walks"
    assert chosen.times is not None and chosen.times.tolist() == [3, 4, 0, 1]


def test_pooling_removes_copies_and_keeps_the_first() -> None:
    train = made([1, 2], [1, NAN, 3], [1, 2], answers=(0, 1, 1))
    test = made([1, NAN, 3], [1], [-0.0, 2], [0.0, 2], answers=(0, 0, 0, 1))
    pooled = Archive("Walks", train, test).pooled()
    # [1] differs from [1, 2] in its length alone, and [-0, 2] equals [0, 2].
    assert pooled.lengths.tolist() == [2, 3, 1, 2]
    assert pooled.answers.tolist() == [0, 1, 0, 0]
    assert pooled.values[:, 0, 0].tolist() == [1, 1, 1, 0]


def test_splits_of_other_lengths_are_pooled_as_they_are() -> None:
    for splits in ((made([1]), made([1, 2, 3])), (made([1, 2, 3]), made([1]))):
        pooled = Archive("Walks", *splits).pooled()
        assert [len(x) for x in pooled.cases()] == [len(split.observations) for split in splits]
        assert pooled.values.shape == (2, 3, 1) and pooled.observations.shape == (4, 1)


def test_series_at_other_times_are_no_copies() -> None:
    series = made([1, 2], [1, 2])
    times = torch.tensor([0.0, 1, 0, 2], dtype=torch.float64)
    timed = replace(series, times=times)
    assert len(Archive("Walks", timed, timed).pooled()) == 2
    assert len(Archive("Walks", series, series).pooled()) == 1


def test_splits_of_an_archive_must_agree() -> None:
    one = made([1, 2])
    with pytest.raises(ValueError, match=r"classes are .* in train, but .* in test of Walks"):
        Archive("Walks", one, replace(one, classes=("a", "c")))
    with pytest.raises(ValueError, match="channels are 1 in train, but 2 in test"):
        Archive("Walks", one, replace(one, observations=torch.zeros(2, 2)))


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"observations": torch.zeros(2, 3, 1)}, ValueError),
        ({"observations": torch.zeros(5, 1)}, ValueError),
        ({"observations": torch.zeros(6, 1).double()}, TypeError),
        ({"lengths": torch.tensor([3, 4])}, ValueError),
        ({"lengths": torch.tensor([6, 0])}, ValueError),
        ({"answers": torch.tensor([0, 2])}, ValueError),
        ({"answers": torch.zeros(2)}, TypeError),
        ({"answers": torch.zeros(3).long()}, ValueError),
        ({"times": torch.zeros(2, 3)}, ValueError),
        ({"times": torch.zeros(6)}, TypeError),
        ({"classes": ()}, TypeError),
    ],
)
def test_parts_that_do_not_fit_are_refused(other: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        replace(made([1, 2, 3], [1, 2, 3]), **other)


def test_no_series_at_all() -> None:
    with pytest.raises(ValueError, match="cases is empty"):
        Series.of([], [])


def test_cases_of_other_shapes_are_named() -> None:
    with pytest.raises(ValueError, match=r"^cases\[1\] has shape \(2, 1\); expected \(2, 3\)"):
        Series.of([np.zeros((2, 3)), np.zeros((2, 1))], [0.0, 0.0])


def test_an_array_of_series_loses_its_padding_and_gets_it_back() -> None:
    lengths = torch.tensor([3, 1, 2])
    inside = torch.arange(3) < lengths[:, None]
    values, times = torch.randn(3, 3, 2), torch.arange(9.0, dtype=torch.float64).view(3, 3)
    series = Series.from_padded(values, lengths, torch.zeros(3), times=times)
    assert series.times is not None and series.times.tolist() == [0, 1, 2, 3, 6, 7]
    assert torch.equal(series.values, values * inside[..., None])
    assert torch.equal(series.padded(series.times), times * inside)
    whole = Series.from_padded(values, torch.full((3,), 3), torch.zeros(3))
    assert torch.equal(whole.values, values) and whole.values.data_ptr() == values.data_ptr()
    with pytest.raises(ValueError, match=r"^lengths holds 4 at batch 0"):
        Series.from_padded(values, torch.tensor([4, 1, 1]), torch.zeros(3))


def test_padding_that_would_be_enormous_is_refused_with_its_cost() -> None:
    lengths = torch.tensor([20_000, *[1] * 2_000])
    series = Series(torch.ones(22_000, 1), lengths, torch.zeros(2_001))
    message = r"^2001 series of up to 20000 observations, padded, are 40020000 values \(0\.1 GiB\)"
    with pytest.raises(ValueError, match=message):
        _ = series.values
    assert series.select([0, 5]).values.shape == (2, 20_000, 1)
