"""Penalties on the steps of a layer: how far from isometries they are, how much they let grow.

Steps are linear, so they carry a disturbance δ_0 of a state on as they do a state: δ_t = M_t .. M_1
δ_0. What is drawn at random is drawn anew at every call.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slicekit.checks import Lengths, check_lengths
from slicekit.dispatch import autocast_off
from slicekit.flows import resolve
from slicekit.layers.slice_checks import check_input
from slicekit.layers.state import State
from slicekit.paths import Tabulated, mask_past_end
from slicekit.paths.tabulated import densely, full_precision
from slicekit.scans import Projective, Scan, solve

if TYPE_CHECKING:
    from slicekit.layers.slice import SLiCE

DEFECT_ROWS, DISTURBED = 64, 64
"""How many steps are looked at for their distance from isometries, and how many sequences for the
growth of disturbances."""


def isometry_defect(layer: "SLiCE", x: Tensor | Tabulated, state: State | None) -> Tensor:
    """The mean of |M^T M - I|² over steps that an input drives; see `SLiCE.isometry_defect`."""
    _check_steps(layer)
    with autocast_off(x.device):
        if isinstance(x, Tabulated) and layer.pointwise:
            rows = full_precision(x).map(layer.drive).table
        else:
            path = full_precision(densely(x))
            rows = densely(layer._increments(path, state, 0)).flatten(0, 1)
        if rows.shape[0] > DEFECT_ROWS:
            rows = rows[torch.randint(rows.shape[0], (DEFECT_ROWS,), device=rows.device)]
        flow = resolve(layer.structure, layer.flow)
        made = flow.transition(layer.structure, layer.A(rows.dtype), rows)
        return made.isometry_defect().mean()


def growth(
    layer: "SLiCE",
    x: Tensor | Tabulated,
    lengths: Lengths | None,
    state: State | None,
    scan: Scan | None,
) -> Tensor:
    """The mean of max(0, log |δ_t|²)² along an input; see `SLiCE.growth`."""
    _check_steps(layer)
    if isinstance(x, Tabulated) and not layer.pointwise:
        x = x.dense()
    check_input(layer, x, None)
    if lengths is not None:
        lengths = check_lengths(lengths, x.shape[0], x.shape[1], device=x.device)
        x = x.masked(lengths) if isinstance(x, Tabulated) else mask_past_end(x, lengths)
        lengths = lengths[:DISTURBED]
    few = slice(DISTURBED)
    x = Tabulated(x.table, x.index[few]) if isinstance(x, Tabulated) else x[few]
    with autocast_off(x.device):
        before = None if state is None else state.map(lambda x: x[few])
        increments = layer._increments(full_precision(x), before, 0)
        size = (x.shape[0], layer.structure.dim)
        drawn = torch.randn(size, dtype=increments.dtype, device=increments.device)
        direction = torch.nn.functional.normalize(drawn, dim=-1)
        start = Projective(direction, drawn.new_zeros(x.shape[0]))
        weights = layer.A(increments.dtype)
        carried, _ = solve(
            layer.structure, weights, increments, start, layer.flow, scan, None, lengths
        )
        assert isinstance(carried, Projective)
        return (2 * carried.log_norm).clamp_min(0).square().mean()


def _check_steps(layer: "SLiCE") -> None:
    if layer.windowed:
        raise ValueError(f"flow={layer.flow!r}; expected a flow whose steps are elements")
