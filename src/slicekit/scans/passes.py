"""What the passes of a scan are: one forward and one backward over all steps, without a tape."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from slicekit.scans.scales import windows
from slicekit.scans.sources import Source


@dataclass(eq=False)
class Passes(ABC):
    """One recurrence, as its passes are told of it.

    Attributes:
        source: where the transitions come from.
        state: (batch, dim, columns), the initial state.
        inputs: no tensor, one (dense inputs) or two (outer products).
        readout: (batch, length, dim) or None.
        size: steps in a chunk, or bytes that may be kept for the backward pass, as a scan has it.
        rescale: steps between two divisions of a projective state; 0 for a plain one.
    """

    source: Source
    state: Tensor
    inputs: tuple[Tensor, ...]
    readout: Tensor | None
    size: int
    rescale: int

    @property
    def length(self) -> int:
        """Number of steps."""
        return self.source.length

    @abstractmethod
    def forward(self, keep: bool) -> list[Tensor]:
        """Run all steps.

        Args:
            keep: whether to return what `backward` can use; asked for only if `keeps`.

        Returns:
            outputs: `output_shape`.
            last: the last state.
            factors: what the state was divided by before each window's first step, `factor_shape`.
            starts: the states from which those that a readout hides are made again, `start_shape`.
            *kept: if keep, tensors like those of `blank_kept`.
        """

    @abstractmethod
    def backward(
        self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor | None, needed: list[bool]
    ) -> list[Tensor]:
        """Gradients of the source's tensors, the state, the inputs and the readout.

        Args:
            saved: what `forward` returned.
            in_outputs, in_last: gradients of its first two; None where the last state has none.
            needed: of each operand, whether its gradient is; others may be any tensor.
        """

    def keeps(self) -> bool:
        """Whether `backward` gains from what `forward` can keep."""
        return False

    def blank_kept(self) -> list[Tensor]:
        """What `forward` keeps, for its shapes."""
        return []

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

    def start_shape(self) -> tuple[int, ...]:
        """(chunks, batch, dim, columns) with a readout, otherwise nothing."""
        if self.readout is None:
            return (0,)
        return (-(-self.length // self.chunk_size()), *self.state.shape)

    def chunk_size(self) -> int:
        """Steps between two states that are stored where a readout hides the others."""
        raise NotImplementedError
