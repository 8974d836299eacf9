"""Tasks that have names, as plain data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from slicekit.suggestions import unknown
from slicekit.tasks.areas import Areas
from slicekit.tasks.base import Task
from slicekit.tasks.fixed_length_words import FixedLengthWords
from slicekit.tasks.languages import CycleNavigation, EvenPairs, Parity
from slicekit.tasks.loading import call_with, load
from slicekit.tasks.modular_arithmetic import ModularArithmetic
from slicekit.tasks.word_problems import WordProblem


@dataclass(frozen=True)
class NamedTask:
    """How to make a task, and what it is in one line.

    Args:
        description: one line.
        constructor: the class.
        arguments: what the name settles; the constructor's other arguments are options.

    >>> NamedTask("sums modulo 60", WordProblem, {"group": "z60"})(train_lengths=(2, 5)).name
    'z60'
    """

    description: str
    constructor: Callable[..., Task]
    arguments: dict[str, Any] = field(default_factory=dict)

    def __call__(self, **options: Any) -> Task:
        """The task, with options for the constructor."""
        return self.constructor(**self.arguments, **options)


TASKS: dict[str, NamedTask] = {
    "a5": NamedTask(
        "word problem of A5, the 60 even permutations of five points", WordProblem, {"group": "a5"}
    ),
    "s5": NamedTask(
        "word problem of S5, the 120 permutations of five points", WordProblem, {"group": "s5"}
    ),
    "a4xz5": NamedTask(
        "word problem of A4 x Z5, 60 elements, solvable", WordProblem, {"group": "a4xz5"}
    ),
    "z60": NamedTask("word problem of Z60: sums modulo 60", WordProblem, {"group": "z60"}),
    "a5-fixed": NamedTask(
        "A5 by the paper's protocol: a million distinct words of one length, split 80/20",
        FixedLengthWords,
        {"group": "a5"},
    ),
    "cycle-navigation": NamedTask("where a walk on a cycle of five ends", CycleNavigation),
    "even-pairs": NamedTask("whether ab and ba occur an even number of times", EvenPairs),
    "modular-arithmetic": NamedTask(
        "the value of an expression with +, - and * modulo 5", ModularArithmetic
    ),
    "parity": NamedTask("whether b occurs an even number of times", Parity),
    "areas": NamedTask("which way round a path goes, from series of any resolution", Areas),
}
"""The named tasks, in the order to list them in."""


def make(name: str, **options: Any) -> Task:
    """A task by its name, or by where you wrote it.

    Args:
        name: one of `TASKS`, the name of an archive's data set that is on the disk, see
            `slicekit.tasks.archive_task`, or "module:name" or "path/to/file.py:name" for one of
            yours, see `load`.
        options: arguments of the task's constructor; of a data set, those of `archive_task`.

    Returns:
        The task.

    Raises:
        ValueError: if there is no task of that name, or it has no such option.
        FileNotFoundError: if it is a data set that is not on the disk.

    >>> make("cycle-navigation", states=7).vocabulary
    11
    >>> make("partiy")
    Traceback (most recent call last):
    ValueError: unknown task 'partiy', did you mean 'parity'? Choose from a5, s5, a4xz5, z60, \
a5-fixed, cycle-navigation, even-pairs, modular-arithmetic, parity, areas, or give module:name
    """
    if ":" in name:
        return load(name, **options)
    if name not in TASKS:
        from slicekit.tasks.archive_task import archive_task, is_on_disk
        from slicekit.tasks.archives.catalogue import KNOWN

        if name in KNOWN or is_on_disk(name, options.get("data")):
            return call_with(archive_task, name, options, {"name": name})
        raise unknown("task", name, TASKS, ", or give module:name")
    named = TASKS[name]
    return call_with(named.constructor, name, options, named.arguments)
