"""The linear read-out of a reservoir in closed form, judged by leaving out one case at a time.

With centred and weighted features F and targets Y, K = F F^T and H = K (K + α)^-1, the prediction
for a case that was left out is y_i - (y - H y)_i / (1 - H_ii): one decomposition serves every α.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.estimators.fitting import Examples, History, chunks
from slicekit.estimators.reservoir import RAMP, RandomRecipe, Reservoir
from slicekit.paths import valid_mask
from slicekit.training.randomness import own_randomness

PENALTIES = torch.logspace(-1, 6, 15, dtype=torch.float64)
SHARPNESS = torch.logspace(-0.5, 1.5, 41, dtype=torch.float64)


SAMPLE = 4000
"""States from which thresholds are drawn."""


def fit_reservoir(
    recipe: RandomRecipe,
    examples: Examples,
    outputs: int,
    classes: bool,
    seed: int,
    device: torch.device,
) -> tuple[Reservoir, History]:
    """Draw a reservoir, look at its states, and solve for its read-out.

    Args:
        recipe: what it is made of.
        examples: the training data.
        outputs: number of classes, or of targets.
        classes: whether the targets are class indices; the outputs are then logits.
        seed: of all that is random; torch's own random numbers are left as they were.
        device: where to run it.

    Returns:
        The reservoir, and the mean squared error on cases that were left out.
    """
    with own_randomness(device, seed, 0), torch.no_grad():
        length = examples.features.shape[1]
        reservoir = recipe.build(examples.features.shape[2], outputs, length).to(device).eval()
        _draw_thresholds(reservoir, examples, device)
        pooled = _pooled(reservoir, examples, device)
        seen = pooled.cpu().double()  # not every device has float64
        deviation = seen.std(0, correction=0).float()
        reservoir.centre.copy_(seen.mean(0).float())
        reservoir.spread.copy_(torch.where(deviation > 1e-6, deviation, 1.0))
        features = reservoir.standardised(pooled).cpu()
        targets = examples.targets
        if classes:
            targets = 2 * torch.nn.functional.one_hot(targets, outputs) - 1
        found = ridge(features, targets, examples.weights)
        factor = 1.0
        if classes:
            factor = sharpness(found.left_out, examples.targets, examples.weights)
        reservoir.head.weight.copy_((factor * found.weight).float())
        reservoir.head.bias.copy_((factor * found.bias).float())
    error = (found.left_out - targets).pow(2).mean().item()
    return reservoir, History(0, ((0, error),), found.penalty)


def _draw_thresholds(reservoir: Reservoir, examples: Examples, device: torch.device) -> None:
    """Quantiles of the states in training, one drawn from each of as many equal parts."""
    chosen = next(chunks(examples.lengths))
    chosen = torch.randperm(len(examples))[: len(chosen)]
    batch = examples.select(chosen, device)
    seen = reservoir.seen(batch.features, batch.lengths)
    seen = seen[valid_mask(batch.lengths, seen.shape[1])]
    seen = seen[torch.randint(len(seen), (SAMPLE,), device=device)].sort(0).values
    count = reservoir.thresholds.shape[0]
    for part in range(count):
        place = (part + torch.rand(seen.shape[1], device=device)) / count * SAMPLE
        place = place.long().clamp(max=SAMPLE - 1).unsqueeze(0)
        reservoir.thresholds[part] = seen.gather(0, place)[0]
    reservoir.ramp.copy_((RAMP * seen.std(0)).clamp_min(1e-6))


def _pooled(reservoir: Reservoir, examples: Examples, device: torch.device) -> Tensor:
    found = []
    for some in chunks(examples.lengths):
        batch = examples.select(some, device)
        found.append(reservoir.pooled(batch.features, batch.lengths))
    return torch.cat(found)


@dataclass(frozen=True, eq=False)
class Readout:
    """A linear map.

    Args:
        weight: (targets, features) float64; bias: (targets,).
        penalty: α.
        left_out: (cases, targets), predictions for each case from all others.
    """

    weight: Tensor
    bias: Tensor
    penalty: float
    left_out: Tensor


def ridge(features: Tensor, targets: Tensor, weights: Tensor) -> Readout:
    """The ridge regression with the best penalty.

    Args:
        features: (cases, features).
        targets: (cases, targets).
        weights: (cases,) positive.

    Returns:
        The read-out with the smallest weighted squared error on cases that were left out.
    """
    F, Y, w = features.double(), targets.double(), weights.double()
    share = w / w.sum()
    root = w.sqrt().unsqueeze(1)
    F_mean, Y_mean = share @ F, share @ Y
    F, Y_centred = (F - F_mean) * root, (Y - Y_mean) * root
    wide = F.shape[0] <= F.shape[1]
    values, vectors = torch.linalg.eigh(F @ F.T if wide else F.T @ F)
    values = values.clamp_min(0)
    basis = vectors if wide else F @ vectors
    moments = basis.T @ Y_centred
    best: tuple[float, float, Tensor] | None = None
    for penalty in PENALTIES.tolist():
        damped = (values if wide else torch.ones_like(values)) / (values + penalty)
        fitted = basis @ (damped.unsqueeze(1) * moments)
        leverage = basis.pow(2) @ damped + share
        error = (Y_centred - fitted) / (1 - leverage).clamp_min(1e-6).unsqueeze(1)
        loss = error.pow(2).sum().item()
        if best is None or loss < best[0]:
            best = loss, penalty, Y - error / root
    assert best is not None
    _, penalty, left_out = best
    solved = vectors @ (moments / (values + penalty).unsqueeze(1))
    weight = (F.T @ solved if wide else solved).T
    return Readout(weight, Y_mean - weight @ F_mean, penalty, left_out)


def sharpness(left_out: Tensor, targets: Tensor, weights: Tensor) -> float:
    """By how much to multiply decisions so that their softmax is the best on left-out cases.

    Args:
        left_out: (cases, classes) decisions for cases that were left out.
        targets: (cases,) class indices.
        weights: (cases,).

    Returns:
        The factor with the smallest cross-entropy; labels are smoothed by one case, so that few
        cases do not give certainty.
    """
    smoothing = 1 / (1 + len(left_out))
    found = [
        torch.nn.functional.cross_entropy(
            factor * left_out.clamp(-5, 5), targets, reduction="none", label_smoothing=smoothing
        )
        for factor in SHARPNESS
    ]
    losses = torch.stack(found) @ weights.double()
    return SHARPNESS[losses.argmin()].item()
