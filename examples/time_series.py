"""Classify irregular time series with gaps, and follow one of them as it arrives.

Two kinds of damped oscillation, observed in two channels at irregular times, with a third of the
values missing. A classifier with default settings is fitted; then one series is streamed, and the
probability of its class is printed as evidence comes in. It ends where `predict_proba` does.

    python examples/time_series.py [--cases 200] [--out model.safetensors]
"""

import argparse
from collections.abc import Sequence

import numpy as np

from slicekit.estimators import SliceClassifier

KINDS = ("in phase", "out of phase")


def make(
    cases: int, random: np.random.RandomState
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Series (channels, length_i), their times (length_i,), and their kinds (cases,)."""
    series, times, kinds = [], [], random.randint(2, size=cases)
    for kind in kinds:
        t = np.cumsum(random.uniform(0.02, 0.3, random.randint(20, 60)))
        phase, speed = random.uniform(0, 2 * np.pi), random.uniform(2, 4)
        shift = 0.5 * np.pi * kind
        wave = np.stack([np.sin(speed * t + phase), np.sin(speed * t + phase + shift)])
        x = wave * np.exp(-0.1 * t) + 0.2 * random.randn(2, len(t))
        x[random.rand(*x.shape) < 1 / 3] = np.nan
        series.append(x)
        times.append(t)
    return series, times, np.array(KINDS)[kinds]


def follow(model: SliceClassifier, x: np.ndarray, times: np.ndarray, kind: str) -> np.ndarray:
    """Stream a series and print the probability of its kind; the last probabilities."""
    stream, place = model.stream(), model.classes_.tolist().index(kind)
    for i, t in enumerate(times):
        probabilities = stream.update(x[:, i], t)
        if i % 8 == 0 or i == len(times) - 1:
            print(f"  t = {t:5.2f}  {kind}: {probabilities[place]:.3f}")
    return stream.probabilities


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, score, stream, and save if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--cases", type=int, default=200, help="series to train on, and to test on")
    parser.add_argument("--out", help="file to save the classifier to")
    options = parser.parse_args(arguments)
    if options.cases < 4:
        parser.error(f"--cases {options.cases}: expected at least 4")
    random = np.random.RandomState(0)
    X, times, y = make(options.cases, random)
    X_test, times_test, y_test = make(options.cases, random)
    model = SliceClassifier(random_state=0).fit(X, y, times=times)
    print(f"accuracy on new series: {model.score(X_test, y_test, times=times_test):.1%}")
    print("one of them, as it arrives:")
    last = follow(model, X_test[0], times_test[0], y_test[0])
    whole = model.predict_proba(X_test[:1], times=times_test[:1])[0]
    print(f"stream and whole series differ by {np.abs(last - whole).max():.1e}")
    if options.out is not None:
        model.save(options.out)
        print(f"saved to {options.out}")


if __name__ == "__main__":
    main()
