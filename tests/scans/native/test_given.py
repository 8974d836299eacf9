"""Given transitions on the kernels: values, gradients, and refusals where there is no kernel."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from slicekit import DPLR, Chunked, Native, Projective, Recurrent, propagate
from slicekit.scans import Scan
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    LowRankTransition,
    RotationTransition,
    SumTransition,
    Transition,
)
from tests.market import make_parameters
from tests.scans.native.problems import needs_library
from tests.scans.problems import Answers, assert_near


def given_transition(kind: str, dtype: torch.dtype = torch.float64) -> Transition:
    """Transitions (2, 5) of one kind, of about unit norm."""

    def randn(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
        return torch.randn(2, 5, *shape, dtype=dtype) * 0.5

    structure = DPLR(4, 1)
    complex_ = torch.complex128
    made: dict[str, Callable[[], Transition]] = {
        "diagonal": lambda: DiagonalTransition(randn(4)),
        "complex diagonal": lambda: DiagonalTransition(randn(4, dtype=complex_)),
        "blocks": lambda: BlockTransition(randn(2, 2, 2)),
        "low rank": lambda: LowRankTransition(randn(4), randn(4, 2), randn(4, 2)),
        "sum": lambda: SumTransition(
            (DiagonalTransition(randn(1)), BlockTransition(randn(1, 3, 3)))
        ),
        "rotations": lambda: RotationTransition(torch.linalg.qr(randn(2, 2, 2))[0]),
        "complex blocks": lambda: BlockTransition(randn(2, 2, 2, dtype=complex_)),
        "complex low rank": lambda: LowRankTransition(
            randn(4, dtype=complex_), randn(4, 2, dtype=complex_), randn(4, 2, dtype=complex_)
        ),
        "actions": lambda: structure.combine(make_parameters(structure), randn(3)).euler(),
    }
    return made[kind]()


def propagated(kind: str, asked: str, scan: Scan | None) -> Answers:
    """Values and gradients of `propagate` for a plain state, a readout or a projective state."""
    torch.manual_seed(1)
    transition = given_transition(kind)
    dtype = transition.tensors()[0].dtype
    state, query = torch.randn(2, 4, dtype=dtype), torch.randn(2, 5, 4, dtype=dtype)
    count = len(transition.tensors())
    leaves = {str(i): x for i, x in enumerate((*transition.tensors(), state, query))}
    leaves = {k: x.requires_grad_() for k, x in leaves.items()}
    *tensors, state, query = leaves.values()
    moved = transition.with_tensors(tuple(tensors[:count]))
    found: Answers
    if asked == "projective":
        states, last = propagate(moved, Projective.of(state), scan=scan)
        found = {"direction": states.direction, "log_norm": states.log_norm.real}
        found |= {"last": last.direction}
    else:
        readout = query if asked == "readout" else None
        outputs, last = propagate(moved, state, readout=readout, scan=scan)
        found = {"outputs": outputs, "last": last}
    total = torch.stack([(x.abs() * x.detach().abs().cos()).sum() for x in found.values()]).sum()
    gradients = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    named = {f"gradient of {k}": g for k, g in zip(leaves, gradients, strict=True)}
    parts = found | named
    return {k: torch.view_as_real(x) if x.is_complex() else x for k, x in parts.items()}


COUPLED = "couples the parts of a direct sum"
GIVEN = [
    *(
        (kind, asked, "")
        for kind in ("diagonal", "complex diagonal", "blocks", "low rank")
        for asked in ("states", "readout", "projective")
    ),
    ("sum", "states", ""),
    ("sum", "readout", COUPLED),
    ("sum", "projective", ""),
    ("rotations", "states", "no kernel for RotationTransition"),
    ("actions", "states", "no kernel for EulerAction"),
    ("complex blocks", "states", "no kernel for BlockTransition of torch.complex128"),
    ("complex low rank", "states", "no kernel for LowRankTransition of torch.complex128"),
]


@needs_library
@pytest.mark.parametrize(("kind", "asked", "lacking"), GIVEN)
def test_given_transitions_run_on_kernels_or_are_refused(
    kind: str, asked: str, lacking: str
) -> None:
    expected = propagated(kind, asked, Recurrent())
    assert_near(propagated(kind, asked, None), expected, 1e-10)
    if not lacking:
        assert_near(propagated(kind, asked, Native()), expected, 1e-10)
        return
    with pytest.raises(ValueError, match=rf"^scan=Native\(\): .*{lacking}"):
        propagated(kind, asked, Native())


@needs_library
@pytest.mark.parametrize("scan", [Native(), Chunked(), Recurrent()], ids=repr)
def test_log_norms_of_complex_states_are_real(scan: Scan) -> None:
    transition = given_transition("complex diagonal")
    start = Projective.of(torch.randn(2, 4, dtype=torch.complex128))
    states, last = propagate(transition, start, scan=scan)
    assert states.log_norm.dtype == last.log_norm.dtype == torch.float64


@needs_library
@pytest.mark.parametrize(("kind", "asked", "lacking"), GIVEN)
def test_propagate_chooses_the_kernels_wherever_there_are_some(
    kind: str, asked: str, lacking: str, engines: list[str]
) -> None:
    propagated(kind, asked, None)
    otherwise = [] if kind == "actions" else ["chunked"]
    assert engines == (otherwise if lacking else ["native"])
