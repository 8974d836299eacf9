"""Linear maps between real sequences and complex states, in real arithmetic.

Complex parameters are held as pairs (..., 2) of real and imaginary parts, so that a module can be
cast to any real dtype; so are the states that a mixer carries.
"""

import torch
from torch import Tensor


def complex_of(pairs: Tensor, like: Tensor) -> Tensor:
    """Pairs (..., 2) as complex numbers (...) in the precision of a real tensor."""
    return torch.view_as_complex(pairs.to(like.dtype).contiguous())


def to_complex(x: Tensor, weight: Tensor) -> Tensor:
    """Apply a complex matrix to real vectors.

    Args:
        x: (..., width), real.
        weight: (dim, width), complex.

    Returns:
        (..., dim), complex, in the precision of the weight.

    >>> to_complex(torch.ones(1), torch.tensor([[2 + 1j]]))
    tensor([2.+1.j])
    """
    parts = torch.view_as_real(weight)
    y = x.to(parts.dtype) @ parts.transpose(0, 1).flatten(1)
    return torch.view_as_complex(y.to(parts.dtype).unflatten(-1, (-1, 2)))


def to_real(h: Tensor, weight: Tensor) -> Tensor:
    """The real part of a complex matrix applied to complex vectors.

    Args:
        h: (..., dim), complex.
        weight: (outputs, dim), complex.

    Returns:
        (..., outputs), real.

    >>> to_real(torch.tensor([1j]), torch.tensor([[2 + 1j]]))
    tensor([-1.])
    """
    parts = torch.view_as_real(weight.conj().resolve_conj())
    return torch.view_as_real(h).flatten(-2) @ parts.permute(1, 2, 0).flatten(0, 1)
