"""The baselines on time series: the sizes of the comparison for each of its data sets.

LRU, S5, S6 and Mamba are stacks of `GatedBlock`s on embedded elements whose outputs are averaged;
NCDE, NRDE and Log-NCDE are one layer on the series itself, read out at the end. Sizes and rates are
the paper's (those of its search); training is shorter, as for the models in `series`. All others of
`BASELINES` have two blocks of width 64 there, on which the paper says nothing.

Whether a model was given time as a channel differs by data set; here the task settles it for all
models alike (`slicekit train SelfRegulationSCP1 --task-option time=true`), and likewise their
scaling. The paper's solver takes steps of a fixed length in time; here they are a whole number a
window.

Glossary: hidden and depth are width and number of layers of a field's network; window and log_depth
are those of log-signatures; dim is the size of the state.
"""

from collections.abc import Callable
from dataclasses import replace

from torch import nn

from slicekit import mixers
from slicekit.catalogue.baselines import BASELINES, Blocks, MixerDesign
from slicekit.catalogue.series import HIGHEST_RATE, OTHER, PAPER, SETTINGS, SPEED_UP
from slicekit.layers import BatchNorm, GatedBlock, Last, LayerNorm
from slicekit.mixers import FixedStep, Heun
from slicekit.tasks import Task
from slicekit.training.settings import Settings

SETS = (
    "EigenWorms",
    "EthanolConcentration",
    "Heartbeat",
    "MotorImagery",
    "SelfRegulationSCP1",
    "SelfRegulationSCP2",
)


def _by_set(*rows: tuple[float, ...]) -> dict[str, tuple[float, ...]]:
    return dict(zip(SETS, rows, strict=True))


LRU = _by_set(
    (64, 64, 4, 1e-3),
    (64, 16, 6, 1e-5),
    (128, 256, 2, 1e-4),
    (16, 256, 6, 1e-3),
    (64, 16, 2, 1e-3),
    (64, 16, 2, 1e-3),
)
"""Width, dim, layers, rate."""

S5 = _by_set(
    (64, 16, 2, 8, 1e-4),
    (128, 16, 2, 8, 1e-5),
    (128, 16, 4, 4, 1e-3),
    (16, 64, 6, 4, 1e-3),
    (128, 16, 6, 8, 1e-3),
    (16, 64, 2, 2, 1e-4),
)
"""Width, dim, layers, blocks of the initialisation, rate."""

S6 = _by_set(
    (16, 64, 4, 1e-3),
    (16, 16, 4, 1e-5),
    (16, 16, 4, 1e-3),
    (16, 256, 4, 1e-3),
    (64, 16, 2, 1e-4),
    (16, 256, 2, 1e-3),
)
"""Width, dim, layers, rate."""

MAMBA = _by_set(
    (16, 64, 6, 2, 1, 1e-3),
    (64, 256, 4, 4, 4, 1e-3),
    (64, 256, 4, 2, 4, 1e-4),
    (128, 64, 2, 3, 1, 1e-5),
    (128, 16, 2, 4, 1, 1e-5),
    (64, 64, 6, 2, 2, 1e-4),
)
"""Width, dim, layers, taps of the convolution, expansion, rate."""

NCDE = _by_set(
    (128, 3, 128, 1, 1e-3),
    (128, 4, 128, 1, 1e-3),
    (128, 4, 128, 2, 1e-3),
    (16, 4, 128, 1, 1e-3),
    (128, 4, 128, 1, 1e-4),
    (128, 4, 128, 1, 1e-3),
)
"""Dim, depth, hidden, steps an observation, rate."""

NRDE = _by_set(
    (64, 3, 64, 2, 4, 1, 1e-3),
    (64, 4, 128, 1, 1, 1, 1e-3),
    (64, 3, 128, 2, 2, 3, 1e-3),
    (128, 4, 128, 1, 1, 1, 1e-4),
    (64, 4, 128, 1, 1, 1, 1e-3),
    (128, 4, 128, 1, 1, 1, 1e-4),
)
"""Dim, depth, hidden, depth and window of the log-signatures, steps a window, rate."""

LOG_NCDE = _by_set(
    (2, 32, 1),
    (3, 64, 1),
    (3, 128, 3),
    (3, 64, 3),
    (3, 128, 9),
    (2, 32, 2),
)
"""Depth, hidden, and steps a window; the rest is as for all structures, in `series.PAPER`."""

OTHER_SET = "SelfRegulationSCP1"
"""Whose sizes serve for data sets on which the paper says nothing."""

WIDTH, LAYERS, RATE = 64, 2, 1e-3
"""Of the baselines that the paper has on tokens only."""


