"""Headers of models and estimators that someone wrote who knows the format, digest and all."""

import copy
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

import slicekit as sk
from slicekit.estimators import Gradient, Ridge, SliceClassifier
from slicekit.stored_files import digest
from tests.attack.guard import Guard
from tests.attack.mutated_files import SERIES
from tests.attack.runner import Size, Tally
from tests.market import STRUCTURES, Circulant
from tests.mixers.market import MIXERS

DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]

VALUES: list[Any] = [
    *(10**3, 10**5, 10**9, 2**31, 2**63, 10**18, 10**30, -1, 0, 1, 2, 7, 12, 1e300, 1e-300),
    *(float("nan"), float("inf"), "x", "x" * 10**5, None, True, [], {}, DEEP),
    *({"nn": "Identity"}, {"nn": "Linear"}, {"nn": "Module"}, {"nn": 3}, {"tuple": [1, 2]}),
    *({"class": "Dense", "arguments": {"dim": 8000}}, {"class": "Tensor", "arguments": {}}),
    {"class": "DirectSum", "arguments": {"*": {"tuple": []}}},
    {"class": "LogODE", "arguments": {"depth": 40, "window": 3}},
]


def attack(tally: Tally, size: Size) -> None:
    """A thousand headers, with one or two values replaced."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.safetensors"
        victims = list(_victims(path))

        def work(case: tuple[int, list[tuple[list[Any], Any]]]) -> None:
            number, changes = case
            header, tensors = victims[number]
            header = copy.deepcopy(header)
            for place, value in changes:
                _put(header, place, copy.deepcopy(value))  # it may be put into itself
            text = json.dumps(header)
            save_file(tensors, path, metadata={"slicekit": text, "digest": digest(text, tensors)})
            if "estimator" in header:
                SliceClassifier.load(path)
            else:
                sk.load(path, classes=[Circulant])

        def clear(case: object, error: BaseException) -> bool:
            return isinstance(error, ValueError) and str(path) in str(error)

        with Guard(work, clear) as guard:
            for number, source in size.cases(3000, least=50):
                case = _drawn(victims, source)
                outcome = guard(case)
                shown = f"header {number}, {case[1]!r:.200}"
                tally.note(shown, outcome.wrong, bool(outcome.error))


def _victims(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, torch.Tensor]]]:
    torch.manual_seed(0)
    modules: list[torch.nn.Module] = [sk.SLiCE(3, structure) for structure in STRUCTURES.values()]
    modules += [make() for make in MIXERS.values()]
    flow = sk.LogODE(depth=2, window=3)
    modules.append(
        sk.SequenceModel(
            vocabulary=5,
            outputs=2,
            width=4,
            pool=sk.Mean(),
            mixer=lambda width: sk.SLiCE(width, sk.BlockDiagonal(4, 2), flow=flow),
        )
    )
    for module in modules:
        sk.save(module, path)
        yield _read(path)
    for solver in (Ridge(groups=1), Gradient(width=8, max_steps=2)):
        fitted = SliceClassifier(solver=solver, random_state=0)
        fitted.fit(SERIES, ["a", "b", "c"] * 4).save(path)
        yield _read(path)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    with safe_open(path, framework="pt") as stored:
        tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
        return json.loads(stored.metadata()["slicekit"]), tensors


def _drawn(victims: list[Any], source: random.Random) -> tuple[int, list[tuple[list[Any], Any]]]:
    number = source.randrange(len(victims))
    places = [place for place in _places(victims[number][0]) if place]
    count = source.choice([1, 1, 1, 2])
    return number, [(source.choice(places), source.choice(VALUES)) for _ in range(count)]


def _places(header: Any, way: tuple[Any, ...] = ()) -> Iterator[list[Any]]:
    yield list(way)
    items = header.items() if isinstance(header, dict) else ()
    items = enumerate(header) if isinstance(header, list) else items
    for key, value in items:
        yield from _places(value, (*way, key))


def _put(header: Any, place: list[Any], value: Any) -> None:
    try:
        for key in place[:-1]:
            header = header[key]
        header[place[-1]] = value
    except (KeyError, IndexError, TypeError):  # an earlier change took the place away
        return
