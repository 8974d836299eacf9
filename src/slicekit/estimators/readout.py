"""Linear read-outs of blocks of features in closed form, judged by leaving out one case at a time.

With centred and weighted features F and targets Y, K = F F^T and H = K (K + α)^-1, the prediction
for a case that was left out is y_i - (y - H y)_i / (1 - H_ii): one decomposition serves every α.
Each block has a ridge of its own. What they say of cases that were left out is joined by weights
that are not negative and are drawn to equal ones: the fewer cases there are, the more. Classes
share a penalty and weights; numbers that are asked for side by side each have their own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

PENALTIES = torch.logspace(-4, 2, 19, dtype=torch.float64)
"""Over the mean square of a case's features, times the root of the number of cases."""

SHARPNESS = torch.logspace(-0.5, 1.5, 41, dtype=torch.float64)
CLIP = 6.0
MOST = 2048
"""Features of a block that count, where there are more of them and more cases."""

SHRINK = 3.0
"""Cases that speak for equal weights."""


@dataclass(frozen=True, eq=False)
class Readout:
    """A linear map of the features of one block.

    Args:
        columns: (used,) int64, the features that count.
        centre, spread: (used,) of them in training.
        weight: (used, outputs); bias: (outputs,).
        penalty: α of the ridge regression, the largest where outputs have their own.
    """

    columns: Tensor
    centre: Tensor
    spread: Tensor
    weight: Tensor
    bias: Tensor
    penalty: float

    def __call__(self, features: Tensor) -> Tensor:
        """(cases, features) -> (cases, outputs) float64.

        In float32 what is said of a case would depend on how many cases stand beside it, as matrix
        products add up in another order for other numbers of rows.
        """
        return self.standardised(features).double() @ self.weight.double() + self.bias

    def times(self, factors: Tensor) -> "Readout":
        """With every output multiplied by its factor, (outputs,)."""
        weight, bias = (x * factors.to(x.dtype) for x in (self.weight, self.bias))
        return replace(self, weight=weight, bias=bias)

    def standardised(self, features: Tensor) -> Tensor:
        """The features that count, on the scale of the training data, clipped: (cases, used)."""
        chosen = features.index_select(1, self.columns) - self.centre
        return chosen.div_(self.spread).clamp_(-CLIP, CLIP)


def fit_readout(
    features: Tensor,
    targets: Tensor,
    weights: Tensor,
    random: np.random.Generator,
    *,
    apart: bool = False,
) -> tuple[Readout, Tensor]:
    """Standardise a block, and find its ridge regression with the best penalty.

    Args:
        features: (cases, features) float32.
        targets: (cases, outputs) float64.
        weights: (cases,) positive, with mean 1.
        random: draws the features that count, if there are too many.
        apart: whether every output has a penalty of its own.

    Returns:
        The read-out, and its predictions (cases, outputs) for cases that were left out.
    """
    columns = _varying(features)
    if min(len(features), len(columns)) > MOST:
        columns = columns[torch.from_numpy(random.permutation(len(columns))[:MOST]).sort().values]
    centre = features.mean(0)[columns]
    spread = features.std(0, correction=0)[columns]
    outputs = targets.shape[1]
    plain = Readout(columns, centre, spread, torch.zeros(0), torch.zeros(0), 0.0)
    if not len(columns):
        mean = (weights / weights.sum()) @ targets
        empty = Readout(columns, centre, spread, torch.zeros(0, outputs), mean.float(), 0.0)
        share = weights[:, None] / weights.sum()
        return empty, (mean - share * targets) / (1 - share).clamp_min(1e-6)
    weight, bias, penalties, left_out = ridge(
        plain.standardised(features), targets, weights, apart=apart
    )
    penalty = penalties.max().item()
    return Readout(columns, centre, spread, weight.float(), bias.float(), penalty), left_out


def _varying(features: Tensor) -> Tensor:
    """The features that are not the same for all cases."""
    largest, smallest = features.amax(0), features.amin(0)
    size = torch.maximum(largest.abs(), smallest.abs())
    return (largest - smallest > 1e-6 * size.clamp_min(1e-3)).nonzero().squeeze(1)


