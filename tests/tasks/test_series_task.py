"""Tasks of series: finite sets, drawn without repetition, and taken whole to validate and test."""

from dataclasses import replace

import pytest
import torch

from slicekit.paths import Causal
from slicekit.tasks import Batch, SeriesTask, accuracy
from slicekit.tasks.archives import Series
from tests.tasks.every import same, seeded


def series(
    cases: int, start: int = 0, lengths: tuple[int, ...] = (7,), channels: int = 2
) -> Series:
    """Cases whose first value tells which they are."""
    long = torch.tensor([lengths[n % len(lengths)] for n in range(cases)])
    values = torch.arange(start, start + cases).float()[:, None, None].expand(-1, 7, channels)
    inside = torch.arange(7) < long[:, None]
    answers = torch.arange(cases) % 3
    return Series.from_padded(
        values * inside[..., None], long, answers, ("a", "b", "c"), None, "numbers"
    )


def task(lengths: tuple[int, ...] = (7,)) -> SeriesTask:
    return SeriesTask(series(12, 1, lengths), series(5, 101, lengths), series(6, 201, lengths))


def test_sizes_and_lengths_are_those_of_the_series() -> None:
    made = task((4, 7))
    assert (made.channels, made.outputs, made.vocabulary) == (2, 3, None)
    assert (made.name, made.family, made.classes) == ("numbers", "series", ("a", "b", "c"))
    assert made.train_lengths == made.validation_lengths == made.test_lengths == (4, 7)


def test_a_batch_holds_different_cases_with_their_answers() -> None:
    made, whole = task(), series(12, 1)
    batch = made.sample(8, made.train_lengths, seeded(0))
    cases = batch.inputs[:, 0, 0].long() - 1
    assert len(cases.unique()) == 8
    assert torch.equal(batch.targets.squeeze(1), whole.answers[cases])
    assert batch.supervised.all() and batch.supervised.shape == (8, 1)


def test_a_batch_larger_than_the_set_is_the_set() -> None:
    made = task()
    batch = made.sample(100, made.train_lengths, seeded(0))
    assert sorted(batch.inputs[:, 0, 0].tolist()) == list(range(1, 13))


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_the_state_of_the_generator_alone_settles_a_batch(split: str) -> None:
    made, one, other = task(), seeded(3), seeded(3)
    before = torch.get_rng_state()
    first = made.sample(4, (7, 7), one, split)
    assert same(first, made.sample(4, (7, 7), other, split))
    assert not same(first, made.sample(4, (7, 7), one, split))
    assert torch.equal(torch.get_rng_state(), before)


def test_all_cases_are_drawn_equally_often() -> None:
    made, generator = task(), seeded(0)
    drawn = [made.sample(3, (7, 7), generator).inputs[:, 0, 0] for _ in range(2000)]
    counts = torch.cat(drawn).long().bincount()[1:]
    assert counts.shape == (12,) and (counts / 500 - 1).abs().max() < 0.15


def test_splits_are_taken_whole_and_apart() -> None:
    made = task()
    for split, start, cases in (("train", 1, 12), ("validation", 101, 5), ("test", 201, 6)):
        whole = made.whole(split)
        assert whole.inputs[:, 0, 0].tolist() == list(range(start, start + cases))
    with pytest.raises(ValueError, match=r"^split='dev'; expected one of"):
        made.whole("dev")


def test_a_range_of_lengths_leaves_others_out() -> None:
    made = task((4, 5, 7))
    batch = made.sample(100, (4, 5), seeded(0))
    assert set(batch.lengths.tolist()) == {4, 5} and batch.inputs.shape == (8, 5, 2)
    message = r"lengths=\(8, 9\), but the train series of numbers have 4 to 7 observations"
    with pytest.raises(ValueError, match=message):
        made.sample(2, (8, 9), seeded(0))


