"""Tests of slicekit.jax run in double precision on two devices, and not at all without JAX."""

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

HERE = all(find_spec(name) for name in ("jax", "equinox"))
collect_ignore_glob = [] if HERE else ["*"]

FLAGS = (
    "--xla_force_host_platform_device_count=2",  # the sharded scan needs more than one
    # Fast programs cost far more to make than these are run.
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
)

if HERE:
    # Read when JAX first asks for its devices.
    os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    import jax

    before = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)
