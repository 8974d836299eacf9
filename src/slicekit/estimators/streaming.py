"""A series as it arrives: one observation in, the current prediction out, at constant cost."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from slicekit.estimators.features import Features, FeaturesMemory
from slicekit.layers import States


@dataclass(frozen=True, eq=False)
class StreamState:
    """All that a stream remembers; its size does not grow.

    Args:
        count: how many observations have come.
        memory: of the features, None before the first.
        states: of the networks after the last complete window, None before the first.
        prediction: after the last observation.
    """

    count: int
    memory: FeaturesMemory | None
    states: tuple[States | None, ...]
    prediction: np.ndarray | None


class Stream:
    """Observations one by one. Made by `stream()` of a fitted estimator.

    Args:
        features: of the estimator.
        networks: whose outputs are combined.
        combine: takes the outputs (members, batch, outputs) to predictions (batch, ...).
        batch: how many series run side by side; None is one, without a batch axis.
        device: of the networks.
    """

    def __init__(
        self,
        features: Features,
        networks: list[nn.Module],
        combine: Callable[[Tensor], np.ndarray],
        batch: int | None,
        device: torch.device,
    ) -> None:
        """Start before the first observation."""
        if batch is not None and (not isinstance(batch, int) or batch < 1):
            raise ValueError(
                f"batch={batch!r}; expected a positive integer, or None for one stream"
            )
        self._features, self._networks, self._combine = features, networks, combine
        self._batch, self._device = batch, device
        self.reset()

    def reset(self) -> None:
        """Forget all observations."""
        self._state = StreamState(0, None, (None,) * len(self._networks), None)

    @property
    def state(self) -> StreamState:
        """All it remembers. Setting it to an earlier one goes back to that moment."""
        return self._state

    @state.setter
    def state(self, state: StreamState) -> None:
        if not isinstance(state, StreamState):
            raise TypeError(f"state is a {type(state).__name__}; expected a state of this stream")
        if len(state.states) != len(self._networks):
            raise ValueError("state belongs to a stream of another estimator")
        self._state = state

    @property
    def count(self) -> int:
        """How many observations have come since the start or the last `reset`."""
        return self._state.count

    @property
    def prediction(self) -> np.ndarray:
        """What the last `update` returned.

        Raises:
            ValueError: before the first observation.
        """
        if self._state.prediction is None:
            raise ValueError("no observation has come yet; call update first")
        return self._state.prediction

    @property
    def probabilities(self) -> np.ndarray:
        """The current class probabilities (classes,), or (batch, classes); for classifiers."""
        return self.prediction

    def update(self, observation: Any, time: Any = None) -> np.ndarray:
        """Take one observation.

        Args:
            observation: (channels,), or (batch, channels); NaN where nothing was observed.
            time: of the observation, a number or (batch,), after that of the one before. It may be
                left out if the estimator was fitted without times: it is then one step later.

        Returns:
            Of a classifier the probabilities (classes,), of a regressor the value () or (targets,);
            with a batch axis first if the stream has one. After the last observation they are those
            that the estimator predicts from the whole series.

        Raises:
            ValueError: if a shape does not fit, or time is missing or does not increase.
        """
        values = self._read_observation(observation)
        now = self._read_time(time)
        before = self._state
        outputs, states = [], []
        with torch.inference_mode():
            features, memory, complete = self._features.advance(values, now, before.memory)
            features = features.to(self._device)
            for network, state in zip(self._networks, before.states, strict=True):
                output, after = network.step(features, state)  # type: ignore[operator]
                outputs.append(output)
                states.append(after)
            found = self._combine(torch.stack(outputs))
        prediction = found[0] if self._batch is None else found
        kept = tuple(states) if complete else before.states
        self._state = StreamState(before.count + 1, memory, kept, prediction)
        return prediction

    def _read_observation(self, observation: Any) -> Tensor:
        values = np.asarray(observation, dtype=np.float64)
        channels = self._features.preparation.inputs
        expected = (channels,) if self._batch is None else (self._batch, channels)
        if values.shape != expected:
            raise ValueError(f"observation has shape {values.shape}; expected {expected}")
        if np.isinf(values).any():
            raise ValueError("observation holds infinity; expected finite values, or NaN for gaps")
        return torch.from_numpy(values.reshape(-1, channels).copy())

    def _read_time(self, time: Any) -> Tensor:
        batch, memory = self._batch or 1, self._state.memory
        if time is None:
            if self._features.preparation.timed:
                raise ValueError("time is missing; the estimator was fitted with times")
            last = torch.full((batch,), -1.0, dtype=torch.float64)
            return (last if memory is None else memory.memory.before) + 1
        now = torch.from_numpy(np.array(time, dtype=np.float64))
        if now.shape not in ((), (batch,)):
            raise ValueError(f"time has shape {tuple(now.shape)}; expected a number or ({batch},)")
        now = now.expand(batch)
        if not now.isfinite().all():
            raise ValueError(f"time={time}; expected finite numbers")
        if memory is not None and (now <= memory.memory.before).any():
            before = memory.memory.before.tolist()
            raise ValueError(
                f"time={time} does not come after {before[0] if batch == 1 else before}; "
                "times must increase strictly"
            )
        return now
