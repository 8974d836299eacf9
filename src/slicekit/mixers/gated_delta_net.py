"""Gated DeltaNet (Yang et al. 2025): the delta rule with a decay of the whole state.

Glossary:
    H         S_t^T  matrix state of a head, (keys, values)
    queries   q_t    SiLU(conv(W_q x))_t, normalised, times keys^(-1/2)
    keys      k_t    SiLU(conv(W_k x))_t, normalised
    values    v_t    SiLU(conv(W_v x))_t
    beta      β_t    sigmoid(W_β x_t); twice that with negative=True
    decay     α_t    exp(-exp(log_rate) softplus(W_α x_t + step_bias))

    H <- α_t (I - β_t k_t k_t^T) H + β_t k_t v_t^T,   o_t = W_o (RMSNorm(q_t^T H) SiLU(W_g x_t))
"""

from torch import Tensor

from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes, whole_share
from slicekit.mixers.delta_rule import Beta, Decay, delta_steps
from slicekit.mixers.features import Features
from slicekit.mixers.heads import MatrixMixer, Steps, fold, unit


class GatedDeltaNet(MatrixMixer):
    """The delta rule with a forget gate for each head.

    Args:
        width: size of an input and of an output element.
        heads: number of heads.
        head_dim: size of a key; None for 3/4 width / heads, or width / heads without an output
            gate, with which the layer has about 6 width^2 parameters, as the authors advise.
        expand_values: size of a value, in sizes of a key.
        kernel: taps of the short convolution of queries, keys and values; 0 for none.
        negative: whether eigenvalues reach -1.
        output_gate: whether what is read is gated by SiLU(W_g x) after its norm.
        bias: whether the convolution adds a constant.
        eps: of the RMS norm.

    Raises:
        ValueError: if the channels can't be shared out among the heads.

    Example:
        >>> import torch
        >>> mixer = GatedDeltaNet(8, heads=2)
        >>> y, state = mixer(torch.randn(3, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 3, 6]))
    """

    citations = ("yang2025gated",)

    def __init__(
        self,
        width: int,
        heads: int = 6,
        head_dim: int | None = None,
        expand_values: float = 2.0,
        kernel: int = 4,
        negative: bool = False,
        output_gate: bool = True,
        bias: bool = False,
        eps: float = 1e-5,
    ) -> None:
        """Draw the weights."""
        super().__init__()
        self.heads = heads
        self.keys = key_size(width, heads, head_dim, output_gate)
        self.values = whole_share("expand_values", expand_values, "head_dim", self.keys)
        self.arguments = {
            "width": width,
            "heads": heads,
            "head_dim": head_dim,
            "expand_values": expand_values,
            "kernel": kernel,
            "negative": negative,
            "output_gate": output_gate,
            "bias": bias,
            "eps": eps,
        }
        sizes = (heads * self.keys, heads * self.keys, heads * self.values)
        self.features = Features(width, sizes, kernel, bias)
        self.beta = Beta(width, heads, negative)
        self.decay = Decay(width, heads)
        self.build_output(width, output_gate, eps)
        if negative:
            self.citations = (*self.citations, "grazzi2025")

    def recurrence(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Steps, dict[str, Tensor]]:
        """Delta steps with a decay, one an element."""
        dtype = state["hidden"].dtype
        features, carried = self.features(x, state, lengths)
        queries, keys, values = (fold(part.to(dtype), self.heads) for part in features)
        beta = fold(self.beta(x, dtype), self.heads).squeeze(-1)
        queries = unit(queries) * self.keys**-0.5
        return delta_steps(queries, unit(keys), values, beta, self.decay(x, dtype)), carried


def key_size(width: int, heads: int, head_dim: int | None, output_gate: bool) -> int:
    """The size that was asked for, or one with which all maps have about 6 width^2 parameters."""
    check_sizes(width=width, heads=heads)
    if head_dim is not None:
        check_sizes(head_dim=head_dim)
        return head_dim
    share = 0.75 if output_gate else 1.0
    if (share * width) % heads:
        raise ValueError(
            f"heads={heads} does not divide {share:g} * width={share * width:g}; choose another "
            "number of heads, or give head_dim"
        )
    return int(share * width) // heads
