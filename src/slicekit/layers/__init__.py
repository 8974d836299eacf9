"""What does a user stack? `SLiCE`, `Block` and `SequenceModel`, with their drives and states."""

from slicekit.layers.block import Block, FeedForward, Wiring
from slicekit.layers.drives import Differences, Drive, Pointwise, TimeAndInput
from slicekit.layers.gated_block import GatedBlock
from slicekit.layers.initial_states import FirstInput, InitialState, Learned
from slicekit.layers.model import SequenceModel
from slicekit.layers.norms import BatchNorm, LayerNorm, RMSNorm
from slicekit.layers.pooling import Last, Mean, Pooling
from slicekit.layers.slice import SLiCE
from slicekit.layers.state import State, States

__all__ = [
    "BatchNorm",
    "Block",
    "Differences",
    "Drive",
    "FeedForward",
    "FirstInput",
    "GatedBlock",
    "InitialState",
    "Last",
    "LayerNorm",
    "Learned",
    "Mean",
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
