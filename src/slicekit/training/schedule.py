"""The learning rate as a function of the step: a linear warm-up, then half a cosine.

rate(s) = peak · s / w                                              for s < w = int(warmup · n)
rate(s) = final + (peak − final) · (1 + cos(π (s − w) / (n − w))) / 2       for w <= s <= n
"""

import math

from slicekit.training.settings import Settings


def learning_rate(step: int, settings: Settings) -> float:
    """The rate of an update.

    Args:
        step: how many updates came before; with a warm-up, that of the first is 0, as in the paper.
        settings: steps, rate, final_rate and warmup count.

    Returns:
        The rate.

    Example:
        >>> settings = Settings(steps=100, rate=1.0, warmup=0.1)
        >>> [learning_rate(step, settings) for step in (0, 5, 10, 55, 100)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    growing = int(settings.warmup * settings.steps)
    if step < growing:
        return settings.rate * step / growing
    share = (step - growing) / (settings.steps - growing)
    cosine = 0.5 * (1 + math.cos(math.pi * share))
    return settings.final_rate + (settings.rate - settings.final_rate) * cosine
