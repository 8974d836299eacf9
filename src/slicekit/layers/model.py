"""A whole model: embedding, a stack of blocks, and a linear head at every position or pooled."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from slicekit.checks import (
    Lengths,
    check_lengths,
    check_range,
    check_shape,
    check_whole,
)
from slicekit.layers.block import Block, Wiring
from slicekit.layers.plainness import table_of
from slicekit.layers.pooling import Pooling
from slicekit.layers.stack import Stack, windowed, without_padding
from slicekit.layers.state import State, States, last_valid
from slicekit.paths import Tabulated, mask_past_end


class SequenceModel(nn.Module):
    """Tokens or continuous elements in, an output at every position or one per sequence.

    Args:
        vocabulary: number of tokens, for token input (batch, length). Give this or channels.
        channels: size of an element, for continuous input (batch, length, channels).
        outputs: size of the output, or a tuple of sizes for several heads.
        width: size of the embedding and of every block's output.
        embed: whether elements are embedded; otherwise the first block sees them as they are, which
            is how the paper's models of time series are driven.
        layers: number of blocks (with `mixer`).
        mixer: makes the mixer of a block, given the width: a module with the contract of `SLiCE`.
        blocks: the blocks themselves, instead of layers and mixer.
        wiring: where the blocks' norms and dropout are; the paper's by default.
        dropout: probability, in every block.
        pool: None for an output at every position, or a pooling such as `Mean()`.
        final_norm: whether a norm precedes the head; by default only for pre-norm wiring.

    Example:
        >>> from slicekit import Orthogonal, SLiCE
        >>> model = SequenceModel(
        ...     vocabulary=60,
        ...     outputs=60,
        ...     width=16,
        ...     layers=1,
        ...     mixer=lambda width: SLiCE(width, Orthogonal(width, block=4)),
        ... )
        >>> model(torch.randint(60, (2, 7))).shape
        torch.Size([2, 7, 60])
    """

    def __init__(
        self,
        *,
        vocabulary: int | None = None,
        channels: int | None = None,
        outputs: int | tuple[int, ...],
        width: int,
        embed: bool = True,
        layers: int = 1,
        mixer: Callable[[int], nn.Module] | None = None,
        blocks: Sequence[nn.Module] | None = None,
        wiring: Wiring | None = None,
        dropout: float = 0.0,
        pool: Pooling | None = None,
        final_norm: bool | None = None,
    ) -> None:
        """Build embedding, blocks and head."""
        super().__init__()
        check_whole("width", width)
        if (vocabulary is None) == (channels is None):
            raise ValueError(
                f"vocabulary={vocabulary}, channels={channels}; expected exactly one of them"
            )
        if mixer is not None and (isinstance(mixer, nn.Module) or not callable(mixer)):
            raise TypeError(
                f"mixer is a {type(mixer).__name__}; expected a function from the width to a new "
                "module, such as lambda width: SLiCE(width, Diagonal(width))"
            )
        if (mixer is None) == (blocks is None):
            raise ValueError("expected exactly one of mixer and blocks")
        if not embed and (channels is None or (mixer is not None and channels != width)):
            raise ValueError(
                f"embed=False with channels={channels} and width={width}; expected channels, and "
                "with a mixer as many as width"
            )
        wiring = Wiring() if wiring is None else wiring
        if blocks is None:
            assert mixer is not None
            check_whole("layers", layers)
            blocks = [Block(mixer(width), width, wiring, dropout) for _ in range(layers)]
        if len(blocks) == 0:
            raise ValueError("blocks is empty; expected at least one block")
        self.vocabulary, self.channels, self.outputs, self.width = (
            vocabulary,
            channels,
            outputs,
            width,
        )
        self.pool = pool
        self.embedding: nn.Module
        if vocabulary is not None:
            check_whole("vocabulary", vocabulary)
            self.embedding = nn.Embedding(vocabulary, width)
        else:
            assert channels is not None
            check_whole("channels", channels)
            self.embedding = nn.Linear(channels, width) if embed else nn.Identity()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = wiring.before_mixer if final_norm is None else final_norm
        self.norm = wiring.norm.module(width) if self.final_norm else nn.Identity()
        self._norm_policy = wiring.norm
        sizes = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(sizes) == 0:
            raise ValueError("outputs=(); expected at least one size")
        for size in sizes:
            check_whole("outputs", size)
        self.heads = nn.ModuleList(nn.Linear(width, size) for size in sizes)

    def forward(
        self,
        x: Tensor,
        state: States | None = None,
        lengths: Lengths | None = None,
        return_state: bool = False,
    ) -> Any:
        """Run whole sequences, or parts of them.

        Args:
            x: tokens (batch, length), or elements (batch, length, channels).
            state: where an earlier part ended.
            lengths: (batch,) integers.
            return_state: whether to return the state as well.

        Returns:
            (batch, length, outputs), or pooled (batch, outputs); a list of them for several heads.
            With return_state, (outputs, state). A block under `LogODE` passes one element a window
            on to the next, and `output_lengths` says how many outputs there are; an output for a
            window that is not over is provisional, and leaves no trace in the state.
        """
        if lengths is not None:
            check_shape("x", x, ("batch", "length", ...))
            lengths = check_lengths(lengths, x.shape[0], x.shape[1], device=x.device)
            lengths = without_padding(lengths, x.shape[1])
            x = x if lengths is None else mask_past_end(x, lengths)
        self._check(x, ("batch", "length"))
        stack = Stack(list(self.blocks), self.pool)
        h, after, _ = stack.run(self._embed(x), self._split(state), lengths, return_state)
        y = self._head(h)
        return (y, States(after)) if return_state else y

    def step(self, x: Tensor, state: States | None = None) -> tuple[Any, States]:
        """One element through the whole stack.

        Args:
            x: tokens (batch,), or elements (batch, channels).
            state: what the step before returned.

        Returns:
            (batch, outputs) (pooled over all elements so far, if the model pools), and the state.
        """
        self._check(x, ("batch",))
        h = self.embedding(x if self.vocabulary is None else x.long())
        before = self._split(state)
        if any(windowed(block) for block in self.blocks):
            stack = Stack(list(self.blocks), self.pool)
            h, after, lengths = stack.run(h.unsqueeze(1), before, None, True)
            h = h if self.pool is not None else last_valid(h, lengths)
            return self._head(h), States(after)
        after: list[Any] = []
        for block, layer_state in zip(cast(Iterable[Any], self.blocks), before, strict=False):
            h, layer_state = block.step(h, layer_state)
            after.append(layer_state)
        if self.pool is not None:
            h, layer_state = self.pool(h.unsqueeze(1), before[-1])
            after.append(layer_state)
        return self._head(h), States(after)

    def output_lengths(self, lengths: Tensor) -> Tensor:
        """How many outputs sequences of these lengths have, if not pooled: (batch,) -> (batch,)."""
        for block in cast(Iterable[Any], self.blocks):
            lengths = block.output_lengths(lengths) if windowed(block) else lengths
        return lengths

    def regularisation(self) -> Tensor:
        """Sum of the penalties of all layers that have one."""
        layers = cast(Iterable[Any], self.blocks.modules())
        penalties = [x.regularisation() for x in layers if hasattr(x, "regularisation")]
        return torch.stack(penalties).sum() if penalties else next(self.parameters()).new_zeros(())

    def _check(self, x: Tensor, axes: tuple[str, ...]) -> None:
        if self.vocabulary is None:
            assert self.channels is not None
            check_shape("x", x, (*axes, self.channels))
            return
        check_shape("x", x, axes)
        if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
            raise TypeError(f"x has dtype {x.dtype}; expected integer tokens")
        places = ("batch", "position")[: len(axes)]
        why = f"for a vocabulary of {self.vocabulary}"
        check_range("x", x, 0, self.vocabulary - 1, places, why)

    def _embed(self, x: Tensor) -> Tensor | Tabulated:
        """Embedded elements; tokens as a table where that is exact and less work."""
        if self.vocabulary is None:
            return self.embedding(x)
        tokens = x.long()
        if self.vocabulary >= x.numel() or not getattr(self.blocks[0], "pointwise", False):
            return self.embedding(tokens)
        table = table_of(self.embedding)
        return self.embedding(tokens) if table is None else Tabulated(table, tokens)

    def _split(self, state: States | None) -> list[Any]:
        parts = len(self.blocks) + (self.pool is not None)
        if state is None:
            return [None] * parts
        if len(state) != parts:
            raise ValueError(f"state has {len(state)} parts; expected {parts} for this model")
        return [
            None if isinstance(layer_state, State) and not layer_state.tensors else layer_state
            for layer_state in state
        ]

    def _head(self, h: Tensor) -> Any:
        h = self.norm(h)
        answers = [head(h) for head in self.heads]
        return answers if isinstance(self.outputs, tuple) else answers[0]

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this model again, but for its parameters."""
        return {
            "vocabulary": self.vocabulary,
            "channels": self.channels,
            "outputs": self.outputs,
            "width": self.width,
            "embed": not isinstance(self.embedding, nn.Identity),
            "blocks": list(self.blocks),
            "wiring": Wiring(norm=self._norm_policy),
            "pool": self.pool,
            "final_norm": self.final_norm,
        }
