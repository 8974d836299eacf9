"""Which scan is taken, why not the others, and how to add one, or a structure, from outside."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import slicekit as sk
from slicekit.choices import Choice, explain
from slicekit.estimators.pools.filters import FilterPool
from slicekit.mixers import S6
from slicekit.mixers.convolution import short_convolution
from slicekit.native import available
from slicekit.native.kernel import Kind
from slicekit.scans import Recurrence, Recurrent, Scan, Solution, choice, lowering
from slicekit.scans.lowering import Part, lower, lowers
from slicekit.structures import DiagonalTransition, Structure
from slicekit.structures.block_diagonal import Blocks
from slicekit.structures.exponential import matrix_exponential
from tests.market import CHANNELS, STRUCTURES, make_parameters

needs_kernels = pytest.mark.skipif(not available(), reason="no native library")


@dataclass(frozen=True)
class Renamed(Blocks):
    """A stranger's structure: blocks under another name, with entries twice as large."""

    def init(self, channels: int, generator: torch.Generator | None = None, **rest: float) -> dict:
        return {"matrices": super().init(channels, generator, **rest)["blocks"]}

    def combine(self, parameters: dict[str, Tensor], increments: Tensor):
        return super().combine({"blocks": parameters["matrices"]}, increments)

    def euler(self, parameters: dict[str, Tensor], increments: Tensor):
        return super().euler({"blocks": parameters["matrices"]}, increments)

    @property
    def bilinear(self) -> bool:
        return False


@dataclass(frozen=True)
class Twice(Scan):
    """A stranger's backend: the plain loop, for vectors of four numbers."""

    def obstacle(self, recurrence: Recurrence) -> str | None:
        return None if recurrence.source.dim == 4 else "takes four rows"

    def run(self, recurrence: Recurrence) -> Solution:
        found = Recurrent().run(recurrence)
        return Solution(found.outputs * 2, found.last)


def problem(structure: Structure) -> tuple:
    return structure, structure.init(3), torch.randn(2, 5, 3) / 4, torch.randn(2, structure.dim)


@pytest.fixture
def no_rules_left() -> Iterator[None]:
    before = dict(lowering._rules)
    yield
    lowering._rules.clear()
    lowering._rules.update(before)
    lowering.generation += 1


@needs_kernels
def test_a_strangers_structure_runs_on_kernels_once_it_says_what_it_is(
    no_rules_left: None,
) -> None:
    given = problem(Renamed(4, 2))
    before = explain(sk.solve, *given)
    assert before.choices[0].others == (("Native()", "there is no kernel for Renamed"),)
    slow, _ = sk.solve(*given)

    @lowers(Renamed)
    def _(structure: Renamed, exponential: bool) -> Part:
        return Part(Kind.BLOCKS, structure.dim, ("matrices",), structure.block, exponential)

    assert explain(sk.solve, *given).choices == (Choice(before.choices[0].what, "Native()", ()),)
    torch.testing.assert_close(sk.solve(*given)[0], slow)


@needs_kernels
def test_a_rule_that_changes_is_followed_where_the_old_one_was_used(no_rules_left: None) -> None:
    def says(exponentiated: bool) -> None:
        @lowers(Renamed)
        def _(structure: Renamed, exponential: bool) -> Part:
            return Part(Kind.BLOCKS, structure.dim, ("matrices",), structure.block, exponentiated)

    given, layer, x = problem(Renamed(4, 2)), sk.SLiCE(3, Renamed(4, 2)), torch.randn(2, 5, 3)
    seen = []
    for exponentiated in (False, True, False):
        says(exponentiated)
        seen.append((sk.solve(*given)[0], layer(x)))
    for first, second, third in zip(*seen, strict=True):
        assert torch.equal(first, third) and not torch.allclose(first, second)


def test_a_strangers_backend_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    four, eight = problem(sk.Dense(4)), problem(sk.Dense(8))
    plain, other = sk.solve(*four)[0], sk.solve(*eight)[0]
    monkeypatch.setattr(choice, "BACKENDS", [Twice(), *choice.BACKENDS])
    torch.testing.assert_close(sk.solve(*four)[0], 2 * plain)
    torch.testing.assert_close(sk.solve(*eight)[0], other)
    (said,) = explain(sk.solve, *eight).choices
    assert said.others[0] == ("Twice()", "takes four rows")


