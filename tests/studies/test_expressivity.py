"""The theorems as measurements: what is counted, fitted and constructed, against what is known."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch

from slicekit.paths import signature
from slicekit.studies import Choice, Plan, loop_fits, make
from slicekit.studies.drawn_structures import NAMES, made
from slicekit.studies.expressivity import LOOPED, THEOREMS, of_part
from slicekit.studies.group_actions import ACTIONS, matrices, reflections, skew_logarithm
from slicekit.studies.one_run import finished, perform
from slicekit.studies.path_fits import drawn_paths, errors_of, functionals
from slicekit.studies.real_representations import acts_faithfully, irreducible
from slicekit.studies.word_ranks import invisible
from slicekit.tasks.groups import cyclic, named_group, product, symmetric


def plan(part: str, model: str, **options: object) -> Plan:
    (own,) = (
        x
        for x in make("expressivity").wanted(Choice(models=(model,), quick=True), {})
        if x.name.startswith(part)
    )
    return replace(own, options=own.options | options)


def test_every_structure_has_its_parts_and_an_unknown_one_is_refused() -> None:
    plans = make("expressivity").wanted(Choice(), {})
    assert len({x.name for x in plans}) == len(plans) == 2 * len(NAMES) + len(LOOPED) + len(ACTIONS)
    assert THEOREMS.keys() == set(NAMES)
    assert all(len(x.options["draws"]) >= 5 for x in plans if "draws" in x.options)
    first, other = (
        make("expressivity").wanted(Choice(seeds=(seed,)), {})[0].options["draws"]
        for seed in (0, 3)
    )
    assert not set(first) & set(other), "another seed draws other matrices"
    with pytest.raises(ValueError, match="did you mean 'block-4'"):
        make("expressivity").wanted(Choice(models=("blok-4",)), {})


@pytest.mark.parametrize(("model", "rank"), [("diagonal", 15), ("dense", 31), ("log-block-4", 31)])
def test_diagonal_words_are_monomials_and_others_are_all_different(
    model: str, rank: int, tmp_path: Path
) -> None:
    """Of words up to length four over two letters: 1 + 2 + 3 + 4 + 5, and 1 + 2 + 4 + 8 + 16."""
    asked = plan("words", model)
    outcome = perform(asked, tmp_path)
    assert outcome.measured["dims"]["32"]["ranks"] == [rank, rank]
    assert finished(asked, tmp_path) == outcome


@pytest.mark.parametrize(
    ("model", "letters"),
    [("diagonal", 2), ("block-2", 4), ("block-4", 8), ("orthogonal-4", 6), ("dense", None)],
)
def test_alternating_sums_vanish_as_amitsur_and_levitzki_say(
    model: str, letters: int | None
) -> None:
    """2b letters for matrices of b x b, 2b - 2 for skew-symmetric ones (Kostant)."""
    assert invisible(made(model, 16), seed=0) == letters


def test_an_area_is_what_a_diagonal_state_does_not_know(tmp_path: Path) -> None:
    found = {}
    for model in ("diagonal", "walsh-hadamard", "log-dplr-4"):
        asked = plan("read-outs", model, paths=200)
        found[model] = perform(asked, tmp_path / model).measured["dims"]["16"]
    assert min(found["diagonal"]["area"]) > 0.9
    assert max(found["walsh-hadamard"]["area"]) < 0.3
    assert max(found["log-dplr-4"]["area"]) < 0.5


def test_functionals_are_those_of_the_path() -> None:
    increments = drawn_paths(6, 10)
    x, y = increments[..., 1], increments[..., 2]
    before = increments.cumsum(1) - increments
    area = ((before[..., 1] * y - before[..., 2] * x).sum(1)) / 2
    ends = x.sum(1) * y.sum(1)
    expected = torch.stack([ends, area, area.square()], 1)
    expected = (expected - expected.mean(0)) / expected.std(0)
    torch.testing.assert_close(functionals(increments)[:, [0, 1, 3]], expected)


def test_the_alternating_integral_is_the_pfaffian_of_the_areas() -> None:
    increments = loop_fits.drawn_loops(5, 8)
    fourth = signature(increments, 4)[:, 4 + 16 + 64 :].unflatten(1, (4,) * 4)
    expected = torch.zeros(5, dtype=torch.float64)
    for word in permutations(range(4)):
        sign = torch.linalg.det(torch.eye(4)[list(word)]).round()
        expected += sign * fourth[(slice(None), *word)]
    expected = (expected - expected.mean()) / expected.std()
    torch.testing.assert_close(loop_fits.functionals(increments)[:, 2], expected)


def test_blocks_of_two_do_not_see_the_alternating_integral(tmp_path: Path) -> None:
    found = {}
    for model in ("block-2", "block-4"):
        asked = plan("loops", model, dims=[256], draws=[0], paths=500)
        found[model] = perform(asked, tmp_path / model).measured["dims"]["256"]
    assert found["block-2"]["one area"][0] < 0.05 and found["block-2"]["alternating"][0] > 0.7
    assert found["block-4"]["alternating"][0] < 0.5


def test_a_read_out_finds_what_is_linear_in_the_state() -> None:
    states = torch.randn(120, 5, dtype=torch.float64)
    targets = torch.stack([states @ torch.arange(5.0).double(), torch.randn(120).double()], 1)
    linear, noise = errors_of(states, targets, fitted=80)
    assert linear < 1e-6 and noise > 0.5


def test_irreducible_representations_are_those_of_the_books() -> None:
    dims = {name: [x.dim for x in irreducible(named_group(name))] for name in ("s5", "a4xz5")}
    assert dims == {"s5": [1, 1, 4, 4, 5, 5, 6], "a4xz5": [1, 2, 2, 2, 2, 2, 2, 2, 3, 6, 6]}


SMALLEST = {
    "dense": {"a5": 3, "s5": 4, "a4xz5": 5, "z60": 2},
    "block-4": {"a5": 4, "s5": 4, "a4xz5": 8, "z60": 4},
    "block-2": {"a5": None, "z60": 2},
    "diagonal": {"a5": None, "z60": None},
    "orthogonal-4": {"s5": None, "a5": 4},
    "orthogonal-8": {"s5": 8},
    "dplr-4": {"s5": 4, "a4xz5": 5},
    "householder": {"a5": 3, "s5": 4},
    "sparse": {"a5": 5, "z60": 12},
    "row-normalised": {"a4xz5": 10},
    "diagonal-dense": {"a5": 4},
}


@pytest.mark.parametrize("model", SMALLEST)
def test_groups_act_where_their_representations_fit(model: str, tmp_path: Path) -> None:
    """`perform` multiplies every example out against the group's table."""
    asked = plan("groups", model, groups=list(SMALLEST[model]))
    found = perform(asked, tmp_path).measured
    assert {name: x["dim"] for name, x in found.items()} == SMALLEST[model]


