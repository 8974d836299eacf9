"""No kernel is given a tensor that is not what it takes it for."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import slicekit as sk
from slicekit.native import (
    available,
    exponential,
    log_signatures,
    reason,
)
from slicekit.native.kernel import Kind, address, plain
from slicekit.native.panels import Panels, Part
from slicekit.native.recurrences import SHARED_FACTORS, SPARSE, Steps
from slicekit.native.sequences import SELECTIVE, SHORT_CONVOLUTION, SLSTM
from slicekit.native.step import StepPlan
from slicekit.paths.lie_bases import hall
from slicekit.scans import Outer, propagate
from slicekit.structures import DiagonalTransition
from tests.native.increment_scans import negated_view

pytestmark = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")


def test_a_plain_tensor_gives_its_address() -> None:
    x = torch.zeros(2, 3)
    assert address("x", x, ((2, 3), torch.float32)) == x.data_ptr()
    assert address("x", x, (6, torch.float32)) == x.data_ptr()
    assert address("x", x[:0], ((0, 3), torch.float32)) is not None


def emptied() -> Tensor:
    x = torch.zeros(2, 3)
    x.untyped_storage().resize_(0)
    return x


FAULTS: dict[str, tuple[Callable[[], Tensor], str]] = {
    "shape": (lambda: torch.zeros(3, 2), r"torch.float32 of shape \(3, 2\) on cpu"),
    "dtype": (lambda: torch.zeros(2, 3).double(), "torch.float64"),
    "strides": (lambda: torch.zeros(3, 2).t(), "not contiguous"),
    "device": (lambda: torch.zeros(2, 3, device="meta"), "on meta"),
    "sign": (lambda: negated_view(torch.zeros(2, 3)), "negative"),
    "layout": (lambda: torch.zeros(2, 3).to_sparse(), "torch.sparse_coo"),
    "memory": (emptied, "has no memory behind its shape"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_any_other_tensor_is_refused(fault: str) -> None:
    make, words = FAULTS[fault]
    with pytest.raises(ValueError, match=f"^x (is|has) .*{words.removeprefix('has ')}"):
        address("x", make(), ((2, 3), torch.float32))


def test_a_tensor_becomes_plain() -> None:
    x = torch.randn(2, 3, dtype=torch.complex64)
    for view in (x.mH, x.conj(), negated_view(x.real), x.conj().imag):
        made = plain(view)
        assert made.is_contiguous() and not made.is_conj() and not made.is_neg()
        assert torch.equal(made, view)


ONE = torch.ones(1, 2, 3)
VALUES, PLACES = torch.ones(2), torch.tensor([0, 5])
DIAGONAL, THIN = torch.ones(3, 2), torch.ones(3, 2, 1)
STATE = torch.ones(1, 2, 1)
SELECTED = [ONE, torch.ones(3, 2), ONE, torch.ones(1, 2, 2), torch.ones(1, 2, 2), ONE.mT]


def panels(parameter: Tensor, state: Tensor = STATE) -> Panels:
    return Panels((Part(Kind.BLOCKS, 2, 2),), (parameter,), ONE, None, state, None, 0, 0)


DOORS: dict[str, Callable[[], object]] = {
    "panels, a parameter": lambda: panels(torch.ones(1)).forward(None),
    "panels, kept": lambda: panels(torch.ones(3, 4)).forward(torch.ones(1)),
    "panels, the gradient": lambda: panels(torch.ones(3, 4)).backward(
        torch.ones(1, 2, 2, 1), torch.ones(0, 0, 0), None, torch.ones(1, 1, 2, 1), STATE
    ),
    "sparse, values": lambda: SPARSE.forward(Steps(), [ONE, ONE, PLACES, STATE, None, None]),
    "sparse, places": lambda: SPARSE.forward(
        Steps(), [ONE, VALUES, PLACES.int(), STATE, None, None]
    ),
    "sparse, the batch": lambda: SPARSE.forward(
        Steps(), [ONE, VALUES, PLACES, STATE.expand(2, 2, 1), None, None]
    ),
    "shared factors": lambda: SHARED_FACTORS.forward(
        Steps(), [ONE, DIAGONAL, torch.ones(2, 2, 1), THIN, STATE, None, None]
    ),
    "shared factors, inputs": lambda: SHARED_FACTORS.forward(
        Steps(), [ONE, DIAGONAL, THIN, THIN, STATE, ONE, None]
    ),
    "exponential": lambda: exponential.forward(torch.ones(2, 3)),
    "exponential, the gradient": lambda: exponential.pullback(torch.ones(2, 2), torch.ones(3, 3)),
    "log-signatures": lambda: log_signatures.KERNEL.forward(hall(2, 2), 2, (ONE, None)),
    "log-signatures, edges": lambda: log_signatures.KERNEL.forward(
        hall(3, 2), 2, (ONE, torch.zeros(1, 2, dtype=torch.int32))
    ),
    "selective": lambda: SELECTIVE.forward([ONE, torch.ones(1, 1), *SELECTED[2:], None]),
    "selective, lengths": lambda: SELECTIVE.forward([*SELECTED, torch.ones(2, dtype=torch.int64)]),
    "convolution": lambda: SHORT_CONVOLUTION.forward(
        False, [ONE, torch.ones(1, 1, 3), torch.ones(2, 1, 2), None]
    ),
    "sLSTM": lambda: SLSTM.forward(
        False,
        [ONE[None]] * 2
        + [torch.ones(2, 4, 3, 3), torch.ones(2, 3, 4, 2), torch.ones(2, 4, 3)]
        + [ONE] * 4
        + [None],
    ),
    "step": lambda: StepPlan([(Kind.BLOCKS, 4096, 4096, 0)], [[torch.zeros(1)]], 1, 3, 0.1),
    "step, places": lambda: StepPlan([(Kind.SPARSE, 2, 2, 0)], [[torch.zeros(2)] * 2], 1, 3, 0.1),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_what_it_would_read_past(door: str) -> None:
    with pytest.raises(ValueError, match="a kernel takes"):
        DOORS[door]()


def test_a_sign_that_is_yet_to_be_applied_is_applied() -> None:
    """In every operand of every scan: the negative bit is no part of the memory."""
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    for structure in (sk.BlockDiagonal(4, 2), sk.Sparse(4, 0.5), sk.DPLR(4, 2), sk.JointDPLR(4, 2)):
        parameters = {
            n: v.double() if v.is_floating_point() else v for n, v in structure.init(3).items()
        }
        state = torch.randn(2, 4, dtype=torch.float64)
        driven = torch.randn(2, 5, 4, dtype=torch.float64)
        signed = [negated_view(v) for v in (x, state, driven)]
        flipped = {
            n: negated_view(v) if v.is_floating_point() else v for n, v in parameters.items()
        }
        negated = {n: -v if v.is_floating_point() else v for n, v in parameters.items()}
        expected = sk.solve(structure, negated, -x, -state, scan=sk.Recurrent(), inputs=-driven)[0]
        found = sk.solve(structure, flipped, signed[0], signed[1], inputs=signed[2])[0]
        torch.testing.assert_close(found, expected)


def test_a_conjugation_that_is_yet_to_be_applied_is_applied() -> None:
    numbers = torch.randn(4, 2, 5, 3, dtype=torch.complex128)
    diagonal, left, right, readout = numbers.conj()
    state = torch.randn(2, 3, 3, dtype=torch.complex128)
    answers = [
        propagate(DiagonalTransition(diagonal), state, Outer(left, right), readout, scan)[0]
        for scan in (sk.Native(), sk.Recurrent())
    ]
    torch.testing.assert_close(*answers)
