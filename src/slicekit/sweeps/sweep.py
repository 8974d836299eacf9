"""A sweep as its file describes it, checked, and the runs of each trial."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slicekit import catalogue, tasks
from slicekit.studies.plans import Plan
from slicekit.suggestions import unknown
from slicekit.sweeps.space import Domain, Draw, Space, read
from slicekit.tasks import Task
from slicekit.training.rules import Rule, Whole
from slicekit.training.settings import NONE, RULES, Settings, with_growth

GRID, RANDOM, TPE = "grid", "random", "tpe"
SEARCHES = (GRID, RANDOM, TPE)

OFTEN = 20
"""How many validations and checkpoints a run has at least, unless the file says otherwise."""

DEFAULTS: dict[str, Any] = {
    "task": None,
    "model": None,
    "recipe": catalogue.FAST,
    "layers": None,
    "seeds": [0],
    "search": GRID,
    "trials": None,
    "seed": 0,
    "task_options": {},
    "training": {},
    "space": {},
}
"""What a file may hold, and what it stands for if it does not."""


@dataclass(frozen=True)
class Sweep:
    """What is trained, what of it is varied, and how it is searched.

    Args:
        table: every key of `DEFAULTS`, as TOML gives it.

    Raises:
        TypeError, ValueError: if a name or a value is wrong; the message names the key.
    """

    table: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Check everything before anything is run."""
        table = self.table
        for key in ("task", "recipe", "search"):
            if not isinstance(table[key], str):
                raise TypeError(f"{key} = {table[key]!r}; expected text")
        if tasks.is_place(table["task"]):
            raise ValueError(
                f"task = {table['task']!r} is a place in code, which a sweep does not run; "
                "expected a name of `slicekit tasks`"
            )
        if table["search"] not in SEARCHES:
            raise unknown("search", table["search"], SEARCHES)
        for key in ("task_options", "training", "space"):
            if not isinstance(table[key], dict):
                raise TypeError(f"{key} = {table[key]!r}; expected a table [{key}]")
        if not isinstance(table["seeds"], list) or not table["seeds"]:
            raise TypeError(f"seeds = {table['seeds']!r}; expected a list as in [0, 1]")
        for seed in (*table["seeds"], table["seed"]):
            Whole(0)("seed", seed)
        if len(set(table["seeds"])) < len(table["seeds"]):
            raise ValueError(f"seeds = {table['seeds']}; expected none twice")
        for key in ("layers", "trials"):
            if table[key] is not None:
                Whole(1)(key, table[key])
        if (table["trials"] is None) != (table["search"] == GRID):
            wants = "tries all; expected no" if table["search"] == GRID else "needs a number of"
            raise ValueError(f"search = {table['search']!r} {wants} trials")
        for key, value in table["training"].items():
            _check_setting("training", key, value)
        if table["model"] is not None:
            _model("model", table["model"])
        _ = self.task  # what is wrong with it comes out here
        if not self.space:
            raise ValueError("[space] is empty; expected something to vary")

    @cached_property
    def task(self) -> Task:
        """What is trained on."""
        return tasks.make(self.table["task"], **self.table["task_options"])

    @property
    def seeds(self) -> tuple[int, ...]:
        """A run each, in every trial."""
        return tuple(self.table["seeds"])

    @cached_property
    def space(self) -> Space:
        """What is varied."""
        domains: dict[str, Domain] = {}
        for key, value in self.table["space"].items():
            if key in ("sizes", "training"):
                if not isinstance(value, dict):
                    raise TypeError(f"space.{key} = {value!r}; expected a table [space.{key}]")
                for inner, x in value.items():
                    domains[f"{key}.{inner}"] = read(f"{key}.{inner}", x, self._rule(key, inner))
            else:
                domains[key] = read(key, value, self._rule(key, None))
        return domains

    def _rule(self, key: str, inner: str | None) -> Rule:
        if key == "training":
            if inner in ("seed", *self.table["training"]):
                why = "is what `seeds` says" if inner == "seed" else "stands in [training] too"
                raise ValueError(f"training.{inner} {why}; expected it in one place")
            if inner not in RULES:
                raise unknown("setting", inner, RULES, " in [space.training]")
            return RULES[inner]
        if key == "sizes":
            return self._size
        rules: dict[str, Rule] = {"model": _model, "recipe": _recipe, "layers": Whole(1)}
        if key not in rules:
            if key in RULES:
                raise ValueError(f"{key} is a setting, so it belongs below [space.training]")
            raise unknown("key", key, (*rules, "sizes", "training"), " in [space]")
        return rules[key]

    def _size(self, name: str, value: Any) -> Any:
        """A size that one of the models has."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name}={value!r} is a {type(value).__name__}; expected a number")
        varied = self.table["space"].get("model")
        models = [self._model] if varied is None else read("model", varied, _model).points("model")
        plain = [model.partition(":")[0] for model in models]
        known = {size: None for x in plain for size in catalogue.sizes_of(x, self.task)}
        size = name.partition(".")[2]
        if size not in known:
            raise unknown(f"size of {', '.join(models)}", size, known)
        return value

    @property
    def _model(self) -> str:
        return self.table["model"] or catalogue.default(self.task)

    def plans(self, number: int, draw: Draw) -> list[Plan]:
        """The runs of a trial, one for each seed.

        Args:
            number: of the trial.
            draw: its values.

        Raises:
            ValueError: if they do not fit together.
        """
        table = self.table
        name, sizes = catalogue.parse(draw.get("model", self._model))
        sizes |= _below("sizes", draw)
        model, recipe = catalogue.spell(name, sizes), draw.get("recipe", table["recipe"])
        given = {**table["training"], **_below("training", draw)}
        given = {key: NONE if x is None else x for key, x in given.items()}
        settings = self._settings(catalogue.settings(model, self.task, recipe), given)
        return [
            Plan(
                name=f"trial-{number:04d}/seed-{seed}",
                task=table["task"],
                model=model,
                settings=Settings.from_table(settings | {"seed": seed}),
                tests=(),
                options=table["task_options"],
                layers=draw.get("layers", table["layers"]),
                recipe=recipe,
                trial=True,
            )
            for seed in self.seeds
        ]

    def _settings(self, recommended: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
        """A recipe's settings with those given, with validations often enough to tell trials."""
        both = recommended.as_table() | dict(given)
        for key in ("evaluate_every", "checkpoint_every"):
            if key not in given:
                both[key] = min(both[key], max(1, both["steps"] // OFTEN))
        lengths = self.task.train_lengths if both["lengths"] == NONE else both["lengths"]
        return with_growth(both, given, lengths)

    def names(self) -> dict[str, str]:
        """What tables call the settings: their last part, unless two have the same."""
        short = {name: name.rpartition(".")[2] for name in self.space}
        last = list(short.values())
        return {name: name if last.count(x) > 1 else x for name, x in short.items()}


def _below(key: str, draw: Draw) -> dict[str, Any]:
    start = f"{key}."
    return {k.removeprefix(start): x for k, x in draw.items() if k.startswith(start)}


def _check_setting(table: str, key: str, value: Any) -> None:
    if key == "seed":
        raise ValueError(f"{table}.seed is what `seeds` says; expected it in one place")
    if key not in RULES:
        raise unknown("setting", key, RULES, f" in [{table}]")
    RULES[key](key, None if value == NONE else value)


def _model(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} = {value!r}; expected a name of `slicekit models`")
    catalogue.check_name(value)
    return value


def _recipe(name: str, value: Any) -> str:
    if value not in catalogue.RECIPES:
        raise unknown("recipe", value, catalogue.RECIPES)
    return value


def read_sweep(path: Path) -> Sweep:
    """A sweep from its file.

    Raises:
        ValueError: if it can't be read, is no TOML, or a name or value is wrong; the message is one
            line that starts with the file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no TOML: {error}") from error
    try:
        table = tomllib.loads(text)
        for key in table:
            if key not in DEFAULTS:
                raise _misplaced(key)
        return Sweep(DEFAULTS | table)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is no TOML: {error}") from error
    except (TypeError, ValueError, OSError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def _misplaced(key: str) -> ValueError:
    if key in RULES:
        return ValueError(f"{key} is a setting, so it belongs below [training] or [space.training]")
    return unknown("key", key, DEFAULTS)


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """The keys in which two sweeps differ; more trials and seeds only add to what is there."""
    return (
        key for key in DEFAULTS if key not in ("trials", "seeds") and one.get(key) != other.get(key)
    )
