"""The benchmark measures what it says; how fast anything is, is not tested."""

import json
import math
from pathlib import Path

import pytest
import torch

import slicekit as sk
from benchmarks import contenders as who
from benchmarks import scans
from benchmarks.contenders import CHUNKED, NAMES, PEER_PARALLEL, RECURRENT, TOKENS
from benchmarks.floors import products
from benchmarks.problems import CASES, Problem, Shape
from benchmarks.timing import least, threads

TINY = Shape(2, 5, 32)
ONCE = scans.Effort(1, 1, math.inf)


@pytest.mark.parametrize("structure", CASES)
def test_all_contenders_agree_and_are_timed(structure: str) -> None:
    found = scans.measure(structure, TINY, ONCE)
    expected = (
        set(NAMES) if who.torch_slices and CASES[structure].peer else set(NAMES[:2]) | {TOKENS}
    )
    assert set(found.errors) == expected
    assert max(found.errors.values()) < 1e-4
    assert set(found.processor) == set(found.wall) == expected | {scans.FLOOR}
    assert not found.skipped


def test_a_wrong_contender_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = who.tokens_contender

    def wrong(problem: Problem) -> who.Contender:
        honest = right(problem)
        return who.Contender(lambda: tuple(1.1 * x for x in honest.run()), honest.common)

    monkeypatch.setattr(who, "tokens_contender", wrong)
    with pytest.raises(ArithmeticError, match=TOKENS):
        scans.measure("diagonal", TINY, ONCE)


def test_nan_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    nan = {CHUNKED: math.nan}
    monkeypatch.setattr(scans, "check", lambda everyone, expected_from: (dict(nan), dict(nan)))
    with pytest.raises(ArithmeticError, match="nan"):
        scans.measure("diagonal", TINY, ONCE)


@pytest.mark.parametrize("structure", CASES)
def test_the_floor_has_a_column_for_every_trained_number_of_a_channel(structure: str) -> None:
    problem = Problem.of(CASES[structure], TINY)
    columns = problem.case.columns(problem.shape.dim)
    count = problem.structure.parameter_count(problem.channels) / problem.channels
    if isinstance(problem.structure, sk.DPLR):
        count -= 2 * problem.structure.rank * problem.shape.dim
    if isinstance(problem.structure, sk.Sparse):
        count = problem.shape.dim**2
    assert columns == count


@pytest.mark.parametrize("structure", CASES)
def test_the_floor_multiplies_what_it_says(structure: str) -> None:
    problem = Problem.of(CASES[structure], TINY)
    own = products(problem)
    steps, dim = TINY.batch * TINY.length, problem.shape.dim
    bilinear = steps * problem.channels * problem.case.columns(dim)
    shared = steps * dim * problem.channels * 4
    work = [p.left.shape[0] * p.left.shape[1] * p.right.shape[1] for p in own]
    assert work == [bilinear] * 3 + ([shared] * 6 if structure == "dplr-4" else [])
    for product in own:
        product.run()
        torch.testing.assert_close(product.out, product.left @ product.right)


@pytest.mark.parametrize("structure", CASES)
def test_states_stay_finite_at_length_4096(structure: str) -> None:
    problem = Problem.of(CASES[structure], Shape(1, 4096, 32))
    start = problem.initial_state.expand(1, -1)
    states, _ = sk.solve(problem.structure, problem.parameters, problem.increments, start)
    assert states.isfinite().all()
    assert states.abs().max() < 1e6


def test_contenders_over_the_limit_show_the_run_of_their_check(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = scans.measure("diagonal", TINY, scans.Effort(1, 1, 0.0))
    assert RECURRENT in found.skipped and RECURRENT not in found.processor
    scans.print_row(found)
    assert "(one run)" in capsys.readouterr().out


def test_without_torch_slices_its_columns_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(who, "torch_slices", None)
    for structure in ("diagonal", "walsh-hadamard"):
        found = scans.measure(structure, TINY, ONCE)
        assert PEER_PARALLEL not in found.processor
        scans.print_row(found)
    diagonal, hadamard = capsys.readouterr().out.splitlines()
    assert diagonal.count("not installed") == 2 and "not installed" not in hadamard


def test_main_prints_a_row_for_each_structure_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "found.json"
    options = ["--quick", "--shapes", "2x5x16", "--structures", "diagonal", "dense"]
    scans.main([*options, "--json", str(path)])
    printed = capsys.readouterr().out
    assert "batch 2, length 5, dim 16" in printed
    rows = [line.split()[0] for line in printed.splitlines() if line]
    assert "diagonal" in rows and "dense" in rows
    written = json.loads(path.read_text())
    assert [x["structure"] for x in written["measurements"]] == ["diagonal", "dense"]
    assert written["machine"]["torch"] == torch.__version__


@pytest.mark.parametrize("options", [["--shapes", "2x5"], ["--structures", "cubic"]])
def test_bad_options_are_refused(options: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        scans.main(options)
    assert exit_info.value.code == 2


def test_the_least_of_the_rounds_counts_and_contenders_take_turns() -> None:
    calls: list[str] = []
    ticks = iter([0, 5, 5, 9, 9, 12])
    runs = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    assert least(runs, {"a": 2, "b": 1}, lambda: next(ticks)) == {"a": 3, "b": 4}
    assert calls == ["a", "b", "a"]


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
