"""Other people's implementations."""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest


def fla_naive(operation: str) -> Any:
    """The reference functions of an operation of flash-linear-attention.

    The file is loaded by itself: the package can't be imported without its compiler of kernels.
    """
    found = find_spec("fla")
    if found is None or not found.submodule_search_locations:
        pytest.skip("flash-linear-attention is a peer; PEERS=1 make test installs it")
    path = Path(found.submodule_search_locations[0]) / "ops" / operation / "naive.py"
    spec = spec_from_file_location(f"fla_naive_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
