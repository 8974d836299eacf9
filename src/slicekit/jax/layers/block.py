"""What is stacked: a mixer with its skip connections, feed-forward part, norms and dropout."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from slicekit.jax.checks import Lengths
from slicekit.jax.layers.linear import LayerNorm, Linear, Norm, RMSNorm
from slicekit.jax.layers.state import State
from slicekit.jax.paths import Tabulated, mask_past_end

gelu = partial(jax.nn.gelu, approximate=False)
"""x Φ(x), as torch's GELU: exact, where JAX's default is an approximation."""


@dataclass(frozen=True)
class FeedForward:
    """Linear and activation, and optionally a linear map back.

    Args:
        activation: a function such as jnp.tanh; with jax.nn.glu the first map is twice as wide.
        expansion: hidden size over width.
        back: whether a second linear map follows; without it expansion is 1.
    """

    activation: Callable[[Array], Array] = jnp.tanh
    expansion: int = 1
    back: bool = False

    def __post_init__(self) -> None:
        """Check that the sizes fit."""
        if self.expansion < 1 or (self.expansion > 1 and not self.back):
            raise ValueError(
                f"expansion={self.expansion} with back={self.back}; expected 1, or back=True"
            )

    def maps(self, width: int, key: Array) -> dict[str, Linear]:
        """The linear maps for vectors of that size, by their places around the activation."""
        into, out = jax.random.split(key)
        hidden = self.expansion * width
        first = 2 * hidden if self.activation is jax.nn.glu else hidden
        maps = {"0": Linear(width, first, key=into)}
        return maps | ({"2": Linear(hidden, width, key=out)} if self.back else {})


@dataclass(frozen=True)
class Wiring:
    """Where a block has its norms and its dropout. The default is the paper's block.

    Args:
        norm: `LayerNorm()` or `RMSNorm()`.
        before_mixer, after_mixer: a norm on the mixer's input; one after its skip connection.
        mixed: a norm on the mixer's output, which brings projective states (of unit norm) to the
            size of the skip connection.
        before_feedforward, after_feedforward: the same for the feed-forward part.
        feedforward: its form.
        drop_branches: dropout on both branches before they are added, instead of on the output.
    """

    norm: LayerNorm | RMSNorm = field(default=LayerNorm())
    before_mixer: bool = False
    after_mixer: bool = False
    mixed: bool = False
    before_feedforward: bool = False
    after_feedforward: bool = True
    feedforward: FeedForward = field(default=FeedForward())
    drop_branches: bool = False

    @classmethod
    def pre_norm(cls, expansion: int = 4, norm: LayerNorm | RMSNorm | None = None) -> "Wiring":
        """The block that is stacked deep today: norms inside the branches, an MLP with GELU."""
        return cls(
            norm=RMSNorm() if norm is None else norm,
            before_mixer=True,
            before_feedforward=True,
            after_feedforward=False,
            feedforward=FeedForward(gelu, expansion, back=True),
            drop_branches=True,
        )


class Block(eqx.Module):
    """A mixer and a feed-forward part, each with a skip connection.

    With the default wiring, the paper's: y = x + mixer(x); y = y + tanh(W y + b); layer norm;
    dropout.

    Args:
        mixer: a module with the contract of `SLiCE`; if its outputs are not of size width, a linear
            map follows it.
        width: size of the block's inputs and outputs.
        wiring: where norms and dropout are.
        dropout: its probability; it is at work where a call is given a key.
        key: source of randomness for the initialisation.

    >>> from slicekit.jax import SLiCE, Dense
    >>> block = Block(SLiCE(6, Dense(6), key=jax.random.key(0)), width=6, key=jax.random.key(1))
    >>> block(jnp.ones((2, 5, 6))).shape
    (2, 5, 6)
    """

    mixer: Any
    project: Linear | None
    feedforward: dict[str, Linear]
    norm_mixed: Norm | None
    norm_before_mixer: Norm | None
    norm_after_mixer: Norm | None
    norm_before_feedforward: Norm | None
    norm_after_feedforward: Norm | None
    width: int = eqx.field(static=True)
    wiring: Wiring = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        mixer: Any,
        width: int,
        wiring: Wiring | None = None,
        dropout: float = 0.0,
        *,
        key: Array,
    ) -> None:
        """Build the norms and the feed-forward part."""
        wiring = Wiring() if wiring is None else wiring
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout={dropout}; expected a probability in [0, 1)")
        for_project, for_feedforward = jax.random.split(key)
        self.mixer, self.width, self.wiring, self.dropout = mixer, width, wiring, dropout
        outputs = getattr(mixer, "outputs", width)
        self.project = None if outputs == width else Linear(outputs, width, key=for_project)
        self.feedforward = wiring.feedforward.maps(width, for_feedforward)

        def norm(wanted: bool, size: int = width) -> Norm | None:
            return wiring.norm.module(size) if wanted else None

        self.norm_mixed = norm(wiring.mixed, outputs)
        self.norm_before_mixer = norm(wiring.before_mixer)
        self.norm_after_mixer = norm(wiring.after_mixer)
        self.norm_before_feedforward = norm(wiring.before_feedforward)
        self.norm_after_feedforward = norm(wiring.after_feedforward)

    @property
    def pointwise(self) -> bool:
        """Whether discrete tokens may come as `Tabulated`."""
        return bool(getattr(self.mixer, "pointwise", False))

    @property
    def windowed(self) -> bool:
        """Whether the mixer's outputs stand at the ends of windows."""
        return bool(getattr(self.mixer, "windowed", False))

    def places(self, x: Any, state: State | None = None, lengths: Lengths | None = None) -> Any:
        """Where the outputs stand in the input, for a mixer under `LogODE`."""
        dense = x.dense() if isinstance(x, Tabulated) else x
        return self.mixer.places(_through(self.norm_before_mixer)(dense), state, lengths)

    def output_lengths(self, lengths: Any) -> Any:
        """How many outputs sequences of these lengths have: (batch,) -> (batch,)."""
        return self.mixer.output_lengths(lengths) if self.windowed else lengths

    def __call__(
        self,
        x: Array | Tabulated,
        state: State | None = None,
        lengths: Lengths | None = None,
        return_state: bool = False,
        *,
        key: Array | None = None,
    ) -> Any:
        """x (batch, length, width), or `Tabulated` -> (batch, length, width).

        With a mixer under `LogODE` there is an output at the end of each window, and the skip
        connection brings the last element of the window to it. Dropout is at work with a key.
        """
        if lengths is not None:
            x = x.masked(lengths) if isinstance(x, Tabulated) else mask_past_end(x, lengths)
        normed = _through(self.norm_before_mixer)
        dense = x.dense() if isinstance(x, Tabulated) else x
        if self.windowed:
            standing = self.places(dense, state, lengths)
            mixed, state = self.mixer(normed(dense), state, lengths, True)
            dense = standing.select(dense)
        else:
            given = x.map(normed) if isinstance(x, Tabulated) else normed(x)
            mixed, state = self.mixer(given, state, lengths, True)
        y = self._after(dense, mixed, key)
        return (y, state) if return_state else y

    def step(self, x: Array, state: State | None = None) -> tuple[Array, State]:
        """One element: x (batch, width) -> (batch, width), and the state after it."""
        mixed, after = self.mixer.step(_through(self.norm_before_mixer)(x), state)
        return self._after(x, mixed, None), after

    def _after(self, x: Array, mixed: Array, key: Array | None) -> Array:
        """Everything but the mixer, position by position."""
        first, second = (None, None) if key is None else jax.random.split(key)
        branches = self.wiring.drop_branches
        mixed = _through(self.project)(_through(self.norm_mixed)(mixed))
        y = x + (self._drop(mixed, first) if branches else mixed)
        y = _through(self.norm_after_mixer)(y)
        inner = self.wiring.feedforward.activation(
            self.feedforward["0"](_through(self.norm_before_feedforward)(y))
        )
        inner = self.feedforward["2"](inner) if "2" in self.feedforward else inner
        y = y + (self._drop(inner, second) if branches else inner)
        y = _through(self.norm_after_feedforward)(y)
        return y if branches else self._drop(y, second)

    def _drop(self, x: Array, key: Array | None) -> Array:
        if key is None or self.dropout == 0:
            return x
        kept = jax.random.bernoulli(key, 1 - self.dropout, x.shape)
        return jnp.where(kept, x / (1 - self.dropout), 0)


def _through(module: Any) -> Callable[[Array], Array]:
    """A module, or nothing to do."""
    return (lambda x: x) if module is None else module
