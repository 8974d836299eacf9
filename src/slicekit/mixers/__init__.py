"""What else could stand in the place of a `SLiCE`? Every baseline, one file each, same contract.

Example:
    >>> import torch
    >>> from slicekit import mixers
    >>> mixers.Mamba(8)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
"""

from slicekit.mixers.attention import CausalAttention
from slicekit.mixers.base import Mixer
from slicekit.mixers.controls import Control, CubicHermite, Linear
from slicekit.mixers.convolution import ShortConvolution
from slicekit.mixers.delta_net import DeltaNet
from slicekit.mixers.discretisation import Bilinear, StepSizes, ZeroOrderHold
from slicekit.mixers.gated_delta_net import GatedDeltaNet
from slicekit.mixers.gated_delta_product import GatedDeltaProduct
from slicekit.mixers.gated_linear_attention import GatedLinearAttention, PerHead, PerKey
from slicekit.mixers.log_ncde import LogNCDE
from slicekit.mixers.lru import LRU
from slicekit.mixers.lstm import LSTM
from slicekit.mixers.mamba import Mamba
from slicekit.mixers.mamba2 import Mamba2
from slicekit.mixers.mlstm import MLSTM
from slicekit.mixers.ncde import NCDE
from slicekit.mixers.nrde import NRDE
from slicekit.mixers.positions import Rotary, SinusoidalPositions
from slicekit.mixers.rwkv7 import RWKV7
from slicekit.mixers.s4d import S4D, S4DInv, S4DLin, S4DReal
from slicekit.mixers.s5 import S5
from slicekit.mixers.s6 import S6
from slicekit.mixers.slstm import SLSTM, PowerLaw, Spaced
from slicekit.mixers.solvers import Adaptive, FixedStep, ForwardEuler, Heun, RungeKutta4
from slicekit.mixers.xlstm import MLSTMBlock, SLSTMBlock, xlstm_blocks

__all__ = [
    "LRU",
    "LSTM",
    "MLSTM",
    "NCDE",
    "NRDE",
    "RWKV7",
    "S4D",
    "S5",
    "S6",
    "SLSTM",
    "Adaptive",
    "Bilinear",
    "CausalAttention",
    "Control",
    "CubicHermite",
    "DeltaNet",
    "FixedStep",
    "ForwardEuler",
    "GatedDeltaNet",
    "GatedDeltaProduct",
    "GatedLinearAttention",
    "Heun",
    "Linear",
    "LogNCDE",
    "MLSTMBlock",
    "Mamba",
    "Mamba2",
    "Mixer",
    "PerHead",
    "PerKey",
    "PowerLaw",
    "Rotary",
    "RungeKutta4",
    "S4DInv",
    "S4DLin",
    "S4DReal",
    "SLSTMBlock",
    "ShortConvolution",
    "SinusoidalPositions",
    "Spaced",
    "StepSizes",
    "ZeroOrderHold",
    "xlstm_blocks",
]
