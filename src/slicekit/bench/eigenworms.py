"""A step of training on a long series: BD-SLiCE in the paper's setting for EigenWorms."""

import time
from collections.abc import Callable

import torch
from torch.nn import functional

import slicekit as sk
from slicekit.bench.timing import Effort, Times, clocked, threads, time_in_turns

BATCH, LENGTH, CHANNELS, CLASSES = 32, 17_984, 7, 5
DEPTH, WINDOW, DIM, BLOCK = 2, 12, 128, 4

JAX_SECONDS, JAX_RECURRENT_SECONDS = 7.6, 0.68
"""The authors' JAX code on two cores, as configured and as a plain recurrence, log-signatures made
beforehand: recorded figures, because it can't be installed beside slicekit.
"""


def step_times(effort: Effort) -> Times:
    """The time of "step", which `training_step` makes."""
    step = training_step()
    step()
    with threads(1):
        seconds = clocked(step, time.process_time)
    return time_in_turns({"step": step}, effort, {"step": seconds})


def training_step(batch: int = BATCH, length: int = LENGTH) -> Callable[[], None]:
    """A step with Adam on random series, log-signatures included."""
    source = torch.Generator().manual_seed(0)
    walk = torch.randn(batch, length, CHANNELS - 1, generator=source).mul_(0.05).cumsum(1).tanh_()
    clock = torch.linspace(-1, 1, length).reshape(1, -1, 1).expand(batch, -1, -1)
    series = torch.cat([clock, walk], -1)
    answers = torch.randint(CLASSES, (batch,), generator=source)
    model = _model()
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)

    def step() -> None:
        loss = functional.cross_entropy(model(series), answers) + 1e-3 * model.regularisation()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def _model() -> sk.SequenceModel:
    layer = sk.SLiCE(
        CHANNELS,
        sk.BlockDiagonal(DIM, BLOCK, scale=0.25),
        drive=sk.Differences(),
        flow=sk.LogODE(DEPTH, WINDOW, sk.Euler()),
    )
    return sk.SequenceModel(
        channels=CHANNELS,
        outputs=CLASSES,
        width=DIM,
        embed=False,
        blocks=[layer],
        pool=sk.Mean(),
    )
