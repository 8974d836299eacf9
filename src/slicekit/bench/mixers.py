"""Every mixer forward and backward, beside the implementations that others run on a CPU.

Those are mambapy, the cells of the xlstm package in plain PyTorch, and the slow paths of
transformers, which it takes where no CUDA kernel is installed. Both sides have the same sizes; the
tests compare their results with the same weights.
"""

import importlib.util
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from slicekit import mixers
from slicekit.bench import mixer_peers as peers
from slicekit.bench.timing import Effort, Times, clocked, threads, time_in_turns

WIDTHS = (128, 512)
LENGTHS = (256, 2048, 16_384)
TOKENS = 2048
"""Elements of a run, in sequences of the length; at least one sequence."""

OURS = "slicekit"
MEMORY = 12 * 2**30
"""Bytes above which a peer is not run."""

LIMIT, LONG = 60.0, 5.0
"""Seconds of a run above which a peer is not run, and above which it has as few runs as can be."""


@dataclass(frozen=True)
class Case:
    """A mixer, and who else has it.

    Attributes:
        ours: makes it, given the width.
        peers: by name, what makes the same and says what it needs.
    """

    ours: Callable[[int], nn.Module]
    peers: dict[str, "peers.Peer"]


CASES: dict[str, Case] = {
    "mamba": Case(mixers.Mamba, {"mambapy": peers.MAMBAPY, "transformers": peers.MAMBA}),
    "mamba2": Case(mixers.Mamba2, {"transformers": peers.MAMBA2}),
    "mlstm": Case(mixers.MLSTM, {"xlstm": peers.MLSTM}),
    "slstm": Case(mixers.SLSTM, {"xlstm": peers.SLSTM}),
    "gated-deltanet": Case(peers.gated_delta_net, {"transformers": peers.GATED_DELTA_NET}),
    "deltanet": Case(mixers.DeltaNet, {}),
    "gated-deltaproduct": Case(mixers.GatedDeltaProduct, {}),
    "rwkv7": Case(mixers.RWKV7, {}),
    "gla": Case(mixers.GatedLinearAttention, {}),
    "s6": Case(mixers.S6, {}),
    "s4d": Case(mixers.S4D, {}),
    "s5": Case(lambda width: mixers.S5(width, 64), {}),
    "lru": Case(lambda width: mixers.LRU(width, width), {}),
    "lstm": Case(lambda width: mixers.LSTM(width, width), {"torch": peers.LSTM}),
    "attention": Case(mixers.CausalAttention, {}),
}
"""By name, in the order to list them in."""


@dataclass(frozen=True)
class MixerRow:
    """One mixer at one width and length.

    Attributes:
        name, width, length: which.
        tokens: elements of a run.
        times: seconds a run, of `OURS` and of each peer that was timed.
        absent: peers that were not, and why.
    """

    name: str
    width: int
    length: int
    tokens: int
    times: Times
    absent: dict[str, str]

    def microseconds(self, who: str) -> float:
        """Processor time an element."""
        return 1e6 * self.times.processor[who] / self.tokens


def measure(
    name: str,
    width: int,
    effort: Effort,
    lengths: tuple[int, ...] | None = None,
) -> Iterator[MixerRow]:
    """Time a mixer and its peers at every length, shortest first; in a quick run at the first.

    A peer is left out where its package is missing, where it would need more than `MEMORY`, and
    where by its time at the length before it would take longer than the effort allows.
    """
    case = CASES[name]
    if lengths is None:
        lengths = LENGTHS[:1] if effort.quick else LENGTHS
    slow: dict[str, float] = {}
    for length in lengths:
        batch = max(1, TOKENS // length)
        x = torch.randn(batch, length, width)
        runs: dict[str, Callable[[], object]] = {OURS: _run(case.ours(width), x)}
        absent: dict[str, str] = {}
        for who, peer in case.peers.items():
            absent[who] = _obstacle(peer, width, batch, length, slow.get(who, 0.0), effort)
            if not absent[who]:
                runs[who] = _run(_quietly(partial(peer.make, width, length)), x)
        with threads(1):
            seconds = {who: _warmed(run) for who, run in runs.items()}
        slow |= {who: taken / (batch * length) for who, taken in seconds.items()}
        alone = [who for who in runs if who != OURS and (effort.quick or seconds[who] > LONG)]
        times = time_in_turns(runs, effort, seconds, alone)
        left_out = {who: why for who, why in absent.items() if why}
        yield MixerRow(name, width, length, batch * length, times, left_out)


def _obstacle(
    peer: "peers.Peer", width: int, batch: int, length: int, pace: float, effort: Effort
) -> str:
    if importlib.util.find_spec(peer.package) is None:
        return "not installed"
    if peer.loops and effort.quick:
        return "not in a quick run"
    needed = peer.bytes(width, batch, length)
    if needed > MEMORY:
        return f"needs {needed / 2**30:.0f} GiB"
    if pace * batch * length > LIMIT:
        return f"about {1e6 * pace:.0f} µs at a shorter length"
    return ""


def _run(module: Any, x: Tensor) -> Callable[[], object]:
    """Forward and backward with all gradients."""
    leaf = x.clone().requires_grad_()
    weights = [p for p in module.parameters() if p.requires_grad]

    def run() -> object:
        y = module(leaf)
        y = y if isinstance(y, Tensor) else y[0]
        return torch.autograd.grad(y.sum(), [leaf, *weights], allow_unused=True)

    return run


def _warmed(run: Callable[[], object]) -> float:
    """Seconds of a run, of the second if that is not long: the first may have more to do."""
    first = clocked(lambda: _quietly(run), time.process_time)
    return first if first > LONG else clocked(run, time.process_time)


def _quietly(make: Callable[[], Any]) -> Any:
    """Without the notices that a peer gives on its slow path, which is what is wanted here."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make()
    finally:
        logging.disable(before)
