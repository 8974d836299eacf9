"""How far can a trained model be trusted? Accuracy, geometry of its states, spectra and horizon."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from slicekit.tasks.base import Batch, Task
from slicekit.training.diagnosis.horizon import Horizon, horizon
from slicekit.training.diagnosis.readings import Observation, Reading, head_of, mixers
from slicekit.training.diagnosis.spectra import Spectrum, spectra
from slicekit.training.evaluation import POSITIONS, as_task
from slicekit.training.rules import Whole
from slicekit.training.seeds import derived_seed

MOST = 1024
"""The number of sequences of short lengths, and of those that later ones are compared to."""

GLIMPSE = 4096
"""How many positions are run to find the head and the transitions."""


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found.

    Args:
        task: its name.
        readings: what was seen at each length, by rising length.
        spectra: of the transitions of each SLiCE.
        horizon: how far the model can be trusted.
    """

    task: str
    readings: tuple[Reading, ...]
    spectra: tuple[Spectrum, ...]
    horizon: Horizon

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; a number that is not finite becomes None."""
        data = _finite(asdict(self))
        data["horizon"]["text"] = self.horizon.text
        return data


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def diagnose(
    model: nn.Module,
    task: Task | Callable[..., Any],
    *,
    lengths: Sequence[int] | None = None,
    sequences: int = 64,
    seed: int = 0,
    part: int = 4096,
) -> Diagnosis:
    """Tell how far a trained model can be trusted.

    At each length it measures accuracy and margins, and where the states of the last SLiCE and the
    features that enter the head lie: how far apart within the class of their target, how far from
    other classes, and how far they have moved since the shortest length. All but `overall` and
    `last` is about the end of the sequences. From the drift it foretells the horizon, the length at
    which less than 99% will be right; see `slicekit.training.diagnosis.horizon`.

    Args:
        model: called as model(inputs, lengths=lengths); gives logits (batch, length, outputs). Run
            part after part if it also takes `state` and `return_state`.
        task: a task, or a function as `slicekit.tasks.from_function` takes it.
        lengths: where to look, by default doubling from a quarter of the longest length that the
            task trains on, until its longest test length and 128 times the former.
        sequences: how many of the longest; more of shorter ones, where they cost little.
        seed: of the sequences.
        part: how many positions are run at a time, which bounds the memory.

    Returns:
        The readings by rising length, the spectra of the transitions, and the horizon. The model is
        left in the mode it was in.

    Raises:
        TypeError: if a length, sequences, seed or part is no integer.
        ValueError: if one is out of range, the task draws nothing to judge a length by, or has
            series.

    Example:
        >>> from slicekit import Orthogonal, SLiCE, SequenceModel, tasks
        >>> model = SequenceModel(
        ...     vocabulary=3,
        ...     outputs=3,
        ...     width=4,
        ...     mixer=lambda width: SLiCE(width, Orthogonal(width, block=2)),
        ... )
        >>> found = diagnose(model, tasks.make("parity"), lengths=[10, 20])
        >>> found.horizon.kind, found.spectra[0].isometry
        ('untrained', True)
    """
    task = as_task(task, model)
    if task.channels is not None:
        raise ValueError(f"diagnose is for tokens of any length, but {task.name} has series")
    asked = _doubling(task) if lengths is None else lengths
    for length in asked:
        Whole(1)("lengths", length)
    if not asked:
        raise ValueError("lengths is empty; expected at least one length")
    Whole(1)("sequences", sequences)
    Whole(0)("seed", seed)
    Whole(1)("part", part)
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return _diagnose(model, task, sorted(set(asked)), _Draw(task, sequences, seed), part)
    finally:
        model.train(training)


def _doubling(task: Task) -> list[int]:
    """From a quarter of what was trained on, as far as it is tested, and 128 times as far."""
    trained = task.train_lengths[1]
    lengths = [max(task.shortest, trained // 4)]
    while lengths[-1] < max(task.test_lengths[1], 128 * trained):
        lengths.append(2 * lengths[-1])
    return lengths


@dataclass(frozen=True)
class _Draw:
    """Draws sequences of one length, so that those of one purpose depend on no other."""

    task: Task
    sequences: int
    seed: int

    def __call__(self, length: int, count: int, purpose: str) -> Batch:
        generator = torch.Generator()
        generator.manual_seed(derived_seed(self.seed, f"{purpose} at {length}"))
        return self.task.sample(count, (length, length), generator, "test")

    def enough(self, length: int, longest: int) -> int:
        """How many of a length: a quarter of the cost of the longest, if that is more."""
        affordable = self.sequences * longest // (4 * length)
        return max(self.sequences, min(MOST, affordable))


def _diagnose(
    model: nn.Module, task: Task, lengths: list[int], draw: _Draw, part: int
) -> Diagnosis:
    shortest, longest = lengths[0], lengths[-1]
    early = draw(shortest, max(draw.sequences, min(MOST, POSITIONS // shortest)), "reference")
    glimpse = _beginning(early)
    head = head_of(model, glimpse)
    reference = Observation(model, head, early, part).means()
    readings = []
    for length in lengths:
        batch = draw(length, draw.enough(length, longest), "diagnosis")
        readings.append(Observation(model, head, batch, part).reading(length, reference))
    of_layers = spectra(model, mixers(model), glimpse)
    grown = [replace(spectrum, growth=_growth(readings, spectrum)) for spectrum in of_layers]
    return Diagnosis(task.name, tuple(readings), tuple(grown), horizon(readings))


def _beginning(batch: Batch) -> Batch:
    """A few thousand positions, enough to see every token of a small vocabulary."""
    width = min(GLIMPSE, batch.inputs.shape[1])
    few = batch.part(slice(0, max(1, GLIMPSE // width)))
    inputs, targets, supervised = (x[:, :width] for x in (few.inputs, few.targets, few.supervised))
    return Batch(inputs, targets, supervised, few.lengths.clamp(max=width))


def _growth(readings: Sequence[Reading], spectrum: Spectrum) -> float | None:
    """Of the log-norm per step, from the shortest to the longest length."""
    first, last = readings[0], readings[-1]
    if spectrum.isometry or first is last:
        return None
    gained = last.log_norms[spectrum.layer] - first.log_norms[spectrum.layer]
    return gained / (last.length - first.length)
