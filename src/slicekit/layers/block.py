"""What is stacked: a mixer with its skip connections, feed-forward part, norms and dropout."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from slicekit.checks import Lengths
from slicekit.layers.log_ode import Places
from slicekit.layers.norms import LayerNorm, RMSNorm
from slicekit.layers.plainness import repeats
from slicekit.layers.state import State
from slicekit.paths import Tabulated, mask_past_end


@dataclass(frozen=True)
class FeedForward:
    """Linear and activation, and optionally a linear map back.

    Args:
        activation: a class of torch.nn; with nn.GLU the first map is twice as wide.
        expansion: hidden size over width.
        back: whether a second linear map follows; without it expansion is 1.
    """

    activation: type[nn.Module] = nn.Tanh
    expansion: int = 1
    back: bool = False

    def __post_init__(self) -> None:
        """Check that the sizes fit."""
        if self.expansion < 1 or (self.expansion > 1 and not self.back):
            raise ValueError(
                f"expansion={self.expansion} with back={self.back}; expected 1, or back=True"
            )

    def module(self, width: int) -> nn.Sequential:
        """The module for vectors of that size."""
        hidden = self.expansion * width
        first = 2 * hidden if self.activation is nn.GLU else hidden
        parts = [nn.Linear(width, first), self.activation()]
        return nn.Sequential(*parts, *([nn.Linear(hidden, width)] if self.back else []))


@dataclass(frozen=True)
class Wiring:
    """Where a block has its norms and its dropout. The default is the paper's block.

    Args:
        norm: `LayerNorm()` or `RMSNorm()`.
        before_mixer, after_mixer: a norm on the mixer's input; one after its skip connection.
        mixed: a norm on the mixer's output, which brings projective states (of unit norm) to the
            size of the skip connection.
        before_feedforward, after_feedforward: the same for the feed-forward part.
        feedforward: its form.
        drop_branches: dropout on both branches before they are added, instead of on the output.
    """

    norm: LayerNorm | RMSNorm = field(default=LayerNorm())
    before_mixer: bool = False
    after_mixer: bool = False
    mixed: bool = False
    before_feedforward: bool = False
    after_feedforward: bool = True
    feedforward: FeedForward = field(default=FeedForward())
    drop_branches: bool = False

    @classmethod
    def pre_norm(cls, expansion: int = 4, norm: LayerNorm | RMSNorm | None = None) -> "Wiring":
        """The block that is stacked deep today: norms inside the branches, an MLP with GELU.

        Every input of the mixer then has unit variance, under which the state of a `SLiCE` with
        Euler steps grows as exp(length (λ dt + width dt² / 2)), λ from 1 to 3 at the start. For
        long sequences give it projective=True, an `Orthogonal` structure, or a smaller dt.
        """
        return cls(
            norm=RMSNorm() if norm is None else norm,
            before_mixer=True,
            before_feedforward=True,
            after_feedforward=False,
            feedforward=FeedForward(nn.GELU, expansion, back=True),
            drop_branches=True,
        )


class Block(nn.Module):
    """A mixer and a feed-forward part, each with a skip connection.

    With the default wiring, the paper's: y = x + mixer(x); y = y + tanh(W y + b); layer norm;
    dropout.

    Args:
        mixer: a module with the contract of `SLiCE`; if its outputs are not of size width, a linear
            map follows it.
        width: size of the block's inputs and outputs.
        wiring: where norms and dropout are.
        dropout: its probability.

    Example:
        >>> import torch
        >>> from slicekit import SLiCE, Dense
        >>> block = Block(SLiCE(6, Dense(6)), width=6)
        >>> block(torch.randn(2, 5, 6)).shape
        torch.Size([2, 5, 6])
    """

    def __init__(
        self, mixer: nn.Module, width: int, wiring: Wiring | None = None, dropout: float = 0.0
    ) -> None:
        """Build the norms and the feed-forward part."""
        super().__init__()
        wiring = Wiring() if wiring is None else wiring
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout={dropout}; expected a probability in [0, 1)")
        self.mixer, self.width, self.wiring = mixer, width, wiring
        outputs = getattr(mixer, "outputs", width)
        self.project = nn.Identity() if outputs == width else nn.Linear(outputs, width)
        self.feedforward = wiring.feedforward.module(width)
        self.dropout = nn.Dropout(dropout)

        def norm(wanted: bool, size: int = width) -> nn.Module:
            return wiring.norm.module(size) if wanted else nn.Identity()

        self.norm_mixed = norm(wiring.mixed, outputs)
        self.norm_before_mixer = norm(wiring.before_mixer)
        self.norm_after_mixer = norm(wiring.after_mixer)
        self.norm_before_feedforward = norm(wiring.before_feedforward)
        self.norm_after_feedforward = norm(wiring.after_feedforward)

    @property
    def pointwise(self) -> bool:
        """Whether discrete tokens may come as `Tabulated`."""
        return bool(getattr(self.mixer, "pointwise", False)) and repeats(self.norm_before_mixer)

    @property
    def windowed(self) -> bool:
        """Whether the mixer's outputs stand at the ends of windows."""
        return bool(getattr(self.mixer, "windowed", False))

    def places(
        self, x: Tensor, state: State | None = None, lengths: Lengths | None = None
    ) -> Places:
        """Where the outputs stand in the input, for a mixer under `LogODE`."""
        mixer: Any = self.mixer
        return mixer.places(self.norm_before_mixer(x), state, lengths)

    def output_lengths(self, lengths: Tensor) -> Tensor:
        """How many outputs sequences of these lengths have: (batch,) -> (batch,)."""
        mixer: Any = self.mixer
        return mixer.output_lengths(lengths) if self.windowed else lengths

    def forward(
        self,
        x: Tensor | Tabulated,
        state: State | None = None,
        lengths: Lengths | None = None,
        return_state: bool = False,
    ) -> Any:
        """x (batch, length, width), or `Tabulated` -> (batch, length, width).

        With a mixer under `LogODE` there is an output at the end of each window, and the skip
        connection brings the last element of the window to it.
        """
        if lengths is not None:
            x = x.masked(lengths) if isinstance(x, Tabulated) else mask_past_end(x, lengths)
        if isinstance(x, Tabulated) and not self.pointwise:
            x = x.dense()
        if self.windowed:
            x = x.dense() if isinstance(x, Tabulated) else x
            standing = self.places(x, state, lengths)
            mixed, state = self.mixer(self.norm_before_mixer(x), state, lengths, True)
            x = standing.select(x)
        elif isinstance(x, Tabulated):
            mixed, state = self.mixer(x.map(self.norm_before_mixer), state, lengths, True)
            x = x.dense()
        else:
            mixed, state = self.mixer(self.norm_before_mixer(x), state, lengths, True)
        y = self._after(x, mixed)
        return (y, state) if return_state else y

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One element: x (batch, width) -> (batch, width), and the state after it."""
        mixer: Any = self.mixer
        mixed, after = mixer.step(self.norm_before_mixer(x), state)
        return self._after(x, mixed), after

    def _after(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Everything but the mixer, position by position."""
        branch = self.dropout if self.wiring.drop_branches else nn.Identity()
        y = self.norm_after_mixer(x + branch(self.project(self.norm_mixed(mixed))))
        y = y + branch(self.feedforward(self.norm_before_feedforward(y)))
        y = self.norm_after_feedforward(y)
        return y if self.wiring.drop_branches else self.dropout(y)

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this block again, but for its parameters."""
        return {
            "mixer": self.mixer,
            "width": self.width,
            "wiring": self.wiring,
            "dropout": self.dropout.p,
        }
