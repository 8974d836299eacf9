"""The short way through `SLiCE.forward` and `solve`: the same numbers, for plain calls alone."""

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import slicekit as sk
from slicekit.handles import recall
from slicekit.layers import fused as quick
from slicekit.layers.slice import SLiCE
from slicekit.layers.state import State
from slicekit.native import available, kernel, library, reason
from slicekit.scans import Projective, Scan, choice
from slicekit.scans.native import fused
from slicekit.scans.native.assignment import _runs
from slicekit.structures import Structure

pytestmark = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")

BY_PANELS = [
    sk.BlockDiagonal(8, 4),
    sk.Orthogonal(8, 4),
    sk.WalshHadamard(8),
    sk.JointDPLR(7, 2),
    sk.DiagonalDense(9, 3),
]
ALONE = [sk.Sparse(4, density=0.9), sk.DPLR(4, 3), sk.Sparse(8, density=0.1)]
"""With kernels of their own; tokens of the first two by matrices, of the last by position."""

STRUCTURES = [*BY_PANELS, *ALONE]

INITIALS = [sk.FirstInput(), sk.FirstInput(drives=True), sk.Learned()]


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], list[float]]:
    """An entry for every time that a layer takes the short way, and that `solve` does."""
    layers: list[float] = []
    solves: list[float] = []
    forward = fused.FUSED.forward

    def noted(*args: Any) -> Any:
        pace = args[5]
        (layers if pace else solves).append(pace)
        return forward(*args)

    monkeypatch.setattr(fused.FUSED, "forward", noted)
    return layers, solves


@pytest.fixture
def calls(ways: tuple[list[float], list[float]]) -> list[float]:
    """Those of layers."""
    return ways[0]


def gradients(f: Callable[[Tensor], tuple[Tensor, ...]], x: Tensor, layer: SLiCE) -> list[Tensor]:
    outputs = f(x)
    weights = [torch.linspace(-1, 2, h.numel(), dtype=h.dtype).view_as(h) for h in outputs]
    total = torch.stack([(h * w).sum() for h, w in zip(outputs, weights, strict=True)]).sum()
    wanted = [x, *layer.parameters()]
    return [*outputs, *torch.autograd.grad(total, wanted, materialize_grads=True)]


@pytest.mark.parametrize("length", [1, 6])
@pytest.mark.parametrize("initial", INITIALS, ids=repr)
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_the_short_way_gives_what_the_long_one_does(
    structure: Structure, initial: Any, length: int, calls: list[float]
) -> None:
    layer = SLiCE(5, structure, initial=initial).double()
    x = torch.randn(3, length, 5, dtype=torch.float64, requires_grad=True)

    def short(x: Tensor) -> tuple[Tensor, ...]:
        h, state = layer(x, return_state=True)
        return h, state["hidden"]

    def long(x: Tensor) -> tuple[Tensor, ...]:
        h, state = layer.trajectory(x)
        assert isinstance(h, Tensor)
        return h, state["hidden"]

    found = gradients(short, x, layer)
    assert len(calls) == 1
    torch.testing.assert_close(found, gradients(long, x, layer), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("length", [1, 6, 20])
@pytest.mark.parametrize("initial", INITIALS, ids=repr)
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_directions_go_the_short_way(
    structure: Structure, initial: Any, length: int, calls: list[float]
) -> None:
    layer = SLiCE(5, structure, initial=initial, projective=True).double()
    x = torch.randn(3, length, 5, dtype=torch.float64, requires_grad=True)
    found = gradients(lambda x: (layer(x),), x, layer)
    assert len(calls) == 1
    expected = gradients(lambda x: (_directions(layer, x),), x, layer)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e30, 1e37])
def test_directions_start_from_states_of_any_size(size: float, calls: list[float]) -> None:
    layer, x = SLiCE(5, sk.BlockDiagonal(8, 4), projective=True), torch.randn(2, 30, 5)
    x[:, 0] *= size
    torch.testing.assert_close(layer(x), _directions(layer, x), rtol=1e-4, atol=1e-5)
    assert len(calls) == 1


