"""The constructor that all estimators share: it stores its arguments and does nothing else."""

from typing import Any

import numpy as np

from slicekit.devices import Device
from slicekit.estimators.solvers import Solver


class Parameters:
    """The parameters of an estimator.

    Args:
        solver: how it is fitted: `Ridge(...)` in closed form, in seconds, or `Gradient(...)` by
            training a network, in minutes; None is `Ridge()`.
        n_jobs: threads that look at series in `Ridge`, as joblib counts them: -1 is all, None is
            what joblib's backend says, one without. Results do not depend on it.
        device: where `Gradient` trains and predicts, "cpu", "cuda", "cuda:1" or "mps"; None is the
            CPU, where `Ridge` does all of its work.
        random_state: an integer for the same numbers at every fit, a RandomState, or None.
        verbose: whether to show progress.
    """

    def __init__(
        self,
        *,
        solver: Solver | None = None,
        n_jobs: int | None = 1,
        device: Device | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        """Store them."""
        self.solver = solver
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        super().__init__()


class ClassifierParameters(Parameters):
    """The parameters of a classifier.

    Args:
        class_weight: weights of the classes, as {label: weight}; "balanced" weighs them by one over
            their share of the cases; None is 1 for all.
        solver, n_jobs, device, random_state, verbose: see `Parameters`.
    """

    def __init__(
        self,
        *,
        solver: Solver | None = None,
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = 1,
        device: Device | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        """Store them."""
        self.class_weight = class_weight
        super().__init__(
            solver=solver,
            n_jobs=n_jobs,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
