"""Projective states: direction and log-norm, carried apart.

A linear recurrence only scales, so dividing the state by any positive number along the way changes
neither its direction nor, once the logarithms are added up, its log-norm. Nor does it change their
gradients: both are functions of the state that forget such a factor. So scans divide by what suits
them, the result is exact at any length, and neither states nor gradients leave the range of floats:

Rows that no step mixes form a *group*: a row of a diagonal transition, a block, a part of a sum,
and otherwise the whole state. Group j of the state is carried as

    h^j_l = 2^(e^j_l) m^j_l,    m^j_{l+1} = M^j_l m^j_l / s^j_l,    e^j_{l+1} = e^j_l + log2 s^j_l,

where s is a power of two, so that dividing by it rounds nothing: before every WINDOW-th step the
one that brings the largest modulus of m^j to [1, 2), and 1 before all others. So no group drowns in
another, whose norm may be 10^40 times as large, and later comes back from it as it was.

The direction d = x / |x| and the log-norm log |x| + p log 2 are those of

    x^j = 2^(e^j - p) m^j,    p = max_j (e^j + log2 |m^j|) or near it,

in which only rows that are too small to be seen vanish. Neither depends on s, e or p, which
therefore count as constants. With the gradients g of d and γ of the log-norm, the adjoint
μ = dL/dm, in the coordinates of m, runs backwards as

    μ^j_l = (M^j_l)^* μ^j_{l+1} / s^j_l + 2^(e^j - p) (g^j - d^j <d, g> + γ d^j) / |x|.

The state was divided by s and so is the adjoint: <μ^j, m^j> changes from step to step by the last
term's share <., m^j> only, of modulus at most |g| + |γ|. For a group of one row, where |m| >= 1
once in a WINDOW, this bounds μ itself by the sum of all later |g| + |γ|, whatever its factors were.
In a larger group it bounds the part along m^j; the rest is the derivative of the group's own
direction, which has no scale. The gradient of M^j_l, μ^j_{l+1} (m^j_l / s^j_l)^*, has none either.

In a WINDOW a state must not leave the range of its dtype, nor by so much that its adjoint falls
below FLOOR: a few steps of very large or very small gain do that. A scan that finds its factors or
its last state beyond STRAIN is `strained`: it runs again with windows of one step, and its backward
pass has the same. What leaves the range and returns inside a window of a group that others hide is
not noticed. Inside a graph or a transform, where shapes are settled before numbers are known, and
over several ranks, windows stay as they are: there, in float32, a mean gain of up to 2^7 a step in
either direction is safe, and up to 2^15 for values alone; graphs and transforms warn of more.

An adjoint dies away where later states no longer remember. Numbers below FLOOR are taken for zero
when the state is rescaled: subnormal ones would only be slow, and rounding keeps some from ever
reaching zero.

Glossary: factors s and exponents e, (batch, windows, dim, columns); states m; peaks p and norms
|x|, (batch, length, columns).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.checks import check_tensor
from slicekit.devices import widest

WINDOW = 8
"""Steps between two divisions of a projective state."""

FLOOR = {torch.float32: 2.0**-90, torch.float64: 2.0**-900}
"""What an adjoint may be small by; the native kernels have the same."""

UNSEEN = {torch.float32: -90, torch.float64: -900}
"""Exponents below the largest from which on a group's own gradient is left out."""

QUIET = {torch.float32: 2.0**-110, torch.float64: 2.0**-990}
"""The same of what the states' own gradients add to it, inside a window."""

STRAIN = {torch.float32: 2.0**60, torch.float64: 2.0**600}
"""By what a state may grow or shrink in a window, with room for adjoints above FLOOR."""

EXPONENT_BITS = {
    torch.float32: (torch.int32, 0xFF << 23),
    torch.float64: (torch.int64, 0x7FF << 52),
}
"""An integer of the same size, and where the exponent stands in it."""

MODERATE = 2.0**40
"""Norms up to this, and down to its inverse, lose nothing to a peak that is not quite theirs."""


