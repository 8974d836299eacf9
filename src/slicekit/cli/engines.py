"""Options of commands that do runs: where they are done, and how many at a time."""

from typing import Annotated, Any

import typer

from slicekit import engines
from slicekit.cli.errors import BadUsage
from slicekit.cli.settings import parse_value

Processes = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How many runs at a time, with one thread each; 1 on this machine by default, "
        "64 on a cluster, which queues what is too much.",
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Where runs are done: local, slurm, ray or dask. Nodes must see the folder.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Of the cluster: host:6379 or ray://host:10001, tcp://host:8786 for dask.",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="What a run takes of the engine, as in cpus=2, gpus=1, memory=8, partition=long.",
    ),
]

Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="cpu, cuda, cuda:1 or mps; cpu by default."),
]


def chosen(
    engine: str, processes: int | None, address: str | None, options: list[str] | None
) -> engines.Engine:
    """The engine that the options ask for.

    Raises:
        BadUsage: if an option has no value.
        ValueError: if there is no such engine or option, or a value is wrong.
    """
    given: dict[str, Any] = {}
    for text in options or ():
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise BadUsage(f"--option {text}; expected NAME=VALUE as in gpus=1")
        given[name] = parse_value(value)
    return engines.make(engine, at_once=processes, address=address, options=given)
