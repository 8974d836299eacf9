"""Blocks one after the other, some of which may pass on one element for each window of theirs."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from slicekit.checks import concrete
from slicekit.layers.pooling import Pooling
from slicekit.layers.state import State


def windowed(block: nn.Module) -> bool:
    """Whether a block's outputs stand at the ends of windows, and not at every element."""
    return bool(getattr(block, "windowed", False))


def without_padding(lengths: Tensor, length: int) -> Tensor | None:
    """None where every sequence has that length: nothing has to be masked then."""
    if not concrete(lengths) or lengths.device.type != "cpu":
        return lengths
    return None if bool((lengths == length).all()) else lengths


@dataclass(frozen=True)
class Stack:
    """Blocks and a pooling, with the states that lead from one part of a sequence to the next.

    What a block gives for a window that is not over is provisional. What comes after that block
    sees it, so that there is an answer at any time, but does not keep it: only windows that are
    over leave a trace in the states.

    Args:
        blocks: modules with the contract of `SLiCE`.
        pool: what follows them, or None.
    """

    blocks: list[nn.Module]
    pool: Pooling | None

    def run(
        self, h: Any, before: list[Any], lengths: Tensor | None, return_state: bool
    ) -> tuple[Tensor, list[Any], Tensor | None]:
        """Run a part of some sequences.

        Args:
            h: (batch, length, size) or `Tabulated`.
            before: a state for each block and the pooling, or None at the start.
            lengths: (batch,) int64, or None if all elements count.
            return_state: whether states are wanted.

        Returns:
            Outputs, (batch, length, size) or pooled; the states after the part; and how many
            outputs count, or None for all.
        """
        after: list[Any] = []
        settled = False
        for at, block in enumerate(self.blocks):
            closed: Tensor | None = None
            counts = lengths
            if windowed(block):
                places: Any = block.places(h, before[at], lengths)  # type: ignore[operator]
                counts, closed = places.counts, places.closed
            h, layer_state = block(h, before[at], lengths, True)
            lengths = None if counts is None else without_padding(counts, h.shape[1])
            if settled:
                continue
            after.append(layer_state)
            if return_state and closed is not None:
                rest = Stack(self.blocks[at + 1 :], self.pool)
                after += rest._settle(h, before[at + 1 :], closed)
                settled = True
        if self.pool is not None:
            h, layer_state = self.pool(h, before[-1], lengths)
            if not settled:
                after.append(layer_state)
        return h, after, lengths

    def _settle(self, h: Tensor, before: list[Any], closed: Tensor) -> list[Any]:
        """The states after the elements that are final."""
        most = int(closed.max())
        if most == 0:
            return [State({}) if layer_state is None else layer_state for layer_state in before]
        return self.run(h[:, :most], before, closed, True)[1] if before else []
