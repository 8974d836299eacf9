"""LRU against the equations of its paper, step by step, and the law of its initial eigenvalues."""

import pytest
import torch
from torch import Tensor

from slicekit.layers.state import State
from slicekit.mixers.lru import LRU
from tests.mixers.agreement import assert_agrees, shared_leaves


def transcription(lru: LRU, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """h_t = Λ h_{t-1} + exp(γ_log) ⊙ B x_t, y_t = Re(C h_t) + D ⊙ x_t."""
    eigenvalues = torch.exp(-lru.log_decay.exp() + 1j * lru.log_phase.exp())
    b = lru.input_map[..., 0] + 1j * lru.input_map[..., 1]
    c = lru.readout[..., 0] + 1j * lru.readout[..., 1]
    h, outputs = hidden[..., 0] + 1j * hidden[..., 1], []
    for x_t in x.unbind(1):
        h = eigenvalues * h + lru.log_gain.exp() * (x_t.to(b.dtype) @ b.mT)
        outputs.append((h @ c.mT).real + lru.skip * x_t)
    return torch.stack(outputs, 1), torch.stack([h.real, h.imag], -1)


def test_lru_is_the_recurrence_of_its_paper() -> None:
    lru = LRU(4, 6).double()
    x = torch.randn(2, 19, 4, dtype=torch.float64, requires_grad=True)
    hidden = torch.randn(2, 6, 2, dtype=torch.float64, requires_grad=True)

    def found() -> tuple[Tensor, ...]:
        y, state = lru(x, State({"hidden": hidden}), return_state=True)
        return y, state["hidden"]

    leaves = shared_leaves(x=x, hidden=hidden, **dict(lru.named_parameters()))
    assert_agrees(found, lambda: transcription(lru, x, hidden), leaves, 1e-13)


def test_eigenvalues_start_uniform_on_the_area_of_the_ring() -> None:
    eigenvalues = LRU(2, 4000, r_min=0.4, r_max=0.9, max_phase=1.5).eigenvalues(torch.zeros(1))
    modulus, phase = eigenvalues.abs(), eigenvalues.angle()
    assert modulus.min() >= 0.4 - 1e-5 and modulus.max() <= 0.9 + 1e-5
    assert phase.min() >= 0 and phase.max() <= 1.5 + 1e-5
    inner = float((modulus.square() < (0.4**2 + 0.9**2) / 2).double().mean())
    assert abs(inner - 0.5) < 0.05 and abs(phase.mean().item() - 0.75) < 0.05


def test_the_gain_makes_the_variance_of_a_state_independent_of_its_modulus() -> None:
    lru = LRU(16, 256, r_min=0.5, r_max=0.99)
    _, state = lru(torch.randn(64, 400, 16), return_state=True)
    power = state["hidden"].detach().square().sum(-1).mean(0)
    slow = lru.eigenvalues(torch.zeros(1)).abs() > 0.8
    assert 0.8 < float(power[slow].mean() / power[~slow].mean()) < 1.25


@pytest.mark.parametrize("extreme", [-40.0, 40.0])
def test_eigenvalues_at_their_extremes_give_finite_gradients(extreme: float) -> None:
    lru = LRU(4, 6)
    with torch.no_grad():
        lru.log_decay.fill_(extreme)
    x = torch.randn(2, 50, 4, requires_grad=True)
    lru(x).sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()
    for parameter in lru.parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize("drawn", [0.0, 1 - 2**-24])
@pytest.mark.parametrize("ring", [(0.0, 1.0), (0.999, 1.0), (0.0, 1e-30)])
def test_eigenvalues_on_the_edge_of_the_ring_start_finite(
    drawn: float, ring: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "rand", lambda count: torch.full((count,), drawn))
    lru = LRU(4, 6, *ring)
    assert all(parameter.isfinite().all() for parameter in lru.parameters())
    assert (lru.eigenvalues(torch.zeros(1)).abs() < 1).all()
