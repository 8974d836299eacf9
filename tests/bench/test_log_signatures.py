"""Log-signatures are raced only against packages that give the same."""

import math
from typing import Any

import pytest
import torch

from slicekit.bench import log_signatures as bench
from slicekit.bench.targets import log_signature_lines
from slicekit.bench.timing import QUICK, Effort

SMALL = bench.Problem(2, 4, backward=True, batch=2, length=8)
ONCE = Effort(1, 1, math.inf, math.inf)


@pytest.mark.parametrize("peer", bench.PEERS)
def test_peers_agree(peer: str) -> None:
    pytest.importorskip(peer, reason=f"{peer} is not installed to compare with")
    bench.check(peer)


def test_a_peer_with_other_results_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(problem: bench.Problem) -> Any:
        size = 2 * 2 * 5 * 6 if problem.backward else 2 * 2 * (21 if problem.depth == 2 else 91)
        return lambda: torch.ones(size)

    monkeypatch.setitem(bench.PEERS, "wrong", wrong)
    with pytest.raises(ArithmeticError, match="wrong, depth 2: relative error"):
        bench.check("wrong")


def test_without_peers_every_line_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "installed", lambda peer: False)
    lines = list(log_signature_lines(ONCE))
    assert len(lines) == len(bench.PROBLEMS) * len(bench.PEERS)
    assert {line.note for line in lines} == {"pysiglib not installed", "signax not installed"}
    assert len({line.target.what for line in lines}) == len(lines)


def test_a_race_times_all_who_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PEERS", {"torch": bench._ours})
    monkeypatch.setattr(bench, "PROBLEMS", [SMALL])
    monkeypatch.setattr(bench, "installed", lambda peer: True)
    monkeypatch.setattr(bench, "check", lambda peer: None)
    (line,) = log_signature_lines(ONCE)
    assert line.value is not None and line.value > 0


def test_a_quick_run_leaves_out_whole_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "installed", lambda peer: peer == "signax")
    notes = [line.note for line in log_signature_lines(QUICK)]
    assert "full run only" in notes
