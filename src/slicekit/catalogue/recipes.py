"""What a recipe is: a model and the way it is trained, on one kind of task, as plain data.

Every named model has two. `paper` is the published protocol, unshortened; `fast` is ours, which
comes further in minutes.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from slicekit.layers import Mean, Pooling, SequenceModel
from slicekit.tasks import Task
from slicekit.training.settings import Settings

FAST, PAPER = "fast", "paper"
RECIPES = (FAST, PAPER)
"""Their names, the default first."""

Blocks = Callable[[int, int, float], list[nn.Module]]
"""Makes the blocks of a model, given width, number of layers and dropout."""


@dataclass(frozen=True)
class Recipe:
    """A model for one kind of task, and how it is trained.

    Attributes:
        blocks: makes its blocks.
        settings: how it is trained.
        width: size of the embedding and of every block.
        layers: how many blocks.
        dropout: probability, in every block.
        final_norm: whether a norm precedes the head; None for the blocks' own way.
        pool: for series, the readout.
        embed: for series, whether elements are embedded.
        start: changes the initial weights, None to leave them.
    """

    blocks: Blocks
    settings: Settings
    width: int
    layers: int = 1
    dropout: float = 0.0
    final_norm: bool = False
    pool: Pooling = Mean()
    embed: bool = True
    start: Callable[[SequenceModel], None] | None = None

    def build(self, task: Task, layers: int | None = None) -> SequenceModel:
        """The model, initialised from torch's global source of randomness.

        Args:
            task: gives the vocabulary or the channels, and the number of outputs.
            layers: how many blocks, or None for the recipe's own.
        """
        series = task.channels is not None
        model = SequenceModel(
            vocabulary=None if series else task.vocabulary,
            channels=task.channels,
            outputs=task.outputs,
            width=self.width,
            embed=self.embed,
            blocks=self.blocks(self.width, self.layers if layers is None else layers, self.dropout),
            pool=self.pool if series else None,
            final_norm=self.final_norm,
        )
        if self.start is not None:
            self.start(model)
        return model


def single(layer: Callable[[], nn.Module]) -> Blocks:
    """One bare layer, and no stack of them."""

    def blocks(width: int, layers: int, dropout: float) -> list[nn.Module]:
        if layers != 1:
            raise ValueError(f"layers={layers}, but this model has one layer on the series")
        return [layer()]

    return blocks
