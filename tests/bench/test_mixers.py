"""`slicekit bench mixers`: what is timed, beside whom, and what is said of those who can't run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

from slicekit import mixers as library
from slicekit.bench import mixer_report, mixers
from slicekit.bench.mixer_peers import Peer
from slicekit.bench.mixers import OURS, Case, MixerRow
from slicekit.bench.timing import QUICK, Times


def test_a_row_for_every_length_with_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = {
        "torch": Peer("torch", lambda width, length: nn.LSTM(width, width, batch_first=True)),
        "absent": Peer("no_such_package", lambda width, length: None),
        "large": Peer("torch", lambda width, length: None, lambda width, batch, length: 2**40),
    }
    monkeypatch.setitem(mixers.CASES, "lstm", Case(lambda w: library.LSTM(w, w), peers))
    monkeypatch.setattr(mixers, "TOKENS", 12)
    rows = list(mixers.measure("lstm", 8, QUICK, lengths=(4, 6)))
    assert [(row.length, row.tokens) for row in rows] == [(4, 12), (6, 12)]
    for row in rows:
        assert row.times.processor.keys() == {OURS, "torch"}
        assert row.microseconds(OURS) > 0
        assert row.absent == {"absent": "not installed", "large": "needs 1024 GiB"}


def test_a_peer_that_would_take_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Peer("torch", lambda width, length: nn.Linear(width, width))
    monkeypatch.setitem(mixers.CASES, "lstm", Case(lambda w: library.LSTM(w, w), {"slow": slow}))
    monkeypatch.setattr(mixers, "TOKENS", 4)
    monkeypatch.setattr(mixers, "LIMIT", 0.0)
    full = replace(QUICK, quick=False)
    first, second = mixers.measure("lstm", 8, full, lengths=(4, 5))
    assert "slow" in first.times.processor
    assert second.absent["slow"].endswith("at a shorter length")


@pytest.mark.parametrize("name", mixers.CASES)
def test_every_mixer_of_the_table_can_be_made(name: str) -> None:
    assert mixers.CASES[name].ours(64).outputs == 64  # type: ignore[union-attr]


def test_the_verdict_counts_pairs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    times = Times({OURS: 1e-3, "xlstm": 2.5e-3, "torch": 1e-3}, {OURS: 1e-3})
    row = MixerRow("mlstm", 128, 256, 1000, times, {"transformers": "not installed"})
    mixer_report.print_row(row)
    mixer_report.print_verdict([row])
    shown = capsys.readouterr().out
    assert "1.0 (1.0)" in shown and "xlstm 2.5, 2.5x" in shown
    assert "transformers: not installed" in shown
    assert "faster in 1 of 1 pairs; least 2.50x: mlstm and xlstm at 128 x 256" in shown
    assert json.loads(json.dumps(mixer_report.as_data([row])))[0]["mixer"] == "mlstm"
