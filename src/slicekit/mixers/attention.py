"""Causal softmax attention with several heads (Vaswani et al. 2017), rotary (Su et al. 2021).

    y_t = W_o concat_heads Σ_{s ≤ t} softmax_s(q_t · k_s / √d) v_s

| here | in the paper |
|---|---|
| `queries`, `keys`, `values` | Q, K, V: linear maps of x, split into heads of size d |
| `readout` | W^O |
| `positions` | of elements, counted from 0; -1 for an entry that does not count |

The state is the cache of keys (already rotated) and values. It grows; nothing caps it. In a padded
batch it keeps the padding too, with position -1, so that nothing has to be moved.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.headwise import check_divides, check_dropout
from slicekit.mixers.positions import Rotary

ROWS = 1024
"""Queries that are masked at a time after an earlier part: a mask has ROWS times all keys."""


class CausalAttention(Mixer):
    """Multi-head causal attention: (batch, length, width) -> (batch, length, width).

    Args:
        width: size of inputs and outputs.
        heads: how many; must divide width.
        positions: `Rotary()`, or None for none.
        bias: whether the linear maps add a constant.
        dropout: probability that an attention weight is dropped in training.

    Example:
        >>> mixer = CausalAttention(16, heads=4, positions=Rotary())
        >>> x = torch.randn(2, 10, 16)
        >>> y, state = mixer(x[:, :9], return_state=True)
        >>> y_t, state = mixer.step(x[:, 9], state)
        >>> torch.allclose(y_t, mixer(x)[:, 9], atol=1e-5)
        True
    """

    def __init__(
        self,
        width: int,
        heads: int = 16,
        positions: Rotary | None = Rotary(),
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        """Draw the weights, as `torch.nn.MultiheadAttention` does."""
        super().__init__()
        check_sizes(width=width)
        check_divides("heads", heads, "width", width)
        if positions is not None and not isinstance(positions, Rotary):
            raise TypeError(f"positions={positions!r}; expected Rotary() or None")
        if positions is not None and width // heads % 2:
            raise ValueError(
                f"width={width} over heads={heads} gives heads of odd size {width // heads}; "
                "rotary positions need an even one"
            )
        check_dropout(dropout)
        self.channels = self.outputs = self.width = width
        self.heads, self.positions, self.dropout = heads, positions, dropout
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=bias)
        self.readout = nn.Linear(width, width, bias=bias)
        nn.init.xavier_uniform_(self.queries_keys_values.weight)
        if bias:
            nn.init.zeros_(self.queries_keys_values.bias)
            nn.init.zeros_(self.readout.bias)

    @property
    def citations(self) -> tuple[str, ...]:  # type: ignore[override]
        """Keys of what this mixer uses."""
        return ("vaswani2017",) if self.positions is None else ("vaswani2017", "su2024roformer")

    def start(self, batch: int, like: Tensor) -> State:
        """An empty cache."""
        return State(
            {
                "keys": like.new_zeros(batch, 0, self.width),
                "values": like.new_zeros(batch, 0, self.width),
                "positions": like.new_zeros(batch, 0, dtype=torch.int64),
                "seen": like.new_zeros(batch, dtype=torch.int64),
            }
        )

    def state_shape(self, name: str, fresh: Tensor) -> tuple[Any, ...]:
        """Caches have any length."""
        return (fresh.shape[0], "time", *fresh.shape[2:]) if fresh.ndim > 1 else fresh.shape

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Attend to the cache and to the part."""
        length, seen = x.shape[1], state["seen"]
        counter = torch.arange(length, device=x.device)
        here = seen.unsqueeze(1) + counter
        queries, keys, values = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.queries_keys_values(x).chunk(3, -1)
        )
        if self.positions is not None:
            queries = self.positions.rotate(queries, here)
            keys = self.positions.rotate(keys, here)
        counted = here if lengths is None else here.masked_fill(counter >= lengths[:, None], -1)
        cache = {
            "keys": torch.cat([state["keys"], _folded(keys).to(state["keys"].dtype)], 1),
            "values": torch.cat([state["values"], _folded(values).to(state["values"].dtype)], 1),
            "positions": torch.cat([state["positions"], counted], 1),
            "seen": seen + (length if lengths is None else lengths),
        }
        if state["keys"].shape[1] == 0:
            # What is past the end comes after everything that counts: nothing attends to it.
            mixed = self._attend(queries, keys, values, None)
        else:
            mixed = self._attend_to_cache(queries, here, cache)
        return self.readout(_folded(mixed)), State(cache)

    def _attend_to_cache(self, queries: Tensor, here: Tensor, cache: dict[str, Tensor]) -> Tensor:
        keys, values = (
            cache[name].to(queries.dtype).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name in ("keys", "values")
        )
        there = cache["positions"].unsqueeze(1)
        number = torch.arange(keys.shape[2], device=keys.device)
        numbers_here = number[-here.shape[1] :]
        outputs = []
        for q, at, own_entry in zip(
            queries.split(ROWS, 2), here.split(ROWS, 1), numbers_here.split(ROWS), strict=True
        ):
            earlier = (there >= 0) & (there <= at.unsqueeze(-1))
            # Past the end there may be nothing earlier, and a row without an entry has no softmax.
            mask = (earlier | (number == own_entry.unsqueeze(-1))).unsqueeze(1)
            outputs.append(self._attend(q, keys, values, mask))
        return torch.cat(outputs, 2)

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        return functional.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=mask is None,
        )

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this mixer again, but for its parameters."""
        return {
            "width": self.width,
            "heads": self.heads,
            "positions": self.positions,
            "bias": self.readout.bias is not None,
            "dropout": self.dropout,
        }


def _folded(x: Tensor) -> Tensor:
    """Heads side by side: (batch, heads, length, size) -> (batch, length, heads * size)."""
    return x.transpose(1, 2).flatten(2)