def test_directions_of_states_beyond_all_numbers_go_the_short_way(calls: list[float]) -> None:
    layer = SLiCE(5, sk.BlockDiagonal(8, 4), drive=sk.TimeAndInput(dt=3.0), projective=True)
    x = torch.randn(2, 300, 5, requires_grad=True)
    states, _ = layer.trajectory(x)
    assert isinstance(states, Projective)
    assert states.log_norm.max() > 100  # float32 ends at 88
    found = gradients(lambda x: (layer(x),), x, layer)
    assert len(calls) == 1 and all(y.isfinite().all() for y in found)
    expected = gradients(lambda x: (_directions(layer, x),), x, layer)
    for y, true in zip(found, expected, strict=True):
        assert (y - true).norm() <= 1e-3 * true.norm()


@pytest.mark.parametrize("lengths", [None, [1, 6, 3]], ids=["full", "padded"])
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_directions_of_tokens_go_the_short_way(
    structure: Structure, lengths: list[int] | None, calls: list[float]
) -> None:
    layer = SLiCE(5, structure, projective=True).double()
    table = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    index = torch.randint(-1, 2, (3, 6))

    def run(way: Any, table: Tensor) -> tuple[Tensor, ...]:
        return (way(sk.Tabulated(table, index)),)

    found = gradients(partial(run, lambda x: layer(x, lengths=lengths)), table, layer)
    assert len(calls) == 1
    expected = gradients(partial(run, partial(_directions, layer, lengths=lengths)), table, layer)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_directions_with_a_state_go_the_long_way(calls: list[float]) -> None:
    layer, x = SLiCE(5, sk.BlockDiagonal(8, 4), projective=True), torch.randn(2, 6, 5)
    _, state = layer(x, return_state=True)
    layer(x, state)
    assert not calls


LENGTHS = [20, 1, 13]


def padded(dtype: torch.dtype) -> Tensor:
    """A batch with what is no number past the ends."""
    x = torch.randn(3, 20, 5, dtype=dtype)
    for row, length in zip(x, LENGTHS, strict=True):
        row[length:] = torch.tensor([torch.nan, torch.inf])[torch.randint(2, row[length:].shape)]
    return x.requires_grad_()


@pytest.mark.parametrize("projective", [False, True], ids=["plain", "projective"])
@pytest.mark.parametrize("initial", INITIALS, ids=repr)
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_padded_batches_go_the_short_way(
    structure: Structure, initial: Any, projective: bool, calls: list[float]
) -> None:
    layer = SLiCE(5, structure, initial=initial, projective=projective).double()
    x = padded(torch.float64)

    def long(x: Tensor) -> tuple[Tensor, ...]:
        if projective:
            return (_directions(layer, x, LENGTHS),)
        h, state = layer.trajectory(x, lengths=LENGTHS)
        assert isinstance(h, Tensor)
        return h, state["hidden"]

    def short(x: Tensor) -> tuple[Tensor, ...]:
        if projective:
            return (layer(x, lengths=LENGTHS),)
        h, state = layer(x, lengths=LENGTHS, return_state=True)
        return h, state["hidden"]

    found = gradients(short, x, layer)
    assert len(calls) == 1 and all(y.isfinite().all() for y in found)
    torch.testing.assert_close(found, gradients(long, x, layer), rtol=1e-10, atol=1e-10)


def test_padded_batches_go_on_from_a_state(calls: list[float]) -> None:
    layer, x = SLiCE(5, PLAIN).double(), torch.randn(3, 9, 5, dtype=torch.float64)
    whole, end = layer(x, lengths=[9, 2, 5], return_state=True)
    h, state = layer(x[:, :4], lengths=[4, 2, 4], return_state=True)
    h_on, state = layer(x[:, 4:], state, lengths=[5, 0, 1], return_state=True)
    assert len(calls) == 3
    torch.testing.assert_close(torch.cat([h, h_on], 1), whole)
    torch.testing.assert_close(state["hidden"], end["hidden"])


def _directions(layer: SLiCE, x: Any, lengths: list[int] | None = None) -> Tensor:
    """By the long way."""
    states, _ = layer.trajectory(x, None, lengths)
    assert isinstance(states, Projective)
    return states.direction


