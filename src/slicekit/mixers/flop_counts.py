"""What `torch.utils.flop_counter` counts for the mixers' operators; see `scans.flop_counts`."""

import math
from typing import Any

Shape = tuple[int, ...]


def of_short_convolution(x: Shape, window: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    """A product of each input with each weight of its channel."""
    return 2 * math.prod(x) * weight[-1]


def of_convolution_adjoint(x: Shape, window: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    """Twice the forward pass."""
    return 4 * math.prod(x) * weight[-1]


def of_lstm(x: Shape, hidden: Shape, cell: Shape, weights: list[Shape], *_: Any, **__: Any) -> int:
    """The products with both matrices at every step."""
    return 2 * x[0] * x[1] * sum(math.prod(shape) for shape in weights if len(shape) == 2)


def of_lstm_adjoint(
    x: Shape, hidden: Shape, cell: Shape, weights: list[Shape], *_: Any, **__: Any
) -> int:
    """Twice the forward pass."""
    return 4 * x[0] * x[1] * sum(math.prod(shape) for shape in weights if len(shape) == 2)


def of_slstm(driven: Shape, recurrent: Shape, *_: Any, **__: Any) -> int:
    """The recurrent products of each step: driven is (length, heads, batch, 4, dim)."""
    return 2 * driven[0] * driven[2] * math.prod(recurrent)


def of_slstm_adjoint(recurrent: Shape, start: Shape, hidden: Shape, *_: Any, **__: Any) -> int:
    """Twice the forward pass: hidden is (length, heads, batch, dim)."""
    return 4 * hidden[0] * hidden[2] * math.prod(recurrent)
