"""A series as it arrives: one observation in, the current prediction out, at constant cost."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicekit.checks import check_whole
from slicekit.estimators.clocks import same_date, seconds
from slicekit.estimators.containers import observed
from slicekit.estimators.model import Model


@dataclass(frozen=True, eq=False)
class StreamState:
    """All that a stream remembers; its size does not grow.

    Args:
        count: how many observations have come.
        time: (batch,) float64, of the last observation, None before the first.
        memory: of the model, None before the first.
        prediction: after the last observation.
        model: whose memory it is.
    """

    count: int
    time: Tensor | None
    memory: Any
    prediction: np.ndarray | None
    model: Model


class Stream:
    """Observations one by one. Made by `stream()` of a fitted estimator.

    Args:
        model: whose outputs are combined.
        combine: takes the outputs (members, batch, outputs) to predictions (batch, ...).
        batch: how many series run side by side; None is one, without a batch axis.
        dated: whether the estimator was fitted with dates.
        names: of the channels, None if the estimator was fitted to series without names.
    """

    def __init__(
        self,
        model: Model,
        combine: Callable[[Tensor], np.ndarray],
        batch: int | None,
        dated: bool,
        names: list[str] | None,
    ) -> None:
        """Start before the first observation."""
        if batch is not None:
            check_whole("batch", batch, otherwise=", or None for one stream")
        self._model, self._combine, self._batch = model, combine, batch
        self._dated, self._names = dated, names
        self.reset()

    def reset(self) -> None:
        """Forget all observations."""
        self._state = StreamState(0, None, None, None, self._model)

    @property
    def state(self) -> StreamState:
        """All it remembers. Setting it to an earlier one goes back to that moment."""
        return self._state

    @state.setter
    def state(self, state: StreamState) -> None:
        if not isinstance(state, StreamState):
            raise TypeError(f"state is a {type(state).__name__}; expected a state of this stream")
        if state.model is not self._model:
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
            observation: (channels,), or (batch, channels); NaN where nothing was observed. The
                channels of a pandas Series, or of a frame for a batch, go by their names, as in
                `fit` and `predict`.
            time: of the observation, a number or (batch,), after that of the one before; a date if
                the estimator was fitted with dates. It may be left out if the estimator was fitted
                without times: it is then one step later.

        Returns:
            Of a classifier the probabilities (classes,), of a regressor the value () or (targets,);
            with a batch axis first if the stream has one. After the last observation they are those
            that the estimator predicts from the whole series.

        Raises:
            ValueError: if a shape or a name does not fit, or time is missing, does not increase, or
                comes so late that it must be in another unit; the stream is then as it was.
        """
        values = self._read_observation(observation)
        now = self._read_time(time)
        before = self._state
        with torch.inference_mode():
            outputs, memory = self._model.advance(values, now, before.memory)
            answer = self._combine(outputs)
        prediction = answer[0] if self._batch is None else answer
        self._state = StreamState(before.count + 1, now, memory, prediction, self._model)
        return prediction

    def _read_observation(self, observation: Any) -> Tensor:
        values = observed(observation, self._names)
        channels = self._model.channels
        expected = (channels,) if self._batch is None else (self._batch, channels)
        if values.shape != expected:
            raise ValueError(f"observation has shape {values.shape}; expected {expected}")
        if np.isinf(values).any():
            raise ValueError("observation holds infinity; expected finite values, or NaN for gaps")
        return torch.from_numpy(values.reshape(-1, channels).copy())

    def _read_time(self, time: Any) -> Tensor:
        batch, before = self._batch or 1, self._state.time
        if time is None:
            if self._model.timed:
                raise ValueError("time is missing; the estimator was fitted with times")
            last = torch.full((batch,), -1.0, dtype=torch.float64)
            return (last if before is None else before) + 1
        numbers, dated = seconds(time, "time")
        if dated != self._dated:
            kinds = ("a number", "a date")
            raise ValueError(f"time={time} is {kinds[dated]}; expected {kinds[self._dated]}")
        now = torch.from_numpy(np.array(numbers))
        if now.shape not in ((), (batch,)):
            raise ValueError(f"time has shape {tuple(now.shape)}; expected a number or ({batch},)")
        now = now.expand(batch)
        if not now.isfinite().all():
            raise ValueError(f"time={time}; expected finite numbers")
        if before is not None and (now <= before).any():
            earlier, hint = before[0].item() if batch == 1 else before.tolist(), ""
            if self._dated:
                hint = same_date(before.max().item()) if (now == before).any() else ""
                earlier = before.mul(1e6).round().long().numpy().astype("datetime64[us]")
                earlier = earlier[0] if batch == 1 else earlier
            raise ValueError(
                f"time={time} does not come after {earlier}; times must increase strictly{hint}"
            )
        return now
