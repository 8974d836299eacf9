"""Small instances of the delta-rule family and its diagonal relatives, for the general tests."""

from collections.abc import Callable
from typing import Any

from torch import nn

from slicekit.mixers.base import Mixer
from slicekit.mixers.delta_net import DeltaNet
from slicekit.mixers.gated_delta_net import GatedDeltaNet
from slicekit.mixers.gated_delta_product import GatedDeltaProduct
from slicekit.mixers.gated_linear_attention import GatedLinearAttention, PerHead, PerKey
from slicekit.mixers.rwkv7 import RWKV7

RANKS: dict[str, Any] = {"decay_rank": 3, "rate_rank": 3, "gate_rank": 3, "residual_rank": 3}


def awake(mixer: RWKV7) -> RWKV7:
    """Weights that start at zero, drawn: otherwise the output would be zero whatever happens."""
    for p in mixer.parameters():
        if not p.any():
            nn.init.normal_(p, std=0.3)
    return mixer


MIXERS: dict[str, Callable[[], Mixer]] = {
    "deltanet": lambda: DeltaNet(8, heads=2),
    "deltanet-neg": lambda: DeltaNet(8, heads=2, negative=True),
    "deltanet-no-convolution": lambda: DeltaNet(8, heads=2, kernel=0, output_gate=True),
    "deltanet-sizes": lambda: DeltaNet(8, heads=2, expand_keys=0.5, expand_values=1.5, bias=True),
    "gated-deltanet": lambda: GatedDeltaNet(8, heads=2),
    "gated-deltanet-neg": lambda: GatedDeltaNet(8, heads=2, negative=True, output_gate=False),
    "gated-deltanet-no-convolution": lambda: GatedDeltaNet(8, heads=2, kernel=0),
    "gated-deltaproduct": lambda: GatedDeltaProduct(8, heads=2),
    "gated-deltaproduct-3": lambda: GatedDeltaProduct(8, heads=2, rank=3, negative=False),
    "deltaproduct": lambda: GatedDeltaProduct(8, heads=2, gated=False, kernel=0),
    "rwkv7": lambda: awake(RWKV7(8, head_dim=4, **RANKS)),
    "rwkv7-residual": lambda: awake(RWKV7(8, head_dim=4, layer=1, depth=2, residual=True, **RANKS)),
    "gla": lambda: GatedLinearAttention(8, heads=2, gates=PerKey(rank=3)),
    "gla-head": lambda: GatedLinearAttention(8, heads=2, gates=PerHead(), kernel=3),
    "linear-attention": lambda: GatedLinearAttention(8, heads=2, gates=None, output_gate=False),
}