@dataclass(frozen=True, eq=False)
class Projective:
    """A state (or states) h = exp(log_norm) * direction with unit columns.

    Args:
        direction: (..., dim), or (..., dim, columns) for matrix states.
        log_norm: (...), or (..., columns).

    Example:
        >>> Projective.of(torch.tensor([[3.0, 4.0]])).direction
        tensor([[0.6000, 0.8000]])
    """

    direction: Tensor
    log_norm: Tensor

    @classmethod
    def of(cls, state: Tensor, *, matrix: bool = False) -> "Projective":
        """Split a plain state (batch, dim), or with matrix=True (batch, dim, columns)."""
        check_tensor("state", state)
        columns = state if matrix else state.unsqueeze(-1)
        direction, log_norm = normalise(columns)
        if matrix:
            return cls(direction, log_norm)
        return cls(direction.squeeze(-1), log_norm.squeeze(-1))


def normalise(state: Tensor) -> tuple[Tensor, Tensor]:
    """Unit columns and the logarithms of their norms, of state (..., dim, columns).

    A column of zeros stays zero, with the logarithm of the smallest positive number. The largest
    modulus, which counts as a constant, neither overflows nor underflows as the norm would.
    """
    largest = state.detach().abs().amax(-2, keepdim=True)
    largest = largest.masked_fill(largest == 0, 1)
    scaled = state / largest
    norm = torch.linalg.vector_norm(scaled, dim=-2, keepdim=True)
    zero = norm == 0
    norm = norm.masked_fill(zero, 1)
    log_norm = norm.log() + largest.log()
    log_norm = log_norm.masked_fill(zero, math.log(torch.finfo(norm.dtype).tiny))
    return scaled / norm, log_norm.squeeze(-2)


def powers_of_two(sizes: Tensor) -> Tensor:
    """The largest powers of two that are at most the sizes, float32 or float64 and not negative; 1
    for zero, so that it stays zero.
    """
    integer, mask = EXPONENT_BITS[sizes.dtype]
    powers = (sizes.view(integer) & mask).view(sizes.dtype)
    return powers.masked_fill(powers == 0, 1)


def without_tiny(x: Tensor, floor: float) -> Tensor:
    """x, with zero for real numbers and parts of complex ones up to that modulus; in place."""
    parts = torch.view_as_real(x) if x.is_complex() else x
    torch.ops.aten.hardshrink.out(parts, floor, out=parts)
    return x


def strained(first: Tensor, last: Tensor, factors: Tensor) -> bool:
    """Whether windows were too long for a scan, so that numbers may be lost.

    It looks at the numbers. A row that ends in zeros counts unless it began with them: an underflow
    is not told from a gain of zero.

    Args:
        first, last: (batch, dim, ...), the initial state and the last one, as they were carried.
        factors: (batch, windows, dim, ...).
    """
    if last.numel() == 0:
        return False
    limit = STRAIN[factors.dtype]
    ranges = [last.abs().aminmax()]
    if factors.shape[1] > 1:
        ranges.append(factors.aminmax())
    if not all(high.item() <= limit for _, high in ranges):  # NaN is not
        return True
    if all(low.item() >= 1 / limit for low, _ in ranges):
        return False
    small = (last.abs() < 1 / limit) & (first != 0)
    return bool(small.any()) or bool((factors < 1 / limit).any())


def window_of(factors: Tensor, length: int, rescale: int) -> int:
    """Steps between two divisions, by how many there were: `rescale`, or 1 after a strained run."""
    return 1 if factors.shape[1] == length else rescale


def exponents(factors: Tensor, before: Tensor | None = None) -> Tensor:
    """e of every window, from the powers of two that it and those before it were divided by.

    Args:
        factors: (batch, windows, dim, columns).
        before: (batch, dim, columns) int64, e of the initial state where it is not zero.
    """
    e = (torch.frexp(factors)[1] - 1).cumsum(1)
    return e if before is None else e + before.unsqueeze(1)


