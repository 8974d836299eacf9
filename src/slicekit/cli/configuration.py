"""What to train, from three sources: the recipe, then a TOML file, then the command line."""

import inspect
import tomllib
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import slicekit
from slicekit import catalogue, tasks
from slicekit.layers import SequenceModel
from slicekit.suggestions import unknown
from slicekit.tasks import Task
from slicekit.training import RunFolder
from slicekit.training.processes import Parallel
from slicekit.training.rules import Flag, Rule, Whole
from slicekit.training.settings import NONE, RULES, Settings, with_growth

OPTIONS, TRAINING = "task_options", "training"


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; expected text")
    return value


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name}={value!r}; expected a table [{name}]")
    return value


def _training(name: str, value: Any) -> dict[str, Any]:
    for key, x in _table(name, value).items():
        if key not in RULES:
            raise unknown("setting", key, RULES, f" in [{name}]")
        RULES[key](key, None if x == NONE else x)
    return value


def _parallel(name: str, value: Any) -> str:
    Parallel.parse(_text(name, value))
    return value


KEYS: dict[str, Rule] = {
    "task": _text,
    "model": _text,
    "layers": Whole(1),
    "recipe": _text,
    "length": Whole(1),
    "device": _text,
    "threads": Whole(1),
    "parallel": _parallel,
    "out": _text,
    "resume": Flag(),
    "quiet": Flag(),
    OPTIONS: _table,
    TRAINING: _training,
}
"""What a configuration file may hold, in a command's words."""


