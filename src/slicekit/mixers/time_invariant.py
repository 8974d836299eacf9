"""Diagonal complex recurrences that are the same at every step, one for each channel.

    h_t = λ h_{t-1} + b x_t,    y_t = 2 Re Σ_n c_n h_{t,n},    for each channel by itself,

either step by step, or by chunks of C steps: inside a chunk y is a Toeplitz matrix applied to x,
k_l = 2 Re Σ_n c_n b_n λ_n^l; between chunks the state moves by λ^C. By chunks, only one state in C
is stored, and all other work is in matrix products.

Glossary:
    transition, gain, readout: λ, b, c, each (width, states), complex.
    powers: λ^0, λ^1, ..., (width, states, count); parts holds their real, then imaginary parts.
    starts: the states before each chunk.
"""

import torch
from torch import Tensor
from torch.nn import functional

from slicekit.dispatch import autocast_off
from slicekit.paths import valid_mask
from slicekit.scans import Scan, propagate
from slicekit.structures import DiagonalTransition

Found = tuple[Tensor, Tensor]


def by_steps(
    transition: Tensor,
    gain: Tensor,
    readout: Tensor,
    x: Tensor,
    hidden: Tensor,
    lengths: Tensor | None = None,
) -> Found:
    """Run the recurrence as it is written; every state is stored.

    Args:
        transition: λ, (width, states), complex.
        gain: b, (width, states), complex.
        readout: c, (width, states), complex.
        x: (batch, length, width), real.
        hidden: h before the first step, (batch, width, states), complex.
        lengths: (batch,) int64, or None.

    Returns:
        y (batch, length, width), real, and the last state (batch, width, states).
    """
    batch, length, width = x.shape
    states, last = propagate(
        DiagonalTransition(transition.flatten().expand(batch, length, -1)),
        hidden.flatten(1),
        (x.unsqueeze(-1) * gain).flatten(2),
        lengths=lengths,
    )
    y = 2 * (states.unflatten(-1, (width, -1)) * readout).sum(-1).real
    return y, last.unflatten(-1, (width, -1))


