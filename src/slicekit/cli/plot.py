"""The work of `slicekit plot`: runs compared in one picture."""

import json
from pathlib import Path

from slicekit.cli.errors import one_line
from slicekit.cli.evaluate import RESULTS
from slicekit.training import Score, plots, read_run


def plot(folders: list[Path], out: Path | None, lengths: bool) -> None:
    """Draw learning curves, or accuracy against length.

    Args:
        folders: of the runs.
        out: the picture; None for one in the folder of a single run, or else in the working one.
        lengths: whether to draw accuracy against length.
    """
    with one_line("plot"):
        name = plots.LENGTHS if lengths else plots.CURVES
        path = out or (folders[0] / "plots" / name if len(folders) == 1 else Path(name))
        if path.suffix.lower() != ".png":
            raise ValueError(f"--out {path}; expected a name that ends in .png")
        if lengths:
            names = plots.labels(folders)
            scores = {k: _scores(folder) for k, folder in zip(names, folders, strict=True)}
            plots.plot_lengths(scores, path)
        else:
            plots.plot_curves([read_run(folder) for folder in folders], path)
        print(path)


def _scores(folder: Path) -> list[Score]:
    """What `slicekit evaluate` left in a folder."""
    path = folder / RESULTS
    if not path.is_file():
        raise FileNotFoundError(f"no {path}; measure first: slicekit evaluate {folder}")
    try:
        return [Score(**score) for score in json.loads(path.read_bytes())["scores"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged; measure again: slicekit evaluate {folder}") from error
