"""A task from one function that draws batches."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from slicekit.checks import check_lengths, check_range, check_shape, check_whole, first_true
from slicekit.paths import valid_mask
from slicekit.tasks.base import Batch, Task
from slicekit.tasks.ranges import check_range_of_lengths, check_split

_PLACES = ("sequence", "position")


def from_function(
    function: Callable[[int, tuple[int, int], torch.Generator], Any],
    *,
    vocabulary: int,
    outputs: int,
    name: str | None = None,
    train_lengths: tuple[int, int] = (3, 40),
    validation_lengths: tuple[int, int] = (40, 256),
    test_lengths: tuple[int, int] = (40, 256),
    oracle: Callable[[Sequence[int]], list[int | None]] | None = None,
) -> Task:
    """A task whose batches a function draws.

    Args:
        function: called as function(batch, lengths, generator) with the number of sequences, the
            inclusive range of their lengths and the source of all randomness. It returns a `Batch`,
            (inputs, targets), (inputs, targets, supervised) or (inputs, targets, supervised,
            lengths): integer tensors (batch, length), a boolean one, and integers (batch,). Without
            lengths, sequences are as long as the batch is wide; without supervised, every token is
            labelled.
        vocabulary: tokens are 0..vocabulary-1.
        outputs: classes are 0..outputs-1.
        name: the function's own name by default.
        train_lengths: inclusive range to train on.
        validation_lengths: inclusive range to choose a model on.
        test_lengths: inclusive range to report.
        oracle: optional, the targets of one sequence by definition, see `Task.oracle`.

    Returns:
        A task. What the function returns is checked at every call, its lengths too, and an error
        says what is wrong. What stands past the end of a sequence, or as a target where none is
        wanted, is replaced by 0.

    Raises:
        TypeError: if the function can't be called.
        ValueError: if a size or a range is out of bounds.

    Example:
        The largest token so far:

        >>> def running_maximum(batch, lengths, generator):
        ...     inputs = torch.randint(10, (batch, lengths[1]), generator=generator)
        ...     return inputs, inputs.cummax(1).values
        >>> task = from_function(running_maximum, vocabulary=10, outputs=10)
        >>> task.name, task.sample(2, (5, 5), torch.Generator()).targets.shape
        ('running_maximum', torch.Size([2, 5]))
    """
    if not callable(function):
        raise TypeError(
            f"function={function!r} is a {type(function).__name__}; expected a function"
        )
    return _FunctionTask(
        function,
        oracle,
        name or getattr(function, "__name__", type(function).__name__),
        (vocabulary, outputs),
        (train_lengths, validation_lengths, test_lengths),
    )


class _FunctionTask(Task):
    """A task that asks a function for its batches, and checks them."""

    def __init__(
        self,
        function: Callable[[int, tuple[int, int], torch.Generator], Any],
        oracle: Callable[[Sequence[int]], list[int | None]] | None,
        name: str,
        sizes: tuple[int, int],
        ranges: tuple[tuple[int, int], tuple[int, int], tuple[int, int]],
    ) -> None:
        train, validation, test = ranges
        super().__init__(train_lengths=train, validation_lengths=validation, test_lengths=test)
        self.vocabulary, self.outputs = sizes
        check_whole("vocabulary", self.vocabulary)
        check_whole("outputs", self.outputs)
        self.name, self._function, self._oracle = name, function, oracle

    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        generator: torch.Generator,
        split: str = "train",
    ) -> Batch:
        """What the function returns, checked; it is not told the split."""
        check_split(split)
        check_whole("batch", batch)
        lengths = check_range_of_lengths("lengths", lengths, self.shortest)
        returned = self._function(batch, lengths, generator)
        assert self.vocabulary is not None
        try:
            drawn = _as_batch(returned, batch)
            _check_classes(drawn, self.vocabulary, self.outputs)
            _check_lengths(drawn, lengths)
        except (TypeError, ValueError) as error:
            raise type(error)(f"what the function {self.name} returned: {error}") from error
        return drawn

    def oracle(self, tokens: Sequence[int]) -> list[int | None]:
        """What the given oracle says."""
        return super().oracle(tokens) if self._oracle is None else self._oracle(tokens)


def _as_batch(returned: Any, batch: int) -> Batch:
    if isinstance(returned, Batch):
        returned = (returned.inputs, returned.targets, returned.supervised, returned.lengths)
    if not isinstance(returned, tuple | list) or not 2 <= len(returned) <= 4:
        size = f" of {len(returned)}" if isinstance(returned, tuple | list) else ""
        raise TypeError(
            f"it is a {type(returned).__name__}{size}; expected a Batch, (inputs, targets), "
            "(inputs, targets, supervised) or (inputs, targets, supervised, lengths)"
        )
    inputs, targets, *others = returned
    supervised, lengths = (*others, None, None)[:2]
    check_shape("inputs", inputs, (batch, "length"))
    check_shape("targets", targets, tuple(inputs.shape))
    _check_integers("inputs", inputs)
    _check_integers("targets", targets)
    width = inputs.shape[1]
    if width == 0:
        raise ValueError(f"inputs has shape {tuple(inputs.shape)}; expected at least one position")
    lengths = check_lengths([width] * batch if lengths is None else lengths, batch, width)
    valid = valid_mask(lengths, width)
    if supervised is None:
        supervised = valid
    check_shape("supervised", supervised, tuple(inputs.shape))
    if supervised.dtype != torch.bool:
        raise TypeError(f"supervised has dtype {supervised.dtype}; expected torch.bool")
    return Batch(
        inputs.long().masked_fill(~valid, 0),
        targets.long().masked_fill(~supervised, 0),
        supervised,
        lengths,
    )


def _check_lengths(batch: Batch, lengths: tuple[int, int]) -> None:
    """Raise where a sequence has none of the lengths that were asked for.

    An evaluation would else report as its accuracy at one length what it is at another.
    """
    low, high = lengths
    outside = (batch.lengths < low) | (batch.lengths > high)
    if outside.any():
        (sequence,) = first_true(outside)
        raise ValueError(
            f"sequence {sequence} has length {int(batch.lengths[sequence])}; expected one of "
            f"{low} to {high}, as the argument lengths={lengths} asks"
        )


def _check_integers(name: str, tensor: Tensor) -> None:
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise TypeError(f"{name} has dtype {tensor.dtype}; expected integers")


def _check_classes(batch: Batch, vocabulary: int, outputs: int) -> None:
    """Raise where a token or a class does not exist, or a label stands where no token is."""
    width = batch.inputs.shape[1]
    because = f"for a vocabulary of {vocabulary}"
    check_range("inputs", batch.inputs, 0, vocabulary - 1, _PLACES, because)
    check_range("targets", batch.targets, 0, outputs - 1, _PLACES, f"for {outputs} outputs")
    if not batch.supervised.any():
        raise ValueError("supervised holds no position; expected at least one")
    past_end = batch.supervised & ~valid_mask(batch.lengths, width)
    if past_end.any():
        sequence, position = first_true(past_end)
        raise ValueError(
            f"supervised holds position {position} of sequence {sequence}; expected none past its "
            f"length {int(batch.lengths[sequence])}"
        )
