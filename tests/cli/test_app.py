"""The command line: what it prints, and how it fails."""

import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import slicekit
import slicekit.structures
from slicekit import native
from slicekit.cli import main
from slicekit.native.library import INTERFACE
from slicekit.structures import DirectSum, Structure

pytest.importorskip("typer")

from typer.testing import CliRunner, Result

from slicekit.cli import doctor
from slicekit.cli.app import app
from slicekit.cli.structures import LISTED, Sizes

ROOT = Path(__file__).parents[2]


def invoke(*arguments: str, columns: int = 80) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})


def table(*arguments: str) -> dict[str, dict]:
    """The rows of `slicekit structures --json` by structure."""
    result = invoke("structures", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return {row["structure"]: row for row in json.loads(result.stdout)["structures"]}


def test_every_structure_has_a_row() -> None:
    public = {getattr(slicekit.structures, name) for name in slicekit.structures.__all__}
    kinds = {x for x in public if isinstance(x, type) and issubclass(x, Structure)}
    assert kinds - {Structure, DirectSum} == set(LISTED)
    assert set(table()) == {kind.__name__ for kind in LISTED}


def test_counts_are_those_of_the_tensors_that_init_makes() -> None:
    rows = table("--dim", "16", "--channels", "5", "--block", "4", "--rank", "2")
    sizes = Sizes(16, 5, 4, 2, 0.1, None, 1024)
    for kind, make in LISTED.items():
        if kind is not slicekit.Sparse:
            tensors = make(sizes).init(5).values()
            count = sum(x.numel() for x in tensors if x.is_floating_point())
            assert rows[kind.__name__]["parameters"]["count"] == count
    assert rows["Sparse"]["parameters"]["count"] == round(0.1 * 5 * 16**2)


def test_costs_of_known_structures() -> None:
    rows = table("--dim", "8", "--channels", "3", "--block", "2", "--length", "1000")
    assert rows["Dense"]["parallel"] == {"depth": 10, "formula": "dh³", "multiplications": 8**3}
    assert rows["BlockDiagonal"]["parallel"]["multiplications"] == 4 * 2**3
    assert rows["Diagonal"]["parallel"]["multiplications"] == 8
    assert rows["Diagonal"]["recurrent"]["multiplications"] == 3 * 8 + 8


def test_windows_take_the_brackets_of_the_matrices() -> None:
    sizes = ("--dim", "8", "--channels", "3", "--block", "2", "--rank", "2", "--length", "1000")
    rows = table(*sizes, "--window", "11", "--depth", "2")
    dense = {"channels": 6, "inside": True, "steps": 91, "composition": 8**3}
    assert rows["Dense"]["log"] == dense | {"recurrent": slicekit.Dense(8).step_cost(6)}
    assert rows["DPLR"]["log"] == rows["Dense"]["log"] | {"inside": False}
    blocks = slicekit.BlockDiagonal(8, 2)
    assert rows["BlockDiagonal"]["log"]["recurrent"] == blocks.step_cost(6)
    assert rows["Diagonal"]["log"]["channels"] == 3, "brackets of numbers vanish"
    assert rows["Householder"]["log"] is None, "not linear in its increments"
    shown = invoke("structures", *sizes, "--window", "11").stdout
    assert "Log-BD-SLiCE" in shown and "91 steps" in shown and "Log-Householder" not in shown


def test_the_table_of_the_readme_is_that_of_the_facts() -> None:
    shown = invoke("structures", "--markdown").stdout.strip()
    assert shown in (ROOT / "README.md").read_text()
    for kind in LISTED:
        assert f"| `{kind.__name__}` |" in shown and kind.facts.theorem in shown


def test_counting_allocates_nothing() -> None:
    rows = table("--dim", "65536", "--channels", "65537")
    assert rows["Dense"]["parameters"]["count"] == 65537 * 65536**2


def test_a_size_that_does_not_fit_keeps_its_row_with_the_reason() -> None:
    rows = table("--dim", "100", "--block", "3", "--rank", "200")
    assert "power of two" in rows["WalshHadamard"]["reason"]
    assert "does not divide" in rows["BlockDiagonal"]["reason"]
    assert "rank=200" in rows["DPLR"]["reason"]
    assert rows["WalshHadamard"]["parameters"]["count"] is None
    assert rows["Dense"]["reason"] is None and rows["Dense"]["parameters"]["count"] == 33 * 100**2
    shown = invoke("structures", "--dim", "100", columns=200).stdout
    assert "dim=100 is no power of two; choose 64 or 128" in shown


def test_epsilon_says_how_many_entries_are_kept() -> None:
    kept = table("--dim", "16", "--channels", "3", "--epsilon", "0.5")["Sparse"]["parameters"]
    assert kept["count"] == 3 * 16**1.5


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_nothing_is_cut(columns: int) -> None:
    result = invoke("structures", "--dim", "4096", "--channels", "4097", columns=columns)
    assert result.exit_code == 0
    assert "…" not in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= max(columns, 80)
    for kind in LISTED:
        assert kind.__name__ in result.stdout
        assert kind.facts.model.split()[-1] in result.stdout


def test_doctor_names_versions_scans_and_extras() -> None:
    result = invoke("doctor")
    assert result.exit_code == 0
    for expected in (
        slicekit.__version__,
        importlib.metadata.version("torch"),
        "CUDA",
        "Recurrent    available",
        "Associative  available",
        "Chunked      available",
        "C++ kernels",
    ):
        assert expected in result.stdout


@pytest.mark.skipif(not native.available(), reason=f"no native library: {native.reason()}")
def test_doctor_describes_the_kernels() -> None:
    library = native.library()
    assert library is not None
    shown = invoke("doctor").stdout
    for expected in (
        "active       yes",
        f"interface    {INTERFACE}",
        f"instructions {library.isa}",
        "their own" if library.threads else "built without more",
        "Native       available",
    ):
        assert expected in shown


def test_doctor_says_what_jax_has() -> None:
    pytest.importorskip("equinox")
    import jax

    from slicekit.jax import native as kernels

    shown = invoke("doctor").stdout
    assert f"active       yes: jax {jax.__version__}" in shown and "devices      cpu" in shown
    state = f"no: {kernels.reason()}" if kernels.reason() else "yes, by XLA's foreign function"
    assert f"C++ kernels  {state}" in shown


def test_doctor_says_why_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda: None)
    monkeypatch.setattr(native, "available", lambda: False)
    monkeypatch.setattr(native, "reason", lambda: "it is a Sunday")
    shown = invoke("doctor").stdout
    assert "active       no: it is a Sunday" in shown
    assert "Native       not available: the C++ kernels are not active" in shown


