"""What `solve` and `propagate` promise and refuse, in the user's words."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit import (
    DPLR,
    Associative,
    BlockDiagonal,
    Chunked,
    Dense,
    Diagonal,
    DirectSum,
    Euler,
    Orthogonal,
    Outer,
    Projective,
    Recurrent,
    Tabulated,
    propagate,
    solve,
)
from slicekit.structures import DiagonalTransition, Structure
from tests.market import STRUCTURES, every_structure, make_parameters

BATCH, LENGTH, CHANNELS, DIM = 2, 6, 3, 8


@dataclass(frozen=True)
class Refusal:
    """Arguments that differ from a call that works, and what is said of them."""

    change: Callable[[], dict[str, Any]]
    error: type[Exception]
    says: str


def randn(*shape: int) -> Tensor:
    return torch.randn(shape)


def works() -> dict[str, Any]:
    structure = BlockDiagonal(DIM, 4)
    return {
        "structure": structure,
        "parameters": make_parameters(structure, torch.float32),
        "increments": randn(BATCH, LENGTH, CHANNELS),
        "initial_state": randn(BATCH, DIM),
    }


def with_structure(structure: Structure, **others: Any) -> dict[str, Any]:
    parameters = make_parameters(structure, torch.float32)
    return {"structure": structure, "parameters": parameters, **others}


REFUSALS = {
    "a name for a structure": Refusal(
        lambda: {"structure": "dense"},
        TypeError,
        r"^structure='dense'; expected a structure such as BlockDiagonal$",
    ),
    "a name for a flow": Refusal(
        lambda: {"flow": "euler"},
        TypeError,
        r"^flow='euler'; expected a flow such as Euler\(\) or Exponential\(\), or None$",
    ),
    "a class for a scan": Refusal(
        lambda: {"scan": Chunked},
        TypeError,
        r"^scan=.*Chunked.*; expected a scan such as Native\(\) or Recurrent\(\), or None$",
    ),
    "a list for increments": Refusal(
        lambda: {"increments": [[[1.0]]]},
        TypeError,
        r"^increments is a list; expected a torch.Tensor$",
    ),
    "increments of one sequence": Refusal(
        lambda: {"increments": randn(LENGTH, CHANNELS)},
        ValueError,
        r"^increments has shape \(6, 3\); expected \(batch, length, channels\)$",
    ),
    "integer increments": Refusal(
        lambda: {"increments": torch.ones(BATCH, LENGTH, CHANNELS, dtype=torch.int64)},
        TypeError,
        r"^increments has dtype torch.int64; expected a floating dtype",
    ),
    "an empty sequence": Refusal(
        lambda: {"increments": randn(BATCH, 0, CHANNELS)},
        ValueError,
        r"^increments has length 0; an empty sequence has no steps$",
    ),
    "an empty sequence of tokens": Refusal(
        lambda: {
            "increments": Tabulated(randn(4, CHANNELS), torch.zeros(BATCH, 0, dtype=torch.int64))
        },
        ValueError,
        r"^increments has length 0; an empty sequence has no steps$",
    ),
    "other channels": Refusal(
        lambda: {"increments": randn(BATCH, LENGTH, 2)},
        ValueError,
        r"^parameters\['blocks'\] has shape \(3, 2, 4, 4\); expected \(2, 2, 4, 4\) for Block",
    ),
    "a table of other channels": Refusal(
        lambda: {"increments": Tabulated(randn(4, 5), torch.zeros(BATCH, 1, dtype=torch.int64))},
        ValueError,
        r"has shape \(3, 2, 4, 4\); expected \(5, 2, 4, 4\) for .* and 5 channels$",
    ),
    "increments in double precision": Refusal(
        lambda: {"increments": randn(BATCH, LENGTH, CHANNELS).double()},
        TypeError,
        r"^parameters\['blocks'\] has dtype torch.float32; expected torch.float64, as the path",
    ),
    "a state in double precision": Refusal(
        lambda: {"initial_state": randn(BATCH, DIM).double()},
        TypeError,
        r"^initial_state has dtype torch.float64; expected torch.float32, as the path",
    ),
    "a complex state on a real path": Refusal(
        lambda: {"initial_state": torch.ones(BATCH, DIM, dtype=torch.complex64)},
        TypeError,
        r"^initial_state has dtype torch.complex64; expected torch.float32, as the path",
    ),
    "inputs in double precision": Refusal(
        lambda: {"inputs": randn(BATCH, LENGTH, DIM).double()},
        TypeError,
        r"^inputs has dtype torch.float64; expected torch.float32, as the path",
    ),
    "parameters of another structure": Refusal(
        lambda: {"parameters": Dense(DIM).init(CHANNELS)},
        ValueError,
        r"^parameters\['blocks'\] has shape \(3, 1, 8, 8\); expected \(3, 2, 4, 4\) for Block",
    ),
    "no parameters": Refusal(
        lambda: {"parameters": {}},
        ValueError,
        r"^parameters holds \[\]; expected \['blocks'\] for BlockDiagonal",
    ),
    "no channels": Refusal(
        lambda: {"increments": randn(BATCH, LENGTH, 0)},
        ValueError,
        r"^increments has 0 channels; a path needs at least one$",
    ),
    "a log-norm of another shape": Refusal(
        lambda: {"initial_state": Projective(randn(BATCH, DIM), torch.zeros(BATCH + 1))},
        ValueError,
        r"^initial_state.log_norm has shape",
    ),
    "an integer state": Refusal(
        lambda: {"initial_state": torch.ones(BATCH, DIM, dtype=torch.int64)},
        TypeError,
        r"^initial_state has dtype torch.int64; expected torch.float32, as the path",
    ),
    "no state": Refusal(
        lambda: {"initial_state": None},
        TypeError,
        r"^initial_state is a NoneType; expected a torch.Tensor$",
    ),
    "the state of another batch": Refusal(
        lambda: {"initial_state": randn(1, DIM)},
        ValueError,
        r"^initial_state has shape \(1, 8\); expected \(2, 8\)$",
    ),
    "a matrix state of another size": Refusal(
        lambda: {"initial_state": randn(BATCH, 7, 2)},
        ValueError,
        r"^initial_state has shape \(2, 7, 2\); expected \(2, 8, columns\)$",
    ),
    "inputs of another size": Refusal(
        lambda: {"inputs": randn(BATCH, LENGTH, 7)},
        ValueError,
        r"^inputs has shape \(2, 6, 7\); expected \(2, 6, 8\)$",
    ),
    "vector inputs of a matrix state": Refusal(
        lambda: {"inputs": randn(BATCH, LENGTH, DIM), "initial_state": randn(BATCH, DIM, 2)},
        ValueError,
        r"^inputs has shape \(2, 6, 8\); expected \(2, 6, 8, 2\)$",
    ),
    "outer products for a vector state": Refusal(
        lambda: {"inputs": Outer(randn(BATCH, LENGTH, DIM), randn(BATCH, LENGTH, 2))},
        ValueError,
        r"^inputs is Outer, which drives matrix states; expected initial_state of shape "
        r"\(2, 8, columns\), got \(2, 8\)$",
    ),
    "outer products of other columns": Refusal(
        lambda: {
            "inputs": Outer(randn(BATCH, LENGTH, DIM), randn(BATCH, LENGTH, 3)),
            "initial_state": randn(BATCH, DIM, 2),
        },
        ValueError,
        r"^inputs.right has shape \(2, 6, 3\); expected \(2, 6, 2\)$",
    ),
    "outer products of another size": Refusal(
        lambda: {
            "inputs": Outer(randn(BATCH, LENGTH, 7), randn(BATCH, LENGTH, 2)),
            "initial_state": randn(BATCH, DIM, 2),
        },
        ValueError,
        r"^inputs.left has shape \(2, 6, 7\); expected \(2, 6, 8\)$",
    ),
    "lengths past the end": Refusal(
        lambda: {"lengths": [LENGTH + 1, 1]},
        ValueError,
        r"^lengths holds 7 at batch 0; expected 0..6 for a padded length of 6$",
    ),
    "lengths of another batch": Refusal(
        lambda: {"lengths": [LENGTH]},
        ValueError,
        r"^lengths has shape \(1,\); expected \(2,\)$",
    ),
    "fractional lengths": Refusal(
        lambda: {"lengths": [1.5, 2.0]},
        TypeError,
        r"^lengths has dtype torch.float32; expected integers$",
    ),
    "projective states with inputs": Refusal(
        lambda: {
            "initial_state": Projective.of(randn(BATCH, DIM)),
            "inputs": randn(BATCH, LENGTH, DIM),
        },
        ValueError,
        r"^inputs with a Projective initial_state: an affine recurrence does not only scale",
    ),
    "projective states in an associative scan": Refusal(
        lambda: {"initial_state": Projective.of(randn(BATCH, DIM)), "scan": Associative()},
        ValueError,
        r"^scan=Associative\(\) can't carry projective states: .* use Chunked\(\), or.*$",
    ),
    "Euler steps of rotations": Refusal(
        lambda: with_structure(Orthogonal(DIM, 4), flow=Euler()),
        ValueError,
        r"^flow=Euler\(\) with Orthogonal\(dim=8, block=4, .*Exponential\(\); leave flow=None$",
    ),
    "Euler steps of rotations inside a sum": Refusal(
        lambda: with_structure(
            DirectSum(Diagonal(4), DirectSum(Diagonal(2), Orthogonal(2, 2))), flow=Euler()
        ),
        ValueError,
        r"^flow=Euler\(\) with DirectSum\(.*Exponential\(\); leave flow=None$",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_does_not_fit_is_refused_by_name(case: str) -> None:
    refusal = REFUSALS[case]
    solve(**works())
    with pytest.raises(refusal.error, match=refusal.says):
        solve(**(works() | refusal.change()))


def test_propagate_takes_transitions_only() -> None:
    with pytest.raises(TypeError, match=r"^transitions is a Tensor; expected a batch of trans"):
        propagate(torch.zeros(2, 3, 4), torch.zeros(2, 4))  # pyright: ignore[reportArgumentType]


def test_propagate_refuses_what_does_not_fit() -> None:
    halves = DiagonalTransition(torch.full((2, 3, 4), 0.5))
    state = torch.ones(2, 4)
    with pytest.raises(ValueError, match=r"^transitions has length 0; an empty sequence"):
        propagate(DiagonalTransition(torch.ones(2, 0, 4)), state)
    with pytest.raises(ValueError, match=r"^initial_state has shape \(2, 5\); expected \(2, 4\)$"):
        propagate(halves, torch.ones(2, 5))
    with pytest.raises(ValueError, match=r"^readout has shape \(2, 3\); expected \(2, 3, 4\)$"):
        propagate(halves, state, readout=torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"^readout with a Projective initial_state"):
        propagate(halves, Projective.of(state), readout=torch.ones(2, 3, 4))
    with pytest.raises(ValueError, match=r"^inputs with a Projective initial_state"):
        propagate(halves, Projective.of(state), inputs=torch.ones(2, 3, 4))
    with pytest.raises(ValueError, match=r"^scan=Associative\(\) can't carry projective states"):
        propagate(halves, Projective.of(state), scan=Associative())
    with pytest.raises(ValueError, match=r"^inputs is Outer, which drives matrix states"):
        propagate(halves, state, inputs=Outer(torch.ones(2, 3, 4), torch.ones(2, 3, 2)))
    with pytest.raises(ValueError, match=r"^lengths holds 4 at batch 1; expected 0..3"):
        propagate(halves, state, lengths=[3, 4])


def test_transitions_known_by_their_generators_are_not_masked() -> None:
    structure = DPLR(4, 1)
    generator = structure.combine(make_parameters(structure), torch.randn(2, 5, 3).double())
    with pytest.raises(TypeError, match=r"mask the increments"):
        propagate(generator.euler(), torch.ones(2, 4).double(), lengths=[1, 2])


def test_outer_products_must_belong_to_the_same_steps() -> None:
    with pytest.raises(ValueError, match=r"left has shape \(2, 3\); expected \(batch, length, dim"):
        Outer(torch.ones(2, 3), torch.ones(2, 3, 4))
    with pytest.raises(ValueError, match=r"right has shape \(2, 5, 1\); expected \(2, 3, columns"):
        Outer(torch.ones(2, 3, 1), torch.ones(2, 5, 1))


def test_outer_products_are_outer_products() -> None:
    left, right = torch.randn(2, 3, 4), torch.randn(2, 3, 5)
    expected = torch.einsum("bli,blj->blij", left, right)
    torch.testing.assert_close(Outer(left, right).dense(), expected)


@every_structure
def test_without_a_scan_the_answer_is_that_of_the_loop(name: str) -> None:
    structure = STRUCTURES[name]
    call = (structure, make_parameters(structure), torch.randn(2, 7, 3).double() * 0.3)
    state = torch.randn(2, structure.dim).double()
    chosen, _ = solve(*call, state)
    looped, _ = solve(*call, state, scan=Recurrent())
    torch.testing.assert_close(chosen, looped)


@pytest.mark.parametrize("scan", [Recurrent(), Associative(), Chunked()])
def test_an_empty_batch_gives_an_empty_batch(scan: Any) -> None:
    arguments = works()
    arguments["increments"] = arguments["increments"][:0]
    arguments["initial_state"] = arguments["initial_state"][:0]
    states, last = solve(**arguments, scan=scan)
    assert states.shape == (0, LENGTH, DIM)
    assert last.shape == (0, DIM)


def test_the_arguments_are_left_as_they_were() -> None:
    arguments: dict[str, Any] = works()
    arguments |= {"inputs": randn(BATCH, LENGTH, DIM), "lengths": torch.tensor([2, 6])}
    tensors = [x for x in arguments.values() if isinstance(x, Tensor)]
    tensors += arguments["parameters"].values()
    before = [x.clone() for x in tensors]
    for scan in (Recurrent(), Associative(), Chunked(), Chunked(4)):
        solve(**arguments, scan=scan)
    assert all(torch.equal(x, y) for x, y in zip(tensors, before, strict=True))
