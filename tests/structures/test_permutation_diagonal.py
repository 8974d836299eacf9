"""PermutationDiagonal: one non-zero number a column, at a row that the increments choose."""

import pytest
import torch
from torch import Tensor

from slicekit import (
    Associative,
    Chunked,
    Learned,
    PermutationDiagonal,
    Recurrent,
    SLiCE,
    Tabulated,
    propagate,
    solve,
)
from slicekit.scans import Scan
from slicekit.structures import ColumnTransition, Parameters
from slicekit.structures.block_diagonal import BlockTransition

STRUCTURE = PermutationDiagonal(8, 4, scale=1.0, stay=1.0, angle=0.5)


def _parameters(factor: float = 1.0) -> Parameters:
    made = STRUCTURE.init(3, torch.Generator().manual_seed(1))
    return {"logits": factor * made["logits"].double(), "angles": made["angles"].double()}


def _steps(*lead: int) -> ColumnTransition:
    return STRUCTURE.combine(_parameters(3.0), torch.randn(*lead, 3).double()).euler()


def test_a_column_has_one_number_where_its_logit_is_largest() -> None:
    parameters, increments = _parameters(3.0), torch.randn(20, 3).double()
    blocks = torch.tensordot(increments, parameters["logits"], 1) + torch.eye(4)
    angles = torch.tensordot(increments, parameters["angles"], 1)
    expected = torch.zeros(20, 8, 8).double()
    for step in range(20):
        for column in range(8):
            k, c = divmod(column, 4)
            row = 4 * k + int(blocks[step, k, :, c].argmax())
            expected[step, row, column] = angles[step, k, c].cos()
    moved = STRUCTURE.combine(parameters, increments).euler().as_dense()
    torch.testing.assert_close(moved, expected)
    assert (moved.diagonal(dim1=-2, dim2=-1) == 0).any(), "some column leaves its row"


def test_where_nothing_moves_it_is_the_identity_and_nothing_ever_grows() -> None:
    sizes = torch.tensor([0.0, 1e-9, 0.3, 1.0, 1e3]).double().unsqueeze(-1)
    steps = STRUCTURE.combine(_parameters(), sizes * torch.randn(5, 3).double()).euler()
    assert torch.equal(steps.as_dense()[0], torch.eye(8).double())
    assert (steps.as_dense().abs().sum(-2) <= 1).all()
    layer = SLiCE(3, STRUCTURE, initial=Learned())
    moduli = layer(10 * torch.randn(2, 3000, 3)).abs().sum(-1)
    assert (moduli.diff(dim=1) <= 1e-5).all()


def test_products_are_look_ups_and_without_gradients_hold_one_number_a_column() -> None:
    with torch.no_grad():
        later, earlier = _steps(5), _steps(5)
        product = later.compose(earlier)
    assert all(x.numel() <= 5 * 8 for x in product.tensors())
    torch.testing.assert_close(product.as_dense(), later.as_dense() @ earlier.as_dense())
    back = earlier.adjoint().compose(later.adjoint())
    torch.testing.assert_close(back.as_dense(), product.as_dense().mT)


@pytest.mark.parametrize("recorded", [(0, 1), (0,), (1,)], ids=["both", "earlier", "later"])
def test_the_choice_has_the_gradient_of_the_softmax_in_products_too(
    recorded: tuple[int, ...],
) -> None:
    increments, weights = torch.randn(2, 3).double(), torch.randn(8, 8).double()

    def gradients(dense: bool) -> list[Tensor]:
        leaves = {name: x.requires_grad_() for name, x in _parameters(3.0).items()}
        steps = []
        for i in (1, 0):
            with torch.set_grad_enabled(i in recorded):
                steps.append(STRUCTURE.combine(leaves, increments[i]).euler())
        later, earlier = steps
        if dense:
            product = later.as_dense() @ earlier.as_dense()
        else:
            product = later.compose(earlier).as_dense()
        return list(torch.autograd.grad((weights * product).sum(), list(leaves.values())))

    composed, multiplied = gradients(False), gradients(True)
    torch.testing.assert_close(composed, multiplied)
    assert composed[0].abs().sum() > 0


