"""Sizes as part of a model's name: `bd-slice:dim=128,block=8`, `mamba:width=512`.

So a size is chosen in one word on the command line, in a study and in config.toml.
"""

from collections.abc import Mapping

from slicekit.catalogue.recipes import FAST

Sizes = dict[str, int | float]
"""Sizes by name, as a user chose them; what is left out is the recipe's."""


def parse(name: str) -> tuple[str, Sizes]:
    """The model's own name and the sizes behind it.

    Args:
        name: "model" or "model:size=number,size=number".

    Raises:
        ValueError: if a size has no number, is no number, or stands twice.

    >>> parse("bd-slice:dim=128,block=8")
    ('bd-slice', {'dim': 128, 'block': 8})
    >>> parse("mamba:width")
    Traceback (most recent call last):
    ValueError: model 'mamba:width': 'width'; expected size=number, as in bd-slice:dim=128,block=8
    """
    model, colon, rest = name.partition(":")
    sizes: Sizes = {}
    for item in rest.split(",") if colon else ():
        size, equals, number = (x.strip() for x in item.partition("="))
        if not equals or not size or not number:
            raise ValueError(
                f"model {name!r}: {item!r}; expected size=number, as in bd-slice:dim=128,block=8"
            )
        if size in sizes:
            raise ValueError(f"model {name!r}: {size} stands twice")
        sizes[size] = _number(name, size, number)
    return model, sizes


def _number(name: str, size: str, text: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(f"model {name!r}: {size}={text}; expected a number")


def spell(model: str, sizes: Mapping[str, int | float]) -> str:
    """The name that `parse` takes apart.

    >>> spell("bd-slice", {"dim": 128, "block": 8}), spell("mamba", {})
    ('bd-slice:dim=128,block=8', 'mamba')
    """
    return model if not sizes else f"{model}:{','.join(f'{k}={x}' for k, x in sizes.items())}"


def split_names(text: str) -> tuple[str, ...]:
    """Names in one text, parted by commas; the commas between a name's sizes do not part it.

    >>> split_names("bd-slice:dim=128,block=8,mamba")
    ('bd-slice:dim=128,block=8', 'mamba')
    """
    names: list[str] = []
    for part in text.split(","):
        if names and ":" in names[-1] and "=" in part and ":" not in part:
            names[-1] += f",{part}"
        else:
            names.append(part)
    return tuple(names)


def as_path(name: str, recipe: str) -> str:
    """A name and its recipe as a part of a path, also where a colon may not stand in one.

    >>> as_path("bd-slice:dim=128,block=8", "paper"), as_path("mamba", "fast")
    ('bd-slice-dim=128-block=8-paper', 'mamba')
    """
    plain = name.replace(":", "-").replace(",", "-")
    return plain if recipe == FAST else f"{plain}-{recipe}"


def check_known(name: str, sizes: Mapping[str, int | float], known: tuple[str, ...]) -> None:
    """Raise ValueError unless a model has all of these sizes."""
    for size in sizes:
        if size not in known:
            has = f"its sizes are {', '.join(known)}" if known else "it has none to choose"
            raise ValueError(f"model {name!r} has no size {size!r}; {has}")
