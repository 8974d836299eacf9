"""How an estimator is fitted: in closed form, or by gradients. Policies are objects.

They store their arguments and are read like estimators: `solver__width` is a parameter of a search.
"""

from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator

from slicekit.checks import check_whole
from slicekit.estimators.model import Model, Problem
from slicekit.estimators.structures import check_structure
from slicekit.structures import Structure


class Solver(BaseEstimator):
    """A way to fit; see `Ridge` and `Gradient`."""

    def solve(self, problem: Problem) -> Model:
        """Fit members to a problem.

        Raises:
            TypeError: if a parameter is of the wrong kind.
            ValueError: if one is out of its range; the message names it.
        """
        raise NotImplementedError

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this solver again."""
        return {
            name: x.item() if isinstance(x, np.generic) else x
            for name, x in self.get_params(deep=False).items()
        }


class Ridge(Solver):
    """Random linear CDEs along the series, and linear read-outs of what they see; in seconds.

    Ten blocks of features are drawn and fitted to the training series. Each has a ridge regression
    of its own, with the penalty that predicts left-out cases best, and what they say is joined by
    weights that do the same.

    Args:
        groups: of eight filters each, for every dilation; None is 16, and for more than 4000 cases
            64 over the number of dilations, within 8 and 64.
        members: how many models are fitted; their predictions are averaged.
    """

    def __init__(self, *, groups: int | None = None, members: int = 1) -> None:
        """Store them."""
        self.groups = groups
        self.members = members

    def solve(self, problem: Problem) -> Model:
        """Fit members in closed form."""
        from slicekit.estimators.stacked import fit_stacked

        if self.groups is not None:
            check_whole("groups", self.groups, otherwise=", or None")
        check_whole("members", self.members)
        groups = None if self.groups is None else int(self.groups)
        return fit_stacked(groups, int(self.members), problem)


class Gradient(Solver):
    """A network of linear CDEs, trained as a whole; in minutes.

    Args:
        structure: what the matrices of the linear CDEs look like, such as BlockDiagonal(64, 4);
            None is block-diagonal, and starts from damped rotations.
        width: size of the network's blocks.
        layers: how many blocks.
        dropout: probability, in training.
        members: how many networks are trained; their predictions are averaged.
        window: elements of a series that make one step; None makes it one, but more for series that
            are longer than 256 steps.
        max_steps: most updates of each network; None chooses by the number of cases.
        max_epochs: most passes through the training data, if that is fewer updates.
        batch_size: cases in an update.
        learning_rate: the highest, after a warm-up; a cosine brings it down again.
        weight_decay: of AdamW.
        validation_fraction: of the cases, held out to choose the best weights, another part for
            each member; 0 holds out none.
        patience: validations without a better loss after which to stop; None goes on to the end.
    """

    def __init__(
        self,
        *,
        structure: Structure | None = None,
        width: int = 64,
        layers: int = 2,
        dropout: float = 0.1,
        members: int = 1,
        window: int | None = None,
        max_steps: int | None = None,
        max_epochs: int | None = None,
        batch_size: int = 32,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.05,
        validation_fraction: float = 0.2,
        patience: int | None = None,
    ) -> None:
        """Store them."""
        self.structure = structure
        self.width = width
        self.layers = layers
        self.dropout = dropout
        self.members = members
        self.window = window
        self.max_steps = max_steps
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.patience = patience

    def solve(self, problem: Problem) -> Model:
        """Train networks."""
        from slicekit.estimators.networks import fit_networks

        self._check()
        return fit_networks(self, problem)

    def _check(self) -> None:
        check_structure(self.structure)
        for name in ("width", "layers", "members", "batch_size"):
            check_whole(name, getattr(self, name))
        for name in ("window", "max_steps", "max_epochs", "patience"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), otherwise=", or None")
        _check_real("learning_rate", self.learning_rate, 0, float("inf"), "a positive number")
        if self.weight_decay != 0:
            _check_real("weight_decay", self.weight_decay, 0, float("inf"), "at least 0")
        if self.dropout != 0:
            _check_real("dropout", self.dropout, 0, 1, "a probability in [0, 1)")
        if self.validation_fraction != 0:
            fraction = self.validation_fraction
            _check_real("validation_fraction", fraction, 0, 0.5 + 1e-9, "a share in [0, 0.5]")


def threads(n_jobs: Any) -> int:
    """How many threads `n_jobs` asks for, as joblib and its backends count.

    Raises:
        ValueError: if it is no number of threads.
    """
    kinds = (int, np.integer, type(None))
    if not isinstance(n_jobs, kinds) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r}; expected a whole number other than 0, or None")
    asked: Any = n_jobs
    return effective_n_jobs(asked)


def _check_real(name: str, value: Any, low: float, high: float, expected: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name}={value!r}; expected {expected}")
    if not low < value < high:
        raise ValueError(f"{name}={value}; expected {expected}")
