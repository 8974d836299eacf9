"""Freed memory is kept for the next step, where the C library is known."""

import platform

import pytest
import torch

from slicekit.training.memory import keep_freed_memory

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")


@glibc
def test_memory_that_a_step_frees_costs_the_next_no_page_faults() -> None:
    import resource

    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def step() -> None:
        blocks = [torch.zeros(2**20) for _ in range(8)]
        del blocks

    assert keep_freed_memory()
    step()
    before = faults()
    for _ in range(10):
        step()
    pages = 10 * 8 * 2**22 // resource.getpagesize()
    assert faults() - before < pages / 10


@glibc
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    assert not keep_freed_memory()


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not keep_freed_memory()
