"""What is it tried on? Generated sequences with their labels, a metric, and an oracle each; and
series of archives.

Example:
    >>> import torch
    >>> from slicekit import tasks
    >>> task = tasks.make("a5")
    >>> batch = task.sample(256, task.train_lengths, torch.Generator().manual_seed(0))
    >>> batch.inputs.shape, task.vocabulary, task.outputs
    (torch.Size([256, 40]), 60, 60)
"""

from slicekit.tasks.base import Batch, Task, accuracy
from slicekit.tasks.fixed_length_words import FixedLengthWords
from slicekit.tasks.functions import from_function
from slicekit.tasks.groups import Group, alternating, cyclic, named_group, product, symmetric
from slicekit.tasks.languages import CycleNavigation, EvenPairs, Language, Parity
from slicekit.tasks.loading import absolute, is_place, load, same_place
from slicekit.tasks.modular_arithmetic import ModularArithmetic
from slicekit.tasks.names import TASKS, NamedTask, make
from slicekit.tasks.ranges import draw_lengths
from slicekit.tasks.series_task import SeriesTask
from slicekit.tasks.word_problems import WordProblem

__all__ = [
    "TASKS",
    "Batch",
    "CycleNavigation",
    "EvenPairs",
    "FixedLengthWords",
    "Group",
    "Language",
    "ModularArithmetic",
    "NamedTask",
    "Parity",
    "SeriesTask",
    "Task",
    "WordProblem",
    "absolute",
    "accuracy",
    "alternating",
    "cyclic",
    "draw_lengths",
    "from_function",
    "is_place",
    "load",
    "make",
    "named_group",
    "product",
    "same_place",
    "symmetric",
]