def test_where_no_backend_applies_each_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "BACKENDS", [Twice()])
    with pytest.raises(ValueError, match=r"no scan applies: Twice\(\): takes four rows"):
        sk.solve(*problem(sk.Dense(8)))


def test_a_scan_that_was_asked_for_is_named() -> None:
    layer = sk.SLiCE(3, sk.Diagonal(8), scan=sk.Chunked(4))
    told = str(sk.explain(layer, torch.randn(2, 5, 3)))
    assert told == "scan of Diagonal(dim=8, scale=1.0): Chunked(size=4) (asked for)"


def step_of_a_layer() -> None:
    layer, x = sk.SLiCE(3, sk.Diagonal(8)), torch.randn(2, 3)
    _, state = layer.step(x)
    layer.step(x, state)


def filters() -> None:
    groups, x = (2, 8), torch.randn(3, 2, 9)
    pool = FilterPool(0, 1, False, torch.eye(2), torch.rand(*groups, 9), torch.rand(*groups, 4))
    pool.whole(x, torch.full((3,), 9), 1)


SMALL = torch.rand(2, 5, 3)
OTHERS: dict[str, Callable[[], object]] = {
    "log-signatures": lambda: sk.SLiCE(3, sk.Dense(4), flow=sk.LogODE(2, 2))(SMALL),
    "exponentials": lambda: matrix_exponential(torch.rand(2, 3, 3)),
    "selective scan": lambda: S6(3, 2)(SMALL),
    "short convolution": lambda: short_convolution(
        SMALL, torch.zeros(2, 1, 3), torch.ones(3, 1, 2), None
    ),
    "step": step_of_a_layer,
    "filter bank": filters,
}


@needs_kernels
@pytest.mark.parametrize("what", OTHERS)
def test_other_kernels_explain_themselves_too(what: str) -> None:
    said = {choice.what: choice for choice in explain(OTHERS[what]).choices}
    assert said[what] == Choice(what, "kernel", ())


def test_a_kernel_that_is_not_taken_says_why() -> None:
    (said,) = explain(matrix_exponential, torch.rand(2, 80, 80)).choices
    assert said.taken == "torch"
    assert said.others == (("kernel", "torch's products are faster for 80 rows"),)


def test_transitions_nobody_knows_go_to_the_loop() -> None:
    class Own(DiagonalTransition):
        pass

    (said,) = explain(sk.propagate, Own(torch.rand(2, 5, 3)), torch.rand(2, 3)).choices
    assert said.taken == "Recurrent()"
    assert [way for way, _ in said.others] == ["Native()", "Chunked(size=None)"]


def test_rules_are_for_exactly_their_type() -> None:
    @dataclass(frozen=True)
    class Halved(sk.Diagonal):
        def combine(self, parameters, increments):
            return super().combine(parameters, increments / 2)

    assert lower(Halved(4), sk.Euler()) == "there is no kernel for Halved"


OURS = [name for name, x in STRUCTURES.items() if type(x).__module__.startswith("slicekit.")]


@needs_kernels
@pytest.mark.parametrize("name", OURS)
def test_the_facts_say_whether_kernels_run_a_structure(name: str) -> None:
    structure = STRUCTURES[name]
    call = (structure, make_parameters(structure))
    state = torch.zeros(2, structure.dim).double()
    path = torch.zeros(2, 4, CHANNELS).double()
    tokens = sk.Tabulated(torch.zeros(1, CHANNELS).double(), torch.zeros(2, 4, dtype=torch.int64))
    taken = {
        "yes": explain(sk.solve, *call, path, state),
        "tokens": explain(sk.solve, *call, tokens, state),
    }
    ran = [how for how, found in taken.items() if "Native(" in found.choices[-1].taken]
    assert structure.facts.efficient == next(iter(ran), "no")
