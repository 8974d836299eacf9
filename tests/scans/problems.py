"""Problems for `solve`, and the dense loop that its answers are compared with.

The reference shares nothing with the scans: it forms A(Δω) = Σ_i Δω^i A^i as full matrices, takes
I + A or torch.matrix_exp(A), and multiplies, one step after the other.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from slicekit import (
    Associative,
    Chunked,
    DirectSum,
    Euler,
    Exponential,
    Householder,
    JointDPLR,
    Native,
    Outer,
    PermutationDiagonal,
    Projective,
    Recurrent,
    RowNormalised,
    Tabulated,
    solve,
)
from slicekit.flows import Flow
from slicekit.scans import Recurrence, Scan, Solution
from slicekit.structures import Parameters, Structure
from tests.market import CHANNELS, make_parameters

BATCH, LENGTH, COLUMNS, VOCABULARY = 3, 9, 2, 4

Answers = dict[str, Tensor]


@dataclass(frozen=True)
class NativeOrSkip(Scan):
    """Native(); where it has no kernel the test is skipped; native/test_choice.py says where."""

    def run(self, recurrence: Recurrence) -> Solution:
        try:
            return Native().run(recurrence)
        except ValueError as refusal:
            pytest.skip(str(refusal))


SCANS: dict[str, Scan] = {
    "recurrent": Recurrent(),
    "associative": Associative(),
    "chunked": Chunked(),
    "chunked-5": Chunked(5),
    "native": NativeOrSkip(),
}


@dataclass(frozen=True)
class Setting:
    """What is asked of `solve` besides the structure, the flow and the scan."""

    matrix: bool = False
    inputs: str = "none"
    padded: bool = False
    tokens: bool = False
    projective: bool = False


SETTINGS = {
    "plain": Setting(),
    "affine": Setting(inputs="dense"),
    "matrix": Setting(matrix=True),
    "matrix-affine-padded": Setting(matrix=True, inputs="dense", padded=True),
    "outer": Setting(matrix=True, inputs="outer"),
    "padded": Setting(padded=True),
    "affine-padded": Setting(inputs="dense", padded=True),
    "tokens": Setting(tokens=True),
    "tokens-outer-padded": Setting(matrix=True, inputs="outer", padded=True, tokens=True),
    "projective": Setting(projective=True),
    "projective-matrix-tokens-padded": Setting(
        matrix=True, padded=True, tokens=True, projective=True
    ),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """A call of `solve` as named leaf tensors, so that gradients can be taken in all of them."""

    structure: Structure
    setting: Setting
    leaves: dict[str, Tensor]
    index: Tensor
    lengths: Tensor | None

    @classmethod
    def make(
        cls, structure: Structure, setting: Setting, length: int = LENGTH, scale: float = 0.3
    ) -> "Problem":
        """Random numbers that float32 can hold, in float64."""
        source = torch.Generator().manual_seed(2)

        def randn(*shape: int) -> Tensor:
            return torch.randn(shape, generator=source).double()

        leaves = {f"parameters.{k}": x for k, x in make_parameters(structure).items()}
        if setting.tokens:
            leaves["path"] = randn(VOCABULARY, CHANNELS) * scale
        else:
            leaves["path"] = randn(BATCH, length, CHANNELS) * scale
        tail = (COLUMNS,) if setting.matrix else ()
        leaves["initial_state"] = randn(BATCH, structure.dim, *tail)
        if setting.inputs == "dense":
            leaves["inputs"] = randn(BATCH, length, structure.dim, *tail)
        if setting.inputs == "outer":
            leaves["left"] = randn(BATCH, length, structure.dim)
            leaves["right"] = randn(BATCH, length, COLUMNS)
        index = torch.randint(-1, VOCABULARY, (BATCH, length), generator=source)
        lengths = torch.tensor([length // 2, 0, length]) if setting.padded else None
        rounded = {k: x.float().double() if x.is_floating_point() else x for k, x in leaves.items()}
        return cls(structure, setting, rounded, index, lengths)

    def to(self, dtype: torch.dtype) -> "Problem":
        """The same numbers in another precision."""
        moved = {k: x.to(dtype) if x.is_floating_point() else x for k, x in self.leaves.items()}
        return replace(self, leaves=moved)

    def parameters(self, leaves: dict[str, Tensor]) -> Parameters:
        """The structure's parameters among the leaves."""
        head = "parameters."
        return {k[len(head) :]: x for k, x in leaves.items() if k.startswith(head)}

    def increments(self, leaves: dict[str, Tensor]) -> Tensor | Tabulated:
        """Δω as `solve` takes it."""
        return Tabulated(leaves["path"], self.index) if self.setting.tokens else leaves["path"]

    def inputs(self, leaves: dict[str, Tensor]) -> Tensor | Outer | None:
        """u as `solve` takes it."""
        if self.setting.inputs == "outer":
            return Outer(leaves["left"], leaves["right"])
        return leaves.get("inputs")

    def solve(self, leaves: dict[str, Tensor], flow: Flow | None, scan: Scan | None) -> Answers:
        """What slicekit says."""
        parameters, increments = self.parameters(leaves), self.increments(leaves)
        state = leaves["initial_state"]
        if self.setting.projective:
            start = Projective.of(state, matrix=self.setting.matrix)
            h, end = solve(
                self.structure, parameters, increments, start, flow, scan, lengths=self.lengths
            )
            return {
                "direction": h.direction,
                "log_norm": h.log_norm,
                "last direction": end.direction,
                "last log_norm": end.log_norm,
            }
        states, last = solve(
            self.structure,
            parameters,
            increments,
            state,
            flow,
            scan,
            self.inputs(leaves),
            self.lengths,
        )
        return {"states": states, "last": last}

    def reference(self, leaves: dict[str, Tensor], flow: Flow | None) -> Answers:
        """What the dense loop says."""
        path = leaves["path"]
        if self.setting.tokens:
            path = torch.where((self.index >= 0)[..., None], path[self.index.clamp_min(0)], 0.0)
        transitions = dense_transitions(self.structure, self.parameters(leaves), path, flow)
        h = leaves["initial_state"]
        h = h if self.setting.matrix else h[..., None]
        u = leaves.get("inputs")
        if u is not None and not self.setting.matrix:
            u = u[..., None]
        if self.setting.inputs == "outer":
            u = torch.einsum("bli,blj->blij", leaves["left"], leaves["right"])
        states = []
        for step in range(path.shape[1]):
            moved = transitions[:, step] @ h
            if u is not None:
                moved = moved + u[:, step]
            if self.lengths is not None:
                moved = torch.where((step < self.lengths)[:, None, None], moved, h)
            h = moved
            states.append(h)
        stacked = torch.stack(states, 1)
        if not self.setting.projective:
            return {"states": self._plain(stacked), "last": self._plain(h)}
        norm, last_norm = stacked.norm(dim=-2, keepdim=True), h.norm(dim=-2, keepdim=True)
        return {
            "direction": self._plain(stacked / norm),
            "log_norm": self._plain(norm.log().squeeze(-2)),
            "last direction": self._plain(h / last_norm),
            "last log_norm": self._plain(last_norm.log().squeeze(-2)),
        }

    def _plain(self, x: Tensor) -> Tensor:
        return x if self.setting.matrix else x.squeeze(-1)


