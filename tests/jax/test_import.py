"""What `import slicekit.jax` gives, and what it leaves alone."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

import slicekit
import slicekit.jax as sj

ALONE = """
import sys
import slicekit.jax
assert "torch" not in sys.modules
import jax
layer = slicekit.jax.SLiCE(2, slicekit.jax.Sparse(4), key=jax.random.key(0))
assert "torch" not in sys.modules
"""


WITHOUT_JAX = """
import sys
import slicekit, torch
slicekit.SLiCE(2, slicekit.Sparse(4))(torch.zeros(1, 2, 2))
assert "jax" not in sys.modules
"""


@pytest.mark.parametrize("program", [ALONE, WITHOUT_JAX], ids=["torch", "jax"])
def test_one_library_never_imports_the_other(program: str) -> None:
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_names_are_those_of_torch() -> None:
    only_torch = {"SliceClassifier", "SliceRegressor", "cite", "explain"}
    only_jax = {"Sharded", "from_log_linear_cde"}
    assert set(sj.__all__) - only_jax == set(slicekit.__all__) - only_torch


def arguments(value: Any) -> list[str]:
    other = {"self", "key", "generator", "device", "parallel", "most"}
    called = value.__init__ if inspect.isclass(value) else value
    return [name for name in inspect.signature(called).parameters if name not in other]


def test_arguments_are_those_of_torch() -> None:
    """Randomness comes by a key, and not by a generator; a chunk may be told to be parallel, and
    windows in time how many there may be."""
    for name in sorted(set(sj.__all__) & set(slicekit.__all__)):
        theirs, ours = arguments(getattr(slicekit, name)), arguments(getattr(sj, name))
        assert ours == (["arrays"] if name == "State" else theirs), name


def test_every_public_name_has_a_docstring() -> None:
    for name in sj.__all__:
        value = getattr(sj, name)
        assert (value.__doc__ or "").strip() and not value.__doc__.startswith(f"{name}("), name
