"""What the transitions of a layer do to a state in one step: spectral radii and largest stretch.

Glossary: radius is ρ(M), the largest modulus of an eigenvalue of a transition M; norm is ‖M‖, its
largest singular value. A product of many transitions neither explodes nor fades where all norms are
1, which is so for isometries; otherwise it is the growth of the log-norm per step that tells.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.flows import resolve
from slicekit.paths import Tabulated, valid_mask
from slicekit.structures.base import Transition
from slicekit.structures.block_diagonal import BlockTransition
from slicekit.structures.diagonal import DiagonalTransition
from slicekit.structures.direct_sum import SumTransition
from slicekit.tasks.base import Batch
from slicekit.training.evaluation import device_of

BUDGET = 2e9
"""About how many multiplications, Σ b³ over all blocks, the spectra of a layer may take."""

MOST = 512
"""Not more transitions than that are looked at, however small they are."""

TOLERANCE = 1e-3
"""How far MᵀM may be from I for an isometry."""


@dataclass(frozen=True)
class Range:
    """A figure over the transitions looked at."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, figures: Tensor) -> "Range":
        """The range of figures (transitions,)."""
        ordered = figures.cpu().double()
        return cls(float(ordered.min()), float(ordered.median()), float(ordered.max()))


@dataclass(frozen=True)
class Spectrum:
    """The transitions of one SLiCE.

    Args:
        layer: its number, from 0.
        tokens: whether the transitions are those of the tokens that occur, or of sampled positions.
        transitions: how many were looked at.
        of: how many there are; more than were looked at if they are large.
        radius: the spectral radii.
        norm: the largest singular values.
        isometry: whether all of them keep all distances.
        growth: of the log-norm of the state per step; None for isometries, or if only one length
            was measured.
    """

    layer: int
    tokens: bool
    transitions: int
    of: int
    radius: Range
    norm: Range
    isometry: bool
    growth: float | None = None


def spectra(model: nn.Module, layers: list[nn.Module], batch: Batch) -> list[Spectrum]:
    """The spectra of layers, by the inputs that they get inside a model.

    Args:
        model: in evaluation mode.
        layers: SLiCEs in it.
        batch: what to run the model on; the transitions that occur in it are looked at.

    Returns:
        One for each layer, without growth.
    """
    heard: dict[int, Any] = {}
    with ExitStack() as stack:
        for number, layer in enumerate(layers):
            hook = layer.register_forward_pre_hook(_keep(heard, number))
            stack.callback(hook.remove)
        device = device_of(model)
        model(batch.inputs.to(device), lengths=batch.lengths.to(device))
    valid = valid_mask(batch.lengths, batch.inputs.shape[1])
    return [_spectrum(n, layers[n], x, valid) for n, x in sorted(heard.items())]


def _keep(heard: dict[int, Any], number: int) -> Any:
    def keep(module: nn.Module, arguments: Any) -> None:
        heard[number] = arguments[0]

    return keep


def _spectrum(number: int, layer: Any, x: Tensor | Tabulated, valid: Tensor) -> Spectrum:
    increments, tokens = _increments(layer, x, valid)
    flow = resolve(layer.structure, layer.flow)
    weights = layer.A(increments.dtype)

    def transition(rows: Tensor) -> Transition:
        return flow.transition(layer.structure, weights, rows)

    sizes = [part.shape[-3:-1] for part in blocks(transition(increments[:1]))]
    cost = sum(count * size**3 for count, size in sizes)
    chosen = _some(increments, max(1, min(MOST, int(BUDGET / cost))))
    figures = [_figures(transition(rows)) for rows in chosen.split(16)]
    radius, norm, error = (torch.cat(figure) for figure in zip(*figures, strict=True))
    return Spectrum(
        layer=number,
        tokens=tokens,
        transitions=len(chosen),
        of=len(increments),
        radius=Range.of(radius),
        norm=Range.of(norm),
        isometry=bool((error < TOLERANCE).all()),
    )


def _increments(layer: Any, x: Tensor | Tabulated, valid: Tensor) -> tuple[Tensor, bool]:
    """(rows, channels): of the tokens that occur, or of all positions."""
    if isinstance(x, Tabulated):
        present = x.index.unique()
        return layer.drive(x.table)[present[present >= 0]], True
    return layer.drive(x)[valid.to(x.device)], False


def _some(rows: Tensor, most: int) -> Tensor:
    """At most so many rows, evenly spaced."""
    if len(rows) <= most:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, most, device=rows.device).long()]


def _figures(transition: Transition) -> tuple[Tensor, Tensor, Tensor]:
    """Spectral radii, largest singular values and distances from isometries, each (rows,)."""
    of_parts = [_block_figures(part) for part in blocks(transition)]
    radius, norm, error = (torch.stack(figure).amax(0) for figure in zip(*of_parts, strict=True))
    return radius, norm, error


def _block_figures(part: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for blocks (rows, k, b, b): the largest over the blocks."""
    part = part.cpu().to(torch.complex128 if part.is_complex() else torch.float64)
    if not bool(part.isfinite().all()):
        beyond = torch.full(part.shape[:1], math.inf, dtype=torch.float64)
        return beyond, beyond, beyond
    unit = torch.eye(part.shape[-1], dtype=part.dtype)
    return (
        torch.linalg.eigvals(part).abs().amax((-2, -1)),
        torch.linalg.matrix_norm(part, 2).amax(-1),
        (part.mH @ part - unit).abs().amax((-3, -2, -1)),
    )


def blocks(transition: Transition) -> Iterator[Tensor]:
    """A transition as blocks on a diagonal, (..., k, b, b) for each run of k blocks of one size."""
    if isinstance(transition, SumTransition):
        for part in transition.parts:
            yield from blocks(part)
    elif isinstance(transition, BlockTransition):
        yield transition.blocks
    elif isinstance(transition, DiagonalTransition):
        yield transition.values[..., None, None]
    else:
        yield transition.as_dense().unsqueeze(-3)
