"""Tasks by name, or by where a user wrote them: clear errors for everything that is missing."""

import ast
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from slicekit import tasks
from slicekit.tasks import TASKS, FixedLengthWords, WordProblem, load, make
from tests.tasks.every import seeded

NAMES = [
    "a5",
    "s5",
    "a4xz5",
    "z60",
    "a5-fixed",
    "cycle-navigation",
    "even-pairs",
    "modular-arithmetic",
    "parity",
    "areas",
]

OWN = """
from dataclasses import dataclass
from functools import partial
from os import system

import torch

from slicekit.tasks import Batch, Parity, Task


class Mine(Parity):
    name = "mine"

    def __init__(self, extra: int = 0) -> None:
        super().__init__()
        self.extra = extra


@dataclass
class Setting:
    value: int


ready = Mine(extra=5)


def made(extra: int = 1) -> Task:
    return Mine(extra)


def draw(batch, lengths, generator):
    tokens = torch.randint(3, (batch, lengths[1]), generator=generator)
    return tokens, tokens


def nothing():
    return Setting(3)


number = 3
shout = partial(print, "!")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own_tasks.py"
    path.write_text(OWN)
    return path


def test_the_names_in_order() -> None:
    assert list(TASKS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_name_makes_its_task(name: str) -> None:
    task = make(name)
    assert task.name == name == TASKS[name]().name
    assert "\n" not in TASKS[name].description
    assert task.train_lengths[0] >= task.shortest


def test_options_reach_the_constructor() -> None:
    task = make("modular-arithmetic", modulus=7, train_lengths=[4, 10])
    assert (task.vocabulary, task.train_lengths) == (12, (4, 10))
    fixed = make("a5-fixed", length=7, sequences=50)
    assert isinstance(fixed, FixedLengthWords) and fixed.train_lengths == (7, 7)
    few = make("s5", letters=[1, 2])
    assert isinstance(few, WordProblem) and few.letters.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("party", f"unknown task 'party', did you mean 'parity'? Choose from {', '.join(NAMES)}"),
        ("A5", "unknown task 'A5', did you mean 'a5'? Choose from"),
        ("cycle_nav", "unknown task 'cycle_nav', did you mean 'cycle-navigation'? Choose from"),
        ("xyzw", f"unknown task 'xyzw'; choose from {', '.join(NAMES)}, or give module:name"),
    ],
)
def test_an_unknown_name_lists_the_tasks_and_suggests_the_closest(name: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        make(name)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("parity", {"modulus": 5}, "parity: got an unexpected keyword argument 'modulus'; its opt"),
        ("a5", {"group": "s5"}, "a5 has no option group; its options are letters, train_lengths"),
        ("parity", {"train_lengths": (5, 3)}, "train_lengths=(5, 3); expected (low, high)"),
    ],
)
def test_a_bad_option_is_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        make(name, **options)
    assert str(caught.value).startswith(message)


def test_a_task_from_a_file(file: Path) -> None:
    assert make(f"{file}:ready").name == "mine"
    for name, options, extra in (("Mine", {}, 0), ("Mine", {"extra": 3}, 3), ("made", {}, 1)):
        task: Any = make(f"{file}:{name}", **options)
        assert task.extra == extra
    drawn = load(f"{file}:draw", vocabulary=3, outputs=3, train_lengths=(2, 4))
    assert (drawn.name, drawn.train_lengths) == ("draw", (2, 4))
    assert drawn.sample(2, (4, 4), seeded(0)).inputs.shape == (2, 4)


def test_a_task_from_a_module_in_the_working_directory(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    before = list(sys.path)
    try:
        assert make("own_tasks:ready").name == "mine"
    finally:
        sys.modules.pop("own_tasks", None)
    assert sys.path == before
    assert isinstance(make("slicekit.tasks:Parity"), tasks.Parity)


@pytest.mark.parametrize(
    ("place", "options", "error", "message"),
    [
        ("{file}:raedy", {}, ValueError, "unknown task 'raedy', did you mean 'ready'? Choose from"),
        ("{file}x.py:ready", {}, ValueError, "no file {file}x.py to load a task from"),
        ("no_such_module:ready", {}, ValueError, "no module 'no_such_module' to load a task from"),
        ("slicekit.none:x", {}, ValueError, "no module 'slicekit.none' to load a task from"),
        ("{file}:", {}, ValueError, "task '{file}:'; expected module:name or path/to/file.py:name"),
        (":ready", {}, ValueError, "task ':ready'; expected module:name or path/to/file.py:name"),
        ("./own:x", {}, ValueError, "task './own:x'; expected module:name or path/to/file.py:name"),
        (
            "{file}:ready",
            {"extra": 1},
            ValueError,
            "{file}:ready is a task already, so it takes no",
        ),
        (
            "{file}:Mine",
            {"other": 1},
            ValueError,
            "{file}:Mine: got an unexpected keyword argument",
        ),
        (
            "{file}:draw",
            {},
            ValueError,
            "{file}:draw draws batches, so it needs vocabulary, how many tokens there are and "
            "outputs, how many classes: options of the task, on the command line as in "
            "--task-option vocabulary=3 --task-option outputs=3",
        ),
        (
            "{file}:draw",
            {"vocabulary": 3},
            ValueError,
            "{file}:draw draws batches, so it needs outputs, how many classes: options of the "
            "task, on the command line as in --task-option outputs=3",
        ),
        ("os:system", {"command": "true"}, TypeError, "os:system is {os}:system, imported there"),
        ("{os}:system", {"command": "true"}, TypeError, "{os}:system is a builtin_function_or_me"),
        ("{file}:system", {"command": "true"}, TypeError, "{file}:system is {os}:system, imported"),
        ("{file}:Parity", {}, TypeError, "{file}:Parity is slicekit.tasks.languages:Parity, impor"),
        ("{file}:shout", {}, TypeError, "{file}:shout is functools:shout, imported there"),
        ("{file}:nothing", {}, TypeError, "{file}:nothing returned a Setting; expected a Task"),
        ("{file}:number", {}, TypeError, "{file}:number is a int; expected a Task, a class"),
        ("{file}:Setting", {}, TypeError, "{file}:Setting is a type; expected a Task, a class"),
    ],
)
def test_what_is_missing_is_named(
    file: Path, place: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        make(place.format(file=file, os=os.system.__module__), **options)
    assert str(caught.value).startswith(message.format(file=file, os=os.system.__module__))


def test_faults_inside_a_users_file_come_through(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import no_such_package\n")
    before = set(sys.modules)
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        load(f"{path}:task")
    assert not any("broken" in name for name in set(sys.modules) - before)


def test_the_room_knows_no_models() -> None:
    """It imports torch, the standard library, and of slicekit only what stands above it."""
    folder = Path(tasks.__file__).parent
    names = {
        name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
    }
    outside = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
    rooms = {".".join(name.split(".")[:2]) for name in outside}
    above = {"slicekit.checks", "slicekit.paths", "slicekit.suggestions", "slicekit.tasks"}
    assert rooms == {"torch", *above}


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