def directions(
    states: Tensor, factors: Tensor, window: int, before: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Directions (batch, length, dim, columns) and log-norms, norms and peaks of them.

    It looks at the numbers, so it is for use inside an operator. A column of zeros stays zero, with
    the logarithm of the smallest positive number. For `before` see `exponents`.
    """
    e = exponents(factors, before)
    peaks = _each_step(e.amax(2), states.shape[1], window)
    x = _scaled(states, e, peaks, window, _smallest(states))
    norms = torch.linalg.vector_norm(x, dim=2)
    if not bool(((norms < MODERATE) & (norms > 1 / MODERATE)).all()):
        peaks = _peaks(states, e, window)
        x = _scaled(states, e, peaks, window, _smallest(states))
        norms = torch.linalg.vector_norm(x, dim=2)
    zero = norms == 0
    norms = norms.masked_fill(zero, 1)
    log_norms = _log_norms(norms.log(), peaks, zero)
    direction = x.div_(norms.unsqueeze(2)) if x is not states else x / norms.unsqueeze(2)
    return direction, log_norms, norms, peaks.contiguous()


def pull_directions(
    direction: Tensor,
    norms: Tensor,
    peaks: Tensor,
    factors: Tensor,
    window: int,
    in_direction: Tensor,
    in_log_norm: Tensor,
    before: Tensor | None = None,
) -> Tensor:
    """Gradients of the states from those of their directions and log-norms."""
    inner = torch.linalg.vecdot(direction, in_direction, dim=2).real
    share = ((in_log_norm - inner) / norms).unsqueeze(2)
    in_states = in_direction / norms.unsqueeze(2)
    in_states.addcmul_(direction, share.to(direction.dtype))
    scaled = _scaled(in_states, exponents(factors, before), peaks, window, UNSEEN[norms.dtype])
    return in_states if scaled is in_states else without_tiny(scaled, QUIET[norms.dtype])


def differentiable_directions(
    states: Tensor, factors: Tensor, window: int
) -> tuple[Tensor, Tensor]:
    """Directions and log-norms, without a look at the numbers and with derivatives of any order."""
    if factors.shape[1] == 1:
        return normalise(states)
    e = exponents(factors)
    peaks = _peaks(states.detach(), e, window)
    shift = _each_step(e, states.shape[1], window) - peaks.unsqueeze(2)
    direction, log_norm = normalise(states * _powers(shift, UNSEEN[states.dtype.to_real()], states))
    zero = (direction == 0).all(2)
    return direction, _log_norms(log_norm, peaks, zero)


def _log_norms(logs: Tensor, peaks: Tensor, zero: Tensor) -> Tensor:
    wide = widest(logs.device)
    sums = (logs.to(wide) + peaks.to(wide) * math.log(2)).to(logs.dtype)
    return sums.masked_fill(zero, math.log(torch.finfo(logs.dtype).tiny))


def _peaks(states: Tensor, e: Tensor, window: int) -> Tensor:
    """The exponent of the largest modulus of every column of every state; 0 for zeros."""
    least = torch.iinfo(e.dtype).min
    moduli = states.abs()
    exponents = torch.frexp(moduli)[1] + _each_step(e, states.shape[1], window)
    peaks = exponents.masked_fill((moduli == 0) | ~moduli.isfinite(), least).amax(2)
    return peaks.masked_fill(peaks == least, 0)


def _scaled(x: Tensor, e: Tensor, peaks: Tensor, window: int, unseen: int) -> Tensor:
    """x 2^(e - p), with zero for groups whose exponent stays that far below the peaks.

    x itself, if there is nothing to do.
    """
    length = x.shape[1]
    padded = torch.cat([peaks, peaks[:, -1:].expand(-1, -length % window, -1)], 1)
    lowest = padded.unflatten(1, (-1, window)).amin(2)  # of every window
    shift = e - lowest.unsqueeze(2)
    powers = _powers(shift, unseen, x)
    if not torch.equal(peaks, _each_step(lowest, length, window)):
        stepwise = _each_step(e, length, window) - peaks.unsqueeze(2)
        seen = _each_step(shift >= unseen, length, window)
        return x * _powers(stepwise, _smallest(x), x) * seen
    if bool((powers == 1).all()):
        return x
    result = torch.empty_like(x)
    whole = length // window
    head = (slice(None), slice(0, whole * window))
    torch.mul(
        x[head].unflatten(1, (whole, window)),
        powers[:, :whole].unsqueeze(2),
        out=result[head].unflatten(1, (whole, window)),
    )
    result[:, whole * window :] = x[:, whole * window :] * powers[:, whole:]
    return result


def _powers(shift: Tensor, unseen: int, like: Tensor) -> Tensor:
    """2^shift, zero for exponents below `unseen`, and finite for any."""
    real = like.dtype.to_real()
    power = torch.exp2(shift.clamp(_smallest(like), -_smallest(like)).to(real))
    return power.masked_fill(shift < unseen, 0)


def _smallest(x: Tensor) -> int:
    """The exponent of the smallest normal number."""
    return math.frexp(torch.finfo(x.dtype.to_real()).tiny)[1] - 1


def _each_step(x: Tensor, length: int, window: int) -> Tensor:
    """Of every window -> of every step."""
    return x.repeat_interleave(window, 1)[:, :length]
