"""`slicekit bench`: what it prints and writes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from slicekit import figures
from slicekit.bench import command, in_jax, mixers, report, scaling, structures, targets
from slicekit.bench import contenders as who
from slicekit.bench.contenders import CHUNKED, RECURRENT
from slicekit.bench.memory import Worker, memory_worker
from slicekit.bench.problems import Setting, Shape
from slicekit.bench.races import FLOOR, Entrant
from slicekit.bench.targets import Ratio, Target

pytest.importorskip("typer")

from typer.testing import CliRunner, Result

from slicekit.cli.app import app

SMALL = ["structures", "--quick", "--shapes", "2x5x16"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


def written(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """A process that imports all contenders: seconds, so that one serves all tests."""
    with memory_worker() as started:
        yield started


@pytest.fixture(autouse=True)
def _one_worker(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "memory_worker", lambda: nullcontext(worker))


def test_structures_have_a_row_each_and_json(tmp_path: Path) -> None:
    result = invoke(*SMALL, "--structures", "diagonal,dense", "--out", str(tmp_path), "--no-plots")
    assert result.exit_code == 0, result.output
    assert "batch 2, length 5, dim 16" in result.stdout
    assert "diagonal" in result.stdout and "dense, 16" in result.stdout
    found = written(tmp_path)
    assert [x["structure"] for x in found["structures"]] == ["diagonal", "dense"]
    assert found["machine"]["torch"] == torch.__version__
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sections, at sizes of a test."""
    setting = Setting("diagonal", Shape(2, 5, 16))
    ratio = Ratio(Target("chunked / floor", 2), Entrant(setting, CHUNKED), Entrant(setting, FLOOR))
    monkeypatch.setattr(targets, "RACES", ((ratio,),))
    for name in ("exponential_lines", "step_lines", "memory_lines"):
        monkeypatch.setattr(targets, name, lambda *_: iter(()))
    lengths = (8, 16, 32)
    for module in (scaling, targets, command):
        monkeypatch.setattr(module, "LENGTHS", lengths)
    monkeypatch.setattr(targets, "BASE", 16)
    for module in (scaling, command):
        monkeypatch.setattr(module, "DIMS", (4, 8))
    for name, sizes in {"WIDTHS": (16,), "LENGTHS": (4,), "TOKENS": 4}.items():
        monkeypatch.setattr(mixers, name, sizes)
    monkeypatch.setattr(in_jax, "PROBLEMS", {})


@pytest.mark.usefixtures("tiny")
def test_everything_is_printed_written_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    choice = ["--quick", "--structures", "diagonal", "--shapes", "2x5x16", "--mixers", "s5"]
    result = invoke(*choice, "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    for expected in (
        "chunked / floor",
        "scaling over length",
        "not measured here",
        "structures at",
        "mixers, forward and backward",
    ):
        assert expected in result.stdout
    names = {"results.json", "targets.png", "structures.png", "length.png", "dim.png"}
    assert {path.name for path in tmp_path.iterdir()} == names
    found = written(tmp_path)
    assert found["scaling"]["length"][CHUNKED]["processor"].keys() == {"8", "16", "32"}
    assert {x["verdict"] for x in found["targets"]} <= {"met", "short", "not measured"}


def test_without_matplotlib_it_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "available", lambda: False)
    result = invoke(*SMALL, "--structures", "diagonal", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "pip install 'slicekit[plot]'" in result.stdout
    assert written(tmp_path)["structures"]


def test_without_torch_slices_its_column_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(who, "peer_installed", lambda: False)
    names = "diagonal,walsh-hadamard"
    shown = invoke(*SMALL, "--structures", names, "--out", str(tmp_path), "--no-plots").stdout
    diagonal, hadamard = (x for x in shown.splitlines() if x.startswith(tuple(names.split(","))))
    assert "not installed" in diagonal and "not installed" not in hadamard


def test_contenders_over_the_limit_show_the_run_of_their_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = command.Effort(1, 1, 1.0, limit=0.0, quick=True)
    monkeypatch.setattr(command, "QUICK_TABLE", slow)
    shown = invoke(*SMALL, "--structures", "diagonal", "--out", str(tmp_path), "--no-plots").stdout
    assert "(one run)" in shown
    assert RECURRENT in written(tmp_path)["structures"][0]["skipped"]


def test_wrong_results_are_a_fault_that_spoils_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = structures.check

    def check(setting: Setting, *arguments: object, **more: object) -> object:
        if setting.structure == "diagonal":
            raise ArithmeticError("diagonal is wrong")
        return right(setting, *arguments, **more)  # type: ignore

    monkeypatch.setattr(structures, "check", check)
    names = "diagonal,walsh-hadamard"
    result = invoke(*SMALL, "--structures", names, "--out", str(tmp_path), "--no-plots")
    assert result.exit_code == 1
    assert "WRONG: diagonal is wrong" in result.stdout
    found = written(tmp_path)
    assert found["faults"] == ["diagonal is wrong"]
    assert [x["structure"] for x in found["structures"]] == ["walsh-hadamard"]


def test_an_interruption_leaves_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = structures.measure

    def measure(name: str, *arguments: object) -> object:
        if name == "dense":
            raise KeyboardInterrupt
        return right(name, *arguments)  # type: ignore

    monkeypatch.setattr(structures, "measure", measure)
    names = ("diagonal", "dense")
    sizes = (Shape(2, 5, 16),)
    choice = command.Choice(True, ("structures",), names, sizes, tmp_path, pictures=False)
    with pytest.raises(KeyboardInterrupt):
        command.run(choice)
    assert [x["structure"] for x in written(tmp_path)["structures"]] == ["diagonal"]


def test_json_that_can_not_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    report.write_json(path, {"seconds": 1})
    with pytest.raises(TypeError):
        report.write_json(path, {"seconds": object()})
    assert json.loads(path.read_text()) == {"seconds": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "options",
    [
        ["--shapes", "2x5"],
        ["--structures", "cubic"],
        ["--mixers", "mamba9"],
        ["everything"],
        ["--rounds", "3"],
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(options: list[str]) -> None:
    result = invoke(*options)
    assert result.exit_code == 2
    assert result.stdout == "" and len(result.stderr.splitlines()) == 1


def test_the_command_line_imports_the_benchmark_when_it_is_asked_for() -> None:
    code = "import sys, slicekit.cli.app; print('slicekit.bench' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout == "False\n", found.stderr


def test_the_table_of_jax_has_contenders_that_compute_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_jax.missing():
        pytest.skip(f"needs {', '.join(in_jax.missing())}")
    monkeypatch.setattr(in_jax, "PROBLEMS", {"EigenWorms": in_jax.PROBLEMS["EigenWorms"]})
    result = invoke("jax", "--quick", "--out", str(tmp_path), "--no-plots")
    assert result.exit_code == 0, result.output
    assert "authors, chunks of 128" in result.stdout
    rows = written(tmp_path)["jax"]
    assert {row["contender"] for row in rows} >= {in_jax.OURS, "JAX, lax.scan", "torch"}
    assert all(row["processor"] > 0 for row in rows)
