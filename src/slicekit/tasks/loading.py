"""A user's own task by where it is written, so that nothing has to be registered.

To load one runs the code of its module. Whoever takes a place from a file, and not from the user,
asks the user first: `is_place` tells places from names.
"""

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from slicekit.suggestions import unknown
from slicekit.tasks.base import Task
from slicekit.tasks.functions import from_function


def load(place: str, **options: Any) -> Task:
    """A task from a module or a file of yours, whose code this runs.

    Args:
        place: "module:name", or "path/to/file.py:name". Modules are also looked for in the working
            directory. The name is that of a `Task`; of a class derived from `Task`, or a function
            that returns a `Task`, which are called with the options; or of a function (batch,
            lengths, generator) as `from_function` takes it, with vocabulary and outputs among the
            options. Class or function are written in that module (or, of a package, in a module
            of it): what it only imports is not taken.
        options: for the class or the function.

    Returns:
        The task.

    Raises:
        ValueError: if the file, the module or the name is missing, or the options do not fit.
        TypeError: if what has that name makes no task, or is imported there from elsewhere.
    """
    where, name = _parted(place)
    module = _from_file(Path(where)) if where.endswith(".py") else _from_module(where)
    if not hasattr(module, name):
        raise unknown("task", name, _tasks_in(module), f" in {where}")
    value = getattr(module, name)
    if _may_make_task(value) and not _defined_in(value, module):
        home = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', name)}"
        raise TypeError(f"{place} is {home}, imported there; expected what {where} itself defines")
    return _as_task(value, place, options)


def is_place(task: str) -> bool:
    """Whether a task is told by where it is written, so that to make it runs code.

    >>> is_place("mine.py:task"), is_place("mine:task"), is_place("parity")
    (True, True, False)
    """
    return ":" in task


def absolute(task: str) -> str:
    """The same task from any working directory: the path of a file is made absolute.

    >>> absolute("/tasks/mine.py:task"), absolute("mine:task"), absolute("parity")
    ('/tasks/mine.py:task', 'mine:task', 'parity')
    """
    where, colon, name = task.rpartition(":")
    return f"{Path(where).absolute()}{colon}{name}" if where.endswith(".py") else task


def same_place(one: str, other: str) -> bool:
    """Whether two places have the same name in a file, or a module, of the same name.

    A file may have moved since.

    >>> same_place("/old/mine.py:task", "mine.py:task"), same_place("mine.py:task", "mine.py:other")
    (True, False)
    """

    def last(place: str) -> tuple[str, str]:
        where, _, name = place.rpartition(":")
        return (Path(where).name if where.endswith(".py") else where), name

    return is_place(one) and last(one) == last(other)


def _parted(place: str) -> tuple[str, str]:
    """The file or module, and the name in it."""
    where, colon, name = place.rpartition(":")
    if not colon or not where or not name or (where[0] == "." and not where.endswith(".py")):
        raise ValueError(f"task {place!r}; expected module:name or path/to/file.py:name")
    return where, name


def _as_task(value: Any, place: str, options: dict[str, Any]) -> Task:
    if isinstance(value, Task):
        if options:
            raise ValueError(
                f"{place} is a task already, so it takes no option {next(iter(options))}"
            )
        return value
    if isinstance(value, type) and issubclass(value, Task):
        return call_with(value, place, options)
    if _is_function(value):
        if _required(value) == 3:
            _check_sizes(place, options)
            return call_with(from_function, place, options, {"function": value})
        made = call_with(value, place, options)
        if isinstance(made, Task):
            return made
        raise TypeError(f"{place} returned a {type(made).__name__}; expected a Task")
    raise TypeError(
        f"{place} is a {type(value).__name__}; expected a Task, a class derived from Task, or a "
        "function"
    )


def _check_sizes(place: str, options: dict[str, Any]) -> None:
    """Raise unless the sizes that a function can't tell are among the options, all in one go."""
    meaning = {"vocabulary": "how many tokens there are", "outputs": "how many classes"}
    missing = [option for option in meaning if option not in options]
    if missing:
        told = " and ".join(f"{option}, {meaning[option]}" for option in missing)
        example = " ".join(f"--task-option {option}=3" for option in missing)
        raise ValueError(
            f"{place} draws batches, so it needs {told}: options of the task, on the command line "
            f"as in {example}"
        )


def call_with(
    constructor: Callable[..., Any],
    place: str,
    options: dict[str, Any],
    settled: dict[str, Any] | None = None,
) -> Any:
    """What a constructor makes of options, or a clear error for those that it does not take.

    Args:
        constructor: a class or a function.
        place: what the user calls it, for messages.
        options: keyword arguments from the user.
        settled: further keyword arguments, which are no options.

    Raises:
        ValueError: if an option is unknown, or a required one is missing.
    """
    settled = settled or {}
    signature = inspect.signature(constructor)
    taken = [name for name in signature.parameters if name not in settled]
    known = f"its options are {', '.join(taken)}" if taken else "it takes none"
    if repeated := settled.keys() & options.keys():
        raise ValueError(f"{place} has no option {min(repeated)}; {known}")
    try:
        signature.bind(**settled, **options)
    except TypeError as error:
        given = "; give them as in --task-option KEY=VALUE" if taken else ""
        raise ValueError(f"{place}: {error}; {known}{given}") from None
    return constructor(**settled, **options)


def _required(function: Callable[..., Any]) -> int:
    """How many positional arguments a call needs."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


def _is_function(value: Any) -> bool:
    """Whether it is a function written in Python, perhaps below a decorator."""
    return inspect.isfunction(inspect.unwrap(value)) if callable(value) else False


def _may_make_task(value: Any) -> bool:
    return callable(value) and not isinstance(value, Task)


def _defined_in(value: Any, module: ModuleType) -> bool:
    """Whether a class or a function is a module's own, and not imported from another."""
    home = getattr(value, "__module__", None) or ""
    return f"{home}.".startswith(f"{module.__name__}.")


def _tasks_in(module: ModuleType) -> list[str]:
    """The public names in a module that a task may be made from."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, Task) or (callable(value) and _defined_in(value, module)))
    ]


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"no file {path} to load a task from")
    resolved = path.resolve()
    digest = hashlib.sha256(str(resolved).encode()).hexdigest()[:12]
    name = f"slicekit_task_{resolved.stem}_{digest}"
    spec = spec_from_file_location(name, resolved)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    # Dataclasses and the like look their own module up while it is executed.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _from_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise ValueError(
            f"no module {error.name!r} to load a task from, also not in {here}"
        ) from error
    finally:
        sys.path.remove(here)
