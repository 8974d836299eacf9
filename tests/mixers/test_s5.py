"""S5 against the equations of its paper, step by step, and its HiPPO initialisation."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from slicekit.layers.state import State
from slicekit.mixers.discretisation import Bilinear, Discretisation, ZeroOrderHold
from slicekit.mixers.s5 import S5, lecun_normal, normal_hippo
from tests.mixers.agreement import assert_agrees, shared_leaves


def transcription(s5: S5, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """The discretised state space with every quantity as the paper defines it."""
    real = s5.real_rates.clamp(max=-1e-4) if s5.clip else s5.real_rates
    rates, steps = real + 1j * s5.imaginary_rates, s5.log_steps.exp()
    b = s5.input_map[..., 0] + 1j * s5.input_map[..., 1]
    c = s5.readout[..., 0] + 1j * s5.readout[..., 1]
    if isinstance(s5.discretisation, Bilinear):
        inverse = 1 / (1 - steps / 2 * rates)
        transition, b = inverse * (1 + steps / 2 * rates), (inverse * steps)[:, None] * b
    else:
        transition = (rates * steps).exp()
        b = ((transition - 1) / rates)[:, None] * b
    h, outputs = hidden[..., 0] + 1j * hidden[..., 1], []
    for x_t in x.unbind(1):
        h = transition * h + x_t.to(b.dtype) @ b.mT
        y_t = (h @ c.mT).real * (2 if s5.conjugate else 1)
        outputs.append(y_t + s5.skip * x_t)
    return torch.stack(outputs, 1), torch.stack([h.real, h.imag], -1)


@pytest.mark.parametrize("discretisation", [ZeroOrderHold(), Bilinear()], ids=repr)
@pytest.mark.parametrize("conjugate", [True, False])
def test_s5_is_the_recurrence_of_its_paper(discretisation: Discretisation, conjugate: bool) -> None:
    s5 = S5(4, 8, blocks=2, conjugate=conjugate, discretisation=discretisation).double()
    with torch.no_grad():
        s5.real_rates[0] = 0.3
    x = torch.randn(2, 19, 4, dtype=torch.float64, requires_grad=True)
    hidden = torch.randn(2, s5.states, 2, dtype=torch.float64, requires_grad=True)

    def found() -> tuple[Tensor, ...]:
        y, state = s5(x, State({"hidden": hidden}), return_state=True)
        return y, state["hidden"]

    leaves = shared_leaves(x=x, hidden=hidden, **dict(s5.named_parameters()))
    assert_agrees(found, lambda: transcription(s5, x, hidden), leaves, 1e-12)


def legs(dim: int) -> Tensor:
    """HiPPO-LegS as its paper defines it, entry by entry."""
    a = torch.zeros(dim, dim, dtype=torch.float64)
    for i in range(dim):
        for j in range(i + 1):
            a[i, j] = -(i + 1) if i == j else -(((2 * i + 1) * (2 * j + 1)) ** 0.5)
    return a


def test_the_normal_part_of_hippo_is_legs_plus_a_matrix_of_rank_one() -> None:
    rates, vectors = normal_hippo(8)
    low_rank = torch.sqrt(torch.arange(8, dtype=torch.float64) + 0.5)
    normal = (legs(8) + torch.outer(low_rank, low_rank)).to(vectors.dtype)
    torch.testing.assert_close(vectors @ torch.diag(rates) @ vectors.mH, normal)
    torch.testing.assert_close(vectors.mH @ vectors, torch.eye(8, dtype=vectors.dtype))


def test_initial_eigenvalues_repeat_those_of_a_smaller_hippo_in_blocks() -> None:
    s5 = S5(4, 24, blocks=3)
    frequencies = normal_hippo(8)[0].imag[:4].float()
    torch.testing.assert_close(s5.imaginary_rates.detach(), frequencies.repeat(3))
    assert (s5.real_rates == -0.5).all()


def test_conjugate_pairs_give_the_kernel_of_all_states_with_real_b_and_c() -> None:
    rates, vectors = normal_hippo(6)
    b, c = torch.randn(6, 2, dtype=torch.float64), torch.randn(2, 6, dtype=torch.float64)
    s5 = S5(2, 6).double()
    with torch.no_grad():
        s5.log_steps.fill_(-2.0)
        s5.input_map.copy_(torch.view_as_real(vectors[:, :3].mH @ b.to(vectors.dtype)))
        s5.readout.copy_(torch.view_as_real(c.to(vectors.dtype) @ vectors[:, :3]))
        s5.real_rates.copy_(rates[:3].real)
        s5.imaginary_rates.copy_(rates[:3].imag)
        s5.skip.zero_()
    x = torch.randn(1, 9, 2, dtype=torch.float64)
    matrix = (vectors @ torch.diag(rates) @ vectors.mH).real
    step = torch.exp(torch.tensor(-2.0, dtype=torch.float64))
    moved = torch.matrix_exp(step * matrix)
    driven = torch.linalg.solve(matrix, (moved - torch.eye(6, dtype=torch.float64)) @ b)
    h, outputs = torch.zeros(6, dtype=torch.float64), []
    for x_t in x[0]:
        h = moved @ h + driven @ x_t
        outputs.append(c @ h)
    torch.testing.assert_close(s5(x)[0], torch.stack(outputs))


def test_lecun_normal_has_the_variance_and_the_cut_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="jax is a peer; PEERS=1 make test installs it")
    shape = (16, 64, 2)
    theirs = jax.nn.initializers.lecun_normal()(jax.random.PRNGKey(0), shape)
    ours = lecun_normal(*shape, fan=16 * 64)
    assert abs(float(ours.std()) / float(theirs.std()) - 1) < 0.1
    assert abs(float(ours.abs().max()) / float(abs(theirs).max()) - 1) < 0.02


def test_drawing_parameters_looks_at_no_number() -> None:
    with FakeTensorMode():
        assert S5(4, 8).readout.shape == (4, 4, 2)


@pytest.mark.parametrize("readout", ["lecun_normal", "trunc_standard_normal", "complex_normal"])
def test_readouts_are_drawn_with_the_variance_of_the_authors(readout: str) -> None:
    width, dim = 32, 64
    size = float(S5(width, dim, readout=readout).readout.detach().square().sum(-1).mean())
    expected = {
        "lecun_normal": 2 / (width * dim),
        "trunc_standard_normal": 2 / dim,
        "complex_normal": 1.0,
    }
    assert abs(size / expected[readout] - 1) < 0.15