def series_baseline(name: str, task: Task) -> MixerDesign:
    """The design of a baseline for a data set.

    Args:
        name: one of `BASELINES`.
        task: with series.
    """
    makers = {
        "lru": _lru,
        "s5": _s5,
        "s6": _s6,
        "mamba": _mamba,
        "ncde": _ncde,
        "nrde": _nrde,
        "log-ncde": _log_ncde,
    }
    if name in makers:
        return makers[name](task)
    baseline = BASELINES[name]
    return MixerDesign(
        baseline.blocks,
        _settings(RATE),
        WIDTH,
        LAYERS,
        dropout=0.1,
        final_norm=baseline.final_norm,
    )


def _row(table: dict[str, tuple[float, ...]], task: Task) -> tuple[list[int], float]:
    """Sizes and rate for a data set."""
    *sizes, rate = table.get(task.name, table[OTHER_SET])
    return [int(size) for size in sizes], rate


def _settings(rate: float, penalty: float = 0.0) -> Settings:
    return replace(SETTINGS, rate=min(SPEED_UP * rate, HIGHEST_RATE), penalty=penalty)


def _lru(task: Task) -> MixerDesign:
    (width, dim, layers), rate = _row(LRU, task)

    def blocks(width: int, layers: int, dropout: float) -> list[nn.Module]:
        def mixer() -> nn.Module:
            return mixers.LRU(width, dim, r_min=0.0, r_max=1.0, max_phase=6.28)

        return [GatedBlock(mixer(), width, BatchNorm(), dropout) for _ in range(layers)]

    return MixerDesign(blocks, _settings(rate), width, layers, dropout=0.1)


def _s5(task: Task) -> MixerDesign:
    (width, dim, layers, parts), rate = _row(S5, task)

    def blocks(width: int, layers: int, dropout: float) -> list[nn.Module]:
        return [
            GatedBlock(mixers.S5(width, dim, blocks=parts), width, BatchNorm(), dropout)
            for _ in range(layers)
        ]

    return MixerDesign(blocks, _settings(rate), width, layers, dropout=0.05)


def _with_layer_norms(mixer: type[nn.Module], **sizes: int) -> Blocks:
    def blocks(width: int, layers: int, dropout: float) -> list[nn.Module]:
        return [
            GatedBlock(mixer(width, **sizes), width, LayerNorm(), dropout) for _ in range(layers)
        ]

    return blocks


def _s6(task: Task) -> MixerDesign:
    (width, dim, layers), rate = _row(S6, task)
    blocks = _with_layer_norms(mixers.S6, dim=dim)
    return MixerDesign(blocks, _settings(rate), width, layers, dropout=0.1)


def _mamba(task: Task) -> MixerDesign:
    (width, dim, layers, kernel, expand), rate = _row(MAMBA, task)
    blocks = _with_layer_norms(mixers.Mamba, dim=dim, kernel=kernel, expand=expand)
    return MixerDesign(blocks, _settings(rate), width, layers, dropout=0.1)


def _ncde(task: Task) -> MixerDesign:
    (dim, depth, hidden, steps), rate = _row(NCDE, task)
    channels, solver = _channels(task), FixedStep(Heun(), steps)

    def layer() -> nn.Module:
        return mixers.NCDE(channels, dim, hidden=hidden, depth=depth, solver=solver)

    return _on_the_series(layer, dim, _settings(rate))


def _nrde(task: Task) -> MixerDesign:
    (dim, depth, hidden, log_depth, window, steps), rate = _row(NRDE, task)
    channels, solver = _channels(task), FixedStep(Heun(), steps)

    def layer() -> nn.Module:
        return mixers.NRDE(
            channels,
            dim,
            window=window,
            log_depth=log_depth,
            hidden=hidden,
            depth=depth,
            solver=solver,
        )

    return _on_the_series(layer, dim, _settings(rate))


def _log_ncde(task: Task) -> MixerDesign:
    depth, hidden, steps = (int(x) for x in LOG_NCDE.get(task.name, LOG_NCDE[OTHER_SET]))
    sizes, channels = PAPER.get(task.name, OTHER), _channels(task)

    def layer() -> nn.Module:
        return mixers.LogNCDE(
            channels,
            sizes.dim,
            window=sizes.window,
            log_depth=sizes.depth,
            hidden=hidden,
            depth=depth,
            solver=FixedStep(Heun(), steps),
        )

    return _on_the_series(layer, sizes.dim, _settings(sizes.rate, sizes.penalty))


def _channels(task: Task) -> int:
    assert task.channels is not None
    return task.channels


def _on_the_series(layer: Callable[[], nn.Module], dim: int, settings: Settings) -> MixerDesign:
    """One bare layer, read out at the end."""

    def blocks(width: int, layers: int, dropout: float) -> list[nn.Module]:
        if layers != 1:
            raise ValueError(f"layers={layers}, but this model has one layer on the series")
        return [layer()]

    return MixerDesign(blocks, settings, dim, pool=Last(), embed=False)