def assert_rounded(found: list[Tensor], expected: list[Tensor]) -> None:
    """Two roundings to bfloat16 away, measured on the whole."""
    assert [y.dtype for y in found] == [y.dtype for y in expected]
    for y, z in zip(found, expected, strict=True):
        assert (y.float() - z.float()).norm() <= 2.0**-7 * z.float().norm()


every_module = pytest.mark.parametrize(
    "module", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"]
)


@every_module
@pytest.mark.parametrize("initial", INITIALS, ids=repr)
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_the_short_way_takes_half_precision(
    structure: Structure, initial: Any, module: torch.dtype, calls: list[float]
) -> None:
    """States are rounded where they are written, and the way back reads them so."""
    layer = SLiCE(5, structure, initial=initial).to(module)
    x = torch.randn(3, 30, 5).bfloat16().requires_grad_()

    def short(x: Tensor) -> tuple[Tensor, ...]:
        h, state = layer(x[:, :20], return_state=True)
        h_on, state = layer(x[:, 20:], state, return_state=True)
        return h, h_on, state["hidden"]

    def long(x: Tensor) -> tuple[Tensor, ...]:
        h, state = layer.trajectory(x[:, :20])
        h_on, state = layer.trajectory(x[:, 20:], state)
        assert isinstance(h, Tensor) and isinstance(h_on, Tensor)
        return h, h_on, state["hidden"]

    found = gradients(short, x, layer)
    assert len(calls) == 2
    expected = gradients(long, x, layer)
    torch.testing.assert_close(found[2], expected[2])
    assert_rounded(found, expected)


def assert_half_is_rounded(
    run: Callable[[SLiCE, Tensor], Tensor], x: Tensor, layer: SLiCE, calls: list[float]
) -> None:
    """run(layer, x) in bfloat16 is that in float32, rounded where it is written, gradients too."""
    found = gradients(lambda x: (run(layer, x),), x, layer)
    assert len(calls) == 1 and all(y.isfinite().all() for y in found)
    wide = layer.float()
    exact = gradients(lambda x: (run(wide, x.float()).bfloat16(),), x, wide)
    assert torch.equal(found[0], exact[0])
    assert_rounded(found, [y.to(z.dtype) for y, z in zip(exact, found, strict=True)])


@every_module
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "padded"])
@pytest.mark.parametrize("projective", [False, True], ids=["plain", "projective"])
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_half_precision_is_rounded_where_it_is_written_alone(
    structure: Structure,
    projective: bool,
    lengths: list[int] | None,
    module: torch.dtype,
    calls: list[float],
) -> None:
    layer = SLiCE(5, structure, projective=projective).to(module)
    x = padded(torch.float32).detach().bfloat16()
    x = x if lengths else x.nan_to_num(0, 1)
    x.requires_grad_()
    assert_half_is_rounded(lambda layer, x: layer(x, lengths=lengths), x, layer, calls)


@every_module
@pytest.mark.parametrize("lengths", [None, [1, 6, 3]], ids=["full", "padded"])
@pytest.mark.parametrize("projective", [False, True], ids=["plain", "projective"])
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_so_is_that_of_tokens(
    structure: Structure,
    projective: bool,
    lengths: list[int] | None,
    module: torch.dtype,
    calls: list[float],
) -> None:
    layer = SLiCE(5, structure, projective=projective).to(module)
    table = torch.randn(2, 5).bfloat16().requires_grad_()
    index = torch.randint(-1, 2, (3, 6))

    def run(layer: SLiCE, table: Tensor) -> Tensor:
        return layer(sk.Tabulated(table, index), lengths=lengths)

    assert_half_is_rounded(run, table, layer, calls)


@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_tokens_in_half_precision_go_on_from_a_state(
    structure: Structure, calls: list[float]
) -> None:
    layer, table = SLiCE(5, structure), torch.randn(2, 5).bfloat16()
    index = torch.randint(2, (3, 9))
    whole, end = layer(sk.Tabulated(table, index), return_state=True)
    h, state = layer(sk.Tabulated(table, index[:, :4]), return_state=True)
    h_on, state = layer(sk.Tabulated(table, index[:, 4:]), state, return_state=True)
    assert len(calls) == 3 and state["hidden"].dtype is torch.float32
    torch.testing.assert_close(torch.cat([h, h_on], 1), whole)
    torch.testing.assert_close(state["hidden"], end["hidden"])


