"""Which models have names? Sizes and training settings for each kind of task, as plain data.

Example:
    >>> from slicekit import catalogue, tasks
    >>> task = tasks.make("parity")
    >>> catalogue.default(task), catalogue.settings("bd-slice", task, recipe="paper").steps
    ('projective-slice', 100000)
"""

from slicekit.catalogue.names import (
    MODELS,
    build,
    check_name,
    default,
    names,
    recipe,
    settings,
    sizes_of,
)
from slicekit.catalogue.recipes import FAST, PAPER, RECIPES, Recipe
from slicekit.catalogue.sizes import as_path, parse, spell, split_names

__all__ = [
    "FAST",
    "MODELS",
    "PAPER",
    "RECIPES",
    "Recipe",
    "as_path",
    "build",
    "check_name",
    "default",
    "names",
    "parse",
    "recipe",
    "settings",
    "sizes_of",
    "spell",
    "split_names",
]
