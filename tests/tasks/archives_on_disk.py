"""A tiny archive on the disk, with the paper's names: circles that turn left or right."""

import json
from pathlib import Path

import numpy as np

from slicekit.tasks.archive_task import SEEDS

TRAIN, TEST, LENGTH, CHANNELS = 24, 16, 20, 3


def circles(cases: int, seed: int, lengths: range = range(LENGTH, LENGTH + 1)):
    """Arrays X (cases, length, channels), y and lengths; NaN past the end."""
    random = np.random.default_rng(seed)
    y = np.arange(cases) % 2
    long = random.choice(np.array(lengths), cases)
    X = np.full((cases, max(lengths), CHANNELS), np.nan, dtype=np.float32)
    for case in range(cases):
        angle = (2 * y[case] - 1) * np.linspace(0, 6, long[case]) + random.normal()
        noise = 0.1 * random.normal(size=long[case])
        X[case, : long[case]] = np.stack([np.cos(angle), np.sin(angle), noise], 1)
    return X, y, long


def write_archive(folder: Path, name: str = "SelfRegulationSCP1", lengths=range(LENGTH, 21)):
    """NAME.npz in folder/uea, and the paper's permutations for it beside."""
    (folder / "uea").mkdir(parents=True, exist_ok=True)
    (folder / "uea_splits").mkdir(exist_ok=True)
    parts = {"train": circles(TRAIN, 0, lengths), "test": circles(TEST, 1, lengths)}
    arrays = {"classes": np.array(["left", "right"])}
    for split, (X, y, long) in parts.items():
        arrays |= {f"X_{split}": X, f"y_{split}": y}
        if len(lengths) > 1:
            arrays[f"len_{split}"] = long
    np.savez(folder / "uea" / f"{name}.npz", **arrays)  # pyright: ignore[reportArgumentType]
    for number, splits in enumerate(("legacy", "partitionable")):
        path = folder / "uea_splits" / f"{splits}.json"
        orders = json.loads(path.read_text()) if path.exists() else {}
        orders[name] = {
            str(seed): np.random.default_rng(seed + number).permutation(TRAIN + TEST).tolist()
            for seed in SEEDS
        }
        path.write_text(json.dumps(orders))
