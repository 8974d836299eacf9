"""Models by their names, for tasks of tokens and of series."""

from dataclasses import replace

import torch

from slicekit.catalogue.baselines import BASELINES, Baseline, MixerDesign
from slicekit.catalogue.series import STRUCTURES, SeriesDesign, series_design
from slicekit.catalogue.series_baselines import series_baseline
from slicekit.catalogue.tokens import TOKEN_MODELS, WORDS, Design, TokenModel
from slicekit.layers import Pooling, SequenceModel
from slicekit.suggestions import unknown
from slicekit.tasks import Task
from slicekit.training.settings import Settings

MODELS: dict[str, TokenModel | Baseline] = {**TOKEN_MODELS, **BASELINES}
"""The named models, in the order to list them in."""


def names(task: Task) -> list[str]:
    """The models that there are for a task: for series, the paper's and the baselines."""
    known = {*STRUCTURES, *BASELINES}
    return [name for name in MODELS if task.channels is None or name in known]


def default(task: Task) -> str:
    """The name of the model that slicekit trains on a task when none is named."""
    if task.channels is not None:
        return "bd-slice"
    return "orthogonal-slice" if task.family == WORDS else "projective-slice"


def build(
    name: str,
    task: Task,
    *,
    layers: int | None = None,
    width: int | None = None,
    pool: Pooling | None = None,
    seed: int = 0,
) -> SequenceModel:
    """A named model for a task, untrained.

    Args:
        name: one of `MODELS`.
        task: gives the vocabulary or the channels, and the number of outputs.
        layers: how many blocks, or None for the model's own.
        width: of a baseline's blocks, or None for its own; SLiCEs are as wide as their structure.
        pool: for series, the readout: `Mean()`, as in the paper, or `Last()`.
        seed: of the initialisation; torch's global source of randomness is left as it was.

    Raises:
        ValueError: if there is no model of that name, or it has no such readout, width or layers.

    Example:
        >>> from slicekit import tasks
        >>> build("bd-slice", tasks.make("a5"))(torch.tensor([[3, 1, 4]])).shape
        torch.Size([1, 3, 60])
    """
    design = _design(name, task)
    if pool is not None:
        if task.channels is None or isinstance(design, Design):
            raise ValueError(f"pool={pool}, but {name} answers at every position of {task.name}")
        design = replace(design, pool=pool)
    if width is not None:
        if not isinstance(design, MixerDesign) or not design.embed:
            raise ValueError(f"width={width}, but the width of {name} is that of its state")
        design = replace(design, width=width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            return design.build(task, layers)
        except ValueError as error:
            if width is None:
                raise
            raise ValueError(f"width={width} does not suit {name}: {error}") from error


def settings(name: str, task: Task) -> Settings:
    """How a named model is trained on a task.

    Raises:
        ValueError: if there is no model of that name.
    """
    return _design(name, task).settings


def _design(name: str, task: Task) -> Design | SeriesDesign | MixerDesign:
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    if task.channels is None:
        return MODELS[name].design(task)
    if name in BASELINES:
        return series_baseline(name, task)
    if name not in STRUCTURES:
        raise ValueError(
            f"model {name!r} is for tokens, but {task.name} has series; choose from "
            f"{', '.join(names(task))}"
        )
    return series_design(name, task.name)
