"""The door to the sparse kernel: h_{l+1} = h_l + Σ_i Δω_l^i A^i h_l + u_l by kept entries."""

import ctypes

import torch
from torch import Tensor

from slicekit.native.problem import COMMON, call, describe, outputs, point


class _Sparse(ctypes.Structure):
    """slicekit_sparse of slicekit_sparse.h."""

    _fields_ = [
        *COMMON,
        ("kept", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("values", "places", "in_values")),
    ]


def _problem(
    parameters: dict[str, Tensor], increments: Tensor, state: Tensor, rescale: int
) -> tuple[_Sparse, dict[str, Tensor]]:
    """The problem, and the tensors that it points to."""
    problem = _Sparse()
    describe(problem, increments, state, rescale)
    held = {name: parameters[name].contiguous() for name in ("values", "places")}
    problem.kept = held["values"].numel()
    held |= {"increments": increments.contiguous(), "state": state.contiguous()}
    point(problem, **held)
    return problem, held


def forward(
    parameters: dict[str, Tensor],
    increments: Tensor,
    state: Tensor,
    inputs: Tensor | None,
    rescale: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """All states of the recurrence.

    Args:
        parameters: {"values": (kept,), "places": (kept,) ascending into (channels, dim, dim)}.
        increments: (batch, length, channels).
        state: (batch, dim, columns), the initial one.
        inputs: (batch, length, dim, columns), or None.
        rescale: steps between two divisions of the state by its size; 0 for none.

    Returns:
        The states (batch, length, dim, columns), the last one, and the factors by which they were
        divided (batch, length, columns), or (0, 0, 0) without rescale.

    Raises:
        RuntimeError: if the kernel refuses what it is given.
    """
    problem, held = _problem(parameters, increments, state, rescale)
    states, last, factors = outputs(increments, held["state"], rescale)
    dense = None if inputs is None else inputs.contiguous()
    point(problem, inputs=dense, states=states, last=last, factors=factors)
    call("sparse", "forward", problem)
    return states, last, factors


def backward(
    parameters: dict[str, Tensor],
    increments: Tensor,
    state: Tensor,
    inputs: Tensor | None,
    rescale: int,
    states: Tensor,
    factors: Tensor,
    in_states: Tensor,
    in_last: Tensor,
) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor | None]:
    """Gradients from those of the states and the last one; the factors count as constants.

    Args:
        parameters, increments, state, inputs, rescale: as in `forward`.
        states, factors: what it returned.
        in_states, in_last: gradients of the states and the last one.

    Returns:
        Gradients of {"values"}, increments, state, and inputs (None if there are none).

    Raises:
        RuntimeError: if the kernel refuses what it is given.
    """
    problem, held = _problem(parameters, increments, state, rescale)
    given = {
        "states": states.contiguous(),
        "factors": factors.contiguous(),
        "in_states": in_states.contiguous(),
        "in_last": in_last.contiguous(),
    }
    in_values = torch.empty_like(held["values"])
    in_increments, in_state = torch.empty_like(held["increments"]), torch.empty_like(held["state"])
    in_inputs = None if inputs is None else torch.empty_like(given["in_states"])
    point(problem, **given, in_values=in_values, in_increments=in_increments)
    point(problem, in_state=in_state, in_inputs=in_inputs)
    call("sparse", "backward", problem)
    return {"values": in_values}, in_increments, in_state, in_inputs
