"""Scans beside each other on one layer: time and memory of a step of training.

All scans run the same layer from the same weights, which is checked, and take turns, so that their
ratios do not depend on what else the machine does. Each is tried on a part of the length first:
where the whole would take too long or too much memory, that trial is what there is, scaled up.

Glossary: window is the paper's Log-ODE interval, 1 without the method; a chunk is its "parallel
steps"; a step of training is forward and backward on one batch.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit import machines
from slicekit.catalogue.series import STRUCTURES
from slicekit.flows import Euler, LogODE
from slicekit.layers import Differences, FirstInput, SLiCE
from slicekit.scans import Associative, Recurrent, Scan
from slicekit.studies.plans import Plan

OURS, RECURRENCE, WHOLE = "ours", "recurrence", "whole"
"""The scan that is taken by default, a loop over the steps, and a chunk as long as the sequence."""

CLASSES = 5
TRIAL, LEAST_STEPS = 16, 512
"""A trial is on a sixteenth of the length, but not on fewer steps."""

TOLERANCE = 1e-3
"""Relative difference of two scans' gradients, in single precision."""


@dataclass(frozen=True)
class Cell:
    """What a step of training takes.

    Attributes:
        seconds: of processor time, on one thread.
        memory: bytes at most beyond model and series; None where that can't be known.
        obstacle: "time" or "memory" if the whole length would take too much of it; the figures are
            then those of a part, scaled up. Nothing if they were measured.
    """

    seconds: float
    memory: int | None
    obstacle: str = ""


def contenders(chunks: list[int]) -> dict[str, Scan | None]:
    """Ours, a loop, and the associative scan with each chunk."""
    chunked = {str(chunk): Associative(chunk) for chunk in chunks}
    return {OURS: None, RECURRENCE: Recurrent(), **chunked, WHOLE: Associative()}


def measure(plan: Plan) -> tuple[int, dict[str, Any]]:
    """Let all scans run a layer in turns.

    Args:
        plan: its model is one of the catalogue's for series, its settings' steps are the turns that
            each has at most, and its options are batch, length, window, dim, channels, chunks,
            seconds (the longest step that is made) and budget (seconds for a contender's turns).

    Returns:
        The number of the layer's parameters, and a `Cell` for each scan as a dict, by its name.

    Raises:
        ArithmeticError: if two scans differ.
    """
    asked = plan.options
    scans = contenders(asked["chunks"])
    length, short = asked["length"], trial_length(asked["length"], asked["window"])
    available, times = _available() // 2, length / short
    measured: dict[str, Cell] = {}
    expected: list[Tensor] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Associative.. composes")
        for name, scan in scans.items():
            step = Step.of(plan, scan, short)
            step.warm_up()
            seconds, memory = _weighed(step.run)
            expected = expected or step.gradients()
            _check(name, step.gradients(), expected)
            cell = Cell(seconds * times, None if memory is None else int(memory * times))
            measured[name] = replace(cell, obstacle=_obstacle(cell, asked["seconds"], available))
        runs = {
            name: Step.of(plan, scans[name], length).run
            for name, cell in measured.items()
            if not cell.obstacle
        }
        measured |= _in_turns(runs, measured, plan.settings.steps, asked["budget"])
    layer = Step.of(plan, None, short).layer
    return sum(x.numel() for x in layer.parameters()), {k: asdict(x) for k, x in measured.items()}


def trial_length(length: int, window: int) -> int:
    """How much of a sequence a trial is on.

    >>> trial_length(17984, 1), trial_length(17984, 12), trial_length(100, 1)
    (1124, 6144, 100)
    """
    return min(length, max(length // TRIAL, LEAST_STEPS * window))


def _obstacle(cell: Cell, seconds: float, memory: int) -> str:
    """What it would take too much of."""
    if (cell.memory or 0) > memory:
        return "memory"
    return "time" if cell.seconds > seconds else ""


def _available() -> int:
    """Bytes that the system could give to new processes; all that there are where it is silent."""
    meminfo = Path("/proc/meminfo")
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    for line in lines:
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return 2**63


def _check(name: str, gradients: list[Tensor], expected: list[Tensor]) -> None:
    for ours, theirs in zip(gradients, expected, strict=True):
        error = float((ours - theirs).norm() / theirs.norm().clamp_min(1e-30))
        if not error < TOLERANCE:
            raise ArithmeticError(f"{name} differs from {OURS} by {error:.1e}, relatively")


def _in_turns(
    runs: Mapping[str, Callable[[], object]], tried: dict[str, Cell], most: int, budget: float
) -> dict[str, Cell]:
    """The least time and memory of each; memory is that of the first turn."""
    turns = {name: max(1, min(most, int(budget / tried[name].seconds))) for name in runs}
    measured: dict[str, Cell] = {}
    for turn in range(max(turns.values(), default=0)):
        for name, run in runs.items():
            if turn == 0:
                measured[name] = Cell(*_weighed(run))
            elif turn < turns[name]:
                seconds = min(measured[name].seconds, _clocked(run))
                measured[name] = Cell(seconds, measured[name].memory)
    return measured


def _weighed(run: Callable[[], object]) -> tuple[float, int | None]:
    """Seconds of a run, and the bytes that it took at most."""
    known = machines.forget_peak()
    before = machines.status("VmRSS") if known else 0
    seconds = _clocked(run)
    return seconds, max(0, machines.peak() - before) if known else None


def _clocked(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


@dataclass(frozen=True, eq=False)
class Step:
    """A step of training on random series: the paper's layer, the mean state, a linear map."""

    layer: SLiCE
    readout: nn.Linear
    series: Tensor
    answers: Tensor

    @classmethod
    def of(cls, plan: Plan, scan: Scan | None, length: int) -> "Step":
        """The same for every scan; lengths differ in how much of the series they see."""
        asked = plan.options
        batch, channels, dim, window = (asked[k] for k in ("batch", "channels", "dim", "window"))
        source = torch.Generator().manual_seed(plan.settings.seed)
        noise = torch.randn(batch, asked["length"], channels - 1, generator=source)
        clock = torch.linspace(-1, 1, asked["length"]).reshape(1, -1, 1).expand(batch, -1, -1)
        series = torch.cat([clock, noise.mul_(0.05).cumsum(1).tanh_()], -1)[:, :length]
        answers = torch.randint(CLASSES, (batch,), generator=source)
        structure = STRUCTURES[plan.model](dim)
        depth = 1 if structure.commutes else 2
        flow = Euler() if window == 1 else LogODE(depth, window, Euler())
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(plan.settings.seed)
            layer = SLiCE(
                channels,
                structure,
                drive=Differences(),
                initial=FirstInput(),
                flow=flow,
                scan=scan,
            )
            readout = nn.Linear(dim, CLASSES)
        return cls(layer, readout, series, answers)

    def run(self) -> None:
        """Forward and backward."""
        self._on(self.series)

    def warm_up(self) -> None:
        """The same on a few observations, so that no first use of anything is measured."""
        self._on(self.series[:, : min(64, self.series.shape[1])])

    def _on(self, series: Tensor) -> None:
        for x in (*self.layer.parameters(), *self.readout.parameters()):
            x.grad = None
        logits = self.readout(self.layer(series).mean(1))
        functional.cross_entropy(logits, self.answers).backward()

    def gradients(self) -> list[Tensor]:
        """Of the layer's parameters."""
        return [x.grad for x in self.layer.parameters() if x.grad is not None]
