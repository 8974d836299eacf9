"""What tests of the native scan look at."""

from typing import Any

import pytest

import slicekit.scans.chunked.policy
import slicekit.scans.native.fused
import slicekit.scans.native.policy
from slicekit.scans.base import Passes
from slicekit.scans.native.passes import GivenPasses, MadePasses


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that run, in order."""
    used: list[str] = []
    run_opaque = slicekit.scans.native.policy.run_opaque

    def spy(passes: type[Passes], *arguments: Any) -> Any:
        used.append("native" if passes in (GivenPasses, MadePasses) else "chunked")
        return run_opaque(passes, *arguments)

    for module in (slicekit.scans.native.policy, slicekit.scans.chunked.policy):
        monkeypatch.setattr(module, "run_opaque", spy)
    run_at_once = slicekit.scans.native.fused.run_at_once

    def spy_at_once(*arguments: Any) -> Any:
        used.append("native")
        return run_at_once(*arguments)

    monkeypatch.setattr(slicekit.scans.native.fused, "run_at_once", spy_at_once)
    return used
