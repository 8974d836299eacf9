"""Tensors that are views of others are read as what they show."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from slicekit import Dense, Native, Recurrent, Tabulated, solve
from slicekit.scans import Scan
from tests.market import NO_KERNEL, STRUCTURES, every_structure, make_parameters
from tests.scans.native.problems import DRIVEN, answers, make, missing, needs_library
from tests.scans.problems import SETTINGS, Answers, Problem, assert_near, with_gradients


def transposed(x: Tensor) -> Tensor:
    """The same numbers, with the first two axes exchanged in memory."""
    return x.transpose(0, 1).contiguous().transpose(0, 1) if x.ndim > 1 else x


def strided(x: Tensor) -> Tensor:
    """The same numbers, every second one of a larger tensor."""
    return torch.stack([x, torch.full_like(x, 7)], -1)[..., 0]


@needs_library
@pytest.mark.parametrize("view", [transposed, strided], ids=["transposed", "strided"])
@pytest.mark.parametrize("setting", ["affine", "matrix", "outer", "tokens", "projective"])
@every_structure
def test_views_are_read_as_what_they_show(
    name: str, setting: str, view: Callable[[Tensor], Tensor]
) -> None:
    if missing(name, "natural"):
        pytest.skip("there is no kernel")
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    index = view(problem.index)

    def seen(leaves: dict[str, Tensor]) -> Answers:
        looks = Problem(problem.structure, problem.setting, leaves, index, None)
        shown = {k: view(x) for k, x in leaves.items()}
        # Viewed again, the answers send views of gradients back.
        return {k: view(x) for k, x in looks.solve(shown, None, Native()).items()}

    assert_near(with_gradients(seen, problem.leaves), answers(problem), 1e-12)


@needs_library
@pytest.mark.parametrize("tokens", [False, True], ids=["increments", "tokens"])
@every_structure
def test_expanded_tensors_and_gradients_are_read_as_what_they_show(name: str, tokens: bool) -> None:
    if name in NO_KERNEL:
        pytest.skip("there is no kernel")
    structure, batch, length = STRUCTURES[name], 3, 5
    parameters = make_parameters(structure)
    increment, state, u = (
        torch.randn(n).double().requires_grad_() for n in (3, structure.dim, structure.dim)
    )
    index = torch.tensor([[0, -1, 0, 0, 0]]).expand(batch, length)

    def gradients(scan: Scan, copy: Callable[[Tensor], Tensor]) -> Answers:
        path: Tensor | Tabulated = copy(0.3 * increment.expand(batch, length, 3))
        path = Tabulated(0.3 * increment.expand(1, 3), copy(index)) if tokens else path
        start, driven = copy(state.expand(batch, -1)), copy(u.expand(batch, length, -1))
        states, last = solve(structure, parameters, path, start, None, scan, driven)
        found = torch.autograd.grad(states.sum() + last.sum(), (increment, state, u))
        named = zip(("increment", "state", "inputs"), found, strict=True)
        return {"states": states.detach(), "last": last.detach()} | dict(named)

    expected = gradients(Recurrent(), Tensor.contiguous)
    assert_near(gradients(Native(), lambda x: x), expected, 1e-10)


@needs_library
def test_signs_that_are_yet_to_be_applied_are_applied() -> None:
    problem = make(Dense(5), DRIVEN)
    negative = {k: torch.complex(x, -x).conj().imag for k, x in problem.leaves.items()}
    assert all(x.is_neg() for x in negative.values())
    assert_near(
        problem.solve(negative, None, Native()), problem.solve(problem.leaves, None, Native()), 0
    )
