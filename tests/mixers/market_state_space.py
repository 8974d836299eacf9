"""Small state space mixers, every option that changes the path as its own entry."""

from collections.abc import Callable

from slicekit.mixers.base import Mixer
from slicekit.mixers.discretisation import Bilinear, StepSizes
from slicekit.mixers.lru import LRU
from slicekit.mixers.mamba import Mamba
from slicekit.mixers.mamba2 import Mamba2
from slicekit.mixers.s4d import S4D, S4DInv, S4DReal
from slicekit.mixers.s5 import S5
from slicekit.mixers.s6 import S6

# Short sequences need states that change within a few steps.
QUICK = StepSizes(0.1, 1.0)

MIXERS: dict[str, Callable[[], Mixer]] = {
    "s4d": lambda: S4D(8, 8, steps=QUICK, chunk=4),
    "s4d-inv": lambda: S4D(8, 8, spectrum=S4DInv(), output_map=False),
    "s4d-real-bilinear": lambda: S4D(
        8, 8, spectrum=S4DReal(), discretisation=Bilinear(), steps=QUICK, chunk=3
    ),
    "s5": lambda: S5(8, 16, blocks=2),
    "s5-bilinear": lambda: S5(8, 8, clip=False, discretisation=Bilinear()),
    "s5-all-states": lambda: S5(8, 6, conjugate=False, readout="complex_normal"),
    "lru": lambda: LRU(8, 12),
    "lru-ring": lambda: LRU(8, 12, r_min=0.9, r_max=0.999, max_phase=0.3),
    "s6": lambda: S6(8, 4),
    "s6-constant": lambda: S6(8, 4, rank=3, step_weights="constant"),
    "mamba": lambda: Mamba(8, 4),
    "mamba-biases": lambda: Mamba(8, 4, expand=1, kernel=2, bias=True, convolution_bias=False),
    "mamba2": lambda: Mamba2(8, 4, head_dim=4),
    "mamba2-groups": lambda: Mamba2(8, 4, head_dim=4, groups=2, bias=True, rates=None),
    "mamba2-limits": lambda: Mamba2(8, 4, head_dim=8, step_limits=(0.002, 0.05), norm_groups=1),
}
