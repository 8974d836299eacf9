"""A step equals a pass over one element, whatever was done to the layer since the last step."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.utils import parametrize, prune

import slicekit as sk
from slicekit import Differences, Orthogonal, Recurrent, SLiCE, State, TimeAndInput
from slicekit.layers import stepping
from slicekit.layers.drives import Pointwise
from slicekit.native import available
from slicekit.structures import Structure
from tests.native.increment_scans import negated_view

CHANNELS, DIM = 3, 4


def make(structure: Structure | None = None, **rest: Any) -> SLiCE:
    torch.manual_seed(0)
    return SLiCE(CHANNELS, sk.Dense(DIM) if structure is None else structure, **rest)


def assert_steps_as_it_runs(layer: SLiCE, x: Tensor, state: State) -> None:
    """Values and states, or the same kind of error."""
    with torch.no_grad():
        try:
            expected, after = layer(x.unsqueeze(1), state, return_state=True)
        except Exception as error:
            with pytest.raises(type(error)):
                layer.step(x, state)
            return
        found, then = layer.step(x, state)
    torch.testing.assert_close(found, expected[:, 0], rtol=1e-5, atol=1e-6)
    assert then.tensors.keys() == after.tensors.keys()
    for name, tensor in after.tensors.items():
        torch.testing.assert_close(then[name], tensor, rtol=1e-5, atol=1e-6)


def blocks(change: Callable[[Tensor], Tensor]) -> Callable[[SLiCE], None]:
    def apply(layer: SLiCE) -> None:
        parameter: Any = layer.A.blocks
        parameter.data = change(parameter.data)

    return apply


def replace(tensor: Callable[[], Tensor]) -> Callable[[SLiCE], None]:
    def apply(layer: SLiCE) -> None:
        layer.A.blocks = nn.Parameter(tensor())

    return apply


def put(**values: Any) -> Callable[[SLiCE], None]:
    def apply(layer: SLiCE) -> None:
        for name, value in values.items():
            setattr(layer, name, value)

    return apply


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def hook(layer: SLiCE) -> None:
    layer.A.register_forward_hook(lambda _, __, found: {n: 2 * x for n, x in found.items()})


def swap_module(layer: SLiCE) -> None:
    layer.A = make(sk.Dense(DIM)).A
    blocks(lambda x: 3 * x)(layer)


def become_plain(layer: SLiCE) -> None:
    given = layer.A.floating()[0].detach() * 2
    del layer.A.blocks
    layer.A.blocks = given


SHAPE = (CHANNELS + 1, 1, DIM, DIM)
CHANGES: dict[str, Callable[[SLiCE], Any]] = {
    "the flow": put(flow=sk.Exponential()),
    "the drive": put(drive=TimeAndInput(dt=0.7)),
    "a drive of another kind": put(drive=Differences(times=0.1)),
    "a drive with parameters": put(
        drive=Pointwise(nn.Linear(CHANNELS, CHANNELS + 1), CHANNELS + 1)
    ),
    "B": put(B=nn.Parameter(torch.randn(DIM, CHANNELS + 1))),
    "the scan": put(scan=Recurrent()),
    "projective": put(projective=True),
    "the structure": put(structure=sk.Diagonal(DIM)),
    "a structure of the same parameters": put(structure=sk.BlockDiagonal(DIM, DIM)),
    "the channels": put(channels=CHANNELS + 1),
    "transposed data": blocks(lambda x: x.mT),
    "other data": blocks(lambda x: 2 * x),
    "data of another precision": blocks(Tensor.double),
    "data with a sign": blocks(negated_view),
    "data in place": blocks(lambda x: x.mul_(3)),
    "a parameter": replace(lambda: torch.randn(SHAPE)),
    "a parameter that is too small": replace(lambda: torch.zeros(1)),
    "a parameter of another rank": replace(lambda: torch.randn(CHANNELS + 1, DIM, DIM)),
    "parameters of fewer channels": replace(lambda: torch.randn(2, 1, DIM, DIM)),
    "a parameter in half precision": replace(lambda: torch.randn(SHAPE).half()),
    "a module": swap_module,
    "a hook": hook,
    "a tensor that is no parameter": become_plain,
    "pruned": lambda layer: prune.l1_unstructured(layer.A, "blocks", 0.5),
    "parametrised": lambda layer: parametrize.register_parametrization(
        layer.A, "blocks", Doubled()
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("stale", [True, False], ids=["after a step", "at once"])
def test_a_layer_that_was_changed_steps_as_it_runs(change: str, stale: bool) -> None:
    layer, x = make(), torch.randn(2, CHANNELS)
    state = State({"hidden": torch.randn(2, DIM)})
    if stale:
        assert_steps_as_it_runs(layer, x, state)
    CHANGES[change](layer)
    for _ in range(2):
        assert_steps_as_it_runs(layer, x, state)


def test_a_parameter_that_is_too_small_is_named_and_not_read_past() -> None:
    layer, x = make(sk.Dense(512)), torch.randn(1, CHANNELS)
    state = State({"hidden": torch.randn(1, 512)})
    with torch.no_grad():
        layer.step(x, state)
        layer.A.blocks = nn.Parameter(torch.zeros(1))
        with pytest.raises(ValueError, match=r"parameters\['blocks'\] has shape \(1,\); expected"):
            layer.step(x, state)


@pytest.mark.parametrize("view", [negated_view, lambda x: x.t().contiguous().t()])
def test_inputs_and_states_may_be_views(view: Callable[[Tensor], Tensor]) -> None:
    layer = make(Orthogonal(DIM, 2))
    for x, hidden in (
        (view(torch.randn(2, CHANNELS)), torch.randn(2, DIM)),
        (torch.randn(2, CHANNELS), view(torch.randn(2, DIM))),
    ):
        assert_steps_as_it_runs(layer, x, State({"hidden": hidden}))


def test_places_that_were_spoiled_are_refused() -> None:
    layer, x = make(sk.Sparse(DIM, 0.5)), torch.randn(1, CHANNELS)
    state = State({"hidden": torch.randn(1, DIM)})
    assert_steps_as_it_runs(layer, x, state)
    layer.A()["places"][0] = 10**12
    with torch.no_grad(), pytest.raises((RuntimeError, IndexError)):
        layer.step(x, state)


def test_a_subclass_with_another_way_to_the_state_steps_that_way() -> None:
    class Halved(SLiCE):
        def _increments(self, x: Any, state: Any, skip: int) -> Any:
            found: Any = super()._increments(x, state, skip)
            return found / 2

    torch.manual_seed(0)
    layer = Halved(CHANNELS, sk.Dense(DIM))
    assert_steps_as_it_runs(layer, torch.randn(2, CHANNELS), State({"hidden": torch.randn(2, DIM)}))


@pytest.mark.parametrize("projective", [False, True])
def test_forward_mode_goes_through_a_step_that_is_not_taped(projective: bool) -> None:
    """`torch.no_grad` leaves it on; against central differences."""
    layer = make(projective=projective).double()
    x, toward = torch.randn(2, 2, CHANNELS, dtype=torch.float64)
    with torch.no_grad():
        state = layer(torch.randn(2, 3, CHANNELS, dtype=torch.float64), return_state=True)[1]
        around = [layer.step(x + sign * 1e-5 * toward, state)[0] for sign in (1, -1)]
        with forward_ad.dual_level():
            h, _ = layer.step(forward_ad.make_dual(x, toward), state)
            tangent = forward_ad.unpack_dual(h).tangent
    torch.testing.assert_close(tangent, (around[0] - around[1]) / 2e-5, rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_a_traced_step_follows_its_input() -> None:
    layer = make().requires_grad_(False)

    def step(x: Tensor, hidden: Tensor) -> Tensor:
        return layer.step(x, State({"hidden": hidden}))[0]

    with torch.no_grad():
        traced: Any = torch.jit.trace(step, (torch.zeros(2, CHANNELS), torch.zeros(2, DIM)))
        x, hidden = torch.randn(2, CHANNELS), torch.randn(2, DIM)
        torch.testing.assert_close(traced(x, hidden), step(x, hidden))


@pytest.mark.skipif(not available(), reason="no native library")
def test_a_plan_is_kept_while_nothing_changes_and_dies_with_its_layer() -> None:
    layer, x = make(), torch.randn(2, CHANNELS)
    state = State({"hidden": torch.randn(2, DIM)})
    with torch.no_grad():
        layer.step(x, state)
        first = stepping._plans[layer].plan
        layer.step(-x, state)
        assert stepping._plans[layer].plan is first
    before = len(stepping._plans)
    del layer
    assert len(stepping._plans) == before - 1
