"""The recurrent family, small: LSTM, sLSTM, mLSTM, and one of each option that changes the path."""

from collections.abc import Callable
from typing import TypeVar

from torch import nn

from slicekit.mixers.base import Mixer
from slicekit.mixers.lstm import LSTM
from slicekit.mixers.mlstm import MLSTM
from slicekit.mixers.slstm import SLSTM, PowerLaw, Spaced

Kind = TypeVar("Kind", bound=Mixer)


def awake(mixer: Kind) -> Kind:
    """Weights that start at zero, drawn: otherwise gates would stand still whatever comes."""
    for p in mixer.parameters():
        if not p.any():
            nn.init.normal_(p, std=0.3)
    return mixer


MIXERS: dict[str, Callable[[], Mixer]] = {
    "lstm": lambda: LSTM(12, 12),
    "lstm-forget": lambda: LSTM(8, 12, forget_bias=1.0),
    "slstm": lambda: awake(SLSTM(12, heads=2)),
    "slstm-recurrent": lambda: SLSTM(12, heads=3, recurrent_bound=0.3),
    "slstm-direct": lambda: SLSTM(8, heads=1, kernel=0, forget_bias=Spaced(), recurrent_bound=0.3),
    "slstm-late": lambda: SLSTM(12, forget_bias=PowerLaw(1, 2), recurrent_bound=0.3),
    "mlstm": lambda: awake(MLSTM(12, multiple=8)),
    "mlstm-bias": lambda: awake(
        MLSTM(8, heads=1, kernel=2, expand=1.5, qkv_block=2, multiple=4, bias=True)
    ),
    "mlstm-wide": lambda: awake(MLSTM(64, heads=1)),
}
