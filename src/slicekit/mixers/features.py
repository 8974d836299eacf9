"""Queries, keys and values as the linear-attention family makes them from its input.

Glossary:
    queries, keys, values  q_t, k_t, v_t  SiLU(conv(W x))_t, three maps and filters in one
    window                                the inputs of the convolution that are still in reach
"""

from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import check_whole
from slicekit.layers.state import State
from slicekit.mixers.convolution import ShortConvolution


class Features(nn.Module):
    """A linear map, a short causal convolution and SiLU, cut into queries, keys and values.

    Args:
        width: size of an input element.
        sizes: channels of the queries, the keys and the values.
        kernel: taps of the convolution; 0 for none.
        bias: whether the convolution adds a constant.
        activation: whether SiLU is applied without a convolution too; with one it always is.

    The three maps are rows of one matrix, and so are the filters, drawn as `torch.nn.Linear` and
    `torch.nn.Conv1d` draw them: cut at `sizes` they are those of separate layers.

    Example:
        >>> import torch
        >>> features = Features(3, (4, 4, 6), kernel=2)
        >>> state = State(features.start(1, torch.zeros(0)))
        >>> (queries, keys, values), carried = features(torch.randn(1, 5, 3), state)
        >>> values.shape, carried["window"].shape
        (torch.Size([1, 5, 6]), torch.Size([1, 1, 14]))
    """

    def __init__(
        self,
        width: int,
        sizes: tuple[int, int, int],
        kernel: int = 4,
        bias: bool = False,
        activation: bool = True,
    ) -> None:
        """Draw the weights."""
        super().__init__()
        check_whole("kernel", kernel, least=0)
        self.sizes = sizes
        self.activation = activation and kernel == 0
        self.map = nn.Linear(width, sum(sizes), bias=False)
        self.convolution = None
        if kernel:
            self.convolution = ShortConvolution(sum(sizes), kernel, bias, activation=True)

    def start(self, batch: int, like: Tensor) -> dict[str, Tensor]:
        """What is carried before the first element: the convolution's window, if there is one."""
        if self.convolution is None:
            return {}
        return {"window": self.convolution.window(batch, like)}

    def forward(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """Map some elements.

        Args:
            x: (batch, length, width).
            state: holds the window, if there is a convolution.
            lengths: (batch,) int64, or None.

        Returns:
            Queries, keys and values, (batch, length, size) each, and what to carry.
        """
        mapped, carried = self.map(x), {}
        if self.convolution is not None:
            mapped, carried["window"] = self.convolution(mapped, state["window"], lengths)
        mapped = functional.silu(mapped) if self.activation else mapped
        return mapped.split(self.sizes, -1), carried
