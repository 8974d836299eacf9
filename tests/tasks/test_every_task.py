"""What every task promises: targets as its oracle says, exact padding, and no hidden randomness."""

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slicekit.tasks import Batch, Task
from tests.tasks.every import TASKS, quick, same, seeded

EVERY = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def agrees_with_oracle(task: Task, batch: Batch) -> bool:
    """Position by position: targets, what is supervised, and zeros everywhere else."""
    width = batch.inputs.shape[1]
    for row, length in enumerate(batch.lengths.tolist()):
        wanted = task.oracle(batch.inputs[row, :length].tolist()) + [None] * (width - length)
        supervised = [target is not None for target in wanted]
        targets = [0 if target is None else target for target in wanted]
        if batch.supervised[row].tolist() != supervised or batch.targets[row].tolist() != targets:
            return False
    return True


@EVERY
@quick
@given(seed=st.integers(0, 2**32 - 1), low=st.integers(2, 20), more=st.integers(0, 30))
def test_a_batch_is_what_the_oracle_says(task: Task, seed: int, low: int, more: int) -> None:
    batch = task.sample(4, (low, low + more), seeded(seed))
    assert agrees_with_oracle(task, batch)


@EVERY
@quick
@given(seed=st.integers(0, 2**32 - 1), low=st.integers(2, 20), more=st.integers(0, 10))
def test_lengths_are_in_range_and_the_rest_is_padding(
    task: Task, seed: int, low: int, more: int
) -> None:
    high = low + more
    batch = task.sample(5, (low, high), seeded(seed))
    raised = high + high % 2 if "modul" in task.name else high
    assert batch.inputs.shape == (5, raised)
    assert ((low <= batch.lengths) & (batch.lengths <= raised)).all()
    past_end = torch.arange(raised) >= batch.lengths[:, None]
    for padded in (batch.inputs, batch.targets, batch.supervised):
        assert (padded[past_end] == 0).all()
    assert batch.supervised.any(dim=1).all()


@EVERY
def test_tokens_and_classes_are_in_range(task: Task) -> None:
    batch = task.sample(200, (2, 30), seeded(0))
    assert task.vocabulary is not None
    assert batch.inputs.min() >= 0 and batch.inputs.max() < task.vocabulary
    assert batch.targets.min() >= 0 and batch.targets.max() < task.outputs


@EVERY
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_seed_gives_the_same_batches_again(task: Task, split: str) -> None:
    one, other, another = seeded(3), seeded(3), seeded(4)
    first = task.sample(16, (5, 30), one, split)
    assert same(first, task.sample(16, (5, 30), other, split))
    following = task.sample(16, (5, 30), one, split)
    assert same(following, task.sample(16, (5, 30), other, split))
    assert not same(first, following)
    assert not same(first, task.sample(16, (5, 30), another, split))


@EVERY
def test_sampling_leaves_the_global_randomness_alone(task: Task) -> None:
    before = torch.get_rng_state()
    task.sample(8, task.train_lengths, seeded(0))
    task.helper(80, seeded(0))
    assert torch.equal(torch.get_rng_state(), before)


@EVERY
def test_most_tasks_have_no_extra_batch(task: Task) -> None:
    assert task.helper(256, seeded(0)) is None


@EVERY
def test_words_can_be_very_long(task: Task) -> None:
    batch = task.sample(2, (20_000, 20_000), seeded(0))
    assert batch.inputs.shape == (2, 20_000)
    first = batch.part(slice(0, 1))
    assert agrees_with_oracle(task, first)


@EVERY
def test_a_batch_costs_milliseconds(task: Task) -> None:
    """The bound is loose, for busy machines: the time of one batch is about half a millisecond."""
    task.sample(256, (3, 40), seeded(0))
    seconds = []
    for seed in range(5):
        start = time.perf_counter()
        task.sample(256, (3, 40), seeded(seed))
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.02


@EVERY
@pytest.mark.parametrize("lengths", [(5, 3), (0, 4), (1.5, 4), (3,), (3, 4, 5), 7, "ab"])
def test_a_range_of_lengths_that_is_none_is_named(task: Task, lengths: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"^lengths=.*expected \(low, high\) with [12] <= low"):
        task.sample(2, lengths, seeded(0))


@EVERY
def test_a_split_that_is_none_is_named(task: Task) -> None:
    with pytest.raises(ValueError, match=r"^split='dev'; expected one of train, validation, test$"):
        task.sample(2, (3, 4), seeded(0), "dev")


@EVERY
@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_of_nothing_is_named(task: Task, batch: int) -> None:
    with pytest.raises(ValueError, match=rf"^batch={batch}; expected at least 1$"):
        task.sample(batch, (3, 4), seeded(0))


@EVERY
def test_a_batch_that_is_not_whole_is_named(task: Task) -> None:
    with pytest.raises(TypeError, match=r"^batch=2\.5 is a float; expected a whole number$"):
        task.sample(2.5, (3, 4), seeded(0))  # pyright: ignore[reportArgumentType]


@EVERY
def test_lengths_are_uniform_on_the_range(task: Task) -> None:
    lengths = task.sample(8000, (3, 10), seeded(0)).lengths
    values, counts = lengths.unique(return_counts=True)
    assert values.tolist() == ([4, 6, 8, 10] if "modul" in task.name else list(range(3, 11)))
    shares = counts / 8000 * len(values)
    assert ((shares > 0.85) & (shares < 1.15)).all()
