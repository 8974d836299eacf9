"""Gated DeltaProduct (Siems et al. 2025): several delta steps an element, one after the other.

Glossary:
    rank      n_h      number of (generalised) Householder factors of an element
    H         S_t^T    matrix state of a head, (keys, values)
    queries   q_t      SiLU(conv(W_q x))_t, normalised, times keys^(-1/2)
    keys      k_t^j    SiLU(conv(W_k^j x))_t, normalised, j = 1..rank
    values    v_t^j    SiLU(conv(W_v^j x))_t
    beta      β_t^j    sigmoid(W_β^j x_t); twice that with negative=True
    decay     α_t      exp(-exp(log_rate) softplus(W_α x_t + step_bias)), once an element

    H <- α_t H;   H <- (I - β_t^j k_t^j k_t^jT) H + β_t^j k_t^j v_t^jT for j = 1..rank;   o_t as in
    Gated DeltaNet. A transition is the identity plus rank n_h, and with negative=True a product of
    reflections: any rotation of the plane of two keys for n_h = 2.
"""

from torch import Tensor

from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes, whole_share
from slicekit.mixers.delta_rule import Beta, Decay, product_steps
from slicekit.mixers.features import Features
from slicekit.mixers.gated_delta_net import key_size
from slicekit.mixers.heads import MatrixMixer, Steps, fold, unit


class GatedDeltaProduct(MatrixMixer):
    """Products of delta steps with a forget gate: DPLR transitions of a rank of your choice.

    With rank=1 it is `GatedDeltaNet`, weights and all.

    Args:
        width: size of an input and of an output element.
        heads: number of heads.
        head_dim: size of a key; None as in `GatedDeltaNet`.
        rank: delta steps of an element.
        gated: whether the state decays; without it this is DeltaProduct.
        negative: whether eigenvalues reach -1.
        expand_values: size of a value, in sizes of a key.
        kernel: taps of the short convolution of queries, keys and values; 0 for none.
        output_gate: whether what is read is gated by SiLU(W_g x) after its norm.
        bias: whether the convolution adds a constant.
        eps: of the RMS norm.

    Raises:
        ValueError: if the channels can't be shared out among the heads.

    Example:
        >>> import torch
        >>> mixer = GatedDeltaProduct(8, heads=2, rank=3)
        >>> y, state = mixer(torch.randn(3, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 3, 6]))
    """

    citations = ("siems2025deltaproduct", "yang2025gated")

    def __init__(
        self,
        width: int,
        heads: int = 6,
        head_dim: int | None = None,
        rank: int = 2,
        gated: bool = True,
        negative: bool = True,
        expand_values: float = 2.0,
        kernel: int = 4,
        output_gate: bool = True,
        bias: bool = False,
        eps: float = 1e-5,
    ) -> None:
        """Draw the weights."""
        super().__init__()
        check_sizes(rank=rank)
        self.heads, self.rank = heads, rank
        self.keys = key_size(width, heads, head_dim, output_gate)
        self.values = whole_share("expand_values", expand_values, "head_dim", self.keys)
        self.arguments = {
            "width": width,
            "heads": heads,
            "head_dim": head_dim,
            "rank": rank,
            "gated": gated,
            "negative": negative,
            "expand_values": expand_values,
            "kernel": kernel,
            "output_gate": output_gate,
            "bias": bias,
            "eps": eps,
        }
        key, value = heads * self.keys, heads * self.values
        self.features = Features(width, (key, rank * key, rank * value), kernel, bias)
        self.beta = Beta(width, rank * heads, negative)
        self.decay = Decay(width, heads) if gated else None
        self.build_output(width, output_gate, eps)
        if negative:
            self.citations = (*self.citations, "grazzi2025")

    def recurrence(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Steps, dict[str, Tensor]]:
        """Delta steps, rank of them an element, of which the first decays."""
        dtype = state["hidden"].dtype
        (queries, keys, values), carried = self.features(x, state, lengths)
        queries = unit(fold(queries.to(dtype), self.heads)) * self.keys**-0.5
        keys, values, beta = (
            self._by_factor(part.to(dtype)) for part in (keys, values, self.beta(x, dtype))
        )
        decay = None if self.decay is None else self.decay(x, dtype)
        return product_steps(queries, unit(keys), values, beta.squeeze(-1), decay), carried

    def _by_factor(self, x: Tensor) -> Tensor:
        """(batch, length, rank * heads * dim) -> (batch * heads, length, rank, dim)."""
        parts = x.unflatten(-1, (self.rank, self.heads, -1))
        return parts.permute(0, 3, 1, 2, 4).flatten(0, 1)
