"""What `import slicekit` gives, and what it costs."""

import inspect
import json
import subprocess
import sys
from typing import Any

import pytest

import slicekit
from slicekit import engines, layers, paths, scans, structures, studies, sweeps, tasks, training

NAMES = [
    "DPLR",
    "Associative",
    "Block",
    "BlockDiagonal",
    "Chunked",
    "Dense",
    "Diagonal",
    "DiagonalDense",
    "Differences",
    "DirectSum",
    "Duration",
    "Euler",
    "Exponential",
    "FirstInput",
    "Householder",
    "JointDPLR",
    "Last",
    "Learned",
    "LogODE",
    "Mean",
    "Native",
    "Orthogonal",
    "Outer",
    "PermutationDiagonal",
    "Pointwise",
    "Projective",
    "Recurrent",
    "RowNormalised",
    "SLiCE",
    "SequenceModel",
    "SliceClassifier",
    "SliceRegressor",
    "Sparse",
    "State",
    "Tabulated",
    "TimeAndInput",
    "WalshHadamard",
    "Wiring",
    "cite",
    "explain",
    "increments",
    "load",
    "propagate",
    "save",
    "solve",
]
ROOMS = [slicekit, paths, structures, scans, layers, tasks, training, engines, studies, sweeps]


def test_the_public_names_are_these() -> None:
    assert slicekit.__all__ == NAMES


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_public_name_exists_once(room: Any) -> None:
    assert len(room.__all__) == len(set(room.__all__))
    assert all(hasattr(room, name) for name in room.__all__)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_public_name_and_method_has_a_docstring(room: Any) -> None:
    for name in room.__all__:
        value = getattr(room, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        written = (value.__doc__ or "").strip()
        assert written, name
        assert not written.startswith(f"{name}("), f"{name} has dataclass's own docstring"
        for method, function in vars(value).items():
            public = not method.startswith("_") and inspect.isfunction(function)
            assert not public or (function.__doc__ or "").strip(), f"{name}.{method}"


def test_every_argument_of_a_public_name_is_annotated() -> None:
    for name in slicekit.__all__:
        value = getattr(slicekit, name)
        for parameter in inspect.signature(value).parameters.values():
            assert parameter.annotation is not parameter.empty, f"{name}({parameter.name})"


def test_the_version_is_a_version() -> None:
    assert all(part.isdigit() for part in slicekit.__version__.split("."))


HEAVY = (
    *("matplotlib", "typer", "rich", "scipy", "sklearn", "jax", "pandas"),
    *("ray", "distributed", "submitit", "optuna", "torch._dynamo"),
)
MEASURE = f"""
import json, sys, time
import torch
before = set(sys.modules)
start = time.perf_counter()
import slicekit
slicekit.SLiCE, slicekit.cite, slicekit.load
seconds = time.perf_counter() - start
added = set(sys.modules) - before
heavy = [name for name in {HEAVY} if name in added]
print(json.dumps({{"seconds": seconds, "heavy": heavy}}))
"""


def test_importing_slicekit_costs_little_more_than_importing_torch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The bound is generous: what is slow is what is imported."""
    run = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout)
    with capsys.disabled():
        print(f"[import slicekit after torch: {found['seconds']:.2f} s]", end=" ")
    assert found["heavy"] == []
    assert found["seconds"] < 10


LAZY = """
import sys
import slicekit
assert not {"torch", "jax"} & set(sys.modules), "import slicekit"
assert {"SLiCE", "solve", "layers"} <= set(dir(slicekit))
import slicekit.descriptions.blocks, slicekit.descriptions.lie_tables, slicekit.descriptions.sparse
assert not {"torch", "jax"} & set(sys.modules), "descriptions"
slicekit.SLiCE(2, slicekit.Dense(3))
assert "torch" in sys.modules and "jax" not in sys.modules
"""


def test_names_are_loaded_when_they_are_first_asked_for() -> None:
    run = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_a_name_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="'slicekit' has no attribute 'Slice'"):
        getattr(slicekit, "Slice")  # noqa: B009


def test_every_room_s_public_names_are_those_of_slicekit() -> None:
    assert set(slicekit._HOMES) == set(NAMES)
