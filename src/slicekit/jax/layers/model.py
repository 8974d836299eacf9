"""A whole model: embedding, a stack of blocks, and a linear head at every position or pooled."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from slicekit.descriptions.checks import check_whole
from slicekit.jax.checks import Lengths, check_lengths, check_range, check_shape, concrete
from slicekit.jax.layers.block import Block, Wiring
from slicekit.jax.layers.linear import Embedding, Linear, Norm
from slicekit.jax.layers.pooling import Pooling
from slicekit.jax.layers.state import State, States, last_valid
from slicekit.jax.paths import Tabulated, mask_past_end


class SequenceModel(eqx.Module):
    """Tokens or continuous elements in, an output at every position or one per sequence.

    Args:
        vocabulary: number of tokens, for token input (batch, length). Give this or channels.
        channels: size of an element, for continuous input (batch, length, channels).
        outputs: size of the output, or a tuple of sizes for several heads.
        width: size of the embedding and of every block's output.
        embed: whether elements are embedded; otherwise the first block sees them as they are.
        layers: number of blocks (with `mixer`).
        mixer: makes the mixer of a block, given the width and a key: a module with the contract of
            `SLiCE`.
        blocks: the blocks themselves, instead of layers and mixer.
        wiring: where the blocks' norms and dropout are; the paper's by default.
        dropout: probability, in every block; at work where a call is given a key.
        pool: None for an output at every position, or a pooling such as `Mean()`.
        final_norm: whether a norm precedes the head; by default only for pre-norm wiring.
        key: source of randomness for the initialisation.

    >>> from slicekit.jax import Orthogonal, SLiCE
    >>> model = SequenceModel(
    ...     vocabulary=60,
    ...     outputs=60,
    ...     width=16,
    ...     mixer=lambda width, key: SLiCE(width, Orthogonal(width, block=4), key=key),
    ...     key=jax.random.key(0),
    ... )
    >>> model(jnp.zeros((2, 7), int)).shape
    (2, 7, 60)
    """

    embedding: Embedding | Linear | None
    blocks: list[Any]
    norm: Norm | None
    heads: list[Linear]
    vocabulary: int | None = eqx.field(static=True)
    channels: int | None = eqx.field(static=True)
    outputs: int | tuple[int, ...] = eqx.field(static=True)
    width: int = eqx.field(static=True)
    pool: Pooling | None = eqx.field(static=True)
    final_norm: bool = eqx.field(static=True)

    def __init__(
        self,
        *,
        vocabulary: int | None = None,
        channels: int | None = None,
        outputs: int | tuple[int, ...],
        width: int,
        embed: bool = True,
        layers: int = 1,
        mixer: Callable[[int, Array], Any] | None = None,
        blocks: Sequence[Any] | None = None,
        wiring: Wiring | None = None,
        dropout: float = 0.0,
        pool: Pooling | None = None,
        final_norm: bool | None = None,
        key: Array,
    ) -> None:
        """Build embedding, blocks and head."""
        check_whole("width", width)
        if (vocabulary is None) == (channels is None):
            raise ValueError(
                f"vocabulary={vocabulary}, channels={channels}; expected exactly one of them"
            )
        if (mixer is None) == (blocks is None):
            raise ValueError("expected exactly one of mixer and blocks")
        if not embed and (channels is None or (mixer is not None and channels != width)):
            raise ValueError(
                f"embed=False with channels={channels} and width={width}; expected channels, and "
                "with a mixer as many as width"
            )
        wiring = Wiring() if wiring is None else wiring
        for_embedding, for_heads, for_blocks = jax.random.split(key, 3)
        if blocks is None:
            assert mixer is not None
            check_whole("layers", layers)
            keys = jax.random.split(for_blocks, (layers, 2))
            blocks = [Block(mixer(width, a), width, wiring, dropout, key=b) for a, b in keys]
        if len(blocks) == 0:
            raise ValueError("blocks is empty; expected at least one block")
        self.vocabulary, self.channels, self.outputs = vocabulary, channels, outputs
        self.width, self.pool, self.blocks = width, pool, list(blocks)
        if vocabulary is not None:
            check_whole("vocabulary", vocabulary)
            self.embedding = Embedding(vocabulary, width, key=for_embedding)
        else:
            assert channels is not None
            check_whole("channels", channels)
            self.embedding = Linear(channels, width, key=for_embedding) if embed else None
        self.final_norm = wiring.before_mixer if final_norm is None else final_norm
        self.norm = wiring.norm.module(width) if self.final_norm else None
        sizes = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(sizes) == 0:
            raise ValueError("outputs=(); expected at least one size")
        for size in sizes:
            check_whole("outputs", size)
        keys = jax.random.split(for_heads, len(sizes))
        self.heads = [Linear(width, size, key=k) for size, k in zip(sizes, keys, strict=True)]

    def __call__(
        self,
        x: Array,
        state: States | None = None,
        lengths: Lengths | None = None,
        return_state: bool = False,
        *,
        key: Array | None = None,
    ) -> Any:
        """Run whole sequences, or parts of them.

        Args:
            x: tokens (batch, length), or elements (batch, length, channels).
            state: where an earlier part ended.
            lengths: (batch,) integers.
            return_state: whether to return the state as well.
            key: source of randomness for dropout, which is not at work without.

        Returns:
            (batch, length, outputs), or pooled (batch, outputs); a list of them for several heads.
            With return_state, (outputs, state). A block under `LogODE` passes one element a window
            on to the next, and `output_lengths` says how many outputs there are; an output for a
            window that is not over is provisional, and leaves no trace in the state.
        """
        if lengths is not None:
            check_shape("x", x, ("batch", "length", ...))
            lengths = check_lengths(lengths, x.shape[0], x.shape[1])
            x = mask_past_end(x, lengths)
        self._check(x, ("batch", "length"))
        h, after, _ = self._run(
            self.blocks, self._embed(x), self._split(state), lengths, return_state, key
        )
        y = self._head(h)
        return (y, States(after)) if return_state else y

    def step(self, x: Array, state: States | None = None) -> tuple[Any, States]:
        """One element through the whole stack.

        Args:
            x: tokens (batch,), or elements (batch, channels).
            state: what the step before returned.

        Returns:
            (batch, outputs) (pooled over all elements so far, if the model pools), and the state.
        """
        self._check(x, ("batch",))
        h = x if self.embedding is None else self.embedding(x)
        before = self._split(state)
        h, after, lengths = self._run(self.blocks, h[:, None], before, None, True, None)
        h = h if self.pool is not None else last_valid(h, lengths)
        return self._head(h), States(after)

    def output_lengths(self, lengths: Any) -> Any:
        """How many outputs sequences of these lengths have, if not pooled: (batch,) -> (batch,)."""
        for block in self.blocks:
            lengths = block.output_lengths(lengths) if _windowed(block) else lengths
        return lengths

    def regularisation(self) -> Array:
        """Sum of the penalties of all mixers that have one."""
        mixers = [getattr(block, "mixer", block) for block in self.blocks]
        penalties = [x.regularisation() for x in mixers if hasattr(x, "regularisation")]
        return jnp.stack(penalties).sum() if penalties else jnp.zeros(())

    def _run(
        self,
        blocks: list[Any],
        h: Any,
        before: list[Any],
        lengths: Array | None,
        return_state: bool,
        key: Array | None,
    ) -> tuple[Array, list[Any], Array | None]:
        """Blocks and the pooling, with the states that lead from one part to the next.

        What a block gives for a window that is not over is provisional. What comes after that block
        sees it, but does not keep it: only windows that are over leave a trace in the states.
        """
        after: list[Any] = []
        settled = False
        keys = [None] * len(blocks) if key is None else jax.random.split(key, len(blocks))
        for at, block in enumerate(blocks):
            places = block.places(h, before[at], lengths) if _windowed(block) else None
            dropping = {} if keys[at] is None else {"key": keys[at]}
            h, layer_state = block(h, before[at], lengths, True, **dropping)
            lengths = lengths if places is None else jnp.minimum(places.counts, h.shape[1])
            if settled:
                continue
            after.append(layer_state)
            if return_state and places is not None and len(before) > at + 1:
                after += self._settle(blocks[at + 1 :], h, before[at + 1 :], places.closed)
                settled = True
        if self.pool is not None:
            h, layer_state = self.pool(h, before[-1], lengths)
            if not settled:
                after.append(layer_state)
        return h, after, lengths

    def _settle(self, blocks: list[Any], h: Array, before: list[Any], closed: Array) -> list[Any]:
        """The states after the elements that are final."""
        if not concrete(closed):
            raise ValueError(
                "the state of blocks after a LogODE depends on how many windows are over, which "
                "traced data can't tell: call it outside jax.jit, or without return_state"
            )
        most = int(closed.max())
        if most == 0:
            return [State({}) if layer_state is None else layer_state for layer_state in before]
        return self._run(blocks, h[:, :most], before, closed, True, None)[1]

    def _check(self, x: Array, axes: tuple[str, ...]) -> None:
        if self.vocabulary is None:
            assert self.channels is not None
            check_shape("x", x, (*axes, self.channels))
            return
        check_shape("x", x, axes)
        if not jnp.issubdtype(x.dtype, jnp.integer):
            raise TypeError(f"x has dtype {x.dtype}; expected integer tokens")
        places = ("batch", "position")[: len(axes)]
        why = f"for a vocabulary of {self.vocabulary}"
        check_range("x", x, 0, self.vocabulary - 1, places, why)

    def _embed(self, x: Array) -> Array | Tabulated:
        """Embedded elements; tokens as a table where that is exact and less work."""
        if self.embedding is None:
            return x
        if type(self.embedding) is not Embedding:  # a subclass may do more than look rows up
            return self.embedding(x)
        if self.embedding.weight.shape[0] >= x.size or not getattr(
            self.blocks[0], "pointwise", False
        ):
            return self.embedding(x)
        return Tabulated(self.embedding.weight, x)

    def _split(self, state: States | None) -> list[Any]:
        parts = len(self.blocks) + (self.pool is not None)
        if state is None:
            return [None] * parts
        if len(state) != parts:
            raise ValueError(f"state has {len(state)} parts; expected {parts} for this model")
        return [
            None if isinstance(layer_state, State) and not layer_state.arrays else layer_state
            for layer_state in state
        ]

    def _head(self, h: Array) -> Any:
        h = h if self.norm is None else self.norm(h)
        answers = [head(h) for head in self.heads]
        return answers if isinstance(self.outputs, tuple) else answers[0]


def _windowed(block: Any) -> bool:
    return bool(getattr(block, "windowed", False))