def by_chunks(
    transition: Tensor,
    gain: Tensor,
    readout: Tensor,
    x: Tensor,
    hidden: Tensor,
    lengths: Tensor | None = None,
    chunk: int = 64,
    scan: Scan | None = None,
) -> Found:
    """The same as `by_steps`, by chunks of C = chunk steps.

    Args:
        transition: λ, (width, states), complex.
        gain: b, (width, states), complex.
        readout: c, (width, states), complex.
        x: (batch, length, width), real, zero past the end.
        hidden: h before the first step, (batch, width, states), complex.
        lengths: (batch,) int64, or None.
        chunk: steps in a chunk.
        scan: how the states before the chunks are found, or None for the fastest way.

    Returns:
        y (batch, length, width), real, and the last state (batch, width, states).
    """
    batch, length = x.shape[:2]
    if length == 1 and scan is None:
        return by_steps(transition, gain, readout, x, hidden, lengths)
    size = min(chunk, length)
    powers = powers_of(transition, size)
    parts = torch.cat([powers.real, powers.imag], 1)[..., :size]
    with autocast_off(x.device):
        chunks = _cut(x, size)
        driven = gain * _join(chunks @ parts.mT, batch, -(-length // size))
        window, whole, rest = _unfinished(x, lengths, size)
        tail = gain * _join(_cut(window, size) @ parts.mT, batch, 1)
        moves = powers[..., -1].expand(batch, length // size, -1, -1)
        driving = driven[:, : length // size]
        if lengths is not None:  # only whole chunks move the state; the rest is in the tail
            valid = valid_mask(whole, length // size)[..., None, None]
            moves, driving = torch.where(valid, moves, 1.0), torch.where(valid, driving, 0.0)
        moves = torch.cat([moves, powers.permute(2, 0, 1)[rest].unsqueeze(1)], 1)
        starts, last = _chunk_starts(moves, hidden, torch.cat([driving, tail], 1), scan)
        kernel = _split((2 * readout * gain)[None, None]) @ parts
        before = _split(2 * readout * transition * starts[:, : driven.shape[1]])
        y = torch.baddbmm(chunks @ backward_toeplitz(kernel.squeeze(1)), before, parts)
    y = y.unflatten(1, tuple(driven.shape[:2])).permute(1, 2, 3, 0).flatten(1, 2)
    return y[:, :length], last


def powers_of(base: Tensor, highest: int) -> Tensor:
    """base^0, ..., base^highest along a new last axis, by doubling.

    >>> powers_of(torch.tensor([2.0]), 5)
    tensor([[ 1.,  2.,  4.,  8., 16., 32.]])
    """
    powers = torch.stack([torch.ones_like(base), base], -1)
    while powers.shape[-1] <= highest:
        powers = torch.cat([powers, powers[..., 1:] * powers[..., -1:]], -1)
    return powers[..., : highest + 1]


def backward_toeplitz(kernel: Tensor) -> Tensor:
    """T with T_{ji} = kernel_{i+j+1-size}, or 0, so that reversed x @ T convolves x causally.

    Args:
        kernel: (..., size).

    Returns:
        (..., size, size).

    >>> backward_toeplitz(torch.tensor([1.0, 2.0]))
    tensor([[0., 1.],
            [1., 2.]])
    """
    size = kernel.shape[-1]
    return functional.pad(kernel, (size - 1, 0)).unfold(-1, size, 1)


def _cut(x: Tensor, size: int) -> Tensor:
    """x (batch, length, width) -> (width, batch * chunks, size), each chunk backwards in time."""
    padded = functional.pad(x, (0, 0, 0, -x.shape[1] % size))
    return padded.unflatten(1, (-1, size)).flip(2).permute(3, 0, 1, 2).flatten(1, 2)


def _join(parts: Tensor, batch: int, chunks: int) -> Tensor:
    """Real (width, batch * chunks, 2 * states) -> complex (batch, chunks, width, states)."""
    real, imaginary = parts.unflatten(1, (batch, chunks)).permute(1, 2, 0, 3).chunk(2, -1)
    return torch.complex(real, imaginary)


def _split(states: Tensor) -> Tensor:
    """Complex s (batch, chunks, width, states) -> real r (width, batch * chunks, 2 * states).

    The product r @ parts is the real part of s @ powers.
    """
    return torch.cat([states.real, -states.imag], -1).flatten(0, 1).transpose(0, 1)


def _chunk_starts(
    moves: Tensor, hidden: Tensor, driven: Tensor, scan: Scan | None
) -> tuple[Tensor, Tensor]:
    """The states before each chunk, as many as chunks, and the last state (batch, width, states).

    A first step that changes nothing brings out the state before the first chunk, which a scan of
    several processes alone may know.

    Args:
        moves: what each chunk multiplies by, (batch, chunks, width, states).
        hidden: (batch, width, states).
        driven: what each chunk adds, as `moves`.
        scan: how.
    """
    shape, pad = tuple(moves.shape[2:]), (0, 0, 0, 0, 1, 0)
    moves, driven = functional.pad(moves, pad, value=1.0), functional.pad(driven, pad)
    transitions = DiagonalTransition(moves.flatten(2))
    states, last = propagate(transitions, hidden.flatten(1), driven.flatten(2), scan=scan)
    return states[:, :-1].unflatten(-1, shape), last.unflatten(-1, shape)


def _unfinished(x: Tensor, lengths: Tensor | None, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The inputs after the last whole chunk of each sequence, at the end of an empty chunk.

    Returns:
        (batch, size, width), and how many whole chunks precede it and how many inputs it holds,
        each (batch,).
    """
    batch, length, width = x.shape
    if lengths is None:
        lengths = torch.full((batch,), length, device=x.device)
    rest = lengths % size
    slots = torch.arange(size, device=x.device)
    places = (lengths.unsqueeze(1) - size + slots).clamp_min(0)
    window = x.gather(1, places.unsqueeze(-1).expand(-1, -1, width))
    held = (slots >= size - rest.unsqueeze(1)).unsqueeze(-1)
    return torch.where(held, window, 0), lengths // size, rest
