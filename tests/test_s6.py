"""S6 as a linear CDE: the three forms of `examples/s6.py` agree in states and gradients."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import slicekit as sk
from examples.s6 import (
    S6,
    input_matrix,
    input_path,
    linear_cde,
    main,
    matrix_states,
    recurrence,
    state_matrices,
)
from slicekit.scans import Scan

BATCH, LENGTH, INPUTS, DIM = 2, 17, 3, 4
SCANS: dict[str, Scan | None] = {
    "recurrent": sk.Recurrent(),
    "associative": sk.Associative(),
    "chunked": sk.Chunked(5),
    "chosen": None,
}
both_inputs = pytest.mark.parametrize("exact", [False, True], ids=["approximated", "exact"])


def leaves() -> dict[str, Tensor]:
    """Parameters, input and initial state; gates large enough for every term to matter."""
    s6 = S6.random(INPUTS, DIM)
    made = {
        "decay": s6.decay,
        "input_map": s6.input_map,
        "gate_weight": s6.gate_weight,
        "gate_bias": s6.gate_bias + 3.5,
        "x": torch.randn(BATCH, LENGTH, INPUTS, dtype=torch.float64),
        "start": torch.randn(BATCH, INPUTS, DIM, dtype=torch.float64),
    }
    return {name: x.detach().requires_grad_() for name, x in made.items()}


def split(given: dict[str, Tensor]) -> tuple[S6, Tensor, Tensor]:
    names = ("decay", "input_map", "gate_weight", "gate_bias")
    return S6(**{name: given[name] for name in names}), given["x"], given["start"]


def assert_same(
    form: Callable[[S6, Tensor, Tensor], Tensor], direct: Callable[[S6, Tensor, Tensor], Tensor]
) -> None:
    """Equal states, and equal gradients of a random functional in everything."""
    given = leaves()
    found, expected = form(*split(given)), direct(*split(given))
    assert found.shape == (BATCH, LENGTH, INPUTS, DIM)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(expected)
    gradients = [
        torch.autograd.grad((states * weights).sum(), list(given.values()))
        for states in (found, expected)
    ]
    for name, got, want in zip(given, *gradients, strict=True):
        error = (got - want).norm() / want.norm()
        assert error <= 1e-12, f"gradient of {name}: relative error {error:.1e}"


@both_inputs
@pytest.mark.parametrize("scan", SCANS)
def test_the_linear_cde_has_the_states_of_the_recurrence(scan: str, exact: bool) -> None:
    assert_same(
        lambda s6, x, start: linear_cde(s6, x, start, exact, SCANS[scan]),
        lambda s6, x, start: recurrence(s6, x, start, exact),
    )


def test_matrix_states_have_as_columns_the_states_of_the_recurrence_with_one_gate() -> None:
    assert_same(
        lambda s6, x, start: matrix_states(s6.with_one_gate(), x, start),
        lambda s6, x, start: recurrence(s6.with_one_gate(), x, start),
    )


def test_the_exact_input_solves_the_differential_equation() -> None:
    """dh = Σ_i A^i h dω^i + B dξ with dense matrices, exact where the paths are linear."""
    with torch.no_grad():
        s6, x, start = split(leaves())
        a = torch.diag_embed(state_matrices(s6))
        assert a.shape == (INPUTS, INPUTS * DIM, INPUTS * DIM)
        h, states = start.flatten(1), []
        for step in range(LENGTH):
            field = torch.einsum("bi,ijk->bjk", s6.gates(x)[:, step], a)
            constant = input_path(s6, x)[:, step] @ input_matrix(s6).t()
            # h' = A h + u, u' = 0
            whole = torch.cat([field, constant.unsqueeze(-1)], -1)
            flow = torch.matrix_exp(torch.nn.functional.pad(whole, (0, 0, 0, 1)))
            h = flow[:, :-1, :-1] @ h.unsqueeze(-1) + flow[:, :-1, -1:]
            h = h.squeeze(-1)
            states.append(h)
        expected = torch.stack(states, 1).unflatten(-1, (INPUTS, DIM))
        found = linear_cde(s6, x, start, exact=True)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_the_approximated_input_is_of_first_order() -> None:
    s6 = S6.random(INPUTS, DIM)
    x = torch.randn(BATCH, 1, INPUTS, dtype=torch.float64)
    start = torch.zeros(BATCH, INPUTS, DIM, dtype=torch.float64)

    def error(bias: float) -> Tensor:
        smaller = S6(s6.decay, s6.input_map, s6.gate_weight, s6.gate_bias + bias)
        return (recurrence(smaller, x, start) - recurrence(smaller, x, start, exact=True)).norm()

    # Gates shrink by e, what one step neglects by e².
    assert float(error(-8.0) / error(-9.0)) == pytest.approx(math.exp(2), rel=0.01)


def test_matrices_are_those_of_the_paper() -> None:
    s6 = S6.random(inputs=2, dim=3)
    zero = torch.zeros(3, dtype=torch.float64)
    expected = torch.stack([torch.cat([s6.decay, zero]), torch.cat([zero, s6.decay])])
    torch.testing.assert_close(state_matrices(s6), expected)
    assert input_matrix(s6).shape == (2 * 3, 2 * 2)
    torch.testing.assert_close(input_matrix(s6)[3:, 2:], s6.input_map)
    x = torch.tensor([[[2.0, 3.0]]], dtype=torch.float64)
    first, second = s6.gates(x).flatten()
    expected = torch.stack([first * 2 * 2, first * 2 * 3, second * 3 * 2, second * 3 * 3])
    torch.testing.assert_close(input_path(s6, x).flatten(), expected)


def test_the_example_prints_small_differences_and_the_path(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main()
    lines = capsys.readouterr().out.splitlines()
    differences = [float(line.split()[-1]) for line in lines[1:5]]
    assert max(differences[:3]) < 1e-12 < differences[3]
    path = [[float(value) for value in line.split()[1:]] for line in lines[8:]]
    assert len(path) == 8 and all(a < b for a, b in zip(path[0], path[-1], strict=True))
