"""What a mixer can't be made of is refused at once, in the words of its user."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from slicekit.mixers.delta_net import DeltaNet
from slicekit.mixers.gated_delta_net import GatedDeltaNet
from slicekit.mixers.gated_delta_product import GatedDeltaProduct
from slicekit.mixers.gated_linear_attention import GatedLinearAttention, PerHead, PerKey
from slicekit.mixers.headwise import check_divides
from slicekit.mixers.log_ncde import LogNCDE
from slicekit.mixers.lru import LRU
from slicekit.mixers.mamba import Mamba
from slicekit.mixers.mamba2 import Mamba2
from slicekit.mixers.ncde import NCDE
from slicekit.mixers.nrde import NRDE
from slicekit.mixers.rwkv7 import RWKV7
from slicekit.mixers.s4d import S4D, S4DLin
from slicekit.mixers.s5 import S5
from slicekit.mixers.s6 import S6

Case = tuple[Callable[..., Any], dict[str, Any], str]

DELTA: list[Case] = [
    (DeltaNet, {"width": 0}, "width=0; expected at least 1"),
    (DeltaNet, {"width": 8.0}, "width=8.0 is a float; expected a whole number"),
    (DeltaNet, {"width": 8, "heads": 2.0}, "heads=2.0 is a float; expected a whole number"),
    (DeltaNet, {"width": 8, "heads": 0}, "heads=0; expected at least 1"),
    (DeltaNet, {"width": 8, "heads": True}, "heads=True is a bool; expected a whole number"),
    (DeltaNet, {"width": 8, "kernel": -1}, "kernel=-1; expected at least 0"),
    (DeltaNet, {"width": 8, "kernel": 4.0}, "kernel=4.0 is a float; expected a whole number"),
    (DeltaNet, {"width": 8, "eps": 0.0}, "eps=0.0; expected a positive number"),
    (DeltaNet, {"width": 8, "expand_keys": 0}, "expand_keys=0; expected a positive number"),
    (
        DeltaNet,
        {"width": 6, "expand_keys": 0.5},
        "expand_keys=0.5 with width=6 makes 3 channels; expected a positive multiple of heads=4",
    ),
    (GatedDeltaNet, {"width": 10}, "heads=6 does not divide 0.75 * width=7.5"),
    (GatedDeltaNet, {"width": 8, "head_dim": 0}, "head_dim=0; expected at least 1"),
    (GatedDeltaNet, {"width": 8, "head_dim": -3}, "head_dim=-3; expected at least 1"),
    (GatedDeltaNet, {"width": 8, "heads": 0, "head_dim": 4}, "heads=0; expected at least 1"),
    (
        GatedDeltaNet,
        {"width": 8, "head_dim": 3, "expand_values": 0.5},
        "expand_values=0.5 with head_dim=3 makes 1.5 channels; expected a whole number",
    ),
    (GatedDeltaProduct, {"width": 8, "head_dim": 0}, "head_dim=0; expected at least 1"),
    (GatedDeltaProduct, {"width": 8, "rank": 0}, "rank=0; expected at least 1"),
    (GatedDeltaProduct, {"width": 8, "heads": -1, "head_dim": 4}, "heads=-1; expected at least 1"),
    (
        GatedLinearAttention,
        {"width": 8, "gates": "head"},
        "gates='head' is a str; expected PerKey(), PerHead() or None",
    ),
    (GatedLinearAttention, {"width": 8, "heads": 0}, "heads=0; expected at least 1"),
    (GatedLinearAttention, {"width": 8, "eps": -1.0}, "eps=-1.0; expected a positive number"),
    (PerKey, {"rank": 0}, "rank=0; expected at least 1"),
    (PerKey, {"divisor": 0.0}, "divisor=0.0; expected a positive number"),
    (PerHead, {"divisor": -1.0}, "divisor=-1.0; expected a positive number"),
    (RWKV7, {"width": 0, "head_dim": 1}, "width=0; expected at least 1"),
    (RWKV7, {"width": 12}, "head_dim=64 does not divide width=12; choose one of 1, 2, 3, 4, 6, 12"),
    (RWKV7, {"width": 8, "head_dim": 0}, "head_dim=0; expected at least 1"),
    (RWKV7, {"width": 64, "depth": 0}, "depth=0; expected at least 1"),
    (RWKV7, {"width": 64, "layer": -1}, "layer=-1; expected at least 0"),
    (RWKV7, {"width": 64, "layer": 2, "depth": 2}, "layer=2 of depth=2; expected 0 to 1"),
    *(
        (RWKV7, {"width": 64, name: 0}, f"{name}=0; expected at least 1")
        for name in ("decay_rank", "rate_rank", "gate_rank", "residual_rank")
    ),
]

STATE_SPACE: list[Case] = [
    (Mamba, {"width": 0}, "width=0; expected at least 1"),
    (Mamba, {"width": 8, "dim": 0}, "dim=0; expected at least 1"),
    (Mamba, {"width": 8, "expand": 0}, "expand=0; expected at least 1"),
    (Mamba, {"width": 8, "expand": 1.5}, "expand=1.5 is a float; expected a whole number"),
    (Mamba, {"width": 8, "kernel": 0}, "kernel=0; expected at least 1"),
    (Mamba, {"width": 8, "rank": 0}, "rank=0; expected at least 1"),
    (Mamba, {"width": 8, "step_scale": 0.0}, "step_scale=0.0; expected a positive number"),
    (Mamba, {"width": 8, "steps": 0.1}, "steps=0.1 is a float; expected a StepSizes"),
    (Mamba2, {"width": 0}, "width=0; expected at least 1"),
    (Mamba2, {"width": 8, "dim": 0, "head_dim": 4}, "dim=0; expected at least 1"),
    (Mamba2, {"width": 8, "dim": -4, "head_dim": 4}, "dim=-4; expected at least 1"),
    (Mamba2, {"width": 8, "expand": 0}, "expand=0; expected at least 1"),
    (Mamba2, {"width": 8, "head_dim": 0}, "head_dim=0; expected at least 1"),
    (Mamba2, {"width": 8, "head_dim": 5}, "head_dim=5 does not divide expand * width=16"),
    (Mamba2, {"width": 8, "head_dim": 4, "groups": 3}, "groups=3 does not divide heads=4"),
    (Mamba2, {"width": 8, "head_dim": 4, "groups": 0}, "groups=0; expected at least 1"),
    (
        Mamba2,
        {"width": 8, "head_dim": 4, "norm_groups": 3},
        "norm_groups=3 does not divide expand * width=16",
    ),
    (Mamba2, {"width": 8, "head_dim": 4, "kernel": 0}, "kernel=0; expected at least 1"),
    (Mamba2, {"width": 8, "head_dim": 4, "eps": 0}, "eps=0; expected a positive number"),
    (Mamba2, {"width": 8, "head_dim": 4, "rates": (0, 1)}, "rates=(0, 1); expected 0 < rates[0]"),
    (
        Mamba2,
        {"width": 8, "head_dim": 4, "step_limits": (0.2, 0.1)},
        "step_limits=(0.2, 0.1); expected 0 <= low <= high",
    ),
    (
        Mamba2,
        {"width": 8, "head_dim": 4, "step_limits": (-1.0, 0.1)},
        "step_limits=(-1.0, 0.1); expected 0 <= low <= high",
    ),
    (Mamba2, {"width": 8, "head_dim": 4, "steps": None}, "steps=None is a NoneType; expected a St"),
    (S6, {"width": 0}, "width=0; expected at least 1"),
    (S6, {"width": 8, "dim": 0}, "dim=0; expected at least 1"),
    (S6, {"width": 8, "rank": 0}, "rank=0; expected at least 1"),
    (S6, {"width": 8, "step_scale": -1.0}, "step_scale=-1.0; expected a positive number"),
    (S6, {"width": 8, "step_weights": "uniform"}, "step_weights='uniform'; expected one of random"),
    (S4D, {"width": 0}, "width=0; expected at least 1"),
    (S4D, {"width": 4, "dim": 0}, "dim=0; expected at least 1"),
    (S4D, {"width": 4, "dim": 5}, "dim=5; expected an even number"),
    (S4D, {"width": 4, "chunk": 0}, "chunk=0; expected at least 1"),
    (S4D, {"width": 4, "spectrum": "lin"}, "spectrum='lin' is a str; expected a Spectrum such as"),
    (S4D, {"width": 4, "spectrum": S4DLin}, "is a ABCMeta; expected a Spectrum such as S4DLin()"),
    (S4D, {"width": 4, "discretisation": "zoh"}, "discretisation='zoh' is a str; expected a Disc"),
    (S5, {"width": 0}, "width=0; expected at least 1"),
    (S5, {"width": 4, "dim": 0}, "dim=0; expected at least 1"),
    (S5, {"width": 4, "blocks": 0}, "blocks=0; expected at least 1"),
    (S5, {"width": 4, "dim": 6, "blocks": 2}, "dim=6 does not split into blocks=2 equal blocks in"),
    (S5, {"width": 4, "readout": "normal"}, "readout='normal'; expected one of lecun_normal"),
    (S5, {"width": 4, "discretisation": None}, "discretisation=None is a NoneType; expected a Dis"),
    (S5, {"width": 4, "steps": (0.1, 1.0)}, "steps=(0.1, 1.0) is a tuple; expected a StepSizes"),
    (LRU, {"width": 0}, "width=0; expected at least 1"),
    (LRU, {"width": 8, "dim": 0}, "dim=0; expected at least 1"),
    (LRU, {"width": 8, "r_min": 0.9, "r_max": 0.5}, "r_min=0.9, r_max=0.5; expected 0 <= r_min"),
    (LRU, {"width": 8, "max_phase": 0.0}, "max_phase=0.0; expected a positive number"),
]


def name_of(case: Any) -> str:
    made, arguments = case[:2]
    return f"{made.__name__}({', '.join(f'{name}={value}' for name, value in arguments.items())})"


@pytest.mark.parametrize("case", DELTA + STATE_SPACE, ids=name_of)
def test_arguments_that_do_not_fit_are_refused_by_name(case: Case) -> None:
    made, arguments, message = case
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        made(**arguments)


@pytest.mark.parametrize("mixer", [NCDE, NRDE, LogNCDE])
def test_a_depth_beyond_all_is_refused_before_anything_is_made(mixer: Any) -> None:
    window: dict[str, Any] = {} if mixer is NCDE else {"window": 2}
    with pytest.raises(ValueError, match=r"depth=10+; expected at most 1000"):
        mixer(3, 4, **window, depth=10**18)


def test_a_width_beyond_all_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"does not divide"):
        check_divides("heads", 3, "width", 10**30)