@pytest.mark.parametrize("scan", [Recurrent(), Chunked(2), Associative()], ids=repr)
def test_where_the_choice_is_clear_gradients_are_those_of_finite_differences(scan: Scan) -> None:
    """Far from a tie the softmax is flat, so that nothing is left of the gradient of the choice."""
    parameters = _parameters(1e5)
    moving = torch.randn(2, 3, 3).double(), torch.randn(2, 8).double(), parameters["angles"]

    def states(increments: Tensor, state: Tensor, angles: Tensor) -> Tensor:
        return solve(STRUCTURE, parameters | {"angles": angles}, increments, state, scan=scan)[0]

    assert torch.autograd.gradcheck(states, [x.requires_grad_() for x in moving], fast_mode=True)


def test_steps_parts_and_inference_agree_with_the_whole() -> None:
    layer = SLiCE(3, STRUCTURE, initial=Learned()).double()
    x = torch.randn(2, 6, 3).double()
    whole = layer(x)
    first, state = layer(x[:, :4], return_state=True)
    rest = []
    for t in (4, 5):
        h, state = layer.step(x[:, t], state)
        rest.append(h)
    torch.testing.assert_close(torch.cat([first, torch.stack(rest, 1)], 1), whole)
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), whole)


def test_tokens_run_as_blocks_on_kernels_with_the_same_gradients() -> None:
    table, index = torch.randn(4, 3).double(), torch.randint(-1, 4, (3, 9))
    start = torch.randn(3, 8).double()

    def run(scan: Scan | None) -> list[Tensor]:
        leaves = {name: x.requires_grad_() for name, x in _parameters(3.0).items()}
        states, _ = solve(STRUCTURE, leaves, Tabulated(table, index), start, scan=scan)
        return [states, *torch.autograd.grad(states.square().sum(), list(leaves.values()))]

    torch.testing.assert_close(run(None), run(Recurrent()))
    assert isinstance(_steps(2).in_blocks(), BlockTransition)


def test_products_of_permutations_are_exact_at_any_length() -> None:
    """A channel for each of 24 permutations of five points, whose logits are two at its ones."""
    images = torch.stack([torch.randperm(5) for _ in range(24)])
    ones = torch.nn.functional.one_hot(images, 5).mT.float()
    parameters = {"logits": 2 * ones.unsqueeze(1), "angles": torch.zeros(24, 1, 5)}
    words, points = torch.randint(24, (3, 2000)), torch.arange(1.0, 6.0)
    tokens = Tabulated(torch.eye(24), words)
    states, _ = solve(PermutationDiagonal(5, 5), parameters, tokens, points.expand(3, 5))
    for word, reached in zip(words, states, strict=True):
        at = torch.arange(5)
        for step, state in zip(word, reached, strict=True):
            at = images[step][at]
            assert torch.equal(state[at], points)


def test_given_steps_may_be_of_half_precision() -> None:
    """Whole numbers among the tensors of a transition stay whole."""
    steps, start = _steps(2, 5), torch.randn(2, 8).bfloat16()
    rounded = (x.bfloat16() if x.is_floating_point() else x for x in steps.tensors())
    given = steps.with_tensors(tuple(rounded))
    widened = steps.with_tensors(
        tuple(x.float() if x.is_floating_point() else x for x in given.tensors())
    )
    states, last = propagate(given, start, lengths=[5, 2])
    expected, end = propagate(widened, start.float(), lengths=[5, 2])
    torch.testing.assert_close(states, expected.bfloat16())
    torch.testing.assert_close(last, end)


def test_it_starts_with_logits_and_angles_of_the_sizes_asked_for() -> None:
    for increment in (1.0, 0.02):
        structure = PermutationDiagonal(32, 8, scale=2.0, angle=0.7)
        made = structure.init(200, increment=increment)
        steps = torch.randn(100, 200) * increment
        for name, size in (("logits", 2.0), ("angles", 0.7)):
            spread = torch.tensordot(steps, made[name], 1).std()
            assert spread == pytest.approx(size, rel=0.1)


def test_what_it_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match=r"^block=3 does not divide dim=8; choose one of 1, 2, 4"):
        PermutationDiagonal(8, 3)
    with pytest.raises(ValueError, match=r"^stay=0.0; expected a positive number$"):
        PermutationDiagonal(8, 4, stay=0.0)
    with pytest.raises(ValueError, match="is not linear in its increments, so it has no brackets"):
        PermutationDiagonal(8, 4).lift(2)
    with pytest.raises(TypeError, match=r"^a ColumnTransition and an adjoint have no product; use"):
        _steps(2).adjoint().compose(_steps(2))