def read_file(path: Path) -> dict[str, Any]:
    """A configuration file, checked.

    Raises:
        ValueError: if it can't be read, is no TOML, or holds a key or a value that is not known;
            the message is one line that starts with the file.
    """
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
        for key in table:
            if key not in KEYS:
                raise _misplaced(key)
        _check(table)
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        last = f"line {len(text.splitlines())}, the end"
        told = str(error).replace("end of document", last)
        raise ValueError(f"{path} is no TOML: {told}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
    return table


def read_run_config(folder: RunFolder) -> dict[str, Any]:
    """What the configuration of a run says in a command's words; a program may have said more.

    Raises:
        ValueError: if it is missing, no TOML, or a value is wrong.
    """
    table = {key: x for key, x in folder.read_config().items() if key in KEYS}
    try:
        _check(table)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{folder.config}: {error}") from error
    return table


def agreed(
    table: Mapping[str, Any],
    file: Path,
    trust: bool,
    told: str | None,
    way: Callable[[str], str],
) -> dict[str, Any]:
    """A table from a file, if the user agrees to the code that its task would run.

    Args:
        table: what the file says.
        file: its name.
        trust: whether the user trusts it.
        told: the task as the user named it, or None.
        way: the command in which the user names a place.

    Returns:
        The table, with the user's own word for the place of the task if there is one.

    Raises:
        ValueError: if the task is a place in code that the user has neither named nor trusts, or
            one that is no more.
    """
    place = table.get("task", "")
    if not tasks.is_place(place):
        return dict(table)
    if told is not None and tasks.same_place(place, told):
        return dict(table) | {"task": told}
    where, _, name = place.rpartition(":")
    if not trust:
        raise ValueError(
            f"{file} names the task {place}, and to load it runs the code of {where}; if you trust "
            f"that, add --trust, or name it yourself: {way(place)}"
        )
    if where.endswith(".py") and not Path(where).is_file():
        raise ValueError(
            f"{file} names the task {place}, but there is no such file; name it where it is now: "
            f"{way(f'path/to/{Path(where).name}:{name}')}"
        )
    return dict(table)


def _check(table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        KEYS[key](key, value)
    _check_one_length(table)


def _misplaced(key: str) -> ValueError:
    if key in RULES:
        return ValueError(f"{key} is a setting, so it belongs below [{TRAINING}]")
    return unknown("key", key, KEYS)


def _check_one_length(table: Mapping[str, Any]) -> None:
    if "length" in table and "lengths" in table.get(TRAINING, {}):
        raise ValueError("length and lengths are two ways to say what to train on; give one")


def merge(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of keys as in `KEYS`, joined: a later one beats the earlier, setting by setting.

    >>> merge({"task": "a5", "training": {"steps": 5, "seed": 1}}, {"training": {"steps": 9}})
    {'task': 'a5', 'training': {'steps': 9, 'seed': 1}, 'task_options': {}}

    Raises:
        ValueError: if one of them contradicts itself.
    """
    merged: dict[str, Any] = {}
    for table in tables:
        _check_one_length(table)
        if "lengths" in table.get(TRAINING, {}):
            merged.pop("length", None)
        inner = {k: merged.get(k, {}) | table.get(k, {}) for k in (TRAINING, OPTIONS)}
        merged = merged | dict(table) | inner
    return merged


@dataclass(frozen=True)
class Choice:
    """What to train and how, settled.

    Args:
        task_name: as the user gave it.
        task_options: arguments of the task.
        task: made from both.
        model_name: one of the catalogue's, with its sizes.
        recipe: which of the model's recipes.
        layers: number of blocks, or None for the model's own.
        settings: of the training.
        device: where to train, or None for the CPU.
        threads: how many; None is one, or what OMP_NUM_THREADS says.
        parallel: what several processes share out, in words, or None for the batch alone.
    """

    task_name: str
    task_options: dict[str, Any]
    task: Task
    model_name: str
    recipe: str
    layers: int | None
    settings: Settings
    device: str | None
    threads: int | None
    parallel: str | None = None

    def build(self) -> SequenceModel:
        """The model, untrained."""
        return catalogue.build(
            self.model_name,
            self.task,
            recipe=self.recipe,
            layers=self.layers,
            seed=self.settings.seed,
        )

    def describe(self) -> dict[str, Any]:
        """What config.toml holds besides the settings."""
        everything = {
            "task": tasks.absolute(self.task_name),
            "model": self.model_name,
            "recipe": self.recipe,
            "layers": self.layers,
            "device": self.device,
            "threads": self.threads,
            "parallel": self.parallel,
            OPTIONS: self.task_options or None,
        }
        return {name: x for name, x in everything.items() if x is not None}


def resolve(table: Mapping[str, Any]) -> Choice:
    """Settle what a merged table leaves open: the task's best model, and that model's recipe.

    Raises:
        ValueError: if there is no task, or a name or value is wrong.
    """
    if "task" not in table:
        raise ValueError("no task given; choose one of `slicekit tasks`, as in: slicekit train a5")
    name, options = table["task"], dict(table.get(OPTIONS, {}))
    length = table.get("length")
    if length is not None and _has_own_length(name):
        options, length = options | {"length": length}, None
    task = make_task(name, options)
    model = table.get("model") or catalogue.default(task)
    recipe, given = table.get("recipe", catalogue.FAST), table.get(TRAINING, {})
    recommended = catalogue.settings(model, task, recipe).as_table()
    settings = Settings.from_table(_with_lengths(recommended | given, given, length, task))
    place = table.get("device"), table.get("threads"), table.get("parallel")
    return Choice(name, options, task, model, recipe, table.get("layers"), settings, *place)


def _with_lengths(
    training: dict[str, Any], given: Mapping[str, Any], length: int | None, task: Task
) -> dict[str, Any]:
    """Settings with their longest length, and a recipe's curriculum within the range."""
    low, high = task.train_lengths if training["lengths"] == NONE else training["lengths"]
    if length is not None:
        low, high = min(low, length), length
        training["lengths"] = [low, high]
    return with_growth(training, given, (low, high))


def _has_own_length(name: str) -> bool:
    """Whether all sequences of a task have one length, which is an option of the task."""
    named = tasks.TASKS.get(name)
    return named is not None and "length" in inspect.signature(named.constructor).parameters


def make_task(name: str, options: Mapping[str, Any]) -> Task:
    """A task by its name, or by where the user wrote it.

    Raises:
        ValueError: if there is none, or a user's own code raised an error, whose place is told.
    """
    try:
        return tasks.make(name, **options)
    except Exception as error:
        place = _place_in_own_code(error)
        if place is None:
            raise
        raise ValueError(f"task {name}: {type(error).__name__}: {error}{place}") from error


def _place_in_own_code(error: Exception) -> str | None:
    """Where a user's own code raised an error; None if slicekit raised it."""
    if isinstance(error, SyntaxError):
        return ""  # its message has file and line
    *_, frame = traceback.extract_tb(error.__traceback__)
    if Path(frame.filename).is_relative_to(Path(slicekit.__file__).parent):
        return None
    return f" ({frame.filename}, line {frame.lineno})"
