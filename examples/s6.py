"""S6, the recurrence inside Mamba, is a linear CDE with diagonal matrices.

The paper's section "The Connection to Structured State-Space Models", in code. S6 gives every
channel x^j of its input a state h^j of its own, and steps it by

    h^j_{l+1} = exp(Δ^j C) h^j_l + (Δ^j C)^{-1} (exp(Δ^j C) - I) Δ^j D x_l x^j_l         exact, or
    h^j_{l+1} = exp(Δ^j C) h^j_l + Δ^j D x_l x^j_l                                       as in S6,

where Δ^j = softplus(α^j · x_l + β^j). Stacked, h = (h^1, ..., h^{d_x}), this is an affine LNCDE,

    dh = Σ_i A^i h dω^i + B dξ,

whose driving path is made from the input by the gates: Δ is no step size, but the increment of ω.

Glossary (code name: the paper's symbol, shape):
    x: x_{t_l}, the input, (batch, length, d_x); between the steps X is constant (zero-order hold).
    decay: the diagonal of C_θ, (d_h,); negative entries forget.
    input_map: D_θ, (d_h, d_x); S6's "selective B" is D_θ x.
    gate_weight, gate_bias: α_θ with the rows α^j, (d_x, d_x), and β_θ, (d_x,).
    gates: Δ, and at the same time Δω, the increments of ω^{X,i}_t = ∫ softplus(α^i · X + β^i) ds,
        (batch, length, d_x).
    state_matrices: A^i_θ = diag(0, ..., 0, C_θ, 0, ..., 0), diagonal: (d_x, d_x d_h).
    input_matrix: B_θ = diag(D_θ, ..., D_θ), (d_x d_h, d_x²).
    input_path: Δξ, the increments of ξ, (batch, length, d_x²).

Two remarks on the paper's formula for ξ. Its i-th block is ∫ X softplus(α^i · X + β^i) X^i ds: the
input is in it twice, as the whole vector X, which D_θ turns into S6's selective B, and as its
component X^i, which is what channel i takes in; so ξ is quadratic in X and has d_x² components. And
the first of the two is printed X_t, with the upper end of the integral; what S6 computes is X_s.
(The paper also lets its sum begin with i = 0; S6 has no such channel.)

    python examples/s6.py
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import softplus

import slicekit as sk
from slicekit.scans import Scan
from slicekit.structures import DiagonalTransition


@dataclass(frozen=True, eq=False)
class S6:
    """The parameters of S6; the glossary above gives their symbols and shapes."""

    decay: Tensor
    input_map: Tensor
    gate_weight: Tensor
    gate_bias: Tensor

    @classmethod
    def random(cls, inputs: int, dim: int) -> "S6":
        """As Mamba begins: C = diag(-1, ..., -d_h) and small gates; the rest random."""
        return cls(
            decay=-torch.arange(1, dim + 1, dtype=torch.float64),
            input_map=torch.randn(dim, inputs, dtype=torch.float64),
            gate_weight=torch.randn(inputs, inputs, dtype=torch.float64) / inputs**0.5,
            gate_bias=torch.randn(inputs, dtype=torch.float64) - 4,
        )

    def with_one_gate(self) -> "S6":
        """The same, but all α^j and β^j are equal: one gate for all channels, as in Mamba-2."""
        weight, bias = self.gate_weight, self.gate_bias
        return replace(
            self, gate_weight=weight[:1].expand_as(weight), gate_bias=bias[:1].expand_as(bias)
        )

    def gates(self, x: Tensor) -> Tensor:
        """Δ = Δω: x (..., d_x) -> (..., d_x)."""
        return softplus(x @ self.gate_weight.t() + self.gate_bias)


def recurrence(s6: S6, x: Tensor, start: Tensor, exact: bool = False) -> Tensor:
    """S6 as its authors write it: one loop over the positions, one over the channels.

    Args:
        s6: the parameters.
        x: (batch, length, d_x).
        start: h_{t_0}, (batch, d_x, d_h).
        exact: whether the input is integrated over the step, or taken as Δ D x x^j.

    Returns:
        The states after each step, (batch, length, d_x, d_h).
    """
    h, states = list(start.unbind(1)), []
    for now in x.unbind(1):
        selective = now @ s6.input_map.t()
        for j in range(x.shape[-1]):
            step = softplus(now @ s6.gate_weight[j] + s6.gate_bias[j]).unsqueeze(-1)
            moved = torch.exp(step * s6.decay)
            weight = (moved - 1) / (step * s6.decay) * step if exact else step
            h[j] = moved * h[j] + weight * selective * now[:, j : j + 1]
        states.append(torch.stack(h, 1))
    return torch.stack(states, 1)


def state_matrices(s6: S6) -> Tensor:
    """The diagonals of A^1..A^{d_x}, (d_x, d_x d_h): C in the i-th place of A^i, else zero."""
    return torch.block_diag(*[s6.decay.unsqueeze(0)] * s6.gate_bias.shape[0])


def input_matrix(s6: S6) -> Tensor:
    """B, (d_x d_h, d_x²): D in every place of the diagonal."""
    return torch.block_diag(*[s6.input_map] * s6.gate_bias.shape[0])


def input_path(s6: S6, x: Tensor) -> Tensor:
    """Δξ, (batch, length, d_x²): the i-th block is x Δ^i x^i, with the input in it twice."""
    return ((s6.gates(x) * x).unsqueeze(-1) * x.unsqueeze(-2)).flatten(-2)


def integrated_inputs(s6: S6, x: Tensor) -> Tensor:
    """The exact input of a step, (batch, length, d_x d_h), which is no longer linear in Δξ."""
    weight = torch.expm1(s6.gates(x).unsqueeze(-1) * s6.decay) / s6.decay
    selective = (x @ s6.input_map.t()).unsqueeze(-2)
    return (weight * selective * x.unsqueeze(-1)).flatten(-2)


def linear_cde(
    s6: S6, x: Tensor, start: Tensor, exact: bool = False, scan: Scan | None = None
) -> Tensor:
    """The same states as those of an affine LNCDE with diagonal matrices, driven by ω and ξ.

    Args:
        s6: the parameters.
        x: (batch, length, d_x).
        start: (batch, d_x, d_h).
        exact: as in `recurrence`.
        scan: any of slicekit's; the fastest if None.

    Returns:
        (batch, length, d_x, d_h).
    """
    inputs, dim = start.shape[1:]
    driven = integrated_inputs(s6, x) if exact else input_path(s6, x) @ input_matrix(s6).t()
    states, _ = sk.solve(
        sk.Diagonal(inputs * dim),
        {"values": state_matrices(s6)},
        increments=s6.gates(x),
        initial_state=start.flatten(1),
        flow=sk.Exponential(),
        scan=scan,
        inputs=driven,
    )
    return states.unflatten(-1, (inputs, dim))


def matrix_states(s6: S6, x: Tensor, start: Tensor) -> Tensor:
    """S6 with one gate for all channels, as one matrix H of size d_h x d_x with the columns h^j.

    A transition acts on all columns of H alike, so this needs Δ^1 = ... = Δ^{d_x}, which is what
    Mamba-2 has inside each head. The input is then an outer product, (Δ D x) x^T, and never stored.

    Args:
        s6: the parameters; of the gates, the first is used.
        x: (batch, length, d_x).
        start: (batch, d_x, d_h).

    Returns:
        (batch, length, d_x, d_h).
    """
    gate = s6.gates(x)[..., :1]
    states, _ = sk.propagate(
        DiagonalTransition(torch.exp(gate * s6.decay)),
        initial_state=start.mT,
        inputs=sk.Outer(gate * (x @ s6.input_map.t()), x),
    )
    return states.mT


def main() -> None:
    """Print the largest differences between the forms, and the driving path of a sequence."""
    torch.manual_seed(0)
    batch, length, inputs, dim = 4, 200, 3, 8
    s6 = S6.random(inputs, dim)
    x = torch.randn(batch, length, inputs, dtype=torch.float64)
    start = torch.randn(batch, inputs, dim, dtype=torch.float64)
    direct, direct_exact = (recurrence(s6, x, start, exact) for exact in (False, True))
    one = s6.with_one_gate()
    rows = {
        "affine LNCDE, input as in S6": (linear_cde(s6, x, start), direct),
        "affine LNCDE, exact input": (linear_cde(s6, x, start, exact=True), direct_exact),
        "matrix states, one gate": (matrix_states(one, x, start), recurrence(one, x, start)),
        "(exact input against that of S6)": (direct_exact, direct),
    }
    print(f"S6 with d_x={inputs}, d_h={dim}, {length} steps: largest difference of the states")
    for name, (found, expected) in rows.items():
        print(f"  {name:34}{(found - expected).abs().max():.1e}")
    print("\nThe driving path of the first sequence: it only rises, and C < 0, so that h forgets")
    print(f"  {'step':>4}  " + "".join(f"{f'ω^{i + 1}':>9}" for i in range(inputs)))
    path = s6.gates(x)[0].cumsum(0)
    for step in (1, 2, 3, 4, 5, 50, 100, length):
        print(f"  {step:>4}  " + "".join(f"{value:9.3f}" for value in path[step - 1].tolist()))


if __name__ == "__main__":
    main()
