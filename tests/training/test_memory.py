"""Freed memory is kept for the next step, where the C library is known."""

import os
import platform
import subprocess
import sys

import pytest

from slicekit.training.memory import keep_freed_memory

STEPS = """
import resource
import torch
from slicekit.training.memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    blocks = [torch.zeros(2**20) for _ in range(8)]
    del blocks

assert keep_freed_memory()
step()
before = faults()
for _ in range(10):
    step()
print(faults() - before, 10 * 8 * 2**22 // resource.getpagesize())
"""
"""In a process of its own: other libraries choose allocators for theirs."""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")


@glibc
def test_memory_that_a_step_frees_costs_the_next_no_page_faults() -> None:
    own = {name: x for name, x in os.environ.items() if not name.startswith("MALLOC_")}
    found = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, env=own)
    assert found.returncode == 0, found.stderr
    faults, pages = map(int, found.stdout.split())
    assert faults < pages / 10


@glibc
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    assert not keep_freed_memory()


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not keep_freed_memory()
