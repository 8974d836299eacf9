"""Shapes of what the passes of a scan return, known without touching data."""

from typing import ClassVar

from torch import Tensor

from slicekit.scans.scales import windows


class PassShapes:
    """What passes have in common.

    Attributes:
        state: (batch, dim, columns), the initial state.
        readout: (batch, length, dim) or None.
        rescale: steps between two divisions of a projective state; 0 for a plain one.
        partial: whether the last state's gradient may be missing.
    """

    partial: ClassVar[bool] = False
    state: Tensor
    readout: Tensor | None
    rescale: int

    @property
    def length(self) -> int:
        """Number of steps."""
        raise NotImplementedError

    def output_shape(self) -> tuple[int, ...]:
        """Batch first: states, or what a readout makes of them."""
        batch, dim, columns = self.state.shape
        length = self.length
        return (batch, length, dim, columns) if self.readout is None else (batch, length, columns)

    def factor_shape(self) -> tuple[int, ...]:
        """(batch, windows, dim, columns), or nothing."""
        if not self.rescale:
            return (0,)
        batch, dim, columns = self.state.shape
        return (batch, windows(self.length, self.rescale), dim, columns)
