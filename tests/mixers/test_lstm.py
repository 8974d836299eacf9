"""The LSTM is torch's own, and can be cut, padded and compiled."""

import pytest
import torch
from torch import Tensor, nn

from slicekit.mixers.lstm import LSTM
from tests.mixers.agreement import relative_error

GATES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def torch_lstm(*layers: LSTM) -> nn.LSTM:
    """torch's LSTM with the weights of ours, one above the other."""
    first = layers[0]
    peer = nn.LSTM(first.channels, first.dim, len(layers), batch_first=True).to(
        first.weight_ih.dtype
    )
    weights = {
        f"{name}_l{place}": getattr(layer, name)
        for place, layer in enumerate(layers)
        for name in GATES
    }
    peer.load_state_dict(weights)
    return peer


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-14), (torch.float32, 1e-5)])
@pytest.mark.parametrize("number", [1, 2])
def test_stacked_directly_it_is_torchs(number: int, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    layers = [LSTM(5, 7), LSTM(7, 7)][:number]
    stack = nn.Sequential(*layers).to(dtype)
    peer = torch_lstm(*layers)
    x = torch.randn(3, 11, 5, dtype=dtype, requires_grad=True)
    y, expected = stack(x), peer(x)[0]
    cotangent = torch.randn_like(y)
    weights = [getattr(layer, name) for layer in layers for name in GATES]
    found = torch.autograd.grad(y, [x, *weights], cotangent)
    wanted = torch.autograd.grad(expected, [x, *peer.parameters()], cotangent)
    assert relative_error(y, expected) <= tolerance
    assert max(map(relative_error, found, wanted)) <= tolerance


def test_the_states_after_padded_sequences_are_torchs_after_packed_ones() -> None:
    torch.manual_seed(0)
    lstm = LSTM(4, 6).double()
    peer = torch_lstm(lstm)
    x = torch.randn(4, 9, 4, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([9, 3, 1, 6])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    _, (h, c) = peer(packed)
    _, state = lstm(x, lengths=lengths, return_state=True)
    found, expected = [state["hidden"], state["cell"]], [h[0], c[0]]
    cotangents = [torch.randn_like(h[0]), torch.randn_like(c[0])]
    gradients = torch.autograd.grad(found, [x, *lstm.parameters()], cotangents)
    wanted = torch.autograd.grad(expected, [x, *peer.parameters()], cotangents)
    assert max(map(relative_error, found, expected)) <= 1e-14
    assert max(map(relative_error, gradients, wanted)) <= 1e-13


def test_a_sequence_without_elements_keeps_its_state_exactly() -> None:
    lstm = LSTM(4, 6)
    x = torch.randn(2, 5, 4)
    _, before = lstm(x, return_state=True)
    _, after = lstm(1e3 * x, before, torch.tensor([0, 5]), return_state=True)
    for name in ("hidden", "cell"):
        assert torch.equal(after[name][0], before[name][0])
        assert not torch.equal(after[name][1], before[name][1])


def test_it_is_initialised_as_torch_does_it() -> None:
    torch.manual_seed(0)
    lstm, peer = LSTM(30, 50), nn.LSTM(30, 50)
    for name in GATES:
        ours, theirs = getattr(lstm, name), getattr(peer, f"{name}_l0")
        assert ours.shape == theirs.shape
        assert ours.abs().max() <= 50**-0.5
        assert torch.isclose(ours.std(), theirs.std(), rtol=0.15)


def test_the_forget_bias_is_what_both_biases_add_up_to() -> None:
    lstm = LSTM(3, 5, forget_bias=2.0)
    total = (lstm.bias_ih + lstm.bias_hh).view(4, 5)
    assert (total[1] == 2).all()
    assert (total[[0, 2, 3]].abs() <= 2 * 5**-0.5).all()


def saturated(sign: float) -> tuple[LSTM, Tensor]:
    lstm = LSTM(3, 5)
    with torch.no_grad():
        lstm.bias_ih.fill_(sign * 1e4)
    return lstm, torch.randn(2, 7, 3, requires_grad=True)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_saturated_gates_give_finite_gradients(sign: float) -> None:
    lstm, x = saturated(sign)
    y = lstm(x)
    found = torch.autograd.grad(y.sum(), [x, *lstm.parameters()])
    assert all(g.isfinite().all() for g in (y, *found))


def test_a_long_sequence_stays_finite() -> None:
    y, state = LSTM(3, 4)(torch.randn(1, 16384, 3), return_state=True)
    assert y.isfinite().all() and state["cell"].isfinite().all()
