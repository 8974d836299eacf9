"""`slicekit evaluate`: its figures, what it saves, and which model it takes."""

import json
import shutil
import sys
from pathlib import Path

import pytest

import slicekit
from slicekit import tasks
from slicekit.training import RunFolder, evaluate
from slicekit.training.checkpoints import read_checkpoint
from tests.cli.calls import TINY, refuse, succeed


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished run."""
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


def test_figures_are_those_of_the_saved_model(run: Path) -> None:
    found = json.loads(succeed("evaluate", run, "--lengths", "5:20", "--seed", "3", "--json"))
    assert found == json.loads((run / "evaluation.json").read_text())
    assert found["model"] == "model.safetensors" and found["task"] == "parity"
    model = slicekit.load(run / "model.safetensors")
    scores = evaluate(model, tasks.make("parity"), [5, 10, 20], seed=3)
    measured = [(x["length"], x["sequences"], x["overall"], x["last"]) for x in found["scores"]]
    assert measured == [(x.length, x.sequences, x.overall, x.last) for x in scores]


def test_the_table_has_a_line_for_each_length_and_the_plot_is_saved(run: Path) -> None:
    pytest.importorskip("matplotlib")
    shown = succeed("evaluate", run, "--lengths", "4,7", "--sequences", "9")
    lines = [line.split() for line in shown.splitlines()]
    assert [line[0] for line in lines if line and line[-1] == "9"] == ["4", "7"]
    assert "all positions" in shown and "last position" in shown and "\x1b" not in shown
    picture = run / "plots" / "length-generalisation.png"
    assert str(picture) in shown
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_no_picture_is_drawn_through_a_link(run: Path, tmp_path: Path) -> None:
    shutil.rmtree(run / "plots", ignore_errors=True)
    (tmp_path / "other").mkdir()
    (run / "plots").symlink_to(tmp_path / "other")
    assert "plots is a link to" in refuse("evaluate", run, "--lengths", "4")
    assert list((tmp_path / "other").iterdir()) == [] and not (run / "evaluation.json").exists()


def test_lengths_are_the_test_lengths_of_the_task_unless_given(run: Path) -> None:
    config = run / "config.toml"
    text = config.read_text().replace(
        "\n[training]", "\n[task_options]\ntest_lengths = [6, 24]\n\n[training]"
    )
    config.write_text(text)
    found = json.loads(succeed("evaluate", run, "--json", "--sequences", "2"))
    assert [score["length"] for score in found["scores"]] == [6, 12, 24]


def test_another_task_may_be_named(run: Path) -> None:
    few = ("--lengths", "5", "--sequences", "2")
    assert "even-pairs" in succeed("evaluate", run, "--task", "even-pairs", *few)
    assert "vocabulary" in refuse("evaluate", run, "--task", "a5", *few)
    (run / "config.toml").write_text("[training]\n")
    assert "names no task; give one: --task" in refuse("evaluate", run)
    assert "parity" in succeed("evaluate", run, "--task", "parity", *few)


def test_the_model_is_that_of_the_end_else_the_best_else_the_last_checkpoint(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # nothing to wait for
    few = ("--lengths", "5", "--sequences", "2", "--json")

    def used(*options: str) -> str:
        return json.loads(succeed("evaluate", run, *few, *options))["model"]

    assert used() == used("--checkpoint", "last") == "model.safetensors"
    assert used("--checkpoint", "best") == "best.safetensors"
    (run / "model.safetensors").unlink()
    assert used() == "best.safetensors"
    assert used("--checkpoint", "last") == "checkpoints/step-00000020.safetensors"
    (run / "best.safetensors").unlink()
    assert used() == "checkpoints/step-00000020.safetensors"
    assert "holds no model yet" in refuse("evaluate", run, "--checkpoint", "best")
    shutil.rmtree(run / "checkpoints")
    assert "holds no model yet" in refuse("evaluate", run)


def test_a_checkpoint_counts_with_its_averaged_weights(tmp_path: Path) -> None:
    run = tmp_path / "run"
    succeed("train", "parity", *TINY, "--average", "0.9", "--rate", "0.1", "--out", run)
    few = ("--lengths", "5:80", "--sequences", "64", "--json")
    whole = json.loads(succeed("evaluate", run, *few))
    (run / "model.safetensors").unlink()
    stored = json.loads(succeed("evaluate", run, *few, "--checkpoint", "last"))
    assert stored["scores"] == whole["scores"]
    newest = RunFolder(run).last_checkpoint()
    assert newest is not None and read_checkpoint(newest).part("average")


def test_a_diagnosis_is_printed_drawn_and_saved(run: Path) -> None:
    pytest.importorskip("matplotlib")
    shown = succeed("evaluate", run, "--lengths", "4,8", "--diagnose")
    assert "spectral radius" in shown
    assert (run / "plots" / "diagnosis.png").read_bytes().startswith(b"\x89PNG")
    saved = json.loads((run / "evaluation.json").read_text())
    assert [x["length"] for x in saved["diagnosis"]["readings"]] == [4, 8]
    assert saved["diagnosis"]["horizon"]["text"] in " ".join(shown.split())


def test_without_matplotlib_only_the_plot_is_missing(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    shown = succeed("evaluate", run, "--lengths", "4")
    assert "pip install 'slicekit[plot]'" in shown
    assert (run / "evaluation.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--lengths", "40:20"), "--lengths 40:20; expected 1 <= start <= end"),
        (("--lengths", "many"), "'many' is no length"),
        (("--sequences", "0"), "--sequences"),
        (("--checkpoint", "middle"), "middle"),
        (("--task", "partiy"), "did you mean 'parity'?"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], expected: str, finished_run: Path) -> None:
    line = refuse("evaluate", finished_run, *arguments)
    assert expected in line and line.endswith("See: slicekit evaluate --help")


def test_a_folder_without_a_run_is_bad_usage(tmp_path: Path) -> None:
    assert "no folder" in refuse("evaluate", tmp_path / "nowhere")
    assert "there is no config.toml" in refuse("evaluate", tmp_path)


def test_a_damaged_model_is_named_with_what_else_to_try(run: Path) -> None:
    model = run / "model.safetensors"
    model.write_bytes(model.read_bytes()[:1000])
    line = refuse("evaluate", run, "--lengths", "4", code=1)
    assert str(model) in line and "--checkpoint best" in line
    succeed("evaluate", run, "--lengths", "4", "--checkpoint", "best")
