"""What a task is: it samples batches of labelled sequences, and knows nothing of models."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slicekit.checks import check_shape
from slicekit.paths import mask_past_end, valid_mask
from slicekit.tasks.losses import CrossEntropy, Loss
from slicekit.tasks.ranges import check_range_of_lengths


@dataclass(frozen=True, eq=False)
class Batch:
    """Labelled sequences of different lengths, padded on the right.

    They are tokens with a class at each position, or series with one class each, of which a model
    gives pooled logits (batch, outputs).

    Args:
        inputs: (batch, length) int64 tokens, 0 past the end of a sequence; or series (batch,
            length, channels) float32, likewise.
        targets: (batch, length) int64, the class wanted at each position; 0 where none is. Of
            series, (batch, 1), or (batch, 1, outputs) float32 where numbers are wanted.
        supervised: (batch, length) bool, the positions that count in loss and accuracy. Of series,
            (batch, 1).
        lengths: (batch,) int64, the number of tokens or observations of each sequence.
        weights: (batch,) float32, not negative: how much each sequence counts in the loss. None
            counts all of them alike.

    Raises:
        TypeError: if a dtype is another one.
        ValueError: if the shapes do not fit together.
    """

    inputs: Tensor
    targets: Tensor
    supervised: Tensor
    lengths: Tensor
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        if self.is_series:
            positions = (self.inputs.shape[0], 1)
        else:
            check_shape("inputs", self.inputs, ("batch", "length"))
            positions = tuple(self.inputs.shape)
        wanted = (*positions, "outputs") if self.wants_numbers else positions
        check_shape("targets", self.targets, wanted)
        check_shape("supervised", self.supervised, positions)
        check_shape("lengths", self.lengths, (self.inputs.shape[0],))
        _check_dtype("inputs", self.inputs, torch.float32 if self.is_series else torch.int64)
        _check_dtype("targets", self.targets, torch.float32 if self.wants_numbers else torch.int64)
        _check_dtype("lengths", self.lengths, torch.int64)
        _check_dtype("supervised", self.supervised, torch.bool)
        if self.weights is not None:
            check_shape("weights", self.weights, (self.inputs.shape[0],))
            _check_dtype("weights", self.weights, torch.float32)

    @property
    def wants_numbers(self) -> bool:
        """Whether series have numbers for answers, instead of classes."""
        targets = self.targets
        return self.is_series and isinstance(targets, Tensor) and targets.is_floating_point()

    @property
    def is_series(self) -> bool:
        """Whether the inputs are series (batch, length, channels), with one answer each."""
        inputs = self.inputs
        return isinstance(inputs, Tensor) and inputs.ndim == 3 and inputs.is_floating_point()

    @classmethod
    def every_position(cls, inputs: Tensor, targets: Tensor, lengths: Tensor) -> "Batch":
        """A batch in which every token is labelled.

        Args:
            inputs: (batch, length) int64; what stands past the end of a sequence is replaced by 0.
            targets: (batch, length) int64, likewise.
            lengths: (batch,) int64.

        >>> tokens = torch.tensor([[2, 3, 4]])
        >>> batch = Batch.every_position(tokens, tokens + 1, torch.tensor([2]))
        >>> batch.targets, batch.supervised
        (tensor([[3, 4, 0]]), tensor([[ True,  True, False]]))
        """
        valid = valid_mask(lengths, inputs.shape[1])
        return cls(inputs * valid, targets * valid, valid, lengths)

    @classmethod
    def last_position(cls, inputs: Tensor, answers: Tensor, lengths: Tensor) -> "Batch":
        """A batch in which only the last token of each sequence is labelled.

        Args:
            inputs: (batch, length) int64; what stands past the end of a sequence is replaced by 0.
            answers: (batch,) int64, one class for each sequence.
            lengths: (batch,) int64, at least 1.

        >>> batch = Batch.last_position(
        ...     torch.ones(1, 3).long(), torch.tensor([5]), torch.tensor([2])
        ... )
        >>> batch.inputs, batch.targets
        (tensor([[1, 1, 0]]), tensor([[0, 5, 0]]))
        """
        last = (lengths - 1).unsqueeze(1)
        targets = torch.zeros_like(inputs).scatter_(1, last, answers.unsqueeze(1))
        supervised = torch.zeros_like(inputs, dtype=torch.bool).scatter_(1, last, True)
        return cls(inputs * valid_mask(lengths, inputs.shape[1]), targets, supervised, lengths)

    @classmethod
    def series(
        cls, inputs: Tensor, answers: Tensor, lengths: Tensor, weights: Tensor | None = None
    ) -> "Batch":
        """A batch of series, with one class for each, or some numbers.

        Args:
            inputs: (batch, length, channels) float32; what stands past the end of a series is
                replaced by 0.
            answers: (batch,) int64, one class for each series; or (batch, outputs) float32.
            lengths: (batch,) int64, at least 1.
            weights: (batch,) float32, how much each counts, or None.

        >>> batch = Batch.series(torch.ones(1, 3, 2), torch.tensor([5]), torch.tensor([2]))
        >>> batch.inputs.sum(-1), batch.targets, batch.supervised
        (tensor([[2., 2., 0.]]), tensor([[5]]), tensor([[True]]))
        """
        check_shape("inputs", inputs, ("batch", "length", "channels"))
        numbers = ("outputs",) if answers.is_floating_point() else ()
        check_shape("answers", answers, (inputs.shape[0], *numbers))
        everything = torch.ones(len(answers), 1, dtype=torch.bool)
        inputs = mask_past_end(inputs, lengths)
        return cls(inputs, answers.unsqueeze(1), everything, lengths, weights)

    def by_position(self, name: str, logits: Tensor) -> Tensor:
        """A model's answer with an axis of positions: pooled logits of series get one of size 1.

        Args:
            name: what to call it in an error.
            logits: (batch, length, outputs); or of series (batch, outputs).

        Returns:
            (batch, positions, outputs), as targets are (batch, positions).

        Raises:
            ValueError: if the shape does not fit the batch.
        """
        if not self.is_series:
            check_shape(name, logits, (*self.inputs.shape, "outputs"))
            return logits
        check_shape(name, logits, (self.inputs.shape[0], "outputs"))
        return logits.unsqueeze(1)

    def part(self, rows: slice | Tensor) -> "Batch":
        """Some of the sequences, with the same padding.

        >>> tokens = torch.tensor([[1, 2], [3, 4], [5, 6]])
        >>> whole = Batch.every_position(tokens, tokens, torch.tensor([2, 2, 2]))
        >>> whole.part(slice(1, 3)).inputs
        tensor([[3, 4],
                [5, 6]])
        """
        weights = None if self.weights is None else self.weights[rows]
        return Batch(
            self.inputs[rows],
            self.targets[rows],
            self.supervised[rows],
            self.lengths[rows],
            weights,
        )

    def cut(self) -> "Batch":
        """The same series, padded to the longest of them and no further.

        >>> batch = Batch.series(torch.ones(2, 9, 1), torch.tensor([0, 1]), torch.tensor([2, 4]))
        >>> batch.cut().inputs.shape
        torch.Size([2, 4, 1])
        """
        longest = int(self.lengths.max()) if len(self.lengths) else 0
        return replace(self, inputs=self.inputs[:, :longest])


def _check_dtype(name: str, tensor: Tensor, expected: torch.dtype) -> None:
    if tensor.dtype != expected:
        raise TypeError(f"{name} has dtype {tensor.dtype}; expected {expected}")


class Task(ABC):
    """Sequences with their labels, drawn at random: derive from this class for a task of your own.

    A task needs `name`, `vocabulary` (or `channels`, for series), `outputs` and `sample`; the rest
    has defaults. Lengths are inclusive ranges, and those of training, validation and test are
    independent.

    Args:
        train_lengths: the range to train on; None keeps the class's own.
        validation_lengths: the range to choose a model on, likewise.
        test_lengths: the range to report, likewise.

    Raises:
        ValueError: if a range is empty, or starts below `shortest`.

    Example:
        >>> from slicekit.tasks import draw_lengths
        >>> class Copy(Task):
        ...     name, vocabulary, outputs = "copy", 4, 4
        ...
        ...     def sample(self, batch, lengths, generator, split="train"):
        ...         drawn = draw_lengths(batch, lengths, generator)
        ...         tokens = torch.randint(4, (batch, lengths[1]), generator=generator)
        ...         return Batch.every_position(tokens, tokens, drawn)
        >>> Copy().sample(2, (1, 5), torch.Generator()).inputs.shape
        torch.Size([2, 5])
    """

    name: str
    vocabulary: int | None = None
    """How many tokens there are; None for series."""
    channels: int | None = None
    """How many channels a series has; None for tokens."""
    outputs: int
    loss: Loss = CrossEntropy()
    """What training makes small, and validation chooses by."""
    held_out: bool = True
    """Whether there is something to validate on; if not, the last weights count."""
    family: str = ""
    """What a named model's sizes and settings are chosen by: "words", "languages", "series", or
    none of them."""
    shortest: int = 1
    """The least length that a sequence can have."""
    train_lengths: tuple[int, int] = (3, 40)
    validation_lengths: tuple[int, int] = (40, 256)
    test_lengths: tuple[int, int] = (40, 256)

    def __init__(
        self,
        *,
        train_lengths: tuple[int, int] | None = None,
        validation_lengths: tuple[int, int] | None = None,
        test_lengths: tuple[int, int] | None = None,
    ) -> None:
        """Keep the ranges of lengths."""
        if train_lengths is not None:
            self.train_lengths = check_range_of_lengths(
                "train_lengths", train_lengths, self.shortest
            )
        if validation_lengths is not None:
            self.validation_lengths = check_range_of_lengths(
                "validation_lengths", validation_lengths, self.shortest
            )
        if test_lengths is not None:
            self.test_lengths = check_range_of_lengths("test_lengths", test_lengths, self.shortest)

    @abstractmethod
    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        generator: torch.Generator,
        split: str = "train",
    ) -> Batch:
        """Draw sequences, on the CPU.

        Args:
            batch: how many.
            lengths: inclusive range; a length is drawn uniformly from it for each sequence.
            generator: the only source of randomness: the same state gives the same batch.
            split: "train", "validation" or "test", for tasks with a finite set of sequences.

        Returns:
            A batch padded to the end of the range, whatever lengths were drawn.

        Raises:
            ValueError: if the range is empty or out of reach, or the split unknown.
        """

    def oracle(self, tokens: Sequence[int]) -> list[int | None]:
        """The targets of one sequence by the definition of the task, in plain Python.

        Args:
            tokens: one sequence, without padding.

        Returns:
            The target at each position, None where the task asks for nothing.

        Raises:
            NotImplementedError: if the task has none.
        """
        raise NotImplementedError(f"the task {self.name} has no oracle")

    def helper(self, batch: int, generator: torch.Generator) -> Batch | None:
        """An extra small batch to learn from at each step of training.

        Args:
            batch: the number of sequences of the main batch.
            generator: the only source of randomness.

        Returns:
            The extra batch, or None for none, as in most tasks.
        """
        return None

    def whole(self, split: str) -> Batch | None:
        """Every case of a finite set in one batch.

        Args:
            split: "train", "validation" or "test".

        Returns:
            All cases, or None if there is no end to them, as in most tasks.
        """
        return None

    def batches(self, split: str) -> Iterable[Batch] | None:
        """Every case of a finite set, which then is what a model is validated and tested on.

        Args:
            split: "train", "validation" or "test".

        Returns:
            All cases, each in one of the batches, by default all in one; or None if there is no
            end to them, as in most tasks.
        """
        whole = self.whole(split)
        return None if whole is None else [whole]


def accuracy(logits: Tensor, batch: Batch) -> Tensor:
    """The share of supervised positions at which the largest logit is that of the target.

    Args:
        logits: (batch, length, outputs), of series (batch, outputs), on any device.
        batch: what they were computed from.

    Returns:
        A scalar, float32, on the device of the logits; NaN if no position is supervised.

    Raises:
        ValueError: if the logits' shape does not fit the batch.

    >>> tokens = torch.tensor([[0, 1, 1]])
    >>> batch = Batch.every_position(tokens, tokens, torch.tensor([3]))
    >>> accuracy(torch.tensor([[[2.0, 1.0], [0.0, 3.0], [5.0, 4.0]]]), batch)
    tensor(0.6667)
    """
    logits = batch.by_position("logits", logits)
    supervised = batch.supervised.to(logits.device)
    right = (logits.argmax(-1) == batch.targets.to(logits.device)) & supervised
    return right.sum().float() / supervised.sum()
