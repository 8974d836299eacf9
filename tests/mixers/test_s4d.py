"""S4D against a convolution by Fourier transforms, against its recurrence, and by chunks."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from slicekit.layers.state import State
from slicekit.mixers.discretisation import Bilinear, Discretisation, ZeroOrderHold
from slicekit.mixers.s4d import S4D, S4DInv, S4DLin, S4DReal, Spectrum
from slicekit.mixers.time_invariant import by_chunks, by_steps
from tests.mixers.agreement import assert_agrees, shared_leaves

WIDTH, DIM, LENGTH = 3, 6, 21


def kernel_by_vandermonde(s4d: S4D, length: int) -> Tensor:
    """k_l = 2 Re Σ_n C_n (exp(Δ A_n) - 1) / A_n exp(Δ A_n)^l, (width, length)."""
    rates = -s4d.log_decay.exp() + 1j * s4d.frequency
    step = s4d.log_steps.exp().unsqueeze(-1)
    readout = s4d.readout[..., 0] + 1j * s4d.readout[..., 1]
    if isinstance(s4d.discretisation, Bilinear):
        transition = (1 + step * rates / 2) / (1 - step * rates / 2)
        gain = step / (1 - step * rates / 2)
    else:
        transition = (step * rates).exp()
        gain = (transition - 1) / rates
    vandermonde = torch.stack([transition**power for power in range(length)], -1)
    return 2 * torch.einsum("hn,hnl->hl", readout * gain, vandermonde).real


def convolution(s4d: S4D, x: Tensor) -> Tensor:
    """The whole sequence at once, by Fourier transforms."""
    length = x.shape[1]
    spectrum = torch.fft.rfft(kernel_by_vandermonde(s4d, length), n=2 * length)
    y = torch.fft.irfft(torch.fft.rfft(x.mT, n=2 * length) * spectrum, n=2 * length)
    y = y[..., :length].mT + s4d.skip * x
    if s4d.output_map is None:
        return y
    halves = functional.gelu(y) @ s4d.output_map.weight.mT + s4d.output_map.bias
    return halves[..., : s4d.channels] * torch.sigmoid(halves[..., s4d.channels :])


def double(*shape: int, imaginary: bool = False) -> Tensor:
    dtype = torch.complex128 if imaginary else torch.float64
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("output_map", [True, False])
@pytest.mark.parametrize("spectrum", [S4DLin(), S4DInv(), S4DReal()], ids=repr)
@pytest.mark.parametrize("discretisation", [ZeroOrderHold(), Bilinear()], ids=repr)
def test_s4d_is_a_convolution_with_its_kernel(
    spectrum: Spectrum, discretisation: Discretisation, output_map: bool
) -> None:
    s4d = S4D(
        WIDTH,
        DIM,
        spectrum=spectrum,
        discretisation=discretisation,
        output_map=output_map,
        chunk=4,
    ).double()
    x = double(2, LENGTH, WIDTH)
    leaves = shared_leaves(x=x, **dict(s4d.named_parameters()))
    assert_agrees(lambda: (s4d(x),), lambda: (convolution(s4d, x),), leaves, 1e-11)


@pytest.mark.parametrize("lengths", [None, [21, 8, 0, 13, 16]], ids=["whole", "ragged"])
@pytest.mark.parametrize("chunk", [1, 3, 8, 21, 64])
def test_chunks_give_the_outputs_and_states_of_the_recurrence(
    chunk: int, lengths: list[int] | None
) -> None:
    batch, states = 5, 3
    ends = None if lengths is None else torch.tensor(lengths)
    decay = torch.rand(WIDTH, states, dtype=torch.float64)
    transition = torch.polar(decay, torch.randn_like(decay)).requires_grad_()
    gain, readout = double(2, WIDTH, states, imaginary=True).detach()
    gain, readout = gain.requires_grad_(), readout.requires_grad_()
    hidden = double(batch, WIDTH, states, imaginary=True)
    x = double(batch, LENGTH, WIDTH)
    valid = torch.ones(batch, LENGTH, 1, dtype=torch.float64)
    if ends is not None:
        valid = (torch.arange(LENGTH) < ends.unsqueeze(1)).unsqueeze(-1).double()

    def run(form: Callable[..., tuple[Tensor, Tensor]], *size: int) -> tuple[Tensor, ...]:
        y, last = form(transition, gain, readout, x * valid, hidden, ends, *size)
        return y * valid, last.real, last.imag

    leaves = shared_leaves(t=transition, gain=gain, readout=readout, x=x, hidden=hidden)
    assert_agrees(lambda: run(by_chunks, chunk), lambda: run(by_steps), leaves, 1e-12)


def test_the_recurrence_by_steps_is_the_equation() -> None:
    transition, gain, readout = torch.randn(3, WIDTH, 2, dtype=torch.complex128) / 2
    x, h = double(1, 7, WIDTH), torch.randn(1, WIDTH, 2, dtype=torch.complex128)
    y, last = by_steps(transition, gain, readout, x, h)
    for t in range(7):
        h = transition * h + gain * x[:, t].unsqueeze(-1)
        torch.testing.assert_close(y[:, t], 2 * (readout * h).sum(-1).real)
    torch.testing.assert_close(last, h)


def test_initial_spectra_are_those_of_the_paper() -> None:
    for spectrum, formula in {
        S4DLin(): lambda n: complex(-0.5, math.pi * n),
        S4DInv(): lambda n: complex(-0.5, 8 / math.pi * (8 / (2 * n + 1) - 1)),
        S4DReal(): lambda n: complex(-(n + 1), 0),
    }.items():
        s4d = S4D(WIDTH, 8, spectrum=spectrum)
        found = torch.complex(-s4d.log_decay.exp(), s4d.frequency)
        expected = torch.tensor([formula(n) for n in range(4)]).expand(WIDTH, -1)
        torch.testing.assert_close(found, expected.to(found.dtype))


def test_memory_between_passes_does_not_hold_every_state() -> None:
    s4d = S4D(4, 64, output_map=False)
    saved = 0

    def count(x: Tensor) -> Tensor:
        nonlocal saved
        saved = max(saved, x.numel() * (2 if x.is_complex() else 1))
        return x

    x = torch.randn(1, 4096, 4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda x: x):
        s4d(x)
    assert saved <= 4096 * 4 * 64 // 16


def test_a_state_may_be_handed_over_in_another_precision() -> None:
    s4d = S4D(WIDTH, DIM)
    _, state = s4d(torch.randn(2, 5, WIDTH), return_state=True)
    after = s4d.double()(torch.randn(2, 5, WIDTH).double(), state, return_state=True)[1]
    assert isinstance(after, State) and after["hidden"].dtype == torch.float64


def test_a_batch_may_be_empty() -> None:
    y, state = S4D(WIDTH, DIM, chunk=4)(torch.zeros(0, 10, WIDTH), return_state=True)
    assert y.shape == (0, 10, WIDTH) and state["hidden"].shape == (0, WIDTH, DIM // 2, 2)