def test_doctor_says_how_to_install_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.EXTRAS, "imaginary", ("typer", "no-such-distribution"))
    lines = invoke("doctor").stdout.splitlines()
    (line,) = [line for line in lines if "[imaginary]" in line.split()[:1]]
    assert "missing: no-such-distribution; pip install 'slicekit[imaginary]'" in line
    assert "installed: typer" in line


def test_doctor_knows_the_extras_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = {
        name: tuple(need.split(">")[0] for need in needs)
        for name, needs in extras.items()
        if name not in ("all", "dev", "distributed")
    }
    assert named == doctor.EXTRAS


def test_version_and_help() -> None:
    assert invoke("--version").stdout == f"slicekit {slicekit.__version__}\n"
    for arguments in ([], ["--help"]):
        result = invoke(*arguments)
        assert result.exit_code == 0
        assert "slicekit structures --dim 256 --block 8" in result.stdout
    assert "slicekit structures --json > structures.json" in invoke("structures", "--help").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["--no-such-option"],
        ["structures", "--dim", "wide"],
        ["structures", "--dim", "0"],
        ["structures", "--density", "0.1", "--epsilon", "0.5"],
        ["doctor", "me"],
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("slicekit") and "--help" in result.stderr


@pytest.mark.parametrize("missing", [["typer"], ["rich"], ["typer", "rich"]])
def test_without_the_extra_main_names_it(
    missing: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install 'slicekit[cli]'" in line and all(name in line for name in missing)


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT / "src",
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT / "src")},
    )


def test_main_runs_the_command_line_of_the_process() -> None:
    found = run_python("from slicekit.cli import main; main()", "structures", "--dim", "8")
    assert found.returncode == 0, found.stderr
    assert "BD-SLiCE" in found.stdout


def test_importing_slicekit_imports_no_extra() -> None:
    code = "import sys, slicekit, slicekit.cli; print(*sys.modules)"
    imported = run_python(code).stdout.split()
    assert "slicekit.cli" in imported
    assert not {"typer", "rich", "matplotlib", "sklearn", "slices"} & set(imported)
