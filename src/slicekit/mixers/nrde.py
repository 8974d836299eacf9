"""Neural rough differential equations (Morrill et al. 2021).

    h_0 = ζ(x_0),   dh/ds = f(h) λ_k over window k

| here | in the paper |
|---|---|
| `initial` | ζ, a linear map |
| `field` | f: R^dim -> R^{dim x β}, a network with one column for each term of λ |
| λ_k, `window` | the log-signature of x over window k, and its number of increments |
| `log_depth` | N, the depth of the log-signature |

The network is a ReLU one with `depth` linear maps to `hidden` values, tanh, and a last linear map.
"""

from collections.abc import Sequence

from torch import Tensor

from slicekit.mixers.arguments import check_depth, check_sizes
from slicekit.mixers.fields import IDENTITY, RELU, TANH, Field
from slicekit.mixers.solvers import Solver
from slicekit.mixers.windowed_cde import Autonomous, WindowedCDE
from slicekit.paths import hall


class NRDE(WindowedCDE):
    """A neural RDE: (batch, length, channels) -> (batch, 1 + ceil((length - 1) / window), dim).

    Args:
        channels: size of an observation.
        dim: size of the hidden state.
        window: increments in a window; with 1 there is an output for every element.
        log_depth: depth of the log-signature.
        hidden: size of the field's hidden layers.
        depth: number of the field's hidden layers; the last of them has tanh, the others ReLU.
        solver: of a window, `FixedStep(...)` or `Adaptive(...)`.

    Example:
        >>> import torch
        >>> mixer = NRDE(channels=3, dim=8, window=4, hidden=16, depth=2)
        >>> mixer(torch.randn(2, 13, 3)).shape  # the first element, and three windows
        torch.Size([2, 4, 8])
    """

    citations = ("morrill2021",)

    def __init__(
        self,
        channels: int,
        dim: int,
        window: int,
        log_depth: int = 2,
        hidden: int = 128,
        depth: int = 3,
        solver: Solver | None = None,
    ) -> None:
        """Draw the weights."""
        check_sizes(channels=channels, log_depth=log_depth)
        check_depth(depth)
        super().__init__(channels, dim, window, hall(channels, log_depth), solver)
        self.log_depth, self.hidden, self.depth = log_depth, hidden, depth
        activations = [RELU] * (depth - 1) + [TANH, IDENTITY]
        self.field = Field(dim, self.basis.size, hidden, activations)

    def slopes(self, signatures: Tensor) -> Sequence[Autonomous]:
        """h -> f(h) λ_k."""
        field = self.field.prepare(signatures.dtype)
        return [
            lambda h, velocity=velocity: field.driven(h, velocity)
            for velocity in signatures.unbind(1)
        ]
