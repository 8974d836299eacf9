"""Two threads beside one: turns by lot, and others that are busy."""

import subprocess

import pytest
import torch

import slicekit as sk
from slicekit.bench import two_threads
from slicekit.bench.problems import Shape


def test_both_thread_counts_have_as_many_turns_and_torch_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: list[int] = []
    before = torch.get_num_threads()
    monkeypatch.setattr(
        two_threads, "both_ways", lambda *_: lambda: counts.append(torch.get_num_threads())
    )
    assert two_threads.ratio(sk.Diagonal(4), Shape(1, 2, 4), seconds=0.0) > 0
    assert counts.count(1) == counts.count(2) == 1 + two_threads.FEWEST
    assert torch.get_num_threads() == before


def test_a_run_takes_the_gradients_of_the_input_and_of_all_parameters() -> None:
    gradients = two_threads.both_ways(sk.BlockDiagonal(8, 4), Shape(2, 5, 8))()
    assert gradients[0].shape == (2, 5, 8) and len(gradients) > 1
    assert all(x.isfinite().all() and x.abs().sum() > 0 for x in gradients)


def test_busy_processes_run_meanwhile_and_end_also_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def noted(command: list[str]) -> subprocess.Popen[bytes]:
        started.append(start(command))
        return started[-1]

    monkeypatch.setattr(two_threads.subprocess, "Popen", noted)
    with pytest.raises(RuntimeError), two_threads.busy(2):
        assert [loop.poll() for loop in started] == [None, None]
        raise RuntimeError
    assert all(loop.poll() is not None for loop in started)


def test_the_table_has_a_row_for_each_structure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(two_threads, "SHAPES", (Shape(2, 3, 8),))
    monkeypatch.setattr(two_threads, "SMALLER", (Shape(1, 4, 8),))
    monkeypatch.setattr(two_threads, "STRUCTURES", {"diagonal": sk.Diagonal})
    two_threads.main(["--seconds", "0"])
    head, rule, row = capsys.readouterr().out.splitlines()
    assert head == "| two threads / one | 2x3x8 | 1x4x8 |"
    assert row.startswith("| diagonal |") and row.count("|") == rule.count("|") == 4


@pytest.mark.parametrize("wrong", ["--beside=-1", "--seconds=-2", "--seconds=nan"])
def test_an_option_below_zero_is_refused_by_name(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        two_threads.main([wrong])
    assert wrong.split("=")[0] in capsys.readouterr().err