def dense_generators(structure: Structure, parameters: Parameters, increments: Tensor) -> Tensor:
    """A(Δω) as full matrices (..., dim, dim)."""
    if isinstance(structure, DirectSum):
        owned = zip(structure.parts, parts_parameters(structure, parameters), strict=True)
        return side_by_side([dense_generators(part, own, increments) for part, own in owned])
    if isinstance(structure, JointDPLR):
        d, u, v = (
            torch.tensordot(increments, parameters[k], 1) for k in ("diagonal", "left", "right")
        )
        return torch.diag_embed(d) + u @ v.mT
    whole = torch.eye(structure.dim, dtype=increments.dtype)
    if isinstance(structure, Householder):
        return _reflected(structure, parameters, increments) - whole
    if isinstance(structure, RowNormalised):
        return _row_normalised(structure, parameters, increments) - whole
    if isinstance(structure, PermutationDiagonal):
        return _columns(structure, parameters, increments) - whole
    unit = torch.eye(increments.shape[-1], dtype=increments.dtype)
    matrices = structure.combine(parameters, unit).as_dense()
    return torch.einsum("...c,cij->...ij", increments, matrices)


def _reflected(structure: Householder, parameters: Parameters, increments: Tensor) -> Tensor:
    """The reflections of a step, multiplied out one by one."""
    vectors = torch.tensordot(increments, parameters["vectors"], 1)
    product = torch.eye(structure.dim, dtype=increments.dtype)
    for j in range(structure.count):
        v = vectors[..., j, :, None]
        product = product - 2 * v @ (v.mT @ product) / (1 + v.mT @ v)
    return product


