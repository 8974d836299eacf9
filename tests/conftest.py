"""What every test of slicekit runs under."""

import importlib
import os

import pytest
import torch

torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    """PEERS=1 promises the other libraries: without them tests would pass by being skipped."""
    if os.environ.get("PEERS") != "1":
        return
    try:
        importlib.import_module("slices")
    except ImportError as error:
        raise pytest.UsageError(
            "PEERS=1, but the peer `slices` can't be imported; install slicekit[peers], "
            "or leave PEERS unset to skip the comparisons"
        ) from error


@pytest.fixture(autouse=True)
def _same_randomness_for_every_test() -> None:
    torch.manual_seed(0)
