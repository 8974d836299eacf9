"""The command `slicekit study`."""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("typer")

import typer
from typer.testing import CliRunner, Result

from slicekit.cli.errors import OneLineErrors
from slicekit.cli.study import study_command
from slicekit.studies import STUDIES, Choice, make
from slicekit.studies.one_run import write
from tests.studies.outcomes import made_up

app = typer.Typer(cls=OneLineErrors, rich_markup_mode=None)
app.command("study")(study_command)
app.command("other")(lambda: None)  # with one command only, typer leaves its name out


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["study", *arguments], env={"COLUMNS": "100"})


def test_without_a_name_the_studies_are_listed() -> None:
    result = invoke()
    assert result.exit_code == 0
    assert all(name in result.stdout for name in STUDIES)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["languges"], "did you mean 'languages'?"),
        (["languages", "--models", "projective"], "unknown model 'projective'"),
        (["languages", "--seeds", "0,one"], "--seeds 0,one; expected integers as in 0,1,2"),
        (["a5-layers", "--lengths", "5:3"], "5:3"),
        (["languages", "--steps", "0"], "--steps"),
        (["languages", "--quick", "--record", "."], "a quick look is no result to record"),
        (["paper", "--models", "bd-slice"], "paper: --models bd-slice, but it takes all of every"),
        (["languages", "--budget", "8 hours"], "budget='8 hours'; expected hours, minutes"),
        (["languages", "--engine", "slrum"], "unknown engine 'slrum', did you mean 'slurm'?"),
        (["languages", "--address", "10.0.0.1:1"], "but engine local has none"),
        (["languages", "--engine", "ray", "--option", "gpus"], "--option gpus; expected NAME="),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    arguments: list[str], expected: str, tmp_path: Path
) -> None:
    result = invoke(*arguments, "--out", str(tmp_path / "study"))
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1 and expected in result.stderr


@pytest.mark.skipif(find_spec("aeon") is None, reason="needs the sets that ship with aeon")
def test_aeon_stands_for_the_sets_that_ship_with_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["uea", "--parts", "default", "--models", "slice-classifier", "--seeds", "0"]
    result = invoke(*arguments, "--data", "aeon", "--sets", "Covid3Month")
    assert result.exit_code == 2 and "Covid3Month asks for numbers" in result.stderr
    result = invoke(*arguments, "--data", "aeon", "--sets", "UnitTest", "--quick")
    assert result.exit_code == 0 and "UnitTest" in result.stdout
    (tmp_path / "aeon").mkdir()
    result = invoke(*arguments, "--data", "aeon")
    assert result.exit_code == 2 and "no data set with classes" in result.stderr


def test_finished_runs_are_shown_beside_the_paper(tmp_path: Path) -> None:
    choice = Choice(models=("bd-slice",), seeds=(0,), lengths=(3,))
    (plan,) = make("a5-layers").wanted(choice, {})
    folder = tmp_path / "runs" / plan.name
    folder.mkdir(parents=True)
    write(made_up(plan, best=0.95), folder)
    arguments = ["a5-layers", "--models", "bd-slice", "--lengths", "3", "--out", str(tmp_path)]
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    for expected in (f"{plan.name}: ", "95.00% in validation", "(kept)", "1 at every length"):
        assert expected in result.stdout
    assert "results.json, results.md" in result.stdout
    short = invoke(*arguments, "--seeds", "0,1", "--budget", "0s")
    assert short.exit_code == 0
    assert "1 of 2 runs are done, 0 stopped on the way, 1 not begun" in short.stdout
    assert "the same command again goes on from here" in short.stdout
    kept = invoke(*arguments, "--budget", "0s", "--record", str(tmp_path / "results"))
    assert kept.exit_code == 0 and "a5-layers.json: 1 runs" in kept.stdout
    assert f"| {plan.name} |" in (tmp_path / "results" / "a5-layers.md").read_text()

    (folder / "evaluation.json").write_text("{")
    failed = invoke(*arguments)
    assert failed.exit_code == 1
    assert f"{plan.name} failed: " in failed.stdout and "damaged" in failed.stdout


def test_a_quick_look_has_a_folder_of_its_own_and_says_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["a5-layers", "--models", "bd-slice", "--lengths", "3"]
    for quick, place in ((False, "a5-layers"), (True, "a5-layers-quick")):
        choice = Choice(models=("bd-slice",), seeds=(0,), lengths=(3,), quick=quick)
        (plan,) = make("a5-layers").wanted(choice, {})
        folder = Path("studies") / place / "runs" / plan.name
        folder.mkdir(parents=True)
        write(made_up(plan, best=0.95), folder)
        result = invoke(*arguments, *(["--quick"] if quick else []))
        assert result.exit_code == 0, result.output
        assert f"written to {Path('studies') / place}: " in result.stdout
        assert ("Quick look, no result: Layers needed" in result.stdout) == quick
        lines = [line.replace("|", " ").split()[:4] for line in result.stdout.splitlines()]
        assert ["bd-slice", "0", f"{plan.settings.steps:,}", "1"] in lines
        assert "100,000" in result.stdout, "the paper's steps, beside ours"
    failed = invoke(*arguments, "--out", "studies/a5-layers-quick")
    assert failed.exit_code == 2
    assert "holds a quick look at a5-layers; expected the study a5-layers" in failed.stderr


def test_results_that_are_there_survive_a_study_that_fails(tmp_path: Path) -> None:
    choice = Choice(models=("bd-slice",), seeds=(0,), lengths=(3,))
    (plan,) = make("a5-layers").wanted(choice, {})
    folder = tmp_path / "runs" / plan.name
    folder.mkdir(parents=True)
    write(made_up(plan, best=0.95), folder)
    arguments = ["a5-layers", "--models", "bd-slice", "--lengths", "3", "--out", str(tmp_path)]
    assert invoke(*arguments).exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    failed = invoke(*arguments, "--steps", "7")
    assert failed.exit_code == 1 and "are left as they were" in failed.stdout
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
