"""Threads of a command: one unless it is told otherwise, and they sleep while they wait."""

import os
import subprocess
import sys

import pytest
import torch

from slicekit.cli import threads
from tests.cli.calls import SOURCE


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch):
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield
    torch.set_num_threads(before)


def test_a_command_uses_one_thread_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    threads.use(None)
    assert torch.get_num_threads() == 1
    threads.use(2)
    assert torch.get_num_threads() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    threads.use(None)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("own", [None, "ACTIVE"])
def test_threads_sleep_while_they_wait_unless_the_user_has_chosen(own: str | None) -> None:
    """The choice must be made before torch is there, since its library of threads reads it then."""
    program = (
        "import sys, os; sys.argv = ['slicekit', '--version']\n"
        "from slicekit import cli\n"
        "assert 'torch' not in sys.modules\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "print(os.environ['OMP_WAIT_POLICY'])"
    )
    chosen = {k: x for k, x in os.environ.items() if k != "OMP_WAIT_POLICY"}
    chosen |= {"PYTHONPATH": str(SOURCE)} | ({} if own is None else {"OMP_WAIT_POLICY": own})
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=chosen, check=True
    )
    assert found.stdout.split()[-1] == (own or "PASSIVE")
