"""Engines that have names; what each needs is imported when it is asked for."""

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from slicekit.engines.base import Engine
from slicekit.suggestions import unknown

ENGINES = {"local": "Local", "slurm": "Slurm", "ray": "Ray", "dask": "Dask"}
"""The class of each, in a file of its name."""


def make(
    name: str,
    *,
    at_once: int | None = None,
    address: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Engine:
    """An engine by its name, not yet connected to anything.

    Args:
        name: local, slurm, ray or dask.
        at_once: how many runs at a time, None for the engine's own default.
        address: of a Ray or Dask cluster.
        options: other arguments of the engine; those that Dask has no name for are resources.

    Raises:
        ValueError: if there is no such engine or option, or a value is wrong.

    >>> make("ray", options={"gpu": 1})
    Traceback (most recent call last):
    ValueError: unknown option of engine ray 'gpu', did you mean 'gpus'? Choose from cpus, gpus, \
memory
    """
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    kind = getattr(import_module(f"slicekit.engines.{name}"), ENGINES[name])
    known = list(inspect.signature(kind).parameters)
    arguments: dict[str, Any] = {} if at_once is None else {"at_once": at_once}
    if address is not None:
        if "address" not in known:
            raise ValueError(f"address={address!r}, but engine {name} has none")
        arguments["address"] = address
    given = dict(options or {})
    if "resources" in known:
        given = {"resources": given} if given else {}
    choices = [option for option in known if option not in ("at_once", "address")]
    for option in given:
        if option not in choices:
            if not choices:
                raise ValueError(f"option {option!r}, but engine {name} has none")
            raise unknown(f"option of engine {name}", option, choices)
    return kind(**arguments, **given)
