"""`slicekit runs` and `slicekit plot`: runs beside each other."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calls import invoke, metrics, refuse, succeed


@pytest.fixture
def copy(finished_run: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Makes copies of a finished run, in the folder `runs`."""
    return lambda name: Path(shutil.copytree(finished_run, tmp_path / "runs" / name))


def listed(root: Path) -> dict[str, dict[str, Any]]:
    """`slicekit runs --json` by the names of the folders."""
    rows = json.loads(succeed("runs", root, "--json"))
    return {Path(row["folder"]).name: row for row in rows}


def test_a_finished_run_is_told_by_its_metrics(copy: Callable[[str], Path]) -> None:
    run = copy("a")
    validations = [x for x in metrics(run) if x["kind"] == "validation"]
    best = max(validations, key=lambda x: (x["accuracy"], x["step"]))
    row = listed(run.parent)["a"]
    seconds = row.pop("seconds")
    assert seconds > 0
    assert row == {
        "folder": str(run),
        "state": "finished",
        "task": "parity",
        "model": "de-lncde",
        "seed": 0,
        "step": 20,
        "steps": 20,
        "best_accuracy": best["accuracy"],
        "best_step": best["step"],
        "accuracy": validations[-1]["accuracy"],
        "fault": None,
    }
    shown = succeed("runs", run.parent)
    assert "20/20" in shown and "finished" in shown and "parity, de-lncde, seed 0" in shown
    assert "\x1b" not in shown


def test_states_of_runs(copy: Callable[[str], Path]) -> None:
    early, cut, root = copy("early"), copy("cut"), copy("whole").parent
    (cut / "model.safetensors").unlink()
    config = (early / "config.toml").read_text()
    (early / "config.toml").write_text(config.replace("steps = 20\n", "steps = 30\n"))
    states = {name: row["state"] for name, row in listed(root).items()}
    assert states == {"early": "stopped early", "cut": "interrupted", "whole": "finished"}


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _cut_checkpoint(run: Path) -> None:
    (run / "model.safetensors").unlink()
    _cut(run / "checkpoints" / "step-00000020.safetensors")


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "config": (lambda run: (run / "config.toml").write_text("a ="), "config.toml is no TOML"),
    "table": (lambda run: (run / "config.toml").write_text(""), "no table [training]"),
    "setting": (
        lambda run: (run / "config.toml").write_text("[training]\nstep = 3"),
        "unknown setting 'step'",
    ),
    "metrics": (
        lambda run: (run / "metrics.jsonl").write_text("{}\n{}\n"),
        "metrics.jsonl, line 1 is no record",
    ),
    "record": (
        lambda run: (run / "metrics.jsonl").write_text('{"step": 1}\n'),
        "metrics.jsonl",
    ),
    "model": (lambda run: _cut(run / "model.safetensors"), "model.safetensors is damaged"),
    "checkpoint": (_cut_checkpoint, "step-00000020.safetensors is damaged"),
}


def test_damaged_runs_are_listed_with_the_reason_after_the_others(
    copy: Callable[[str], Path],
) -> None:
    root = copy("whole").parent
    for name, (damage, _) in DAMAGES.items():
        damage(copy(name))
    rows = listed(root)
    assert next(iter(rows)) == "whole" and rows["whole"]["state"] == "finished"
    shown = succeed("runs", root)
    for name, (_, reason) in DAMAGES.items():
        assert rows[name]["state"] == "damaged" and reason in rows[name]["fault"], name
        assert f"{name}: {rows[name]['fault']}" in shown


def test_a_root_without_runs(tmp_path: Path) -> None:
    assert "slicekit train" in succeed("runs", tmp_path)
    assert json.loads(succeed("runs", tmp_path, "--json")) == []
    assert "no folder" in refuse("runs", tmp_path / "nowhere")


def test_a_run_itself_may_be_the_root(finished_run: Path) -> None:
    assert str(finished_run) in invoke("runs", finished_run, columns=300).stdout


def test_plots_of_one_run_go_into_its_folder(copy: Callable[[str], Path]) -> None:
    pytest.importorskip("matplotlib")
    run = copy("a")
    picture = run / "plots" / "curves.png"
    assert picture.is_file(), "a finished run has its curves"
    picture.unlink()
    assert succeed("plot", run).strip() == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_plots_of_several_runs_go_where_they_are_asked_for(
    copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    one, other = copy("one"), copy("other")
    monkeypatch.chdir(tmp_path)
    assert succeed("plot", one, other).strip() == "curves.png"
    out = tmp_path / "new" / "both.png"
    assert "measure first" in refuse("plot", "--lengths", one, other, "--out", out)
    for run in (one, other):
        succeed("evaluate", run, "--lengths", "4,8", "--sequences", "2")
    assert succeed("plot", "--lengths", one, other, "--out", out).strip() == str(out)
    for picture in (tmp_path / "curves.png", out):
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_plotted_is_told(
    copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    run = copy("a")
    assert "ends in .png" in refuse("plot", run, "--out", tmp_path / "a.pdf")
    assert "no folder" in refuse("plot", tmp_path / "nowhere")
    (run / "evaluation.json").write_text('{"scores": 3}')
    assert "evaluation.json is damaged" in refuse("plot", "--lengths", run)
    (run / "metrics.jsonl").write_text("")
    assert "nothing to plot" in refuse("plot", run)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'slicekit[plot]'" in refuse("plot", copy("b"))


def test_what_a_folder_holds_is_shown_as_text(copy: Callable[[str], Path]) -> None:
    """Neither markup nor the characters that command a terminal; not in errors either."""
    run = copy("[red] a")
    config = run / "config.toml"
    text = config.read_text().replace('"parity"', '"[red]par[/]ity\\u001b]0;x\\u0007"')
    config.write_text(text)
    shown = succeed("runs", run.parent)
    assert "[red] a" in shown and "[red]par[/]ity?]0;x?" in shown
    line = refuse("evaluate", run)
    assert "[red]par[/]ity" in line and "\x1b" not in line and "\x07" not in line


@pytest.mark.parametrize("name", ["config.toml", "metrics.jsonl"])
def test_a_file_nested_too_deeply_is_a_damaged_one(name: str, copy: Callable[[str], Path]) -> None:
    run = copy("deep")
    (run / name).write_text(f"{'x = ' if name == 'config.toml' else ''}{'[' * 100_000}\n")
    row = listed(run.parent)["deep"]
    assert row["state"] == "damaged" and name in row["fault"]
    assert name in refuse("resume", run)
