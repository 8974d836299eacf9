"""The demonstration runs from end to end; how good it becomes is for studies to show."""

from pathlib import Path

import pytest

from examples import a5


def test_it_trains_measures_every_length_and_saves_its_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(a5, "LENGTHS", (20, 80))
    out = tmp_path / "demo"
    for folder in (out, tmp_path / "demo-2"):  # a second time, the first is left alone
        a5.main(["--steps", "2", "--out", str(out)])
        told = capsys.readouterr().out
        assert "100,000 steps" in told and "without consistency" in told
        assert (folder / "a5.png").stat().st_size > 1000
        for name in ("recipe", "without"):
            assert 'task = "a5"' in (folder / name / "config.toml").read_text()
            assert (folder / name / "model.safetensors").exists()