def test_batches_of_a_split_hold_every_case_once_and_little_padding() -> None:
    made = task((1, 2, 7, 1))
    found = list(made.batches("train"))
    assert [tuple(batch.inputs.shape[:2]) for batch in found] == [(3, 7), (9, 2)]
    cases = torch.cat([batch.inputs[:, 0, 0] for batch in found]).long() - 1
    assert cases.sort().values.tolist() == list(range(12))
    whole = made.whole("train")
    for batch, rows in zip(found, cases.split([3, 9]), strict=True):
        assert torch.equal(batch.targets, whole.targets[rows])
        assert torch.equal(batch.lengths, whole.lengths[rows])
        assert torch.equal(batch.inputs, whole.inputs[rows, : batch.inputs.shape[1]])
    (alone,) = task().batches("test")
    assert same(alone, task().whole("test"))


def test_a_batch_is_padded_to_the_longest_of_its_cases() -> None:
    made = task((4, 7))
    for seed in range(9):
        batch = made.sample(1, made.train_lengths, seeded(seed))
        assert batch.inputs.shape[1] == int(batch.lengths.max())


def test_a_policy_that_adds_channels_adds_them_everywhere() -> None:
    own = series(3, 1)
    gap = replace(own, observations=own.observations.clone())
    gap.observations[4, 1] = float("nan")
    made = SeriesTask(gap, own, own, filling=Causal())
    assert made.channels == 4
    assert made.whole("train").inputs[0, :, 3].tolist() == [1, 2, 3, 4, 4, 5, 6]
    assert made.whole("test").inputs[0, :, 3].tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_gaps_are_filled_with_what_was_seen_last() -> None:
    nan = float("nan")
    values = torch.tensor([[[1.0, nan], [nan, 2.0], [3.0, nan]]])
    own = Series.from_padded(values, torch.tensor([3]), torch.tensor([0]), ("only",), None, "gaps")
    found = SeriesTask(own, own, own).whole("train").inputs
    assert found.tolist() == [[[1, 0], [1, 2], [3, 2]]]


def test_sets_that_do_not_fit_together_are_named() -> None:
    own = series(3)
    with pytest.raises(ValueError, match=r"^validation has channels=4, but train has 2"):
        SeriesTask(own, series(3, channels=4), own)
    with pytest.raises(ValueError, match=r"^test has classes="):
        SeriesTask(own, own, replace(own, classes=("a", "b", "d")))
    with pytest.raises(ValueError, match=r"^test holds no series"):
        SeriesTask(own, own, own.select([]))
    numbers = replace(own, answers=torch.zeros(3), classes=())
    with pytest.raises(ValueError, match=r"^train has numbers for answers.*SliceRegressor"):
        SeriesTask(numbers, numbers, numbers)


def test_a_batch_of_series_is_checked() -> None:
    batch = task().whole("test")
    assert batch.is_series and batch.part(slice(1, 3)).inputs.shape == (2, 7, 2)
    with pytest.raises(TypeError, match=r"^inputs has dtype torch.float64; expected torch.float32"):
        replace(batch, inputs=batch.inputs.double())
    with pytest.raises(ValueError, match=r"^targets has shape \(6, 7\); expected \(6, 1\)"):
        replace(batch, targets=torch.zeros(6, 7).long())
    with pytest.raises(ValueError, match=r"^answers has shape \(5,\); expected \(6,\)"):
        Batch.series(batch.inputs, torch.zeros(5).long(), batch.lengths)


def test_pooled_logits_have_an_accuracy() -> None:
    batch = task().whole("test")
    logits = torch.nn.functional.one_hot(batch.targets.squeeze(1), 3).float()
    assert accuracy(logits, batch) == 1
    logits[0] = torch.tensor([0.0, 1.0, 2.0])
    assert accuracy(logits, batch).item() == pytest.approx(5 / 6)
    with pytest.raises(ValueError, match=r"^logits has shape \(6, 7, 3\); expected \(6, outputs\)"):
        accuracy(torch.zeros(6, 7, 3), batch)
