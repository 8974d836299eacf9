"""Small sets of series for the tests of estimators."""

from typing import Any

import numpy as np

from slicekit.estimators import Gradient, Ridge


def ridge(**options: Any) -> dict[str, Any]:
    """Parameters of a small fit in closed form."""
    return {"solver": Ridge(**{"groups": 1} | options), "random_state": 0}


def gradient(**options: Any) -> dict[str, Any]:
    """Parameters of a short training of a small network."""
    small: Any = {"width": 8, "layers": 1, "max_steps": 3}
    return {"solver": Gradient(**small | options), "random_state": 0}


RIDGE: Any = ridge()
SMALL: Any = gradient()
BOTH = [ridge, gradient]
"""Parameters with which a fit takes a moment, for each solver."""


def waves(cases: int = 24, length: int = 20, channels: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Slow and fast waves with noise: X (cases, channels, length) and labels (cases,)."""
    random = np.random.RandomState(0)
    t = np.linspace(0, 1, length)
    fast = np.arange(cases) % 2 == 1
    phase = random.uniform(0, 1, (cases, channels, 1))
    turns = np.where(fast, 3.0, 1.0)[:, None, None]
    X = np.sin(2 * np.pi * (turns * t + phase)) + 0.1 * random.randn(cases, channels, length)
    return X, np.where(fast, "fast", "slow")


def ragged(
    cases: int = 12, channels: int = 2, gaps: float = 0.0, longest: int = 15
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Series of unequal lengths with gaps, their irregular times, and labels."""
    random = np.random.RandomState(1)
    lengths = random.randint(1, longest + 1, cases)
    lengths[0] = 1
    X = [random.randn(channels, n) for n in lengths]
    for x in X:
        x[random.rand(*x.shape) < gaps] = np.nan
    times = [5 + np.cumsum(random.uniform(0.1, 2.0, n)) for n in lengths]
    return X, times, np.arange(cases) % 3
