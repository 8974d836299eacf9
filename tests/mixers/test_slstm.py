"""The sLSTM: against the package of its authors and the equations of the paper."""

import pytest
import torch
from torch import Tensor

from slicekit.mixers.headwise import UNSEEN
from slicekit.mixers.slstm import SLSTM, PowerLaw, Spaced
from slicekit.mixers.slstm_recurrence import slstm_recurrence, slstm_reference
from tests.mixers.agreement import assert_agrees, shared_leaves
from tests.mixers.xlstm_peer import assert_same, slstm_layer, slstm_names, slstm_pair


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-4)])
@pytest.mark.parametrize("heads, kernel", [(4, 4), (2, 0)])
def test_it_is_the_authors_layer(
    heads: int, kernel: int, dtype: torch.dtype, tolerance: float
) -> None:
    torch.manual_seed(0)
    ours, theirs = slstm_pair(16, heads, kernel, dtype)
    x = torch.randn(3, 20, 16, dtype=dtype)
    assert_same(ours, theirs, lambda named: slstm_names(named, heads), x, tolerance)


def problem(length: int, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """A recurrence of 2 heads, a batch of 3, size 5, in the middle of its life."""
    heads, batch, dim = 2, 3, 5
    state = torch.randn(4, heads, batch, dim, dtype=dtype)
    state[2] = state[2].abs() + 1
    driven = torch.randn(length, heads, batch, 4, dim, dtype=dtype)
    recurrent = 0.5 * torch.randn(heads, dim, 4 * dim, dtype=dtype)
    found = {"driven": driven, "recurrent": recurrent, "state": state}
    return {name: x.requires_grad_() for name, x in found.items()}


@pytest.mark.parametrize("length", [1, 7, 300])
def test_the_fast_loop_is_the_obvious_one(length: int) -> None:
    """In all its outputs: also the last stabiliser, which is not differentiable by invariance."""
    torch.manual_seed(length)
    given = problem(length)
    assert_agrees(
        lambda: slstm_recurrence(**given),
        lambda: slstm_reference(**given),
        shared_leaves(**given),
        1e-12,
    )


def by_the_paper(driven: Tensor, recurrent: Tensor, state: Tensor) -> tuple[Tensor, ...]:
    """Equations 8 to 14, which have no stabiliser: c and n are those of the state times exp(m)."""
    h = state[0]
    c, n = state[1] * state[3].exp(), state[2] * state[3].exp()
    found = []
    for t in range(len(driven)):
        raw = driven[t] + (h @ recurrent).unflatten(-1, (4, -1))
        i, f, z, o = raw.unbind(-2)
        c = f.sigmoid() * c + i.exp() * z.tanh()
        n = f.sigmoid() * n + i.exp()
        h = o.sigmoid() * (c / n)
        found.append(h)
    return torch.stack(found), c, n


def test_without_its_stabiliser_it_is_the_papers() -> None:
    torch.manual_seed(0)
    given = problem(30)

    def ours() -> tuple[Tensor, ...]:
        hidden, last = slstm_recurrence(**given)
        return hidden, last[1] * last[3].exp(), last[2] * last[3].exp()

    assert_agrees(ours, lambda: by_the_paper(**given), shared_leaves(**given), 1e-12)


def test_what_the_first_element_finds_is_of_no_account() -> None:
    """At the start the normaliser could be any positive number: the first gate forgets it."""
    given = {name: x.detach() for name, x in problem(9).items()}
    given["state"][3] = UNSEEN
    given["state"][:2] = 0
    first, _ = slstm_recurrence(**given)
    given["state"][2] *= 7
    assert torch.equal(slstm_recurrence(**given)[0], first)


@pytest.mark.parametrize("gate", range(4))
@pytest.mark.parametrize("size", [-1e4, 1e4])
def test_saturated_gates_give_finite_gradients(gate: int, size: float) -> None:
    torch.manual_seed(0)
    mixer = SLSTM(8, heads=2, recurrent_bound=0.3)
    with torch.no_grad():
        mixer.bias[:, gate, ::2] = size
    x = torch.randn(2, 12, 8, requires_grad=True)
    y = mixer(x, lengths=torch.tensor([12, 0]))
    found = torch.autograd.grad(y.square().sum(), [x, *mixer.parameters()])
    assert all(g.isfinite().all() for g in (y, *found))


def test_a_long_sequence_stays_finite() -> None:
    y = SLSTM(4, heads=2, recurrent_bound=0.5)(torch.randn(1, 16384, 4))
    assert y.isfinite().all()


def test_second_derivatives_are_refused() -> None:
    mixer, x = SLSTM(8), torch.randn(1, 5, 8, requires_grad=True)
    (gradient,) = torch.autograd.grad(mixer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="sLSTM gives first derivatives only"):
        torch.autograd.grad(gradient.square().sum(), x)


def test_gradients_of_single_sequences_come_from_torch_func() -> None:
    torch.manual_seed(0)
    mixer = SLSTM(8, heads=2, recurrent_bound=0.3).double()
    weights = {name: p.detach() for name, p in mixer.named_parameters()}
    x = torch.randn(3, 6, 8, dtype=torch.float64)

    def loss(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(mixer, weights, x.unsqueeze(0)).square().sum()

    def total(weights: dict[str, Tensor]) -> Tensor:
        return torch.vmap(loss, (None, 0))(weights, x).sum()

    each = torch.vmap(torch.func.grad(loss), (None, 0))(weights, x)
    summed = torch.func.grad(total)(weights)
    for b, own in enumerate(x):
        alone = torch.autograd.grad(mixer(own.unsqueeze(0)).square().sum(), [*mixer.parameters()])
        for name, expected in zip(weights, alone, strict=True):
            assert torch.allclose(each[name][b], expected, rtol=1e-11, atol=1e-13), name
    for name, found in summed.items():
        assert torch.allclose(found, each[name].sum(0), rtol=1e-11, atol=1e-12), name


@pytest.mark.parametrize("block, blocks", [(0, 1), (0, 3), (1, 3), (2, 3)])
def test_forget_biases_are_the_authors(block: int, blocks: int) -> None:
    theirs = slstm_layer(32, 4, _block_idx=block, _num_blocks=blocks)
    theirs.reset_parameters()
    expected = slstm_names(dict(theirs.named_parameters()), 4)
    ours = SLSTM(32, forget_bias=PowerLaw(block, blocks))
    assert torch.allclose(ours.bias, expected["bias"], atol=1e-5)
    assert (ours.recurrent == 0).all() and (expected["recurrent"] == 0).all()
    assert torch.isclose(ours.gates.std(), expected["gates"].std(), rtol=0.1)


def test_spaced_biases_are_the_authors_too() -> None:
    theirs = slstm_layer(32, 4, bias_init="small_init")
    expected = slstm_names(dict(theirs.named_parameters()), 4)
    assert torch.allclose(SLSTM(32, forget_bias=Spaced()).bias, expected["bias"], atol=1e-5)
