"""The paper's baselines and their kin: sizes and training settings, as plain data.

On tokens, the recipe `paper` has one block of width 1024 on word problems and two of width 128 on
regular languages (`lstm:width=512` is the paper's other choice; 256 and 512 for Mamba-2, which is
what the authors ran as Mamba there). A block is the mixer, a gated linear unit, each with a skip
connection, and a layer norm; LSTMs are stacked directly, and xLSTM and the Transformer have blocks
of their own. The recipe `fast` is that of the SLiCEs, without what is made for linear recurrences:
the same rate, lengths that grow and as many steps, but neither consistency nor pressure; blocks are
128 wide on every task.

On series, see `series_baselines`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from slicekit import mixers
from slicekit.catalogue.recipes import FAST, PAPER, Blocks, Recipe
from slicekit.catalogue.sizes import Sizes
from slicekit.catalogue.tokens import (
    FAST_LANGUAGES,
    FAST_WORDS,
    PAPER_LANGUAGES,
    PAPER_WORDS,
    WORDS,
)
from slicekit.layers import Block, FeedForward, LayerNorm, Wiring
from slicekit.tasks import Task

WORDS_WIDTH, LANGUAGES_WIDTH, FAST_WIDTH = 1024, 128, 128

GATED = Wiring(feedforward=FeedForward(nn.GLU))
"""The block of the baselines: y = x + mixer(x); y = y + GLU(W y + b); layer norm; dropout."""


def gated(mixer: Callable[[int], nn.Module]) -> Blocks:
    """Blocks of a mixer and a gated linear unit."""

    def blocks(width: int, layers: int, dropout: float) -> list[nn.Module]:
        return [Block(mixer(width), width, GATED, dropout) for _ in range(layers)]

    return blocks


def _stacked_lstms(width: int, layers: int, dropout: float) -> list[nn.Module]:
    return [mixers.LSTM(width, width, dropout=dropout) for _ in range(layers)]


def _xlstm(width: int, layers: int, dropout: float) -> list[nn.Module]:
    return mixers.xlstm_blocks(width, layers, dropout=dropout)


TRANSFORMER_HIDDEN, TRANSFORMER_HEADS = 512, 16
"""The paper's, where the width divides them; a wider model has as many hidden units as its width.
"""


def _attention_blocks(
    width: int, layers: int, dropout: float, positions: mixers.Rotary | None
) -> list[nn.Module]:
    expansion = max(1, TRANSFORMER_HIDDEN // width)
    wiring = Wiring.pre_norm(expansion, LayerNorm())
    heads = math.gcd(TRANSFORMER_HEADS, width)
    return [
        Block(mixers.CausalAttention(width, heads, positions), width, wiring, dropout)
        for _ in range(layers)
    ]


def _rotary(width: int, layers: int, dropout: float) -> list[nn.Module]:
    return _attention_blocks(width, layers, dropout, mixers.Rotary())


def _sinusoidal(width: int, layers: int, dropout: float) -> list[nn.Module]:
    blocks = _attention_blocks(width, layers, dropout, None)
    return [mixers.SinusoidalPositions(width), *blocks]


@dataclass(frozen=True)
class Baseline:
    """A model of the literature, for tasks with tokens.

    Attributes:
        summary: one line.
        blocks: makes its blocks.
        words_width, languages_width, fast_width: its width in the recipe `paper` on word problems
            and on regular languages, and in the recipe `fast`.
        final_norm: whether a layer norm precedes the head.
    """

    summary: str
    blocks: Blocks
    words_width: int = WORDS_WIDTH
    languages_width: int = LANGUAGES_WIDTH
    fast_width: int = FAST_WIDTH
    final_norm: bool = False

    sizes = ("width",)

    def recipe(self, task: Task, recipe: str, sizes: Sizes) -> Recipe:
        """The recipe of that name for a task with tokens."""
        words = task.family == WORDS
        made = {FAST: self._fast, PAPER: self._paper}[recipe](words)
        return replace(made, width=_whole("width", sizes["width"])) if "width" in sizes else made

    def _paper(self, words: bool) -> Recipe:
        return Recipe(
            self.blocks,
            replace(PAPER_WORDS if words else PAPER_LANGUAGES, penalty=0.0),
            self.words_width if words else self.languages_width,
            layers=1 if words else 2,
            dropout=0.1 if words else 0.01,
            final_norm=self.final_norm,
        )

    def _fast(self, words: bool) -> Recipe:
        shared = FAST_WORDS if words else FAST_LANGUAGES
        return Recipe(
            self.blocks,
            replace(shared, consistency=0.0, growth=0.0, isometry=0.0),
            self.fast_width,
            layers=1 if words else 2,
            final_norm=self.final_norm,
        )


def _whole(name: str, value: int | float) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{name}={value}; expected a whole number")
    return value


FIELD_WIDTH = 64
"""A field R^w -> R^(w x w) is cubic in the width; the paper has these models on series only."""


def _field(summary: str, mixer: Callable[[int], nn.Module]) -> Baseline:
    return Baseline(summary, gated(mixer), FIELD_WIDTH, FIELD_WIDTH, FIELD_WIDTH)


BASELINES: dict[str, Baseline] = {
    "lstm": Baseline("LSTMs stacked directly, a nonlinear recurrence", _stacked_lstms),
    "slstm": Baseline("sLSTM, a nonlinear recurrence with exponential gates", gated(mixers.SLSTM)),
    "mlstm": Baseline("mLSTM, a matrix memory with a gate a head", gated(mixers.MLSTM)),
    "xlstm": Baseline("xLSTM[1:1], mLSTM and sLSTM blocks in turn", _xlstm, final_norm=True),
    "deltanet": Baseline("the delta rule, eigenvalues in [0, 1]", gated(mixers.DeltaNet)),
    "deltanet-neg": Baseline(
        "the delta rule, eigenvalues in [-1, 1]",
        gated(lambda width: mixers.DeltaNet(width, negative=True)),
    ),
    "gated-deltanet": Baseline("the delta rule with a gate a head", gated(mixers.GatedDeltaNet)),
    "gated-deltaproduct": Baseline(
        "two delta rules a step and a gate, eigenvalues in [-1, 1]",
        gated(lambda width: mixers.GatedDeltaProduct(width, rank=2, negative=True)),
    ),
    "rwkv7": Baseline("RWKV-7, a generalised delta rule with diagonal decay", gated(mixers.RWKV7)),
    "gla": Baseline("gated linear attention", gated(mixers.GatedLinearAttention)),
    "transformer": Baseline(
        "causal attention with rotary positions, norms first", _rotary, final_norm=True
    ),
    "transformer-sinusoidal": Baseline(
        "causal attention with sinusoidal positions, norms first", _sinusoidal, final_norm=True
    ),
    "s4d": Baseline("S4D, a diagonal recurrence that does not see its input", gated(mixers.S4D)),
    "s5": Baseline(
        "S5, one diagonal recurrence for all channels", gated(lambda w: mixers.S5(w, w))
    ),
    "lru": Baseline("the linear recurrent unit", gated(lambda w: mixers.LRU(w, w))),
    "s6": Baseline("S6, the selective state space model in Mamba", gated(mixers.S6)),
    "mamba": Baseline("Mamba", gated(mixers.Mamba)),
    "mamba2": Baseline(
        "Mamba-2, the paper's Mamba on tokens", gated(mixers.Mamba2), languages_width=256
    ),
    "ncde": _field("a neural CDE, driven by a cubic path", lambda w: mixers.NCDE(w, w, hidden=w)),
    "nrde": _field(
        "a neural rough differential equation",
        lambda w: mixers.NRDE(w, w, window=1, log_depth=1, hidden=w),
    ),
    "log-ncde": _field(
        "a Log-NCDE, whose field is a network with its Lie brackets",
        lambda w: mixers.LogNCDE(w, w, window=1, log_depth=1, hidden=w),
    ),
}
"""By name, in the order to list them in."""