def test_solve_takes_half_precision(ways: tuple[list[float], list[float]]) -> None:
    parameters = {"blocks": torch.randn(5, 2, 4, 4)}
    increments, state = torch.randn(3, 9, 5).bfloat16() / 8, torch.randn(3, 8)
    h, last = sk.solve(PLAIN, parameters, increments, state)
    assert len(ways[1]) == 1
    exact, end = sk.solve(PLAIN, parameters, increments.float(), state)
    assert torch.equal(h, exact.bfloat16()) and torch.equal(last, end)


@pytest.mark.parametrize("lengths", [None, [1, 6, 3]], ids=["full", "padded"])
@pytest.mark.parametrize("initial", INITIALS, ids=repr)
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_tokens_on_the_short_way_are_their_elements_on_the_long_one(
    structure: Structure, initial: Any, lengths: list[int] | None, calls: list[float]
) -> None:
    layer = SLiCE(5, structure, initial=initial).double()
    table = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([[0, 2, 2, 1, 0, 1], [2, 2, 0, 1, 1, 0], [1, 0, 2, 0, 1, 2]])

    def short(table: Tensor) -> tuple[Tensor, ...]:
        h, state = layer(sk.Tabulated(table, index), lengths=lengths, return_state=True)
        return h, state["hidden"]

    def long(table: Tensor) -> tuple[Tensor, ...]:
        h, state = layer.trajectory(table[index], lengths=lengths)
        assert isinstance(h, Tensor)
        return h, state["hidden"]

    found = gradients(short, table, layer)
    assert len(calls) == 1
    torch.testing.assert_close(found, gradients(long, table, layer), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("initial", INITIALS, ids=repr)
@pytest.mark.parametrize("structure", [sk.WalshHadamard(8), *ALONE], ids=repr)
def test_tokens_that_drive_nothing_and_states_go_the_short_way(
    structure: Structure, initial: Any, calls: list[float]
) -> None:
    layer = SLiCE(5, structure, initial=initial).double()
    table = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([[-1, 2, -1, 1, 0, -1], [2, -1, 0, 1, 1, 0], [1, 0, 2, 0, 1, -1]])
    index = index.repeat(4, 1)

    def in_parts(table: Tensor) -> tuple[Tensor, ...]:
        h, state = layer(sk.Tabulated(table, index[:, :4]), return_state=True)
        return (torch.cat([h, layer(sk.Tabulated(table, index[:, 4:]), state)], 1),)

    def long(table: Tensor) -> tuple[Tensor, ...]:
        h, _ = layer.trajectory(sk.Tabulated(table, index), scan=sk.Recurrent())
        assert isinstance(h, Tensor)
        return (h,)

    found = gradients(in_parts, table, layer)
    assert len(calls) == 2
    torch.testing.assert_close(found, gradients(long, table, layer), rtol=1e-10, atol=1e-10)


def test_tokens_too_few_for_matrices_are_taken_by_position(calls: list[float]) -> None:
    layer, table = SLiCE(5, sk.Sparse(4, density=0.9)), torch.randn(3, 5)
    index = torch.tensor([[0, 2], [1, 1], [2, 0]])
    expected = layer.trajectory(table[index])[0]
    torch.testing.assert_close(layer(sk.Tabulated(table, index)), expected)
    assert len(calls) == 1


def test_gradients_of_what_is_not_trained_are_left_out_of_matrices(calls: list[float]) -> None:
    layer, table = SLiCE(5, sk.Sparse(4, density=0.9)), torch.randn(3, 5)
    layer.A.requires_grad_(False)
    layer(sk.Tabulated(table, torch.randint(3, (6, 6)))).sum().backward()
    assert len(calls) == 1
    assert layer.A.values.grad is None and layer.start.weight.grad is not None


@pytest.mark.parametrize("projective", [False, True], ids=["plain", "projective"])
@pytest.mark.parametrize("structure", [BY_PANELS[0], *ALONE], ids=repr)
def test_a_table_with_more_rows_than_sequences_starts_with_their_own(
    structure: Structure, projective: bool, calls: list[float]
) -> None:
    layer = SLiCE(5, structure, projective=projective).double()
    table = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([[3, 8, 0], [-1, 2, 2], [3, 3, 1]])

    def long(table: Tensor) -> tuple[Tensor, ...]:
        way = sk.Tabulated(table, index)
        h, _ = layer.trajectory(way, scan=sk.Recurrent())
        return (h.direction if isinstance(h, Projective) else h,)

    found = gradients(lambda table: (layer(sk.Tabulated(table, index)),), table, layer)
    assert len(calls) == 1
    torch.testing.assert_close(found, gradients(long, table, layer), rtol=1e-10, atol=1e-10)


def test_lengths_of_tokens_are_checked_on_the_short_way() -> None:
    layer, index = SLiCE(5, sk.BlockDiagonal(8, 4)), torch.randint(2, (3, 6))
    tokens = sk.Tabulated(torch.randn(2, 5), index)
    for lengths in ([1, 2], [1, 2, 7], [0, 2, 3]):
        with pytest.raises(ValueError, match="lengths"):
            layer(tokens, lengths=lengths)


def test_it_goes_on_from_a_state_with_gradients_through_it(calls: list[float]) -> None:
    layer = SLiCE(5, sk.BlockDiagonal(8, 4)).double()
    x = torch.randn(2, 9, 5, dtype=torch.float64, requires_grad=True)

    def in_parts(x: Tensor) -> tuple[Tensor, ...]:
        h, state = layer(x[:, :4], return_state=True)
        return (torch.cat([h, layer(x[:, 4:], state)], 1),)

    found = gradients(in_parts, x, layer)
    assert len(calls) == 2
    whole = gradients(lambda x: (layer(x),), x, layer)
    torch.testing.assert_close(found, whole, rtol=1e-10, atol=1e-10)


def test_only_what_is_needed_has_a_gradient(calls: list[float]) -> None:
    layer = SLiCE(5, sk.BlockDiagonal(8, 4))
    layer.start.weight.requires_grad_(False)
    layer(torch.randn(2, 6, 5)).sum().backward()
    assert len(calls) == 1
    assert layer.start.weight.grad is None and layer.A.blocks.grad is not None
    layer.requires_grad_(False)
    assert not layer(torch.randn(2, 6, 5)).requires_grad


class _Otherwise(SLiCE):
    def _start(self, x: Any, state: Any) -> tuple[Any, int]:
        hidden, skip = super()._start(x, state)
        return 2 * hidden, skip


def _hooked(layer: SLiCE) -> SLiCE:
    layer.start.register_forward_hook(lambda module, args, found: found)
    return layer


PLAIN = sk.BlockDiagonal(8, 4)
LONG = {
    "a drive of differences": SLiCE(5, PLAIN, drive=sk.Differences()),
    "an affine term": SLiCE(5, PLAIN, affine=True),
    "windows": SLiCE(5, PLAIN, flow=sk.LogODE(depth=1, window=2)),
    "another scan": SLiCE(5, PLAIN, scan=sk.Recurrent()),
    "a subclass": _Otherwise(5, PLAIN),
    "a hook": _hooked(SLiCE(5, PLAIN)),
}


@pytest.mark.parametrize("layer", LONG.values(), ids=LONG.keys())
def test_other_layers_go_the_long_way(layer: SLiCE, calls: list[float]) -> None:
    x = torch.randn(2, 6, 5)
    h = layer.trajectory(x)[0]
    expected = h.direction if isinstance(h, Projective) else h
    torch.testing.assert_close(layer(x), expected)
    assert not calls


def test_a_layer_that_changes_is_looked_at_again(calls: list[float]) -> None:
    layer, x = SLiCE(5, PLAIN), torch.randn(2, 6, 5)
    layer(x)
    layer.drive = sk.TimeAndInput(dt=0.5)
    torch.testing.assert_close(layer(x), layer.trajectory(x)[0])
    layer.initial = sk.FirstInput(drives=True)
    torch.testing.assert_close(layer(x), layer.trajectory(x)[0])
    layer.structure = sk.Diagonal(8)
    layer.A = SLiCE(5, layer.structure).A
    torch.testing.assert_close(layer(x), layer.trajectory(x)[0])
    layer.double()
    torch.testing.assert_close(layer(x.double()), layer.trajectory(x.double())[0])
    assert len(calls) == 5
    layer.scan = sk.Recurrent()
    layer(x.double())
    assert len(calls) == 5


def test_a_backend_of_ones_own_comes_first(
    calls: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "BACKENDS", [sk.Recurrent()])
    layer, x = SLiCE(5, PLAIN), torch.randn(2, 6, 5)
    layer(x)
    assert not calls


def test_onlookers_see_the_long_way(calls: list[float]) -> None:
    layer, x = SLiCE(5, PLAIN), torch.randn(2, 6, 5)
    torch.func.vmap(layer)(x.unsqueeze(0))
    assert "Native()" in str(sk.explain(layer, x))
    assert not calls


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
def test_the_short_way_is_in_full_precision_under_autocast(
    inside: bool, calls: list[float]
) -> None:
    layer, x = SLiCE(5, PLAIN), torch.randn(2, 6, 5, requires_grad=True)
    wanted = [x, *layer.parameters()]
    expected = torch.autograd.grad(layer(x).sum(), wanted)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = layer(x)
        with torch.autocast("cpu", enabled=inside):
            found = torch.autograd.grad(h.sum(), wanted)
    assert len(calls) == 2
    assert torch.equal(h, layer(x))
    torch.testing.assert_close(found, expected)


def test_bad_arguments_are_refused_in_the_words_of_the_long_way() -> None:
    layer = SLiCE(5, PLAIN)
    with pytest.raises(ValueError, match="x has shape"):
        layer(torch.randn(2, 6, 4))
    with pytest.raises(ValueError, match=r"state\['hidden'\] has shape"):
        layer(torch.randn(2, 6, 5), State({"hidden": torch.zeros(3, 8)}))
    with pytest.raises(TypeError, match="x has dtype"):
        layer(torch.randn(2, 6, 5).double())


def test_second_derivatives_are_refused_with_advice() -> None:
    layer, x = SLiCE(5, PLAIN), torch.randn(2, 6, 5, requires_grad=True)
    (g,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"first derivatives only; use scan=Recurrent\(\)"):
        g.sum().backward()


def test_saved_tensors_may_come_back_otherwise(calls: list[float]) -> None:
    layer, x = SLiCE(5, PLAIN), torch.randn(2, 6, 5, requires_grad=True)
    expected = gradients(lambda x: (layer(x),), x, layer)

    def turn(x: Tensor) -> Tensor:
        return x.movedim(0, -1).contiguous().movedim(-1, 0) if x.ndim else x

    with torch.autograd.graph.saved_tensors_hooks(turn, lambda x: x):
        found = gradients(lambda x: (layer(x),), x, layer)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("structure", BY_PANELS, ids=repr)
def test_solve_takes_it_for_vectors_and_gives_the_same(
    structure: Structure, ways: tuple[list[float], list[float]]
) -> None:
    parameters = {k: p.double().requires_grad_() for k, p in structure.init(3).items()}
    path = (0.3 * torch.randn(2, 7, 3, dtype=torch.float64)).requires_grad_()
    start = torch.randn(2, structure.dim, dtype=torch.float64, requires_grad=True)

    def run(lengths: list[int] | None) -> list[Tensor]:
        states, last = sk.solve(structure, parameters, path, start, lengths=lengths)
        total = (states.cumsum(1) * last.unsqueeze(1)).sum()
        return [states, last, *torch.autograd.grad(total, [path, start, *parameters.values()])]

    found = run(None)
    assert len(ways[1]) == 1
    expected = run([7, 7])  # lengths, even full ones, go the long way
    assert len(ways[1]) == 1
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_only_the_last_state_may_be_used() -> None:
    path = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    structure = sk.BlockDiagonal(8, 4)
    parameters = {name: p.double() for name, p in structure.init(3).items()}
    start = torch.randn(2, 8, dtype=torch.float64)

    def gradient(scan: Scan) -> Tensor:
        return torch.autograd.grad(
            sk.solve(structure, parameters, path, start, scan=scan)[1].sum(), path
        )[0]

    torch.testing.assert_close(gradient(sk.Native()), gradient(sk.Recurrent()))


def test_its_plans_die_with_their_layers() -> None:
    before = len(quick._known)
    layer = SLiCE(5, PLAIN)
    layer(torch.randn(2, 6, 5))
    assert len(quick._known) == before + 1
    del layer
    assert len(quick._known) == before


def test_calls_of_all_sizes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a plan of its own, whatever came before it: shape, precision, threads, processor."""
    monkeypatch.setattr(kernel, "WORTHWHILE", 0)
    layers = [SLiCE(5, PLAIN, initial=i) for i in INITIALS[::2]]
    layers += [*(SLiCE(5, s) for s in (STRUCTURES[1], *ALONE)), SLiCE(5, PLAIN).double()]
    loaded, given = library(), torch.get_num_threads()
    assert loaded is not None
    best = loaded.isa
    try:
        for isa, team in ((best, 1), (loaded.isas()[0], 2), (best, 2), (best, 1)):
            loaded.use(isa)
            torch.set_num_threads(team)
            for batch, length in ((1, 8), (3, 8), (1, 9)):
                for layer in layers:
                    x = torch.randn(batch, length, 5, dtype=layer.A.floating()[0].dtype)
                    torch.testing.assert_close(layer(x), layer.trajectory(x)[0])
    finally:
        loaded.use(best)
        torch.set_num_threads(given)


def test_a_run_is_found_by_its_key_and_forgotten_with_its_structure() -> None:
    run = fused.only_run(sk.BlockDiagonal(24, 3), sk.Euler())
    assert run is not None and recall(run.key) is run
    key = run.key
    _runs.cache_clear()
    del run
    gc.collect()
    with pytest.raises(RuntimeError, match="has the handle"):
        recall(key)


@pytest.mark.parametrize("affine", [False, True], ids=["given", "first input"])
def test_the_operator_of_directions_is_sound(affine: bool) -> None:
    run = fused.only_run(PLAIN, sk.Euler())
    assert run is not None
    start = [torch.randn(8, 5), torch.randn(8)] if affine else [torch.randn(2, 8)]
    operands = [torch.randn(2, 20, 5), *start, *SLiCE(5, PLAIN).A().values()]
    operands = [x.detach() for x in operands]
    settings = (PLAIN.key, run.key, affine, True, False, 0.1, 2**25, 8, False, True)
    results = torch.ops.slicekit.fused(*settings, operands)
    given = (operands, results, [torch.randn_like(results[0])], [True] * len(operands))
    op, adjoint = torch.ops.slicekit.fused.default, torch.ops.slicekit.fused_adjoint.default
    torch.library.opcheck(op, (*settings, operands), test_utils=("test_schema",))
    utilities = ("test_schema", "test_faketensor")
    torch.library.opcheck(adjoint, (*settings, *given), test_utils=utilities)


def test_an_operator_that_knows_a_size_refuses_another() -> None:
    run = fused.only_run(PLAIN, sk.Euler())
    assert run is not None
    settings = (PLAIN.key, run.key, False, False, False, 0.1, 0, 0, False, False)
    good = [torch.randn(2, 6, 5), torch.randn(2, 8), *SLiCE(5, PLAIN).A().values()]
    (states,) = torch.ops.slicekit.fused(*settings, good)
    for place, bad in ((1, torch.randn(1, 8)), (2, torch.randn(6, 1, 4, 4)), (0, good[0].double())):
        operands = [bad if i == place else x for i, x in enumerate(good)]
        with pytest.raises(ValueError, match="a kernel takes"):
            torch.ops.slicekit.fused(*settings, operands)
    for results, cotangent in (
        ([states], states[:, :3]),
        ([states[:1]], states),
        ([states], states.double()),
    ):
        with pytest.raises(ValueError, match="a kernel takes"):
            torch.ops.slicekit.fused_adjoint(*settings, good, results, [cotangent], [True] * 3)
