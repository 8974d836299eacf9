"""What training makes small: the loss at supervised positions, and the spread of features.

Sequences of a batch are shared out among the processes of a run. Each term is therefore a sum over
a process's own sequences, divided by a number that counts all of them: terms, and their gradients,
add up over the processes to those of the joint batch.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from slicekit.checks import HALF
from slicekit.tasks.base import Batch
from slicekit.training.processes import Processes


@dataclass(frozen=True, eq=False)
class Labels:
    """The supervised positions of a batch, in one row.

    Args:
        places: (positions,) int64, their places in a flattened (batch, length), or None for all.
        targets: (positions,) int64, their classes; or (positions, outputs), numbers.
        weights: (positions,), how much each counts in the loss; None counts them alike.
    """

    places: Tensor | None
    targets: Tensor
    weights: Tensor | None = None

    @classmethod
    def of(cls, batch: Batch, device: torch.device) -> "Labels":
        """Those of a batch, on a device."""
        flat, targets, weights = batch.supervised.flatten(), batch.targets.flatten(0, 1), None
        if batch.weights is not None:
            weights = batch.weights.unsqueeze(1).expand_as(batch.supervised).flatten()
        if bool(flat.all()):
            return cls(None, targets.to(device), None if weights is None else weights.to(device))
        places = flat.nonzero().squeeze(1)
        weights = None if weights is None else weights[places].to(device)
        return cls(places.to(device), targets[places].to(device), weights)

    def select(self, x: Tensor) -> Tensor:
        """The supervised elements of x: (batch, length, size) -> (positions, size).

        Half precision comes back as float32.
        """
        x = x.flatten(0, 1)
        x = x if self.places is None else x.index_select(0, self.places)
        return x.float() if x.dtype in HALF else x


def spread(features: Tensor, targets: Tensor, counts: Tensor, processes: Processes) -> Tensor:
    """The share of the features' variance that their classes do not explain.

        Σ_p |z_p − m_{c(p)}|² / Σ_p |z_p − m|²,     m_c the mean of class c, m that of all

    It is 0 where the features are a function of the class, and 1 where the class tells nothing.

    Args:
        features: (positions, size), of this process.
        targets: (positions,) int64, their classes.
        counts: (classes,), how many positions of all processes each class has.
        processes: over which sums are added up.

    Returns:
        This process's part, a scalar: values and gradients add up to those of the whole; 0, as its
        gradient, if all features are equal but for rounding.
    """
    return cast(Tensor, _Spread.apply(features, targets, counts, processes))


class _Spread(torch.autograd.Function):
    """The spread with its gradient, in a fraction of the time that automatic ones take.

    The variance around m is that within the classes and that between them, W + B with
    B = Σ_c n_c |m_c − m|². Means need no gradient, because deviations from a mean sum to zero, so

        ∂/∂z_p W / (W + B) = 2 / (W + B) · ((1 − s) (z_p − m_c) − s (m_c − m)),     s = W / (W + B)

    which is a multiple of z_p and a vector that depends on the class alone.
    """

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, targets: Tensor, counts: Tensor, processes: Processes
    ) -> Tensor:
        sums = features.new_zeros(counts.shape[0], features.shape[1])
        sums.scatter_add_(0, targets.unsqueeze(1).expand_as(features), features)
        processes.add_up(sums)
        means = sums / counts.clamp_min(1).unsqueeze(1)
        between = means - sums.sum(0) / counts.sum().clamp_min(1)
        deviations = means.index_select(0, targets).sub_(features).flatten()
        deviation = torch.dot(deviations, deviations)
        within = deviation.clone()
        processes.add_up(within)
        whole = within + (between.square().sum(1) * counts).sum()
        rounding = torch.finfo(whole.dtype).eps ** 2 * (means.square().sum(1) * counts).sum()
        whole = torch.where(whole > rounding, whole, torch.inf)
        ctx.save_for_backward(features, targets, means, between, within / whole, whole)
        return deviation / whole

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        features, targets, means, between, share, whole = ctx.saved_tensors
        scale = 2 * gradients[0] / whole
        table = -scale * ((1 - share) * means + share * between)
        gradient = table.index_select(0, targets).addcmul_(features, scale * (1 - share))
        return gradient, None, None, None
