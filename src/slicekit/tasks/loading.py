"""A user's own task by where it is written, so that nothing has to be registered."""

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
    """A task from a module or a file of yours.

    Args:
        place: "module:name", or "path/to/file.py:name". Modules are also looked for in the working
            directory. The name is that of a `Task`; of a class derived from `Task`, or a function
            without required arguments that returns a `Task`, which are called with the options; or
            of a function (batch, lengths, generator) as `from_function` takes it, with vocabulary
            and outputs among the options.
        options: for the class or the function.

    Returns:
        The task.

    Raises:
        ValueError: if the file, the module or the name is missing, or the options do not fit.
        TypeError: if what has that name makes no task.
    """
    where, colon, name = place.rpartition(":")
    if not colon or not where or not name or (where[0] == "." and not where.endswith(".py")):
        raise ValueError(f"task {place!r}, expected module:name or path/to/file.py:name")
    module = _from_file(Path(where)) if where.endswith(".py") else _from_module(where)
    if not hasattr(module, name):
        public = [own for own, value in vars(module).items() if _defined_in(value, module, own)]
        raise unknown("task", name, public, f" in {where}")
    return _as_task(getattr(module, name), place, options)


def _as_task(value: Any, place: str, options: dict[str, Any]) -> Task:
    if isinstance(value, Task):
        if options:
            raise ValueError(
                f"{place} is a task already, so it takes no option {next(iter(options))}"
            )
        return value
    if isinstance(value, type) and issubclass(value, Task):
        return call_with(value, place, options)
    if callable(value) and not isinstance(value, type):
        if _required(value) == 3:
            missing = [option for option in ("vocabulary", "outputs") if option not in options]
            if missing:
                raise ValueError(f"{place} draws batches, so it needs the option {missing[0]}")
            return call_with(from_function, place, options, {"function": value})
        made = call_with(value, place, options)
        if isinstance(made, Task):
            return made
        raise TypeError(f"{place} returned a {type(made).__name__}, expected a Task")
    raise TypeError(
        f"{place} is a {type(value).__name__}, expected a Task, a class derived from Task, or a "
        "function"
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
        raise ValueError(f"{place}: {error}; {known}") from None
    return constructor(**settled, **options)


def _required(function: Callable[..., Any]) -> int:
    """How many positional arguments a call needs."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


def _defined_in(value: Any, module: ModuleType, name: str) -> bool:
    own = isinstance(value, Task) or getattr(value, "__module__", None) == module.__name__
    return own and not name.startswith("_")


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
