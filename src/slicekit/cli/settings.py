"""An option of the command line for every field of the training settings."""

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Annotated, Any

import typer

from slicekit.training.settings import NONE, RULES, Settings

METAVARS: dict[Any, str] = {
    int: "N",
    float: "X",
    int | None: "N|none",
    float | None: "X|none",
    tuple[float, float]: "X:X",
    tuple[int, int] | None: "LOW:HIGH|none",
}
"""How a value is written, by the type of its field; a flag needs no value."""


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each setting.

    Args:
        command: takes, besides its own arguments, `training`: the settings that were given, as a
            table such as `Settings.from_table` takes.

    Returns:
        The command with these options instead of `training`.
    """
    names = [field.name for field in fields(Settings)]
    described = describe_arguments(Settings.__doc__ or "")
    signature = inspect.signature(command)
    others = [x for x in signature.parameters.values() if x.name != "training"]

    @wraps(command)
    def wrapped(**values: Any) -> None:
        given = {name: values.pop(name) for name in names}
        command(**values, training={name: x for name, x in given.items() if x is not None})

    options = [
        _option(field, _sentence(described.get(field.name, ""))) for field in fields(Settings)
    ]
    wrapped.__signature__ = signature.replace(parameters=[*others, *options])  # pyright: ignore[reportAttributeAccessIssue]
    return wrapped


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _option(field: Any, description: str) -> inspect.Parameter:
    name = f"--{field.name.replace('_', '-')}"
    if field.type is bool:
        kind: Any = bool | None
        option = typer.Option(f"{name}/--no-{name[2:]}", help=description, show_default=False)
    else:
        kind = str | None
        option = typer.Option(
            name,
            parser=lambda text: parse_setting(field.name, text),
            metavar=METAVARS.get(field.type, "VALUE"),
            help=description,
        )
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, keyword, default=None, annotation=Annotated[kind, option])


def parse_setting(name: str, text: str) -> Any:
    """The value of a setting, written as on the command line, in the form that a table has.

    Raises:
        typer.BadParameter: if it is no value of that setting.

    >>> parse_setting("lengths", "3:40"), parse_setting("clip", "none"), parse_setting("rate", "1")
    ([3, 40], 'none', 1.0)
    """
    try:
        value = RULES[name](name, parse_value(text))
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    return NONE if value is None else list(value) if isinstance(value, tuple) else value


def parse_value(text: str) -> Any:
    """A number, a list of numbers, a flag, None, or else text.

    >>> parse_value("3:40"), parse_value("1e-3"), parse_value("true"), parse_value("z60")
    ([3, 40], 0.001, True, 'z60')
    """
    words = {NONE: None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    try:
        numbers = [_number(part) for part in re.split("[:,]", text)]
    except ValueError:
        return text
    return numbers if len(numbers) > 1 else numbers[0]


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def describe_arguments(docstring: str) -> dict[str, str]:
    """What the section Args of a docstring says about each argument.

    >>> describe_arguments("A circle.\\n\\nArgs:\\n    radius: its size,\\n        in metres.\\n")
    {'radius': 'its size, in metres.'}
    """
    _, _, section = inspect.cleandoc(docstring).partition("Args:\n")
    body, _, _ = section.partition("\n\n")
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", body, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
