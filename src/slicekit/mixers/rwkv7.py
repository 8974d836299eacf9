"""RWKV-7 "Goose": its time mixing (Peng et al. 2025).

Glossary:
    shift       μ_r..μ_g  how much of the previous element is mixed into what each map sees
    H           S_t^T     matrix state of a head, (head_dim, head_dim)
    receptance  r_t       W_r x^r_t, the query
    decay       w_t       exp(-e^(-1/2) sigmoid(w_0 + tanh(x^w_t A_w) B_w)), in (0.545, 1)
    rate        a_t       sigmoid(a_0 + x^a_t A_a B_a), the in-context learning rate
    removed     κ_t       W_k x^k_t * k_k, normalised: the key that is erased
    written     k_t       W_k x^k_t * (1 + (a_t - 1) k_a): the key that is written
    values      v_t       W_v x^v_t, drawn towards the first layer's where residual=True
    gate        g_t       sigmoid(x^g_t A_g) B_g
    bonus       r_k       weight of the current element's own value, besides the state

    x^i_t = x_t + μ_i (x_{t-1} - x_t)
    H <- (diag(w_t) - (a_t * κ_t) κ_t^T) H + k_t v_t^T
    o_t = W_o (g_t * (GroupNorm(r_t^T H) + (r_t . (r_k * k_t)) v_t))

The value residual: in a stack of these layers every layer but the first draws its values towards
those of the first, v <- v + (v_first - v) sigmoid(v_0 + x^v A_v B_v). The first layer's values are
its own, and a layer by itself is a first layer: residual=False, the default. With residual=True an
input element is x_t and v_first,t side by side, and `first_values` of the first layer gives them.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.checks import Lengths, check_floating, check_lengths, check_shape, check_whole
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.convolution import last_window
from slicekit.mixers.heads import Steps, fold, unfold
from slicekit.mixers.headwise import check_divides
from slicekit.mixers.low_rank_map import LowRankMap
from slicekit.mixers.precision import called_in
from slicekit.mixers.rwkv7_start import EXPONENTS, Places, chosen_rank, uniform_map
from slicekit.paths import mask_past_end
from slicekit.scans import Outer
from slicekit.structures import LowRankTransition

LOG_SMALLEST = -math.exp(-0.5)
"""Logarithm of the smallest decay."""


@dataclass(frozen=True, eq=False)
class Driven:
    """What the elements become; all (batch, length, width)."""

    receptance: Tensor
    decay: Tensor
    removed: Tensor
    rate: Tensor
    written: Tensor
    values: Tensor
    gate: Tensor


class RWKV7(Mixer):
    """The time mixing of RWKV-7: a vector of decays and a vector of rates for the delta rule.

    Args:
        width: size of an output element, and of an input element without residual.
        head_dim: size of a head, which divides the width.
        layer: place of this layer in its stack, from 0; only for the initialisation.
        depth: number of layers of the stack; only for the initialisation.
        residual: whether values are drawn towards those of the first layer, which then follow x in
            each input element: (batch, length, 2 * width).
        decay_rank: rank of the map to the decays; None for 2.5 sqrt(width), in steps of 32.
        rate_rank: rank of the map to the rates; None for 2.5 sqrt(width), in steps of 32.
        gate_rank: rank of the map to the gates; None for 5 sqrt(width), in steps of 32.
        residual_rank: rank of the map to the residual's weights; None for 1.7 sqrt(width).

    The output map starts at zero, as the authors' does: so does the output.

    Raises:
        ValueError: if head_dim does not divide the width, or layer is not in range(depth).

    Example:
        >>> mixer = RWKV7(8, head_dim=4)
        >>> y, state = mixer(torch.randn(3, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]))
    """

    citations = ("peng2025rwkv7",)
    linear = True

    def __init__(
        self,
        width: int,
        head_dim: int = 64,
        layer: int = 0,
        depth: int = 1,
        residual: bool = False,
        decay_rank: int | None = None,
        rate_rank: int | None = None,
        gate_rank: int | None = None,
        residual_rank: int | None = None,
    ) -> None:
        """Draw the weights as the authors do."""
        super().__init__()
        check_sizes(width=width, head_dim=head_dim, depth=depth)
        check_whole("layer", layer, least=0)
        check_divides("head_dim", head_dim, "width", width)
        if not 0 <= layer < depth:
            raise ValueError(f"layer={layer} of depth={depth}; expected 0 to {depth - 1}")
        self.width, self.head_dim, self.heads = width, head_dim, width // head_dim
        self.channels, self.outputs = width * (2 if residual else 1), width
        self.arguments = {
            "width": width,
            "head_dim": head_dim,
            "layer": layer,
            "depth": depth,
            "residual": residual,
            "decay_rank": decay_rank,
            "rate_rank": rate_rank,
            "gate_rank": gate_rank,
            "residual_rank": residual_rank,
        }
        root = width**0.5
        place = Places(width, head_dim, layer, depth)
        self.shift = nn.Parameter(place.shifts())
        self.receptance = uniform_map(width, 0.5 / root)
        self.key = uniform_map(width, 0.05 / root)
        self.value = uniform_map(width, 0.5 / root)
        rank = chosen_rank("decay_rank", decay_rank, 2.5 * root)
        self.decay = LowRankMap(width, rank, torch.tanh, place.decay())
        rank = chosen_rank("rate_rank", rate_rank, 2.5 * root)
        self.rate = LowRankMap(width, rank, None, place.rate())
        rank = chosen_rank("gate_rank", gate_rank, 5 * root)
        self.gate = LowRankMap(width, rank, torch.sigmoid)
        rank = chosen_rank("residual_rank", residual_rank, 1.7 * root)
        self.residual = LowRankMap(width, rank, None, place.residual()) if residual else None
        self.removal = nn.Parameter(place.removal())
        self.replacement = nn.Parameter(torch.full((width,), 1.02))
        self.bonus = nn.Parameter(torch.full((self.heads, head_dim), -0.04))
        self.norm = nn.GroupNorm(self.heads, width, eps=head_dim * 1e-5)
        nn.init.constant_(self.norm.weight, ((layer + 1) / depth) ** 0.7)
        self.output = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.output.weight)

    @property
    def halo(self) -> int:
        """The previous element, which is mixed with each."""
        return 1

    def start(self, batch: int, like: Tensor) -> State:
        """Zeros: the hidden state (batch, heads, head_dim, head_dim) and the previous element."""
        hidden = like.new_zeros(batch, self.heads, self.head_dim, self.head_dim)
        return State({"hidden": hidden, "previous": like.new_zeros(batch, 1, self.width)})

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Maps, recurrence, group norm, bonus, gate and output map."""
        driven, carried = self.drive(x, state, lengths)
        read, hidden = self.steps(driven).run(state["hidden"], lengths, self.scan)
        y = self._normalised(unfold(read, self.heads).flatten(2)) + self._bonus(driven)
        y = self.output((y * driven.gate).to(self.output.weight.dtype))
        return y, State({"hidden": hidden, **carried})

    def recurrence(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Steps, dict[str, Tensor]]:
        """What the elements do to the state: the mixer as an affine linear CDE.

        Args:
            x: (batch, length, channels).
            state: where they start; its hidden state gives the dtype to compute in.
            lengths: (batch,) int64, or None.

        Returns:
            The steps, and what is to be carried besides the hidden state.
        """
        driven, carried = self.drive(x, state, lengths)
        return self.steps(driven), carried

    def drive(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Driven, dict[str, Tensor]]:
        """The maps, from elements (batch, length, channels) to all that drives the state."""
        dtype = state["hidden"].dtype
        x, first = x[..., : self.width], x[..., self.width :]
        shifted, carried = self._shifted(x, state, lengths)
        decay = torch.exp(LOG_SMALLEST * self.decay(shifted["decay"]).to(dtype).sigmoid())
        rate = self.rate(shifted["rate"]).to(dtype).sigmoid()
        keys = self.key(shifted["keys"]).to(dtype)
        removed = (keys * self.removal.to(dtype)).unflatten(-1, (self.heads, -1))
        values = self.value(shifted["values"]).to(dtype)
        if self.residual is not None:
            weight = self.residual(shifted["values"]).to(dtype).sigmoid()
            values = values + (first.to(dtype) - values) * weight
        driven = Driven(
            receptance=self.receptance(shifted["receptance"]).to(dtype),
            decay=decay,
            removed=functional.normalize(removed, dim=-1).flatten(2),
            rate=rate,
            written=keys * (1 + (rate - 1) * self.replacement.to(dtype)),
            values=values,
            gate=self.gate(shifted["gate"]).to(dtype),
        )
        return driven, carried

    def steps(self, driven: Driven) -> Steps:
        """The recurrence of what the maps gave, heads folded in the batch."""
        decay, removed, rate = (
            fold(x, self.heads) for x in (driven.decay, driven.removed, driven.rate)
        )
        written, values = fold(driven.written, self.heads), fold(driven.values, self.heads)
        erased = -(rate * removed).unsqueeze(-1)
        transitions = LowRankTransition(decay, erased, removed.unsqueeze(-1))
        return Steps(transitions, Outer(written, values), fold(driven.receptance, self.heads))

    def first_values(
        self, x: Tensor, state: State | None = None, lengths: Lengths | None = None
    ) -> Tensor:
        """The values (batch, length, width) that later layers' residuals take.

        Args:
            x: (batch, length, width), the input of this layer, the first of a stack.
            state: as in `forward`.
            lengths: as in `forward`; elements past the end count as zero.
        """
        check_shape("x", x, ("batch", "length", self.width))
        check_floating("x", x)
        given, x = x.dtype, self._in_own_dtype(x)
        if lengths is not None:
            lengths = check_lengths(lengths, x.shape[0], x.shape[1], device=x.device)
            x = mask_past_end(x, lengths)
        shifted, _ = self._shifted(x, self._begin(x, state), lengths)
        return self.value(shifted["values"]).to(given)

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return dict(self.arguments)

    def _shifted(
        self, x: Tensor, state: State, lengths: Tensor | None
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What each map sees, by name, and the last element to carry."""
        previous = state["previous"]
        seen = torch.cat([previous.to(x.dtype), x], 1)
        change = seen[:, :-1] - x
        shift = self.shift.to(x.dtype)
        shifted = {name: x + change * shift[i] for i, name in enumerate(EXPONENTS)}
        return shifted, {"previous": last_window(seen, 1, lengths).to(previous.dtype)}

    def _normalised(self, read: Tensor) -> Tensor:
        """Group norm of each element by itself, a group for each head."""
        return called_in(self.norm, read.flatten(0, 1)).unflatten(0, read.shape[:2])

    def _bonus(self, driven: Driven) -> Tensor:
        """The current element's own value, as receptance and key agree; (batch, length, width)."""
        agreement = (driven.receptance * driven.written).unflatten(-1, (self.heads, -1))
        weight = (agreement * self.bonus.to(agreement.dtype)).sum(-1, keepdim=True)
        return (weight * driven.values.unflatten(-1, (self.heads, -1))).flatten(2)
