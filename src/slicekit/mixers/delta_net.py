"""DeltaNet (Schlag et al. 2021; Yang et al. 2024), also with eigenvalues in [-1, 1].

Glossary:
    H         S_t^T  matrix state of a head, (keys, values)
    queries   q_t    SiLU(conv(W_q x))_t, normalised, times keys^(-1/2)
    keys      k_t    SiLU(conv(W_k x))_t, normalised
    values    v_t    SiLU(conv(W_v x))_t
    beta      β_t    sigmoid(W_β x_t); twice that with negative=True (Grazzi et al. 2024)

    H <- (I - β_t k_t k_t^T) H + β_t k_t v_t^T,   o_t = W_o RMSNorm(q_t^T H)
"""

from torch import Tensor

from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes, whole_share
from slicekit.mixers.delta_rule import Beta, delta_steps
from slicekit.mixers.features import Features
from slicekit.mixers.heads import MatrixMixer, Steps, fold, unit


class DeltaNet(MatrixMixer):
    """Linear attention whose state is corrected by the delta rule: rank-one DPLR transitions.

    Args:
        width: size of an input and of an output element.
        heads: number of heads.
        expand_keys: channels of all keys together, in widths.
        expand_values: channels of all values together, in widths.
        kernel: taps of the short convolution of queries, keys and values; 0 for none.
        negative: whether eigenvalues reach -1, as in DeltaNet[-1, 1].
        output_gate: whether what is read is gated by SiLU(W_g x) after its norm.
        bias: whether the convolution adds a constant.
        eps: of the RMS norm.

    Raises:
        ValueError: if the channels can't be shared out among the heads.

    Example:
        >>> import torch
        >>> mixer = DeltaNet(8, heads=2, negative=True)
        >>> y, state = mixer(torch.randn(3, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]))
    """

    citations = ("schlag2021", "yang2024parallelizing")

    def __init__(
        self,
        width: int,
        heads: int = 4,
        expand_keys: float = 1.0,
        expand_values: float = 1.0,
        kernel: int = 4,
        negative: bool = False,
        output_gate: bool = False,
        bias: bool = False,
        eps: float = 1e-5,
    ) -> None:
        """Draw the weights."""
        super().__init__()
        check_sizes(width=width, heads=heads)
        self.heads = heads
        self.keys = whole_share("expand_keys", expand_keys, "width", width, heads)
        self.values = whole_share("expand_values", expand_values, "width", width, heads)
        self.arguments = {
            "width": width,
            "heads": heads,
            "expand_keys": expand_keys,
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
        self.build_output(width, output_gate, eps)
        if negative:
            self.citations = (*self.citations, "grazzi2025")

    def recurrence(
        self, x: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Steps, dict[str, Tensor]]:
        """Delta steps, one an element."""
        dtype = state["hidden"].dtype
        features, carried = self.features(x, state, lengths)
        queries, keys, values = (fold(part.to(dtype), self.heads) for part in features)
        beta = fold(self.beta(x, dtype), self.heads).squeeze(-1)
        return delta_steps(unit(queries) * self.keys**-0.5, unit(keys), values, beta), carried
