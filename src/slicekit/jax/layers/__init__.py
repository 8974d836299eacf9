"""What does a user stack? `SLiCE`, `Block` and `SequenceModel`, with their drives and states."""

from slicekit.jax.layers.block import Block, FeedForward, Wiring
from slicekit.jax.layers.drives import Differences, Drive, Pointwise, TimeAndInput
from slicekit.jax.layers.initial_states import FirstInput, InitialState, Learned
from slicekit.jax.layers.linear import Embedding, LayerNorm, Linear, Norm, RMSNorm
from slicekit.jax.layers.model import SequenceModel
from slicekit.jax.layers.pooling import Last, Mean, Pooling
from slicekit.jax.layers.slice import SLiCE
from slicekit.jax.layers.state import State, States

__all__ = [
    "Block",
    "Differences",
    "Drive",
    "Embedding",
    "FeedForward",
    "FirstInput",
    "InitialState",
    "Last",
    "LayerNorm",
    "Learned",
    "Linear",
    "Mean",
    "Norm",
    "Pointwise",
    "Pooling",
    "RMSNorm",
    "SLiCE",
    "SequenceModel",
    "State",
    "States",
    "TimeAndInput",
    "Wiring",
]