def ridge(
    features: Tensor, targets: Tensor, weights: Tensor, *, apart: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The ridge regression with the smallest weighted squared error on cases that were left out.

    Args:
        features: (cases, features) float32; it is overwritten.
        targets: (cases, outputs) float64.
        weights: (cases,) float64, positive.
        apart: whether every output has the penalty that is best for it.

    Returns:
        Weights (features, outputs) and bias (outputs,), penalties (outputs,), and predictions
        (cases, outputs) for each case from all others.
    """
    share, root = weights / weights.sum(), weights.sqrt().unsqueeze(1)
    centre, mean = (share.float() @ features).double(), share @ targets
    F = features.sub_(centre.float()).mul_(root.float())
    Y = (targets - mean) * root
    cases, wide = len(F), F.shape[0] <= F.shape[1]
    values, vectors = torch.linalg.eigh((F @ F.T if wide else F.T @ F).double())
    values = values.clamp_min(0)
    basis = vectors if wide else (F @ vectors.float()).double()
    moments, squares = basis.T @ Y, basis.square()
    unit = max(values.sum().item() / cases, 1e-9) * cases**0.5
    least = torch.full_like(mean, math.inf)
    penalties, left_out = torch.zeros_like(mean), torch.zeros_like(targets)
    for penalty in (PENALTIES * unit).tolist():
        damped = (values if wide else torch.ones_like(values)) / (values + penalty)
        leverage = squares @ damped + share
        error = (Y - basis @ (damped.unsqueeze(1) * moments)) / (1 - leverage).clamp_min(
            1e-6
        ).unsqueeze(1)
        losses = error.square().sum(0) if apart else error.square().sum().expand_as(mean)
        better = losses < least
        least = torch.where(better, losses, least)
        penalties = penalties.masked_fill(better, penalty)
        left_out = torch.where(better, targets - error / root, left_out)
    solved = vectors @ (moments / (values.unsqueeze(1) + penalties))
    weight = F.T.double() @ solved if wide else solved
    return weight, mean - centre @ weight, penalties, left_out


def join(
    left_out: Sequence[Tensor], targets: Tensor, weights: Tensor, shrink: float = SHRINK
) -> Tensor:
    """Weights of blocks, none of them negative.

    They need not sum to 1: a block that says nothing may keep its equal share and do no harm, and
    dividing by the sum would shrink what the others say.

    Args:
        left_out: of each block (cases, outputs), predictions for cases that were left out.
        targets: (cases, outputs).
        weights: (cases,) with mean 1.
        shrink: how many cases speak for equal weights.

    Returns:
        (blocks,) float64, with the smallest squared error on those cases, drawn to equal ones.
    """
    count, root = len(left_out), weights.sqrt().unsqueeze(1)
    pull = float(shrink * targets.shape[1]) ** 0.5
    said = torch.stack([(x * root).flatten() for x in left_out], 1).numpy()
    rows = np.vstack([said, pull * np.eye(count)])
    wanted = np.concatenate([(targets * root).flatten().numpy(), np.full(count, pull / count)])
    return torch.from_numpy(np.asarray(nnls(rows, wanted)[0]))


def as_shares(weights: Tensor) -> Tensor:
    """Weights that sum to 1; equal ones if all are zero.

    >>> as_shares(torch.tensor([3.0, 1.0])), as_shares(torch.zeros(2))
    (tensor([0.7500, 0.2500]), tensor([0.5000, 0.5000]))
    """
    total = weights.sum()
    return weights / total if total > 0 else torch.full_like(weights, 1 / len(weights))


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
    errors = [
        torch.nn.functional.cross_entropy(
            factor * left_out.clamp(-5, 5), targets, reduction="none", label_smoothing=smoothing
        )
        for factor in SHARPNESS
    ]
    losses = torch.stack(errors) @ weights.double()
    return SHARPNESS[losses.argmin()].item()