def test_diagonal_matrices_are_enough_for_signs() -> None:
    signs = product(cyclic(2), cyclic(2))
    example = ACTIONS["diagonal"](signs)
    assert example is not None and example[0].dim == 2
    assert acts_faithfully(signs, matrices(*example, signs.order))


def test_an_action_that_is_none_is_noticed() -> None:
    group = symmetric(3)
    example = ACTIONS["dense"](group)
    assert example is not None
    found = matrices(*example, group.order)
    assert acts_faithfully(group, found)
    assert not acts_faithfully(group, found.roll(1, 0)), "elements are mixed up"
    assert not acts_faithfully(group, torch.eye(2).double().expand(6, 2, 2)), "not faithful"


def test_rotations_have_logarithms_and_reflections() -> None:
    source = torch.Generator().manual_seed(0)
    turned = torch.linalg.qr(torch.randn(4, 4, generator=source).double()).Q
    half_turn = turned @ torch.diag(torch.tensor([-1.0, -1.0, 1.0, 1.0]).double()) @ turned.mT
    for r in (half_turn, turned @ turned):
        torch.testing.assert_close(torch.matrix_exp(skew_logarithm(r[None])[0]), r)
        remade = torch.eye(4, dtype=torch.float64)
        for v in reflections(r):
            remade = remade - 2 * torch.outer(v, v @ remade)
        torch.testing.assert_close(remade, r)


def test_tables_and_picture_are_made_of_what_is_there(tmp_path: Path) -> None:
    study, outcomes = make("expressivity"), []
    assert study.tables(Choice(), [])
    for model in ("block-4", "diagonal"):
        for asked in study.wanted(Choice(models=(model,), quick=True), {}):
            small = {"paths": 30} if "paths" in asked.options else {}
            asked = replace(asked, options=asked.options | small)
            outcomes.append(perform(asked, tmp_path / asked.name))
    assert [x.plan.model for x in of_part("words", outcomes)] == ["diagonal", "block-4"]
    ranks, *_, groups = study.tables(Choice(), outcomes)
    assert ranks.rows[0][:4] == ("diagonal", "15", "15", "2")
    assert groups.rows == (("diagonal", "at no dim"), ("block-4", "4"))
    pytest.importorskip("matplotlib")
    study.plot(Choice(), outcomes, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
