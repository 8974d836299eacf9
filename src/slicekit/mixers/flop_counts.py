"""What `torch.utils.flop_counter` counts for the mixers' operators: two for each product."""

import math

Shape = tuple[int, ...]


def of_short_convolution(activation: bool, operands: list[Shape]) -> int:
    """A product of each input with each weight of its channel."""
    x, _, weight, *_ = operands
    return 2 * math.prod(x) * weight[-1]


def of_lstm(operands: list[Shape]) -> int:
    """The products with both matrices at every step."""
    x, _, _, *weights = operands
    return 2 * x[0] * x[1] * sum(math.prod(shape) for shape in weights if len(shape) == 2)


def of_slstm(keep: bool, operands: list[Shape]) -> int:
    """The recurrent products of each step: driven is (length, heads, batch, 4, dim)."""
    driven, recurrent, _ = operands
    return 2 * driven[0] * driven[2] * math.prod(recurrent)


def of_slstm_sequences(keep: bool, operands: list[Shape]) -> int:
    """The products of each step with the maps from inputs and from hidden states to the gates."""
    x, gates, recurrent = operands[1:4]
    return 2 * x[0] * x[1] * (math.prod(gates) + math.prod(recurrent))
