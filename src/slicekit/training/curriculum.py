"""How long the longest training sequence is: all lengths at once, or growing ones.

A curriculum is asked for the longest length before a step and told the accuracy after it. What it
remembers is a few plain numbers, so that a checkpoint can hold them.
"""

from abc import ABC, abstractmethod

from slicekit.training.settings import Settings, check_growth

MEMORY = 0.9
"""Decay of the running accuracy."""


class Curriculum(ABC):
    """Gives the longest length of a step."""

    @abstractmethod
    def longest(self, step: int) -> int:
        """The longest length of the step after `step` others."""

    def observe(self, accuracy: float) -> None:
        """Take note of the training accuracy of a step."""
        return

    def state(self) -> dict[str, float]:
        """What it remembers."""
        return {}

    def restore(self, state: dict[str, float]) -> None:
        """Remember this instead."""
        return


class AllLengths(Curriculum):
    """The whole range from the start."""

    def __init__(self, end: int) -> None:
        """Keep the end of the range."""
        self.end = end

    def longest(self, step: int) -> int:
        """The end of the range."""
        return self.end


class GrowWithTime(Curriculum):
    """Linearly from `start` to `end` within the first `within` steps.

    >>> [GrowWithTime(6, 40, 100).longest(step) for step in (0, 50, 99, 100, 500)]
    [6, 23, 39, 40, 40]
    """

    def __init__(self, start: int, end: int, within: int) -> None:
        """Keep the line's two ends."""
        self.start, self.end, self.within = start, end, within

    def longest(self, step: int) -> int:
        """The point on the line, rounded down."""
        return self.start + (self.end - self.start) * min(step, self.within) // self.within


class GrowWithAccuracy(Curriculum):
    """Grow from `start` whenever the running accuracy passes `at`, which then starts again at 0.

    It grows by `by`, or to `factor` times what it was, whichever is more.

    >>> curriculum = GrowWithAccuracy(6, 9, at=0.15, by=2)
    >>> grown = []
    >>> for accuracy in (1.0, 1.0, 0.0, 1.0, 1.0):
    ...     curriculum.observe(accuracy)
    ...     grown.append(curriculum.longest(0))
    >>> grown
    [6, 8, 8, 8, 9]
    """

    def __init__(self, start: int, end: int, at: float, by: int, factor: float = 1.0) -> None:
        """Keep the ends and the rule of growth."""
        self.end, self.at, self.by, self.factor = end, at, by, factor
        self._longest, self._running = start, 0.0

    def longest(self, step: int) -> int:
        """As long as it has grown so far."""
        return self._longest

    def observe(self, accuracy: float) -> None:
        """Grow, if the running accuracy has passed the threshold."""
        self._running = MEMORY * self._running + (1 - MEMORY) * accuracy
        if self._running > self.at and self._longest < self.end:
            grown = max(self._longest + self.by, int(self._longest * self.factor))
            self._longest, self._running = min(grown, self.end), 0.0

    def state(self) -> dict[str, float]:
        """The longest length and the running accuracy."""
        return {"longest": self._longest, "running": self._running}

    def restore(self, state: dict[str, float]) -> None:
        """Go on from there."""
        self._longest, self._running = int(state["longest"]), state["running"]


def make_curriculum(settings: Settings, lengths: tuple[int, int]) -> Curriculum:
    """The curriculum that the settings ask for.

    Args:
        settings: steps and the fields whose names start with grow_ count.
        lengths: inclusive range to train on.

    Raises:
        ValueError: if the curriculum would start outside the range.
    """
    check_growth(settings, lengths)
    start, end = settings.grow_from, lengths[1]
    if settings.grow_at is not None:
        start = lengths[0] if start is None else start
        by, factor = settings.grow_by, settings.grow_factor
        return GrowWithAccuracy(start, end, settings.grow_at, by, factor)
    if start is None:
        return AllLengths(end)
    return GrowWithTime(start, end, max(1, int(settings.grow_share * settings.steps)))
