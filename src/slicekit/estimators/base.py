"""What the estimators share: fit a model, run it, stream it, explain it, store it."""

import os
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor

from slicekit.devices import Device, find_device
from slicekit.estimators.constructor import Parameters
from slicekit.estimators.containers import unmasked
from slicekit.estimators.inputs import Cases, channel_names, read_cases
from slicekit.estimators.model import History, Model, Problem
from slicekit.estimators.solvers import Ridge, Solver, threads
from slicekit.estimators.storing import read, write
from slicekit.estimators.streaming import Stream


class SliceEstimator(Parameters, BaseEstimator):
    """The common part; see `SliceClassifier` and `SliceRegressor`."""

    model_: Model
    n_channels_in_: int
    channel_names_in_: np.ndarray
    dated_: bool

    @property
    def history_(self) -> tuple[History, ...]:
        """How the fit of each member went."""
        return self.model_.history

    def stream(self, batch: int | None = None) -> Stream:
        """Begin to predict a series as it arrives.

        Args:
            batch: how many series run side by side; None is one, without a batch axis.

        Returns:
            A stream; its `update(observation, time=None)` takes an observation (channels,) and
            returns the current prediction.

        Raises:
            NotFittedError: before `fit`.
        """
        check_is_fitted(self)
        return Stream(self.model_, self._combine, batch, self.dated_, channel_names(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, atomically and without pickle.

        A `random_state` that is no integer is stored as None.

        Args:
            path: the file, by custom with the ending .safetensors.

        Raises:
            NotFittedError: before `fit`.
            TypeError: if a parameter or label can't be described as JSON; nothing is written then.
        """
        check_is_fitted(self)
        write(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        classes: Iterable[type] = (),
        device: Device | None = None,
    ) -> Self:
        """Read an estimator that `save` wrote.

        Args:
            path: the file.
            classes: your own structures that it contains.
            device: where to put it, "cpu", "cuda" or "mps", wherever it was; None is the CPU.

        Returns:
            The fitted estimator.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if it is damaged, or holds something else (the message names the file), or
                if there is no such device.
        """
        return read(cls, path, classes, device)

    def _solve(
        self,
        cases: Cases,
        targets: Tensor,
        groups: np.ndarray,
        outputs: int,
        weights: np.ndarray,
        classes: bool,
    ) -> None:
        """Fit the model to cases whose weights are positive."""
        solver = check_solver(self.solver)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        positive = torch.from_numpy(weights)
        self.n_channels_in_, self.dated_ = cases.channels, cases.dated
        problem = Problem(
            cases=cases,
            targets=targets,
            outputs=outputs,
            classes=classes,
            weights=positive / positive.mean(),
            groups=groups,
            seed=seed,
            threads=self._threads,
            device=find_device(self.device),
            verbose=bool(self.verbose),
        )
        self.model_ = solver.solve(problem)

    def _weights(self, sample_weight: Any, cases: Cases) -> np.ndarray:
        weights = _check_sample_weight(
            unmasked(sample_weight),
            np.empty((len(cases), 1)),
            dtype=np.float64,
            ensure_non_negative=True,
        )
        if not weights.any():
            raise ValueError("sample_weight is zero for every case; expected a positive weight")
        return weights

    def _read(self, X: Any, times: Any) -> Cases:
        """Series to predict from, checked against those that it was fitted to."""
        check_is_fitted(self)
        cases, name = read_cases(self, X, times, reset=False), type(self).__name__
        if cases.channels != self.n_channels_in_:
            raise ValueError(
                f"X has {cases.channels} channels, but {name} was fitted to {self.n_channels_in_}"
            )
        if self.model_.timed and cases.times is None:
            raise ValueError(f"times is missing; this {name} was fitted with times")
        if cases.times is not None and cases.dated != self.dated_:
            kinds = ("numbers", "dates")
            raise ValueError(
                f"times holds {kinds[cases.dated]}; this {name} was fitted with "
                f"{kinds[self.dated_]}"
            )
        return cases

    def _outputs(self, X: Any, times: Any) -> Tensor:
        """The model's outputs for whole series: (members, cases, outputs)."""
        cases = self._read(X, times)
        with torch.inference_mode():
            outputs = self.model_.outputs(cases, self._threads)
        check_finite(outputs)
        return outputs

    def _combine(self, outputs: Tensor) -> np.ndarray:
        """Outputs (members, batch, outputs) -> predictions (batch, ...)."""
        raise NotImplementedError

    @property
    def _threads(self) -> int:
        return threads(self.n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        return tags


def check_solver(solver: Any) -> Solver:
    """The solver, `Ridge()` for None.

    Raises:
        TypeError: if it is something else.
    """
    if solver is None:
        return Ridge()
    if not isinstance(solver, Solver):
        raise TypeError(
            f"solver={solver!r}; expected Ridge(...) or Gradient(...) of slicekit.estimators, or "
            "None"
        )
    return solver


def check_finite(outputs: Tensor) -> None:
    """Raise FloatingPointError where a network has left the range of its numbers."""
    if not torch.isfinite(outputs).all():
        raise FloatingPointError(
            "the prediction is not finite: the state of the network overflowed, perhaps because a "
            "series is much longer than those in training"
        )
