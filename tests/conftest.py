"""What every test of slicekit runs under."""

import importlib
import os

import pytest
import torch

torch.set_num_threads(1)

PROMISED = {
    "slices": "peers",
    "submitit": "slurm",
    "ray": "ray",
    "distributed": "dask",
    "optuna": "sweep",
}


def pytest_configure(config: pytest.Config) -> None:
    """PEERS=1 promises the other libraries: without them tests would pass by being skipped."""
    if os.environ.get("PEERS") != "1":
        return
    for name, extra in PROMISED.items():
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise pytest.UsageError(
                f"PEERS=1, but `{name}` can't be imported; install slicekit[{extra}], or leave "
                "PEERS unset to skip the tests that need it"
            ) from error


@pytest.fixture(autouse=True)
def _same_randomness_for_every_test() -> None:
    torch.manual_seed(0)
