"""What tests of kernels share."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from slicekit.native import kernel, library

ISAS = loaded.isas() if (loaded := library()) else ()


@pytest.fixture(autouse=True)
def _threads_for_small_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many threads as torch has for any work, so that small problems can test them."""
    monkeypatch.setattr(kernel, "WORTHWHILE", 0)


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """New tensors are full of NaN, so that a read of memory that was never written shows."""
    deterministic: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(before[0])
    deterministic.fill_uninitialized_memory = before[1]


@pytest.fixture(params=ISAS)
def every_isa(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kernels of each instruction set that this processor runs, one after the other."""
    loaded = library()  # asked for here: tests of loading leave another one behind
    assert loaded is not None
    before = loaded.isa
    loaded.use(request.param)
    yield
    loaded.use(before)
