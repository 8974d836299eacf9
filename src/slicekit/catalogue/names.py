"""Models by their names, for tasks of tokens and of series."""

from dataclasses import replace

import torch

from slicekit.catalogue.baselines import BASELINES, Baseline
from slicekit.catalogue.recipes import FAST, RECIPES, Recipe
from slicekit.catalogue.series import STRUCTURES, series_recipe, series_sizes
from slicekit.catalogue.series_baselines import series_baseline, series_baseline_sizes
from slicekit.catalogue.sizes import check_known, parse
from slicekit.catalogue.tokens import TOKEN_MODELS, WORDS, TokenModel
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


def check_name(name: str) -> None:
    """Raise ValueError unless a name, its sizes aside, is that of a model."""
    model, _ = parse(name)
    if model not in MODELS:
        raise unknown("model", model, MODELS)


def recipe(name: str, task: Task, recipe: str = FAST) -> Recipe:
    """How a named model is built and trained on a task.

    Args:
        name: one of `MODELS`, with sizes of your own behind a colon: "bd-slice:dim=128,block=8".
        task: decides which sizes and settings are meant.
        recipe: `fast`, ours, or `paper`, the published protocol.

    Raises:
        ValueError: if there is no such model, recipe or size, or the sizes do not fit.
    """
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    model, sizes = parse(name)
    check_name(name)
    if task.channels is not None and model not in names(task):
        raise ValueError(
            f"model {model!r} is for tokens, but {task.name} has series; choose from "
            f"{', '.join(names(task))}"
        )
    check_known(name, sizes, sizes_of(model, task))
    try:
        if task.channels is None:
            return MODELS[model].recipe(task, recipe, sizes)
        make = series_baseline if model in BASELINES else series_recipe
        return make(model, task.name, task.channels, recipe, sizes)
    except (TypeError, ValueError) as error:
        raise ValueError(f"model {name!r}: {error}") from error


def sizes_of(model: str, task: Task) -> tuple[str, ...]:
    """The sizes that a model's name may carry on a task."""
    if task.channels is None:
        return MODELS[model].sizes
    return series_baseline_sizes(model) if model in BASELINES else series_sizes(model)


MOST_LAYERS = 1000
"""Of a named model: more take minutes and gigabytes to make, before anything is said."""


def build(
    name: str,
    task: Task,
    *,
    recipe: str = FAST,
    layers: int | None = None,
    pool: Pooling | None = None,
    seed: int = 0,
) -> SequenceModel:
    """A named model for a task, untrained.

    Args:
        name: one of `MODELS`, with sizes of your own behind a colon: "bd-slice:dim=128,block=8".
        task: gives the vocabulary or the channels, and the number of outputs.
        recipe: `fast`, ours, or `paper`, the published protocol.
        layers: how many blocks, or None for the recipe's own.
        pool: for series, the readout: `Mean()`, as in the paper, or `Last()`.
        seed: of the initialisation; torch's global source of randomness is left as it was.

    Raises:
        ValueError: if there is no such model, recipe or size, or it has no such readout or layers.

    Example:
        >>> from slicekit import tasks
        >>> build("bd-slice:dim=64", tasks.make("a5"))(torch.tensor([[3, 1, 4]])).shape
        torch.Size([1, 3, 60])
    """
    chosen = _recipe(name, task, recipe)
    if layers is not None and layers > MOST_LAYERS:  # of a file from elsewhere, say
        raise ValueError(f"model {name!r}: layers={layers}; expected at most {MOST_LAYERS}")
    if pool is not None:
        if task.channels is None:
            raise ValueError(f"pool={pool}, but {name} answers at every position of {task.name}")
        chosen = replace(chosen, pool=pool)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            return chosen.build(task, layers)
        except (ValueError, TypeError) as error:
            raise ValueError(f"model {name!r}: {error}") from error


_recipe = recipe


def settings(name: str, task: Task, recipe: str = FAST) -> Settings:
    """How a named model is trained on a task.

    Raises:
        ValueError: if there is no such model, recipe or size.
    """
    return _recipe(name, task, recipe).settings
