"""Gated linear attention (Yang et al. 2024): diagonal transitions, matrix states.

Glossary:
    H         S_t^T  matrix state of a head, (keys, values)
    queries   q_t    W_q x_t, times keys^(-1/2)
    keys      k_t    W_k x_t
    values    v_t    W_v x_t
    gates     α_t    sigmoid(W_2 W_1 x_t + b)^(1/τ), one for each key channel; or one for each head

    H <- diag(α_t) H + k_t v_t^T,   o_t = W_o (RMSNorm(q_t^T H) SiLU(W_g x_t))
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import check_positive, check_whole
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_policy, check_sizes, whole_share
from slicekit.mixers.features import Features
from slicekit.mixers.heads import MatrixMixer, Steps, fold
from slicekit.scans import Outer
from slicekit.structures import DiagonalTransition


class Gates(ABC):
    """How much each step keeps of the state; a frozen description, whose map is the mixer's."""

    divisor: float

    @abstractmethod
    def build(self, width: int, heads: int, keys: int) -> nn.Module:
        """The map from an element to its gates, before the sigmoid."""


@dataclass(frozen=True)
class PerKey(Gates):
    """A gate for each channel of each key, through a map of low rank.

    Args:
        rank: of the map.
        divisor: τ; the larger it is, the nearer to 1 the gates start.
    """

    rank: int = 16
    divisor: float = 16.0

    def __post_init__(self) -> None:
        """Check both."""
        check_whole("rank", self.rank)
        check_positive("divisor", self.divisor)

    def build(self, width: int, heads: int, keys: int) -> nn.Module:
        """W_2 W_1 x + b."""
        return nn.Sequential(
            nn.Linear(width, self.rank, bias=False), nn.Linear(self.rank, heads * keys)
        )


@dataclass(frozen=True)
class PerHead(Gates):
    """One gate for each head, as in Mamba-2 and simple GLA.

    Args:
        divisor: τ; the larger it is, the nearer to 1 the gates start.
    """

    divisor: float = 16.0

    def __post_init__(self) -> None:
        """Check it."""
        check_positive("divisor", self.divisor)

    def build(self, width: int, heads: int, keys: int) -> nn.Module:
        """W x + b."""
        return nn.Linear(width, heads)


class GatedLinearAttention(MatrixMixer):
    """Linear attention that forgets: diagonal transitions of a matrix state.

    Args:
        width: size of an input and of an output element.
        heads: number of heads.
        expand_keys: channels of all keys together, in widths.
        expand_values: channels of all values together, in widths.
        gates: `PerKey()`, `PerHead()`, or None for linear attention that never forgets.
        kernel: taps of a short convolution of queries, keys and values, after which SiLU is
            applied; 0 for neither.
        output_gate: whether what is read is gated by SiLU(W_g x) after its norm.
        bias: whether the convolution adds a constant.
        eps: of the RMS norm.

    Raises:
        ValueError: if the channels can't be shared out among the heads.

    Example:
        >>> import torch
        >>> mixer = GatedLinearAttention(8, heads=2, gates=PerHead())
        >>> y, state = mixer(torch.randn(3, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 2, 4]))
    """

    citations = ("yang2024gla",)

    def __init__(
        self,
        width: int,
        heads: int = 4,
        expand_keys: float = 0.5,
        expand_values: float = 1.0,
        gates: Gates | None = PerKey(),
        kernel: int = 0,
        output_gate: bool = True,
        bias: bool = False,
        eps: float = 1e-5,
    ) -> None:
        """Draw the weights."""
        super().__init__()
        check_sizes(width=width, heads=heads)
        if gates is not None:
            check_policy("gates", gates, Gates, "PerKey(), PerHead() or None")
        self.heads, self.gates = heads, gates
        self.keys = whole_share("expand_keys", expand_keys, "width", width, heads)
        self.values = whole_share("expand_values", expand_values, "width", width, heads)
        self.arguments = {
            "width": width,
            "heads": heads,
            "expand_keys": expand_keys,
            "expand_values": expand_values,
            "gates": gates,
            "kernel": kernel,
            "output_gate": output_gate,
            "bias": bias,
            "eps": eps,
        }
        sizes = (heads * self.keys, heads * self.keys, heads * self.values)
        self.features = Features(width, sizes, kernel, bias, activation=False)
        self.gate_map = None if gates is None else gates.build(width, heads, self.keys)
        self.build_output(width, output_gate, eps)

    def recurrence(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Steps, dict[str, Tensor]]:
        """Diagonal steps, one an element."""
        dtype = state["hidden"].dtype
        features, carried = self.features(x, state, lengths)
        queries, keys, values = (fold(part.to(dtype), self.heads) for part in features)
        kept = keys.new_ones(1)
        if self.gates is not None and self.gate_map is not None:
            logits = fold(self.gate_map(x).to(dtype), self.heads)
            kept = (functional.logsigmoid(logits) / self.gates.divisor).exp()
        transitions = DiagonalTransition(kept.expand_as(keys))
        return Steps(transitions, Outer(keys, values), queries * self.keys**-0.5), carried
