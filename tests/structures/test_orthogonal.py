"""Orthogonal: skew-symmetric generators, whose flows are rotations at any length."""

import math

import pytest
import torch

from slicekit import Chunked, Euler, Exponential, Orthogonal, Tabulated, solve
from slicekit.structures.orthogonal import SkewGenerator
from tests.market import make_parameters

LONG = 100_000


@pytest.mark.parametrize("block", [2, 3, 4, 8])
def test_the_matrices_are_skew_symmetric_blocks(block: int) -> None:
    structure = Orthogonal(2 * block, block)
    angles = structure.init(3)["angles"]
    increments = torch.randn(4, 3)
    dense = structure.combine({"angles": angles}, increments).as_dense()
    rows, columns = torch.triu_indices(block, block, 1)
    for step, increment in enumerate(increments):
        blocks = torch.zeros(2, block, block)
        blocks[:, rows, columns] = torch.tensordot(increment, angles, 1)
        torch.testing.assert_close(dense[step], torch.block_diag(*(blocks - blocks.mT)))


@pytest.mark.parametrize("block", [2, 3, 4, 8])
def test_every_flow_is_a_rotation(block: int) -> None:
    structure = Orthogonal(2 * block, block)
    generator = structure.combine(make_parameters(structure), torch.randn(5, 3).double())
    for transition in (generator.exponential(), generator.natural()):
        m = transition.as_dense()
        unit = torch.eye(2 * block).double().expand_as(m)
        torch.testing.assert_close(m.mT @ m, unit, rtol=0, atol=1e-12)
        torch.testing.assert_close(torch.linalg.det(m), torch.ones(5).double())


def test_brackets_of_skew_symmetric_blocks_are_skew_symmetric() -> None:
    structure = Orthogonal(8, 4)
    parameters = make_parameters(structure)
    a, b = (structure.combine(parameters, torch.randn(5, 3).double()) for _ in range(2))
    bracket = a.bracket(b)
    assert isinstance(bracket, SkewGenerator)
    torch.testing.assert_close(bracket.blocks, -bracket.blocks.mT)


def test_an_euler_step_is_refused() -> None:
    structure = Orthogonal(4, 2)
    parameters = structure.init(1)
    with pytest.raises(ValueError, match=r"isometry only under Exponential\(\); got Euler\(\)"):
        structure.combine(parameters, torch.ones(1)).euler()
    with pytest.raises(ValueError, match=r"^flow=Euler\(\) with Orthogonal"):
        solve(structure, parameters, torch.ones(1, 1, 1), torch.ones(1, 4), Euler())


@pytest.mark.parametrize("block", [2, 4, 8])
@pytest.mark.parametrize("channels", [1, 5])
@pytest.mark.parametrize("increment", [1.0, 0.1])
def test_initial_steps_turn_by_the_given_angle(block: int, channels: int, increment: float) -> None:
    """In the mean square: the squares of a block's eigenvalues add up to its squared norm."""
    for angle, options in ((math.pi / 3**0.5, {}), (0.3, {"angle": 0.3})):
        structure = Orthogonal(256 * block, block, **options)
        parameters = structure.init(channels, increment=increment)
        steps = torch.randn(300, channels) * increment
        norms = torch.linalg.matrix_norm(structure.combine(parameters, steps).blocks)
        turned = (norms.square().mean() / block).sqrt()
        assert turned.item() == pytest.approx(angle, rel=0.1)


def drift(increments: torch.Tensor | Tabulated, block: int) -> float:
    """Largest relative change of the state's norm on the way, in single precision."""
    structure = Orthogonal(8, block)
    state = torch.randn(2, 8)
    states, _ = solve(structure, structure.init(3), increments, state, scan=Chunked())
    return float((states.norm(dim=-1) / state.norm(dim=-1, keepdim=True) - 1).abs().max())


@pytest.mark.parametrize("block", [2, 4])
def test_the_norm_is_kept_over_a_hundred_thousand_steps(block: int) -> None:
    assert drift(torch.randn(2, LONG, 3), block) < 1e-4


@pytest.mark.parametrize("block", [2, 4])
def test_the_norm_is_kept_over_a_hundred_thousand_tokens(block: int) -> None:
    """Two tokens only: the rounding of their rotations would add up, step by step."""
    index = torch.randint(0, 2, (2, LONG))
    assert drift(Tabulated(torch.randn(2, 3), index), block) < 1e-4


def test_exponential_is_the_natural_flow() -> None:
    structure = Orthogonal(4, 2)
    call = (structure, structure.init(3), torch.randn(2, 5, 3), torch.randn(2, 4))
    assert torch.equal(solve(*call)[0], solve(*call, Exponential())[0])


@pytest.mark.parametrize(("dim", "block"), [(8, 3), (8, 1), (8, 0), (8, 16)])
def test_blocks_that_do_not_fit_are_refused(dim: int, block: int) -> None:
    message = rf"^block={block} does not divide dim={dim} or is below 2; choose one of"
    with pytest.raises(ValueError, match=message):
        Orthogonal(dim, block)
