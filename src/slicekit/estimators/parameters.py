"""The constructor that all estimators share: it stores its arguments and does nothing else."""

from typing import Any

import numpy as np

from slicekit.devices import Device
from slicekit.structures import Structure
from slicekit.suggestions import unknown

SOLVERS = ("ridge", "gradient")


class Parameters:
    """The parameters of an estimator.

    Args:
        solver: "ridge" draws a random linear CDE and solves for a linear read-out of its states, in
            seconds; "gradient" trains a network of linear CDEs as a whole, in minutes.
        structure: what the matrices of the linear CDEs look like, such as BlockDiagonal(64, 4);
            None is block-diagonal, and starts from damped rotations.
        dim: size of the state, for "ridge"; None is 512, or 256 for more than 2000 cases. A
            structure has its own.
        window: elements of a series that make one step; None makes it one, but more for series that
            are longer than 4096 ("ridge") or 256 ("gradient") steps.
        members: how many models are fitted; their predictions are averaged.
        width: size of the network's blocks. This and all that follows down to patience is for
            "gradient".
        layers: how many blocks.
        dropout: probability, in training.
        max_steps: most updates of each network; None chooses by the number of cases.
        max_epochs: most passes through the training data, if that is fewer updates.
        batch_size: cases in an update.
        learning_rate: the highest, after a warm-up; a cosine brings it down again.
        weight_decay: of AdamW.
        validation_fraction: of the cases, held out to choose the best weights, another part for
            each member; 0 holds out none.
        patience: validations without a better loss after which to stop; None goes on to the end.
        device: where to fit and to predict, "cpu", "cuda", "cuda:1" or "mps"; None is the CPU. The
            ridge regression itself is solved on the CPU, in float64.
        random_state: an integer for the same numbers at every fit, a RandomState, or None.
        verbose: whether to show progress.
    """

    def __init__(
        self,
        *,
        solver: str = "ridge",
        structure: Structure | None = None,
        dim: int | None = None,
        window: int | None = None,
        members: int = 1,
        width: int = 64,
        layers: int = 2,
        dropout: float = 0.1,
        max_steps: int | None = None,
        max_epochs: int | None = None,
        batch_size: int = 32,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.05,
        validation_fraction: float = 0.2,
        patience: int | None = None,
        device: Device | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        """Store them."""
        self.solver = solver
        self.structure = structure
        self.dim = dim
        self.window = window
        self.members = members
        self.width = width
        self.layers = layers
        self.dropout = dropout
        self.max_steps = max_steps
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        super().__init__()


def check_parameters(estimator: Any) -> None:
    """Check the numbers among an estimator's parameters.

    Raises:
        TypeError: if one is of the wrong kind.
        ValueError: if one is out of its range; the message names it.
    """
    if estimator.solver not in SOLVERS:
        raise unknown("solver", estimator.solver, SOLVERS)
    for name in ("width", "layers", "members", "batch_size"):
        _check_whole(name, getattr(estimator, name))
    for name in ("dim", "window", "max_steps", "max_epochs", "patience"):
        if getattr(estimator, name) is not None:
            _check_whole(name, getattr(estimator, name), ", or None")
    _check_real("learning_rate", estimator.learning_rate, 0, float("inf"), "a positive number")
    if estimator.weight_decay != 0:
        _check_real("weight_decay", estimator.weight_decay, 0, float("inf"), "at least 0")
    if estimator.dropout != 0:
        _check_real("dropout", estimator.dropout, 0, 1, "a probability in [0, 1)")
    if estimator.validation_fraction != 0:
        fraction = estimator.validation_fraction
        _check_real("validation_fraction", fraction, 0, 0.5 + 1e-9, "a share in [0, 0.5]")


def _check_whole(name: str, value: Any, otherwise: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}={value!r}; expected a positive integer{otherwise}")
    if value < 1:
        raise ValueError(f"{name}={value}; expected a positive integer{otherwise}")


def _check_real(name: str, value: Any, low: float, high: float, expected: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name}={value!r}; expected {expected}")
    if not low < value < high:
        raise ValueError(f"{name}={value}; expected {expected}")
