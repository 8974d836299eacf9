"""What the classifier and the regressor share: fit an ensemble, run it, stream it, store it."""

import os
from collections.abc import Iterable
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor, nn

from slicekit.devices import Device, find_device
from slicekit.estimators.features import Features
from slicekit.estimators.fitting import (
    CrossEntropy,
    Examples,
    History,
    Loss,
    Plan,
    chunks,
    fit_network,
)
from slicekit.estimators.inputs import Cases, read_cases
from slicekit.estimators.network import Recipe
from slicekit.estimators.parameters import Parameters, check_parameters
from slicekit.estimators.reservoir import RandomRecipe
from slicekit.estimators.ridge import fit_reservoir
from slicekit.estimators.splitting import split
from slicekit.estimators.storing import read, write
from slicekit.estimators.streaming import Stream
from slicekit.estimators.watching import watch_for
from slicekit.training.seeds import derived_seed

FEWEST_STEPS, EPOCHS = 400, 12
"""How long a network is trained by default: so many steps, or passes if those are more."""

MANY_CASES = 2000
"""With more, a read-out of fewer features is as good and much faster."""

MOST_STEPS = {"ridge": 4096, "gradient": 256}
"""Longer series are summed up in windows."""


class SliceEstimator(Parameters, BaseEstimator):
    """The common part; see `SliceClassifier` and `SliceRegressor`."""

    features_: Features
    recipe_: Recipe | RandomRecipe
    networks_: list[nn.Module]
    history_: list[History]
    n_channels_in_: int

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
        return Stream(self.features_, self.networks_, self._combine, batch, self._place)

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

    def _fit(
        self,
        cases: Cases,
        targets: Tensor,
        groups: np.ndarray,
        outputs: int,
        loss: Loss,
        sample_weight: Any,
    ) -> None:
        check_parameters(self)
        weights = _check_sample_weight(
            sample_weight, np.empty((len(cases), 1)), dtype=np.float64, ensure_non_negative=True
        )
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        device = find_device(self.device)
        kept = torch.from_numpy(np.flatnonzero(weights))
        weights = torch.from_numpy(weights)[kept]
        weights = (weights / weights.mean()).float()
        cases = cases.select(kept)
        self.n_channels_in_ = cases.channels
        longest = int(cases.lengths.max())
        window = -(-longest // MOST_STEPS[self.solver]) if self.window is None else self.window
        self.features_ = Features.fit(cases, int(window))
        examples = Examples(*self.features_(cases), targets[kept], weights)
        self.networks_, self.history_ = [], []
        groups = np.unique(groups[kept.numpy()], return_inverse=True)[1]
        for member in range(self.members):
            if self.solver == "ridge":
                found = self._fit_reservoir(examples, outputs, loss, member, seed, device)
            else:
                found = self._fit_network(examples, outputs, loss, member, seed, groups, device)
            self.networks_.append(found[0])
            self.history_.append(found[1])

    def _fit_reservoir(
        self,
        examples: Examples,
        outputs: int,
        loss: Loss,
        member: int,
        seed: int,
        device: torch.device,
    ) -> tuple[nn.Module, History]:
        dim = self.dim
        if dim is None:
            dim = 512 if len(examples) <= MANY_CASES else 256
        self.recipe_ = RandomRecipe(structure=self.structure, dim=int(dim))
        own, classes = derived_seed(seed, f"member {member}"), isinstance(loss, CrossEntropy)
        found = fit_reservoir(self.recipe_, examples, outputs, classes, own, device)
        if self.verbose:
            print(f"reservoir {member + 1} of {self.members}: penalty {found[1].penalty:g}")
        return found

    def _fit_network(
        self,
        examples: Examples,
        outputs: int,
        loss: Loss,
        member: int,
        seed: int,
        groups: np.ndarray,
        device: torch.device,
    ) -> tuple[nn.Module, History]:
        self.recipe_ = Recipe(
            structure=self.structure,
            width=int(self.width),
            layers=int(self.layers),
            dropout=float(self.dropout),
        )
        folds = np.random.RandomState(seed)
        chosen, held = split(groups, self.validation_fraction, member, folds)
        return fit_network(
            partial(self.recipe_.build, self.features_.channels, outputs, examples.length),
            examples.select(chosen),
            examples.select(held),
            loss,
            self._plan(len(chosen)),
            derived_seed(seed, f"member {member}"),
            device,
            watch_for(self.verbose, f"network {member + 1} of {self.members}"),
        )

    def _plan(self, cases: int) -> Plan:
        epoch = max(1, cases // min(self.batch_size, cases))
        steps = self.max_steps
        if steps is None:
            steps = 10**9 if self.max_epochs is not None else max(FEWEST_STEPS, EPOCHS * epoch)
        if self.max_epochs is not None:
            steps = min(steps, self.max_epochs * epoch)
        return Plan(
            steps=steps,
            batch=self.batch_size,
            rate=self.learning_rate,
            decay=self.weight_decay,
            patience=self.patience,
            evaluate_every=max(1, min(max(epoch, 20), steps)),
        )

    def _outputs(self, X: Any, times: Any) -> np.ndarray:
        """Predictions for whole series, in batches."""
        check_is_fitted(self)
        cases = read_cases(self, X, times, reset=False)
        if cases.channels != self.n_channels_in_:
            raise ValueError(
                f"X has {cases.channels} channels, but {type(self).__name__} was fitted to "
                f"{self.n_channels_in_}"
            )
        if self.features_.preparation.timed and cases.times is None:
            raise ValueError(f"times is missing; this {type(self).__name__} was fitted with times")
        device, found = self._place, []
        with torch.inference_mode():
            for some in chunks(cases.lengths):
                part = cases.select(some)
                features, lengths = (x.to(device) for x in self.features_(part))
                outputs = [network(features, lengths=lengths) for network in self.networks_]
                found.append(self._combine(torch.stack(outputs)))
        return np.concatenate(found)

    def _combine(self, outputs: Tensor) -> np.ndarray:
        """Outputs of the networks (members, batch, outputs) -> predictions (batch, ...)."""
        raise NotImplementedError

    @property
    def _place(self) -> torch.device:
        """Where the fitted networks are, whatever became of the parameter since."""
        return next(self.networks_[0].parameters()).device

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        return tags


def check_finite(outputs: Tensor) -> None:
    """Raise FloatingPointError where a network has left the range of its numbers."""
    if not torch.isfinite(outputs).all():
        raise FloatingPointError(
            "the prediction is not finite: the state of the network overflowed, perhaps because a "
            "series is much longer than those in training"
        )
