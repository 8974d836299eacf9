"""Attention and continuous-time mixers, small.

`MIXERS` have an output for every element and compile whole. `ADAPTIVE` ones take as many steps as
their data ask for, so they do not compile; `WINDOWED` ones have an output for each window.
"""

from collections.abc import Callable

from slicekit.mixers.attention import CausalAttention
from slicekit.mixers.base import Mixer
from slicekit.mixers.controls import Linear
from slicekit.mixers.log_ncde import LogNCDE
from slicekit.mixers.ncde import NCDE
from slicekit.mixers.nrde import NRDE
from slicekit.mixers.positions import Rotary, SinusoidalPositions
from slicekit.mixers.solvers import Adaptive, FixedStep, ForwardEuler, RungeKutta4
from slicekit.mixers.windowed_cde import WindowedCDE
from tests.mixers.market_recurrent import awake

MIXERS: dict[str, Callable[[], Mixer]] = {
    "attention": lambda: awake(CausalAttention(16, heads=4)),
    "attention-plain": lambda: CausalAttention(16, heads=2, positions=None, bias=False),
    "attention-slow": lambda: awake(CausalAttention(8, heads=2, positions=Rotary(base=100.0))),
    "ncde": lambda: NCDE(8, 12, hidden=16, depth=2),
    "ncde-linear": lambda: NCDE(8, 12, 16, 1, Linear(), FixedStep(ForwardEuler(), steps=2)),
    "ncde-rk4": lambda: NCDE(8, 12, 16, 2, solver=FixedStep(RungeKutta4())),
    "nrde": lambda: NRDE(8, 12, window=1, log_depth=1, hidden=16, depth=2),
    "nrde-deep": lambda: NRDE(8, 8, window=1, log_depth=2, hidden=16, depth=1),
    "log-ncde": lambda: LogNCDE(8, 12, window=1, hidden=16, depth=2, scale=1.0),
}

POSITIONS: dict[str, Callable[[], Mixer]] = {"sinusoids": lambda: SinusoidalPositions(8)}

ADAPTIVE: dict[str, Callable[[], Mixer]] = {
    "ncde-adaptive": lambda: NCDE(8, 12, 16, 2, solver=Adaptive()),
    "ncde-linear-adaptive": lambda: NCDE(8, 12, 16, 2, Linear(), Adaptive()),
    "nrde-adaptive": lambda: NRDE(8, 12, 1, 1, 16, 2, Adaptive()),
    "log-ncde-adaptive": lambda: LogNCDE(8, 12, 1, 2, 16, 2, Adaptive(), scale=1.0),
}

WINDOWED: dict[str, Callable[[], WindowedCDE]] = {
    "nrde": lambda: NRDE(3, 6, window=4, hidden=8, depth=2),
    "nrde-deep": lambda: NRDE(2, 6, window=3, log_depth=3, hidden=8, depth=2),
    "nrde-adaptive": lambda: NRDE(3, 6, 4, 2, 8, 2, Adaptive()),
    "log-ncde": lambda: LogNCDE(3, 6, window=4, hidden=8, depth=2, scale=1.0),
    "log-ncde-one": lambda: LogNCDE(3, 6, 4, log_depth=1, hidden=8, depth=2, scale=1.0),
    "log-ncde-adaptive": lambda: LogNCDE(3, 6, 4, 2, 8, 2, Adaptive(), scale=1.0),
}
