"""Mixers as what they are in the paper's appendix: affine linear CDEs, for `solve` to solve.

    dH = Σ_i A^i H dω^i + dξ,    H <- flow(Σ_i Δω^i A^i) H + Δξ.

Glossary:
    structure, parameters   what A^1, A^2, ... look like, and their entries
    increments              Δω, the steps of the driving path, made from the elements
    inputs                  Δξ, the affine term, which the paper adds unintegrated
    flow                    exp(A) or I + A

A complex number a + bi is the matrix [[a, -b], [b, a]], so that complex diagonals are blocks of
size 2. A transition diag(d) + u v^T is I + A for the path whose increments are d - 1, u and v: the
delta rule's matrices are quadratic in their path.
"""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

from slicekit.checks import check_shape
from slicekit.flows import Euler, Exponential, Flow
from slicekit.mixers.heads import MatrixMixer, Steps
from slicekit.mixers.lru import LRU
from slicekit.mixers.mamba import Mamba
from slicekit.mixers.mamba2 import Mamba2
from slicekit.mixers.mlstm import MLSTM
from slicekit.mixers.rwkv7 import RWKV7
from slicekit.mixers.s4d import S4D
from slicekit.mixers.s5 import S5
from slicekit.mixers.s6 import S6
from slicekit.scans import Outer, solve
from slicekit.structures import (
    BlockDiagonal,
    Diagonal,
    DiagonalTransition,
    JointDPLR,
    LowRankTransition,
    Parameters,
    Structure,
)

CLOSED = -1e4
"""Logarithm of a gate that is shut: its exponential is exactly zero."""


@dataclass(frozen=True, eq=False)
class AffineCDE:
    """A mixer's recurrence over some elements, in the vocabulary of `solve`.

    Attributes:
        structure: of A^1, A^2, ...
        parameters: their tensors.
        increments: Δω, (sequences, steps, channels), where heads are sequences of their own.
        inputs: Δξ, an outer product for matrix states.
        flow: what a step does.
        hidden: shape of the mixer's hidden state, with the batch first.
        each: steps of an element.
    """

    structure: Structure
    parameters: Parameters
    increments: Tensor
    inputs: Tensor | Outer
    flow: Flow
    hidden: tuple[int, ...]
    each: int = 1

    def states(self) -> Tensor:
        """The mixer's hidden state after each element, by `solve`: (batch, length, ...)."""
        sequences, dim = self.increments.shape[0], self.structure.dim
        columns = (self.inputs.right.shape[-1],) if isinstance(self.inputs, Outer) else ()
        start = self.increments.new_zeros(sequences, dim, *columns)
        states, _ = solve(
            self.structure, self.parameters, self.increments, start, self.flow, inputs=self.inputs
        )
        states = states[:, self.each - 1 :: self.each]
        batch, length = self.hidden[0], states.shape[1]
        heads = states.unflatten(0, (batch, -1)).transpose(1, 2)
        return heads.reshape(batch, length, *self.hidden[1:])


def affine_cde(mixer: Any, x: Tensor) -> AffineCDE:
    """Write a mixer's recurrence as an affine linear CDE.

    Args:
        mixer: `S4D`, `S5`, `LRU`, `S6`, `Mamba`, `Mamba2`, `MLSTM`, `GatedLinearAttention`,
            `DeltaNet`, `GatedDeltaNet`, `GatedDeltaProduct` or `RWKV7`.
        x: (batch, length, channels), from which the driving path is made.

    Raises:
        TypeError: for a mixer whose recurrence is no linear one.

    Example:
        >>> from slicekit.mixers import DeltaNet
        >>> cde = affine_cde(DeltaNet(8, heads=2), torch.randn(3, 5, 8))
        >>> cde.structure, cde.states().shape
        (JointDPLR(dim=4, rank=1, scale=1.0), torch.Size([3, 5, 2, 4, 4]))
    """
    channels = getattr(mixer, "channels", "channels")
    check_shape("x", x, ("batch", "length", channels))
    return _form(mixer, x)


