"""Training on a finite set of series: AdamW, a warm-up and a cosine, early stopping."""

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from slicekit.estimators.model import History
from slicekit.estimators.watching import Silent, Watch
from slicekit.training.optimiser import set_rate
from slicekit.training.randomness import own_randomness
from slicekit.training.schedule import learning_rate
from slicekit.training.settings import Settings

BETAS = (0.9, 0.99)
SLOWER = 0.1
"""Rate of the second attempt, over that of the first."""


@dataclass(frozen=True, eq=False)
class Examples:
    """What a network is fitted to.

    Args:
        features: (cases, length, channels).
        lengths: (cases,).
        targets: (cases,) class indices, or (cases, targets).
        weights: (cases,), not negative.
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

    def select(self, indices: Tensor, device: torch.device | str = "cpu") -> "Examples":
        """Some of them, cut to the longest, on a device."""
        lengths = self.lengths[indices]
        longest = int(lengths.max()) if len(lengths) else 0
        features = self.features[indices, :longest]
        parts = (features, lengths, self.targets[indices], self.weights[indices])
        return Examples(*(part.to(device) for part in parts))


class Loss(Protocol):
    """Per case; `plain` is what validation judges by."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """(batch, outputs) and (batch, ...) -> (batch,)."""
        ...

    def plain(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The same without what only helps training."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """Of logits and class indices, with smoothed labels in training."""

    smoothing: float = 0.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """-Σ_k q_k log p_k."""
        return nn.functional.cross_entropy(
            outputs, targets, reduction="none", label_smoothing=self.smoothing
        )

    def plain(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """-log p_y."""
        return nn.functional.cross_entropy(outputs, targets, reduction="none")


@dataclass(frozen=True)
class SquaredError:
    """Mean over the targets of the squared difference."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """|y - ŷ|²."""
        return (outputs - targets).pow(2).mean(-1)

    plain = __call__


@dataclass(frozen=True)
class Plan:
    """How long and how fast.

    Args:
        steps: number of updates at most.
        batch: cases in each.
        rate: the highest learning rate.
        decay: weight decay of matrices.
        warmup: share of the steps in which the rate grows.
        clip: largest norm of the gradient.
        patience: validations without a better loss after which to stop; None goes to the end.
        evaluate_every: steps from one validation to the next.
    """

    steps: int
    batch: int
    rate: float
    decay: float
    warmup: float = 0.1
    clip: float = 1.0
    patience: int | None = None
    evaluate_every: int = 20


def fit_network(
    make: Callable[[], nn.Module],
    training: Examples,
    validation: Examples,
    loss: Loss,
    plan: Plan,
    seed: int,
    device: torch.device | str = "cpu",
    watch: Watch | None = None,
) -> tuple[nn.Module, History]:
    """Make a network and train it; torch's own random numbers are left as they were.

    Args:
        make: gives a fresh network, called network(features, lengths=lengths).
        training: what to fit.
        validation: what to judge by; the best weights are kept. If it is empty, the last ones.
        loss: per case.
        plan: how long and how fast.
        seed: of the parameters, batches and dropout.
        device: where to train.
        watch: is told how it goes.

    Returns:
        The network in evaluation mode, and how it went.

    Raises:
        FloatingPointError: if the loss is not finite, even at a tenth of the rate.
    """
    device = torch.device(device)
    for attempt in (plan, replace(plan, rate=SLOWER * plan.rate)):
        with own_randomness(device, seed, 0):
            network = make().to(device)
            try:
                history = _run(network, training, validation, loss, attempt, seed, watch)
            except FloatingPointError as error:
                if attempt is not plan:
                    raise FloatingPointError(
                        f"{error}, even at a learning rate of {attempt.rate:g}; choose a smaller "
                        "learning_rate or another structure"
                    ) from None
                warnings.warn(
                    f"{error}; it starts again at a tenth of learning_rate={plan.rate:g}",
                    RuntimeWarning,
                    stacklevel=2,
                )
                continue
        return network.eval(), history
    raise AssertionError("the second attempt returns or raises")


def _run(
    network: nn.Module,
    training: Examples,
    validation: Examples,
    loss: Loss,
    plan: Plan,
    seed: int,
    watch: Watch | None,
) -> History:
    watch = Silent() if watch is None else watch
    device = next(network.parameters()).device
    optimiser = _optimiser(network, plan)
    settings = Settings(steps=plan.steps + 1, rate=plan.rate, warmup=plan.warmup)
    best, kept, stale, judged = math.inf, None, 0, []
    batches = _batches(len(training), plan.batch, torch.Generator().manual_seed(seed))
    watch.started(plan.steps)
    step = 0
    for step in range(1, plan.steps + 1):
        network.train()
        set_rate(optimiser, learning_rate(step, settings))
        batch = training.select(next(batches), device)
        found = loss(network(batch.features, lengths=batch.lengths), batch.targets)
        value = (found * batch.weights).sum() / batch.weights.sum().clamp_min(1e-12)
        optimiser.zero_grad()
        value.backward()
        norm = nn.utils.clip_grad_norm_(network.parameters(), plan.clip)
        if not torch.isfinite(value.detach() + norm):
            raise FloatingPointError(f"the loss or its gradient is not finite at step {step}")
        optimiser.step()
        watch.stepped(step, value.item())
        if len(validation) and (step % plan.evaluate_every == 0 or step == plan.steps):
            now = mean_loss(network, validation, loss)
            judged.append((step, now))
            watch.evaluated(step, now)
            if now < best:
                best, kept, stale = now, copy.deepcopy(network.state_dict()), 0
            else:
                stale += 1
            if plan.patience is not None and stale >= plan.patience:
                break
    watch.ended()
    if kept is not None:
        network.load_state_dict(kept)
    return History(step, tuple(judged))


def _optimiser(network: nn.Module, plan: Plan) -> AdamW:
    """With decay on matrices only: biases, norms and the structures' own tensors go free."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    matrices = [p for p in parameters if p.ndim == 2]
    others = [p for p in parameters if p.ndim != 2]
    groups = [
        {"params": matrices, "weight_decay": plan.decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return AdamW([g for g in groups if g["params"]], lr=plan.rate, betas=BETAS, fused=True)


def _batches(cases: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Indices of one batch after the other, every case once before any comes again."""
    size, waiting = min(size, cases), torch.arange(0)
    while True:
        if len(waiting) < size:
            waiting = torch.cat([waiting, torch.randperm(cases, generator=generator)])
        yield waiting[:size]
        waiting = waiting[size:]


def mean_loss(network: nn.Module, examples: Examples, loss: Loss) -> float:
    """The weighted mean of the plain loss, in evaluation mode; infinite where it is not finite."""
    device = next(network.parameters()).device
    network.eval()
    total = torch.zeros((), dtype=torch.float64)
    with torch.no_grad():
        for some in chunks(examples.lengths):
            batch = examples.select(some, device)
            found = loss.plain(network(batch.features, lengths=batch.lengths), batch.targets)
            total += (found * batch.weights).sum().cpu().double()
    mean = (total / examples.weights.sum()).item()
    return mean if math.isfinite(mean) else math.inf


def chunks(lengths: Tensor, at_once: int = 2**14, most: int = 256) -> Iterator[Tensor]:
    """Indices of all cases in parts that fit into memory: so many elements at once at most."""
    longest = int(lengths.max()) if lengths.numel() else 1
    yield from torch.arange(len(lengths)).split(max(1, min(most, at_once // longest)))
