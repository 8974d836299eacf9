"""The order of rooms: data walks down it, and nothing imports from a room below."""

import ast
from pathlib import Path

import slicekit

SOURCE = Path(slicekit.__file__).parent

BESIDE = {
    *("descriptions", "files", "suggestions", "figures", "locks", "devices", "handles", "checks"),
    *(
        "dispatch",
        "choices",
        "operators",
        "stored_files",
        "ties",
        "version",
        "citations",
        "machines",
    ),
}
"""One idea each, for every room; they import each other alone."""

ROOMS = (
    *("native", "paths", "structures", "flows", "scans", "layers", "mixers"),
    *("configurations", "serialisation", "converters", "parallel"),
    *("tasks", "training", "catalogue", "estimators", "__init__", "engines"),
    *("studies", "sweeps", "jax", "bench", "cli", "__main__"),
)
"""From top to bottom; `__init__` is `import slicekit`, whose names are those of the rooms above."""

ALONE = {
    "native": {"descriptions"},
    "jax": {"descriptions", "files", "native"},
}
"""Rooms that may import these alone: native serves all others, and jax must not import torch."""


EXCEPTIONS = {"engines/tether.py": {"studies"}}
"""A process that an engine starts does a study's runs."""


def imported(path: Path) -> set[str]:
    """The rooms that a file imports from, at its head or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = [node.module or ""]
            if node.module == "slicekit":
                names = [f"slicekit.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "slicekit":
                found.add(_room(rest.partition(".")[0]))
    return found


def _room(name: str) -> str:
    """A folder or file of the package; any other name is one of `import slicekit`."""
    there = name and ((SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file())
    return name if there else "__init__"


def allowed(room: str) -> set[str]:
    """What a room may import from."""
    if room in ALONE:
        return ALONE[room]
    if room in BESIDE:
        return BESIDE
    return BESIDE | set(ROOMS[: ROOMS.index(room)])


FILES = sorted(SOURCE.rglob("*.py"))


def test_nothing_imports_from_a_room_below() -> None:
    wrong = {}
    for path in FILES:
        place = path.relative_to(SOURCE)
        room = place.parts[0].removesuffix(".py")
        if beyond := imported(path) - {room} - allowed(room) - EXCEPTIONS.get(str(place), set()):
            wrong[str(place)] = beyond
    assert not wrong


def test_every_folder_is_a_room() -> None:
    known = BESIDE | set(ROOMS) | set(ALONE)
    found = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES}
    assert found == known