@singledispatch
def _form(mixer: Any, x: Tensor) -> AffineCDE:
    raise TypeError(f"{type(mixer).__name__} is no affine linear CDE, or none that is known here")


@_form.register(S6)
def _(mixer: S6, x: Tensor) -> AffineCDE:
    return _selective(mixer, x)


@_form.register(Mamba)
def _(mixer: Mamba, x: Tensor) -> AffineCDE:
    driving, _, _ = mixer.drive(x, mixer.start(x.shape[0], x), None)
    return _selective(mixer.ssm, driving)


def _selective(mixer: S6, x: Tensor) -> AffineCDE:
    """The step sizes drive the state: A^j holds the rates of channel j, and zeros elsewhere."""
    steps, left, _ = mixer.select(x, x)
    rates = torch.block_diag(*mixer.rates(x).unsqueeze(1))
    inputs = (steps * x).unsqueeze(-1) * left.unsqueeze(-2)
    return AffineCDE(
        Diagonal(rates.shape[1]),
        {"values": rates},
        steps,
        inputs.flatten(2),
        Exponential(),
        (x.shape[0], mixer.channels, mixer.dim),
    )


@_form.register(S4D)
def _(mixer: S4D, x: Tensor) -> AffineCDE:
    eigenvalues, gain = mixer.discrete(x)
    return _in_time(eigenvalues, gain * x.unsqueeze(-1), mixer.channels)


@_form.register(S5)
def _(mixer: S5, x: Tensor) -> AffineCDE:
    eigenvalues, input_map = mixer.discrete(x)
    return _in_time(eigenvalues, x.to(input_map.dtype) @ input_map.mT)


@_form.register(LRU)
def _(mixer: LRU, x: Tensor) -> AffineCDE:
    return _in_time(mixer.eigenvalues(x), mixer.inputs(x, x))


