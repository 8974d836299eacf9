"""The example of irregular series does what it says."""

from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from examples import time_series
from slicekit.estimators import SliceClassifier


def test_main_prints_accuracy_and_stream_and_saves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    time_series.main(["--cases", "40", "--out", str(tmp_path / "model")])
    printed = capsys.readouterr().out
    assert float(printed.split("new series: ")[1].split("%")[0]) > 60
    assert float(printed.split("differ by ")[1].split()[0]) < 1e-4
    assert SliceClassifier.load(tmp_path / "model").classes_.tolist() == list(time_series.KINDS)


def test_too_few_cases_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        time_series.main(["--cases", "1"])
    assert "--cases 1" in capsys.readouterr().err
