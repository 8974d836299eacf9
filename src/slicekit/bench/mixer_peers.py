"""What mixers are compared with, each imported only when it is run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from slicekit import mixers

HEADS = 4


def _linear(width: int, batch: int, length: int) -> int:
    return 0


@dataclass(frozen=True)
class Peer:
    """Another implementation.

    Attributes:
        package: what it is imported from.
        make: the module, given width and length.
        bytes: what it needs beyond a multiple of its inputs, given width, batch and length.
        loops: whether it goes step by step in Python, too slowly for a quick run.
    """

    package: str
    make: Callable[[int, int], Any]
    bytes: Callable[[int, int, int], int] = _linear
    loops: bool = False


def gated_delta_net(width: int) -> nn.Module:
    """Ours with heads of the sizes that the peer is given."""
    return mixers.GatedDeltaNet(width, heads=HEADS, head_dim=width // HEADS, expand_values=1.0)


def _mambapy(width: int, length: int) -> Any:
    from mambapy.mamba import MambaBlock, MambaConfig

    return MambaBlock(MambaConfig(d_model=width, n_layers=1))


def _mambapy_bytes(width: int, batch: int, length: int) -> int:
    """About eight arrays with a number for every entry of every state."""
    return 8 * 4 * batch * length * 2 * width * 16


def _mamba(width: int, length: int) -> Any:
    from transformers import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    return MambaMixer(MambaConfig(hidden_size=width, state_size=16, num_hidden_layers=1), 0)


def _mamba2(width: int, length: int) -> Any:
    from transformers import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    config = Mamba2Config(
        hidden_size=width,
        state_size=128,
        head_dim=64,
        expand=2,
        num_heads=width // 32,
        n_groups=1,
        num_hidden_layers=1,
    )
    return Mamba2Mixer(config, 0)


def _mlstm(width: int, length: int) -> Any:
    from xlstm import mLSTMLayer, mLSTMLayerConfig

    return mLSTMLayer(mLSTMLayerConfig(embedding_dim=width, context_length=length, num_heads=HEADS))


def _mlstm_bytes(width: int, batch: int, length: int) -> int:
    """About eight arrays with a number for every pair of positions and head."""
    return 8 * 4 * batch * HEADS * length**2


def _slstm(width: int, length: int) -> Any:
    from xlstm import sLSTMLayer, sLSTMLayerConfig

    return sLSTMLayer(sLSTMLayerConfig(embedding_dim=width, num_heads=HEADS, backend="vanilla"))


def _gated_delta_net(width: int, length: int) -> Any:
    from transformers import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    size = width // HEADS
    config = Qwen3NextConfig(
        hidden_size=width,
        linear_num_key_heads=HEADS,
        linear_num_value_heads=HEADS,
        linear_key_head_dim=size,
        linear_value_head_dim=size,
        linear_conv_kernel_dim=4,
    )
    return Qwen3NextGatedDeltaNet(config, 0)


def _lstm(width: int, length: int) -> Any:
    return nn.LSTM(width, width, batch_first=True)


MAMBAPY = Peer("mambapy", _mambapy, _mambapy_bytes)
MAMBA = Peer("transformers", _mamba, _mambapy_bytes, loops=True)
MAMBA2 = Peer("transformers", _mamba2)
MLSTM = Peer("xlstm", _mlstm, _mlstm_bytes)
SLSTM = Peer("xlstm", _slstm, loops=True)
GATED_DELTA_NET = Peer("transformers", _gated_delta_net)
LSTM = Peer("torch", _lstm)