def _in_time(eigenvalues: Tensor, inputs: Tensor, *channels: int) -> AffineCDE:
    """Time alone drives the state: A is fixed, whatever comes; eigenvalues are those of exp(A)."""
    rates = eigenvalues.log().flatten()
    pairs = torch.view_as_real(rates).unbind(-1)
    real, imaginary = pairs
    rows = torch.stack([real, -imaginary, imaginary, real], -1)
    batch, length = inputs.shape[:2]
    return AffineCDE(
        BlockDiagonal(2 * rates.numel(), 2),
        {"blocks": rows.unflatten(-1, (2, 2)).unsqueeze(0)},
        real.new_ones(batch, length, 1),
        torch.view_as_real(inputs.resolve_conj()).flatten(2),
        Exponential(),
        (batch, *channels, rates.numel() // (channels[0] if channels else 1), 2),
    )


@_form.register(MatrixMixer)
@_form.register(RWKV7)
@_form.register(MLSTM)
@_form.register(Mamba2)
def _(mixer: Any, x: Tensor) -> AffineCDE:
    state = mixer.start(x.shape[0], x)
    return _of_steps(mixer.recurrence(x, state)[0], tuple(state["hidden"].shape))


def _of_steps(steps: Steps, hidden: tuple[int, ...]) -> AffineCDE:
    """Matrix states, driven by the gates and keys."""
    transition = steps.transitions
    if isinstance(transition, DiagonalTransition):
        logs = transition.values.log().clamp_min(CLOSED)
        one = transition.values.stride(-1) == 0
        weights = logs.new_ones(1, logs.shape[-1]) if one else torch.eye(logs.shape[-1]).to(logs)
        path = logs[..., :1] if one else logs
        structure = Diagonal(logs.shape[-1])
        return AffineCDE(
            structure, {"values": weights}, path, steps.inputs, Exponential(), hidden, steps.each
        )
    if not isinstance(transition, LowRankTransition):
        raise TypeError(f"there is no form for {type(transition).__name__}")
    return _low_rank(transition, steps, hidden)


def _low_rank(transition: LowRankTransition, steps: Steps, hidden: tuple[int, ...]) -> AffineCDE:
    """The path's channels are d - 1, then u, then v, of diag(d) + u v^T."""
    dim, rank = transition.left.shape[-2:]
    one = transition.diagonal.stride(-1) == 0
    gates = transition.diagonal[..., :1] if one else transition.diagonal
    left, right = (x.flatten(-2) for x in (transition.left, transition.right))
    path = torch.cat([gates - 1, left, right], -1)
    first, thin = gates.shape[-1], dim * rank
    parameters = {
        "diagonal": path.new_zeros(first + 2 * thin, dim),
        "left": path.new_zeros(first + 2 * thin, dim, rank),
        "right": path.new_zeros(first + 2 * thin, dim, rank),
    }
    unit = torch.eye(thin).to(path).unflatten(-1, (dim, rank))
    parameters["diagonal"][:first] = 1.0 if one else torch.eye(dim).to(path)
    parameters["left"][first : first + thin] = unit
    parameters["right"][first + thin :] = unit
    structure = JointDPLR(dim, rank)
    return AffineCDE(structure, parameters, path, steps.inputs, Euler(), hidden, steps.each)


@dataclass(frozen=True)
class Form:
    """A row of the table of forms.

    Attributes:
        mixer: its name.
        path: increments of the driving path.
        matrices: the structure, and what the matrices are.
        flow: exp or Euler.
        state: a vector or a matrix for each channel or head.
        affine: the affine term.
    """

    mixer: str
    path: str
    matrices: str
    flow: str
    state: str
    affine: str


FORMS = (
    Form("S4D", "dt", "Diagonal, complex: Δ A of each channel", "exp", "C^N a channel", "B̄ x"),
    Form("S5", "dt", "Diagonal, complex: Δ Λ", "exp", "C^P", "B̄ x"),
    Form("LRU", "dt", "Diagonal, complex: log λ", "exp", "C^P", "γ B x"),
    Form("S6, Mamba", "Δ^j(x)", "Diagonal: A of channel j", "exp", "R^N a channel", "Δ^j B(x) x^j"),
    Form("Mamba-2", "a Δ(x)", "Diagonal: I", "exp", "N x P a head", "Δ B(x) x^T"),
    Form("mLSTM", "log f'", "Diagonal: I", "exp", "d x (d + 1) a head", "i' k [v, 1]^T"),
    Form("GLA", "log α_j", "Diagonal: e_j e_j^T", "exp", "d_k x d_v a head", "k v^T"),
    Form("DeltaNet", "-β k, k", "JointDPLR: u v^T", "Euler", "d_k x d_v a head", "β k v^T"),
    Form(
        "Gated DeltaNet",
        "α - 1, -αβ k, k",
        "JointDPLR: d I + u v^T",
        "Euler",
        "d_k x d_v a head",
        "β k v^T",
    ),
    Form(
        "DeltaProduct",
        "as above, n times an element",
        "JointDPLR: d I + u v^T",
        "Euler",
        "d_k x d_v a head",
        "β^j k^j v^jT",
    ),
    Form(
        "RWKV-7",
        "w - 1, -a κ, κ",
        "JointDPLR: diag(d) + u v^T",
        "Euler",
        "d x d a head",
        "k v^T",
    ),
)
"""The appendix's forms, and those of the other mixers that have one."""


def table() -> str:
    """The table of forms as text, in Markdown.

    >>> print(table().splitlines()[2])
    | S4D | dt | Diagonal, complex: Δ A of each channel | exp | C^N a channel | B̄ x |
    """
    heads = ("mixer", "Δω", "A", "flow", "state", "Δξ")
    rows = [heads, ("---",) * len(heads)]
    rows += [(x.mixer, x.path, x.matrices, x.flow, x.state, x.affine) for x in FORMS]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
