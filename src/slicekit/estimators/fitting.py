"""A network that is fitted to a finite set of series, by the trainer of `slicekit.training`."""

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from slicekit.estimators.model import History
from slicekit.tasks import Batch, Task
from slicekit.tasks.losses import Loss
from slicekit.training import Diverged, Report, Result, Settings, Watcher, train
from slicekit.training.randomness import own_randomness

SLOWER = 0.1
"""Rate of the second attempt, over that of the first."""


@dataclass(frozen=True, eq=False)
class Examples:
    """What a network is fitted to.

    Args:
        features: (cases, length, channels).
        lengths: (cases,).
        targets: (cases,) class indices, or (cases, targets).
        weights: (cases,) float32, not negative.
    """

    features: Tensor
    lengths: Tensor
    targets: Tensor
    weights: Tensor

    def __len__(self) -> int:
        """How many there are."""
        return self.features.shape[0]

    @property
    def length(self) -> int:
        """Of the longest."""
        return self.features.shape[1]

    def select(self, indices: Tensor) -> "Examples":
        """Some of them, cut to the longest."""
        lengths = self.lengths[indices]
        longest = int(lengths.max()) if len(lengths) else 0
        features = self.features[indices, :longest]
        return Examples(features, lengths, self.targets[indices], self.weights[indices])

    def batch(self) -> Batch:
        """All of them."""
        return Batch.series(self.features, self.targets, self.lengths, self.weights)


class Fit(Task):
    """Examples as a task.

    Args:
        training: what to fit; a batch draws different cases.
        validation: what to judge by, if there is any.
        loss: of single cases.
        outputs: of the network.
    """

    name = "a fit"

    def __init__(self, training: Examples, validation: Examples, loss: Loss, outputs: int) -> None:
        """Keep them."""
        ranges = {"train": training, "validation": validation if len(validation) else training}
        super().__init__(
            **{
                f"{split}_lengths": (int(cases.lengths.min()), int(cases.lengths.max()))
                for split, cases in ranges.items()
            }
        )
        self.loss, self.outputs, self.held_out = loss, outputs, len(validation) > 0
        self.channels = training.features.shape[2]
        self._training, self._validation = training, validation

    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        generator: torch.Generator,
        split: str = "train",
    ) -> Batch:
        """Draw different cases, whatever their lengths."""
        cases = self._training if split == "train" else self._validation
        return cases.select(torch.randperm(len(cases), generator=generator)[:batch]).batch()

    def batches(self, split: str) -> Iterable[Batch]:
        """All cases, a few at a time."""
        cases = self._training if split == "train" else self._validation
        return (cases.select(some).batch() for some in chunks(cases.lengths))


class Best(Watcher):
    """Keeps the weights with the least validation loss.

    Args:
        network: what is trained.
        shown: is told the same.
    """

    def __init__(self, network: nn.Module, shown: Watcher) -> None:
        """Nothing is known yet."""
        self._network, self._shown = network, shown
        self._least, self._kept = math.inf, None
        self.judged: list[tuple[int, float]] = []

    def started(self, total_steps: int, from_step: int) -> None:
        """Tell it."""
        self._shown.started(total_steps, from_step)

    def stepped(self, report: Report) -> None:
        """Tell it."""
        self._shown.stepped(report)

    def evaluated(self, report: Report) -> None:
        """Keep the weights, if they are better."""
        loss = report.loss if math.isfinite(report.loss) else math.inf
        self.judged.append((report.step, loss))
        self._shown.evaluated(report)
        if loss < self._least:
            self._least, self._kept = loss, copy.deepcopy(self._network.state_dict())

    def finished(self, result: Result) -> None:
        """Give the network its best weights."""
        if self._kept is not None:
            self._network.load_state_dict(self._kept)
        self._shown.finished(result)


def fit_network(
    make: Callable[[], nn.Module],
    task: Fit,
    settings: Settings,
    device: torch.device | str = "cpu",
    watch: Watcher | None = None,
) -> tuple[nn.Module, History]:
    """Make a network and train it; torch's own random numbers are left as they were.

    Args:
        make: gives a fresh network, called network(features, lengths=lengths).
        task: what to fit, and what to judge by: the best weights are kept, or the last ones where
            nothing is held out.
        settings: how; the seed is also that of the parameters.
        device: where to train.
        watch: is told how it goes.

    Returns:
        The network in evaluation mode, and how it went.

    Raises:
        FloatingPointError: if the loss is not finite, even at a tenth of the rate.
    """
    device = torch.device(device)
    for attempt in (settings, replace(settings, rate=SLOWER * settings.rate)):
        with own_randomness(device, settings.seed, 0):
            network = make()
        best = Best(network, Watcher() if watch is None else watch)
        try:
            result = train(network, task, attempt, device=device, watch=best)
        except Diverged as error:
            told = f"the loss or its gradient is not finite at step {error.step}"
            if attempt is not settings:
                raise FloatingPointError(
                    f"{told}, even at a learning rate of {attempt.rate:g}; choose a smaller "
                    "learning_rate or another structure"
                ) from None
            warnings.warn(
                f"{told}; it starts again at a tenth of learning_rate={settings.rate:g}",
                RuntimeWarning,
                stacklevel=2,
            )
            continue
        return network, History(result.steps, tuple(best.judged))
    raise AssertionError("the second attempt returns or raises")


def chunks(lengths: Tensor, at_once: int = 2**14, most: int = 256) -> Iterator[Tensor]:
    """Indices of all cases in parts that fit into memory: so many elements at once at most."""
    longest = int(lengths.max()) if lengths.numel() else 1
    yield from torch.arange(len(lengths)).split(max(1, min(most, at_once // longest)))
