"""The kernel of single steps against full matrices, plain and projective."""

import ctypes
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import slicekit as sk
from slicekit import Recurrent, SLiCE, State, TimeAndInput
from slicekit.choices import explain
from slicekit.native import available, library, reason
from slicekit.native.kernel import Kind
from slicekit.native.step import StepPlan, _Norms
from slicekit.structures import Structure
from tests.layers.reference import outputs_by_hand, states_by_hand
from tests.market import NO_KERNEL, STRUCTURES

pytestmark = [
    pytest.mark.skipif(not available(), reason=f"no native library: {reason()}"),
    pytest.mark.usefixtures("poisoned_memory"),
]

CHANNELS, LENGTH = 2, 6
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
WITHOUT = tuple(NO_KERNEL)
"""Structures that the kernel does not know."""

WIDE: dict[str, Structure] = {
    "dplr-1": sk.DPLR(37, 1),
    "dplr-4": sk.DPLR(37, 4),
    "dplr-8": sk.DPLR(19, 8),
    "dplr-11": sk.DPLR(19, 11),
    "hadamard-128": sk.WalshHadamard(128),
    "sparse-70": sk.Sparse(70, density=0.1),
    "diagonal-67": sk.Diagonal(67),
}
SERVED = {name: s for name, s in STRUCTURES.items() if name not in NO_KERNEL} | WIDE

every_served = pytest.mark.parametrize("name", SERVED)
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE)


def make(structure: Structure, projective: bool, **rest: Any) -> SLiCE:
    torch.manual_seed(0)
    drive = TimeAndInput(dt=0.3)
    return SLiCE(CHANNELS, structure, drive=drive, projective=projective, **rest)


def stepped(layer: SLiCE, x: Tensor) -> tuple[Tensor, State]:
    """All outputs, each but the first by the kernel, and the last state."""
    with torch.no_grad():
        first, state = layer(x[:, :1], return_state=True)
        outputs = [first[:, 0]]
        for t in range(1, x.shape[1]):
            assert "step: kernel" in str(explain(layer.step, x[:, t], state))
            h, state = layer.step(x[:, t], state)
            outputs.append(h)
    return torch.stack(outputs, 1), state


@pytest.mark.usefixtures("every_isa")
@every_served
@every_dtype
@pytest.mark.parametrize("projective", [False, True], ids=["plain", "projective"])
def test_steps_are_those_of_full_matrices(name: str, dtype: torch.dtype, projective: bool) -> None:
    layer = make(SERVED[name], projective).to(dtype)
    x = torch.randn(3, LENGTH, CHANNELS, dtype=dtype)
    found, state = stepped(layer, x)
    exact, path = layer.double(), x.double()
    expected, hidden = outputs_by_hand(exact, path), states_by_hand(exact, path)[:, -1]
    near: Any = dict.fromkeys(("rtol", "atol"), 5 * TOLERANCE[dtype])
    torch.testing.assert_close(found.double(), expected, **near)
    assert state["hidden"].dtype == dtype
    if projective:
        norms = hidden.norm(dim=-1).log()
        torch.testing.assert_close(state["log_norm"].double(), norms, **near)


@pytest.mark.parametrize("name", ["blocks", "diagonal", "dense"])
def test_exponential_flows_step_too(name: str) -> None:
    layer = make(STRUCTURES[name], True, flow=sk.Exponential()).double()
    x = torch.randn(2, LENGTH, CHANNELS).double()
    torch.testing.assert_close(stepped(layer, x)[0], outputs_by_hand(layer, x), rtol=0, atol=1e-12)


