"""What batches are made of, the metric, and a task of one's own as a class."""

from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit.tasks import Batch, Parity, Task, accuracy, draw_lengths
from tests.tasks.every import same, seeded


def a_batch() -> Batch:
    return Parity().sample(7, (3, 9), seeded(0))


def test_parts_of_a_batch_make_up_the_whole() -> None:
    whole = a_batch()
    parts = [whole.part(slice(start, start + 3)) for start in (0, 3, 6)]
    joined = [
        torch.cat([getattr(part, name) for part in parts])
        for name in ("inputs", "targets", "supervised", "lengths")
    ]
    assert [len(part.inputs) for part in parts] == [3, 3, 1]
    assert same(Batch(*joined), whole)


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("inputs", torch.zeros(7).long(), ValueError, r"inputs has shape \(7,\); expected \(batch"),
        (
            "inputs",
            torch.zeros(7, 9),
            TypeError,
            "inputs has dtype torch.float32; expected",
        ),
        ("targets", torch.zeros(7, 8).long(), ValueError, r"targets has shape \(7, 8\); expected"),
        ("targets", torch.zeros(7, 9).int(), TypeError, "targets has dtype torch.int32; expected"),
        ("supervised", torch.ones(7, 9).long(), TypeError, "supervised has dtype torch.int64"),
        ("lengths", torch.ones(6).long(), ValueError, r"lengths has shape \(6,\); expected \(7,\)"),
        ("lengths", [9] * 7, TypeError, "lengths is a list; expected a torch.Tensor"),
    ],
)
def test_tensors_that_make_no_batch_are_named(
    name: str, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{message}"):
        Batch(**(vars(a_batch()) | {name: value}))


def test_accuracy_counts_supervised_positions_alone() -> None:
    logits = torch.randn(5, 6, 4)
    inputs = torch.zeros(5, 6).long()
    targets = torch.randint(4, (5, 6))
    supervised = torch.rand(5, 6) < 0.5
    batch = Batch(inputs, targets, supervised, torch.full((5,), 6))
    right = wrong = 0
    for row in range(5):
        for position in range(6):
            if supervised[row, position]:
                scores = logits[row, position].tolist()
                hit = scores.index(max(scores)) == targets[row, position]
                right, wrong = right + hit, wrong + (not hit)
    assert accuracy(logits, batch).item() == pytest.approx(right / (right + wrong))


def test_accuracy_of_the_targets_themselves_is_one() -> None:
    batch = a_batch()
    logits = torch.nn.functional.one_hot(batch.targets, 3).to(torch.bfloat16)
    assert accuracy(logits, batch) == 1
    assert accuracy(-logits, batch) == 0


def test_accuracy_of_nothing_is_not_a_number() -> None:
    tokens = torch.zeros(1, 2).long()
    nothing = Batch(tokens, tokens, torch.zeros(1, 2).bool(), torch.tensor([2]))
    assert accuracy(torch.zeros(1, 2, 3), nothing).isnan()


def test_logits_of_another_shape_are_named() -> None:
    with pytest.raises(ValueError, match=r"^logits has shape \(7, 8, 3\); expected \(7, 9, out"):
        accuracy(torch.zeros(7, 8, 3), a_batch())


class Constant(Task):
    name, vocabulary, outputs = "constant", 2, 2
    shortest = 4

    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        generator: torch.Generator,
        split: str = "train",
    ) -> Batch:
        drawn: Tensor = draw_lengths(batch, lengths, generator, self.shortest)
        tokens = torch.ones(batch, lengths[1], dtype=torch.int64)
        return Batch.last_position(tokens, torch.ones_like(drawn), drawn)


def test_a_task_of_ones_own_is_one_class() -> None:
    task = Constant(train_lengths=(5, 6))
    assert task.train_lengths == (5, 6)
    assert task.validation_lengths == task.test_lengths == (40, 256)
    assert task.sample(3, (5, 6), seeded(0)).supervised.sum() == 3
    assert task.helper(100, seeded(0)) is None
    with pytest.raises(NotImplementedError, match=r"^the task constant has no oracle$"):
        task.oracle([1, 1])


@pytest.mark.parametrize("name", ["train_lengths", "validation_lengths", "test_lengths"])
def test_each_range_of_a_task_is_checked_against_its_shortest_word(name: str) -> None:
    for lengths in ((3, 10), (6, 5)):
        with pytest.raises(ValueError, match=rf"^{name}=.* with 4 <= low <= high$"):
            Constant(**{name: lengths})


def test_ranges_are_independent_of_each_other() -> None:
    task = Constant(train_lengths=(4, 100), validation_lengths=(5, 5), test_lengths=(4, 9))
    assert (task.train_lengths, task.validation_lengths) == ((4, 100), (5, 5))
    assert task.test_lengths == (4, 9)
