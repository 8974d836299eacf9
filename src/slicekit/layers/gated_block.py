"""The block of state space models on time series: norm, mixer, GELU and GLU in one branch.

y = x + dropout(GLU(W dropout(GELU(mixer(norm(x)))))), as around S5 and LRU (with batch norms) and
around S6 and Mamba (with layer norms) in the comparison on time series.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import Lengths, check_lengths
from slicekit.layers.norms import BatchNorm, LayerNorm, RMSNorm
from slicekit.layers.stack import windowed
from slicekit.layers.state import State
from slicekit.paths import mask_past_end


class GatedBlock(nn.Module):
    """A mixer between a norm and a gated linear unit, with one skip connection.

    Args:
        mixer: a module with the contract of `SLiCE`, and outputs of size width at every element.
        width: size of the block's inputs and outputs.
        norm: `BatchNorm()`, `LayerNorm()` or `RMSNorm()`, on the mixer's input.
        dropout: its probability, after the mixer and after the gated linear unit.

    Example:
        >>> import torch
        >>> from slicekit import Dense, SLiCE
        >>> block = GatedBlock(SLiCE(6, Dense(6)), width=6)
        >>> block(torch.randn(2, 5, 6)).shape
        torch.Size([2, 5, 6])
    """

    def __init__(
        self,
        mixer: nn.Module,
        width: int,
        norm: BatchNorm | LayerNorm | RMSNorm = BatchNorm(),
        dropout: float = 0.0,
    ) -> None:
        """Build the norm and the gated linear unit."""
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout={dropout}; expected a probability in [0, 1)")
        if windowed(mixer):
            raise ValueError(
                f"mixer is a {type(mixer).__name__} with one output for each window; expected one "
                "for each element: give it another flow or window, or take Block, which joins "
                "windows and elements"
            )
        outputs = getattr(mixer, "outputs", width)
        if outputs != width:
            raise ValueError(f"the mixer has {outputs} outputs; expected width={width}")
        self.mixer, self.width, self.policy = mixer, width, norm
        self.norm = norm.module(width)
        self.gate = nn.Linear(width, 2 * width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
        lengths: Lengths | None = None,
        return_state: bool = False,
    ) -> Any:
        """x (batch, length, width) -> (batch, length, width)."""
        if lengths is not None:
            lengths = check_lengths(lengths, x.shape[0], x.shape[1], device=x.device)
            x = mask_past_end(x, lengths)
        batch_norm = isinstance(self.policy, BatchNorm)
        normed = self.norm(x, lengths) if batch_norm else self.norm(x)
        mixed, state = self.mixer(normed, state, lengths, True)
        y = self._after(x, mixed)
        return (y, state) if return_state else y

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One element: x (batch, width) -> (batch, width), and the state after it."""
        mixer: Any = self.mixer
        mixed, after = mixer.step(self.norm(x), state)
        return self._after(x, mixed), after

    def _after(self, x: Tensor, mixed: Tensor) -> Tensor:
        inner = self.dropout(functional.gelu(mixed))
        return x + self.dropout(functional.glu(self.gate(inner)))

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this block again, but for its parameters."""
        return {
            "mixer": self.mixer,
            "width": self.width,
            "norm": self.policy,
            "dropout": self.dropout.p,
        }
