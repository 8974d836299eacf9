"""How good a model is at given lengths, however long."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.tasks.base import Batch, Task
from slicekit.tasks.functions import from_function
from slicekit.tasks.losses import CrossEntropy, Loss
from slicekit.training.rules import Whole
from slicekit.training.seeds import derived_seed
from slicekit.training.terms import Labels

PART = 4096
"""How many positions of a sequence are run at a time, where a model carries a state."""

POSITIONS = 2**17
"""About how many positions go through the model at once: logits of that many must fit in memory."""


@dataclass(frozen=True)
class Score:
    """Accuracy at one length.

    Args:
        length: of the sequences.
        sequences: how many there were.
        overall: over all supervised positions.
        last: at the last supervised position of each sequence.
    """

    length: int
    sequences: int
    overall: float
    last: float


@dataclass(frozen=True)
class Tally:
    """Counts over a batch, which add up to those of a larger one.

    Args:
        positions: how many are supervised.
        right: at how many of them the answer is right, which is that the largest logit is that of
            the target.
        loss: the sum of their losses, cross-entropies by default.
        ends: how many sequences have a supervised position.
        right_ends: how many of them are right at their last one.
        weight: the sum of the weights of the positions in the loss.
    """

    positions: int = 0
    right: int = 0
    loss: float = 0.0
    ends: int = 0
    right_ends: int = 0
    weight: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        """The counts over both."""
        return Tally(*(a + b for a, b in zip(self.as_tuple(), other.as_tuple(), strict=True)))

    def as_tuple(self) -> tuple[Any, ...]:
        """The counts, in the order of the arguments."""
        return self.positions, self.right, self.loss, self.ends, self.right_ends, self.weight


def evaluate(
    model: nn.Module,
    task: Task | Callable[..., Any],
    lengths: Sequence[int] | None = None,
    *,
    sequences: int = 32,
    seed: int = 0,
    part: int = PART,
) -> list[Score]:
    """The accuracy of a model at each of some lengths, or on all of a finite test set.

    A model whose forward takes `state` and `return_state` is run part after part, so that memory
    does not grow with the length.

    Args:
        model: called as model(inputs, lengths=lengths); gives logits (batch, length, outputs), or
            pooled ones (batch, outputs) of series.
        task: a task, or a function as `slicekit.tasks.from_function` takes it.
        lengths: at which to measure; None for a finite test set, all of which is then measured.
        sequences: how many of each length.
        seed: of the sequences; those of one length do not depend on the other lengths.
        part: how many positions are run at a time; the scores do not depend on it.

    Returns:
        A score for each length, in the order given; of a finite test set, one with its longest
        length. The model is left in the mode it was in.

    Raises:
        TypeError: if a length, sequences, seed or part is no integer.
        ValueError: if one of them is out of range, or the logits have the wrong shape.

    Example:
        >>> from slicekit import Dense, SLiCE, SequenceModel, tasks
        >>> model = SequenceModel(
        ...     vocabulary=3, outputs=3, width=4, mixer=lambda width: SLiCE(width, Dense(width))
        ... )
        >>> [score.length for score in evaluate(model, tasks.make("parity"), [40, 80])]
        [40, 80]
    """
    Whole(1)("sequences", sequences)
    Whole(0)("seed", seed)
    Whole(1)("part", part)
    task = as_task(task, model)
    test = task.batches("test")
    if test is not None:
        if lengths is not None:
            raise ValueError(f"lengths={list(lengths)}, but {task.name} has a test set of its own")
        return [_score_of_set(model, test, part, task.loss)]
    if lengths is None:
        raise ValueError(f"lengths is missing: {task.name} can be tested at any length")
    return [_score(model, task, length, sequences, seed, part) for length in lengths]


def _score_of_set(model: nn.Module, test: Iterable[Batch], part: int, loss: Loss) -> Score:
    total, longest, sequences = Tally(), 0, 0
    for batch in test:
        total += tally(model, batch, part, loss)
        longest = max(longest, int(batch.lengths.max()))
        sequences += len(batch.lengths)
    return _score_of(total, longest, sequences)


def _score(
    model: nn.Module, task: Task, length: int, sequences: int, seed: int, part: int
) -> Score:
    Whole(1)("lengths", length)
    generator = torch.Generator().manual_seed(derived_seed(seed, f"evaluate at {length}"))
    batch = task.sample(sequences, (length, length), generator, "test")
    counted = tally(model, batch, part, task.loss)
    if counted.positions == 0:
        raise ValueError(f"the task drew no supervised position at length {length}")
    return _score_of(counted, length, sequences)


def _score_of(tally: Tally, length: int, sequences: int) -> Score:
    overall, last = tally.right / tally.positions, tally.right_ends / tally.ends
    return Score(length, sequences, overall, last)


def tally(model: nn.Module, batch: Batch, part: int = PART, loss: Loss | None = None) -> Tally:
    """Count what a model gets right in a batch, in evaluation mode and without gradients.

    Args:
        model: as in `evaluate`.
        batch: on the CPU.
        part: as in `evaluate`.
        loss: the task's; None is cross-entropy.

    Returns:
        The counts.
    """
    plain = CrossEntropy() if loss is None else loss.plain()
    sequences, width = batch.inputs.shape[:2]
    size = part if carries_state(model) and not batch.is_series else width
    rows = max(1, POSITIONS // min(size, width))
    total = Tally()
    with torch.no_grad(), _evaluation_mode(model):
        for start in range(0, sequences, rows):
            total += _tally_rows(model, batch.part(slice(start, start + rows)), size, plain)
    return total


def _tally_rows(model: nn.Module, batch: Batch, size: int, loss: Loss) -> Tally:
    device, width = device_of(model), batch.inputs.shape[1]
    ends = (batch.supervised * torch.arange(1, batch.supervised.shape[1] + 1)).amax(1) - 1
    total, state = Tally(ends=int((ends >= 0).sum())), None
    for start in range(0, width, size):
        stop = min(start + size, width)
        piece = batch if size >= width else _cut(batch, start, stop)
        inputs, lengths = piece.inputs.to(device), piece.lengths.to(device)
        if size < width:
            logits, state = model(inputs, state=state, lengths=lengths, return_state=True)
        else:
            logits = model(inputs, lengths=lengths)
        total += _tally_piece(check_logits(logits, piece), piece, ends - start, loss)
    return total


def _cut(batch: Batch, start: int, stop: int) -> Batch:
    """Some positions of a batch."""
    inputs, targets, supervised = (
        x[:, start:stop] for x in (batch.inputs, batch.targets, batch.supervised)
    )
    lengths = (batch.lengths - start).clamp(0, stop - start)
    return Batch(inputs, targets, supervised, lengths, batch.weights)


def _tally_piece(logits: Tensor, piece: Batch, ends: Tensor, loss: Loss) -> Tally:
    labels = Labels.of(piece, logits.device)
    chosen = labels.select(logits)
    right = torch.zeros_like(piece.supervised)
    right[piece.supervised] = loss.right(chosen, labels.targets).cpu()
    count, weights = len(labels.targets), labels.weights
    here = ((ends >= 0) & (ends < piece.supervised.shape[1])).nonzero().squeeze(1)
    return Tally(
        positions=count,
        right=int(right.sum()),
        loss=float(loss.total(chosen, labels.targets, weights)),
        right_ends=int(right[here, ends[here]].sum()),
        weight=float(count if weights is None else weights.sum()),
    )


def check_logits(logits: Tensor, batch: Batch) -> Tensor:
    """A model's answer as (batch, positions, outputs): see `Batch.by_position`."""
    return batch.by_position("the model's output", logits)


def carries_state(model: nn.Module) -> bool:
    """Whether a model can be run part after part."""
    return {"state", "return_state"} <= inspect.signature(model.forward).parameters.keys()


def device_of(model: nn.Module) -> torch.device:
    """Where a model's first parameter is, the CPU if it has none."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def as_task(task: Task | Callable[..., Any], model: nn.Module) -> Task:
    """A task as it is, or a function as a task with the sizes of the model.

    Raises:
        TypeError: if it is neither, or the model does not tell its sizes.
    """
    if isinstance(task, Task):
        return task
    if isinstance(task, type) or not callable(task):
        raise TypeError(f"task={task!r}; expected a Task or a function that draws batches")
    vocabulary, outputs = getattr(model, "vocabulary", None), getattr(model, "outputs", None)
    if not (isinstance(vocabulary, int) and isinstance(outputs, int)):
        raise TypeError(
            f"task is a function, and {type(model).__name__} has no integers `vocabulary` and "
            "`outputs`; use slicekit.tasks.from_function(function, vocabulary=..., outputs=...)"
        )
    return from_function(task, vocabulary=vocabulary, outputs=outputs)


@contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