@contextmanager
def unheard() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@every_dtype
@pytest.mark.parametrize("name", ["diagonal", "blocks", "dplr", "hadamard-8"])
def test_states_of_any_size_step_as_the_reference_does(name: str, dtype: torch.dtype) -> None:
    """Directions that are none: zero, tiny, huge, infinite and NaN, side by side in a batch."""
    layer = make(STRUCTURES[name], True).to(dtype)
    limits = torch.finfo(dtype)
    sizes = (1, 0, limits.tiny / 8, limits.tiny * 1e3, 3, limits.max / 8, math.inf, math.nan)
    hidden = torch.randn(len(sizes), layer.structure.dim, dtype=dtype)
    hidden = hidden * torch.tensor(sizes, dtype=dtype).unsqueeze(-1)
    logs = torch.linspace(-900, 900, len(sizes), dtype=dtype)
    state, x = State({"hidden": hidden, "log_norm": logs}), torch.randn(len(sizes), CHANNELS)
    with torch.no_grad(), unheard():
        x = x.to(dtype)
        assert "step: kernel" in str(explain(layer.step, x, state))
        found, after = layer.step(x, state)
        layer.scan = Recurrent()
        expected, then = layer.step(x, state)
    near: Any = dict.fromkeys(("rtol", "atol"), TOLERANCE[dtype]) | {"equal_nan": True}
    torch.testing.assert_close(found, expected, **near)
    torch.testing.assert_close(after["log_norm"], then["log_norm"], **near)
    assert found[1].count_nonzero() == 0 and found[-2:].isnan().all()


@pytest.mark.parametrize("name", ["diagonal", "sparse-by-density"])
def test_a_step_that_overflows_is_told_of(name: str) -> None:
    layer, x = make(STRUCTURES[name], True), torch.full((2, CHANNELS), 1e30)
    with torch.no_grad():
        for values in layer.A.floating():
            values.fill_(1e10)
        _, state = layer(torch.randn(2, 1, CHANNELS), return_state=True)
        with pytest.warns(RuntimeWarning, match="no longer finite"):
            found, _ = layer.step(x, state)
    assert found.isnan().all()


@pytest.mark.parametrize("projective", [False, True])
def test_slices_and_views_take_the_kernel(projective: bool) -> None:
    layer, x = make(sk.Diagonal(7), projective), torch.randn(4, LENGTH, CHANNELS)
    with torch.no_grad():
        h, state = layer(x[:, :2], return_state=True)
        later = State({key: torch.stack([v, v], -1)[..., 0] for key, v in state.tensors.items()})
        strided = [x[:, 2], *later.tensors.values()]
        assert not any(v.is_contiguous() for v in strided)
        assert "step: kernel" in str(explain(layer.step, x[:, 2], later))
        torch.testing.assert_close(layer.step(x[:, 2], later)[0], layer(x[:, :3])[:, 2])
        torch.testing.assert_close(layer(x[:, :2]), h)


def test_a_log_norm_that_does_not_fit_goes_the_long_way() -> None:
    layer, x = make(sk.Diagonal(3), True), torch.randn(2, CHANNELS)
    hidden = torch.randn(2, 3)
    wide = State({"hidden": hidden, "log_norm": torch.zeros(2).double()})
    with torch.no_grad():
        expected, _ = layer(x.unsqueeze(1), wide, return_state=True)
        found, after = layer.step(x, wide)
        torch.testing.assert_close(found, expected[:, 0])
        assert after["log_norm"].dtype == torch.float32
        with pytest.raises(ValueError, match="log_norm"):
            layer.step(x, State({"hidden": hidden, "log_norm": torch.zeros(3)}))
        with pytest.raises(KeyError, match="log_norm"):
            layer.step(x, State({"hidden": hidden}))


def test_work_space_of_large_batches_is_their_own() -> None:
    layer, x = make(sk.Diagonal(200), True), torch.randn(200, 3, CHANNELS)
    torch.testing.assert_close(stepped(layer, x)[0], layer(x), rtol=1e-5, atol=1e-6)


def test_arrays_that_are_missing_or_the_same_are_refused() -> None:
    loaded = library()
    assert loaded is not None
    plan = StepPlan([(Kind.BLOCKS, 4, 1, 0)], [[torch.zeros(2, 4)]], 1, 2, 0.0)
    x, h, out, one, other, unit = (torch.zeros(n) for n in (2, 4, 4, 1, 1, 4))
    call = loaded.c.slicekit_step_projective
    call.restype = ctypes.c_int64

    def status(norms: tuple[Tensor | None, Tensor | None, Tensor | None] | None) -> int:
        told = norms and _Norms(*(v if v is None else v.data_ptr() for v in norms))
        ways = [ctypes.c_void_p(v) for v in (plan._address, *(v.data_ptr() for v in (x, h, out)))]
        return call(*ways, told and ctypes.byref(told))

    assert status((one, other, unit)) == 0
    for norms in (
        None,
        (None, other, unit),
        (one, None, unit),
        (one, other, None),
        (one, other, h),
    ):
        assert status(norms) == 2
    assert status((one, other, out)) == 2