def _row_normalised(structure: RowNormalised, parameters: Parameters, increments: Tensor) -> Tensor:
    """The rows of the whole matrix, each divided by its absolute sum where that is above one."""
    blocks = torch.tensordot(increments, parameters["blocks"], 1)
    whole = side_by_side(list(blocks.unbind(-3)))
    whole = whole + torch.eye(structure.dim, dtype=increments.dtype)
    sums = whole.abs().sum(-1, keepdim=True)
    return torch.where(sums > 1, whole / sums, whole)


def _columns(structure: PermutationDiagonal, parameters: Parameters, increments: Tensor) -> Tensor:
    """A one at the largest logit of every column, with the softmax's gradient, times a diagonal."""
    blocks = torch.tensordot(increments, parameters["logits"], 1)
    logits = blocks + structure.stay * torch.eye(structure.block, dtype=blocks.dtype)
    hard = (logits == logits.amax(-2, keepdim=True)).to(logits)
    soft = logits.exp() / logits.exp().sum(-2, keepdim=True)
    maps = side_by_side(list((hard + soft - soft.detach()).unbind(-3)))
    diagonal = torch.tensordot(increments, parameters["angles"], 1).flatten(-2).cos()
    return maps @ torch.diag_embed(diagonal)


def dense_transitions(
    structure: Structure, parameters: Parameters, increments: Tensor, flow: Flow | None
) -> Tensor:
    """M as full matrices (..., dim, dim)."""
    if isinstance(structure, DirectSum):
        owned = zip(structure.parts, parts_parameters(structure, parameters), strict=True)
        return side_by_side([dense_transitions(p, own, increments, flow) for p, own in owned])
    a = dense_generators(structure, parameters, increments)
    if isinstance(flow, Exponential) or (flow is None and structure.exponential_only):
        return torch.matrix_exp(a)
    assert flow is None or isinstance(flow, Euler)
    return torch.eye(structure.dim, dtype=a.dtype) + a


def parts_parameters(structure: DirectSum, parameters: Parameters) -> list[Parameters]:
    """Each part's parameters under the part's own names."""
    if len(structure.parts) == 1:
        return [parameters]
    heads = [f"part{i}_" for i in range(len(structure.parts))]
    return [
        {k.removeprefix(head): x for k, x in parameters.items() if k.startswith(head)}
        for head in heads
    ]


def side_by_side(blocks: list[Tensor]) -> Tensor:
    """Batches of square matrices (..., n, n) along the diagonal of one."""
    dim, start, rows = sum(x.shape[-1] for x in blocks), 0, []
    for x in blocks:
        size = x.shape[-1]
        rows.append(torch.nn.functional.pad(x, (start, dim - start - size)))
        start += size
    return torch.cat(rows, -2)


def with_gradients(
    function: Callable[[dict[str, Tensor]], Answers], leaves: dict[str, Tensor]
) -> Answers:
    """A function's answers, and the gradients in its leaves of a fixed random functional of them.

    The functional is the same for every function whose answers have the same names and shapes.
    """
    trained = {
        k: x.detach().clone().requires_grad_() for k, x in leaves.items() if x.is_floating_point()
    }
    answers = function(leaves | trained)
    source = torch.Generator().manual_seed(3)
    total = torch.zeros((), dtype=torch.float64)
    for x in answers.values():
        weights = torch.randn(x.shape, generator=source)
        total = total + (weights.to(x.dtype) * x).sum().double()
    gradients = torch.autograd.grad(total, list(trained.values()))
    named = zip(trained, gradients, strict=True)
    found = {name: x.detach() for name, x in answers.items()}
    return found | {f"gradient of {k}": g for k, g in named}


def assert_near(actual: Answers, expected: Answers, tolerance: float) -> None:
    """Equal to a relative error in the norm of each tensor."""
    assert actual.keys() == expected.keys()
    for name, want in expected.items():
        got = actual[name]
        assert got.shape == want.shape, f"{name}: {tuple(got.shape)}, not {tuple(want.shape)}"
        error = torch.linalg.vector_norm(got.double() - want.double())
        size = torch.linalg.vector_norm(want.double())
        assert error <= tolerance * size, f"{name}: relative error {error / size:.2e}"
